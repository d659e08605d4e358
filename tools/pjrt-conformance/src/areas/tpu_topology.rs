//! Cases for the extension that describes the chips and processes of a TPU topology.

use std::collections::BTreeSet;

use pjrt::TopologyDescription;
use pjrt::extensions::TpuTopology;

use crate::context::{Context, extension};
use crate::stop::Stop;
use crate::suite::Suite;

const CLAUSE: &str =
    "pjrt_c_api_tpu_topology_extension.h: describes the processes, chips and logical devices of a topology";
const WHY: &str = "frameworks choose the devices of a mesh, and of its parts, by these numbers";

/// Declares a case that checks the topology of the client.
fn case(
    suite: &mut Suite,
    name: &str,
    check: impl Fn(&TpuTopology, &TopologyDescription) -> Result<(), Stop> + Send + Sync + 'static,
) {
    suite
        .case(format!("extensions.tpu_topology.{name}"), CLAUSE, WHY)
        .extension(16)
        .check(move |cx: &Context| check(&extension::<TpuTopology>(cx)?, &cx.client()?.topology()?));
}

pub(crate) fn declare(suite: &mut Suite) {
    case(suite, "counts", |tpu, whole| {
        let (chips, processes) = (tpu.chip_count(whole)?, tpu.process_count(whole)?);
        ensure_eq!(chips, processes * tpu.chips_per_process(whole)?, "chips of all processes");
        ensure_eq!(tpu.core_count(whole)?, chips * tpu.cores_per_chip(whole)?, "cores of all chips");
        ensure_eq!(tpu.core_count(whole)?, processes * tpu.cores_per_process(whole)?, "cores of all processes");
        let devices = tpu.logical_device_count(whole)?;
        ensure_eq!(devices, chips * tpu.logical_devices_per_chip(whole)?, "devices of all chips");
        ensure_eq!(devices, processes * tpu.logical_devices_per_process(whole)?, "devices of all processes");
        Ok(())
    });
    case(suite, "bounds", |tpu, whole| {
        let product = |bounds: Vec<i32>| bounds.iter().product::<i32>();
        ensure_eq!(product(tpu.chip_bounds(whole)?), tpu.chip_count(whole)?, "chips within the bounds");
        ensure_eq!(product(tpu.process_bounds(whole)?), tpu.process_count(whole)?, "processes within the bounds");
        ensure_eq!(
            product(tpu.chips_per_process_bounds(whole)?),
            tpu.chips_per_process(whole)?,
            "chips within the bounds of a process"
        );
        Ok(())
    });
    case(suite, "processes", |tpu, whole| {
        let ids = tpu.process_ids(whole)?;
        ensure_eq!(i32::try_from(ids.len()).unwrap_or(-1), tpu.process_count(whole)?, "number of processes");
        let bounds = tpu.process_bounds(whole)?;
        let mut places = BTreeSet::new();
        for id in &ids {
            let place = tpu.process_coordinates(whole, *id)?;
            let within = place.iter().zip(&bounds).all(|(at, bound)| (0..*bound).contains(at));
            ensure!(within, "process {id} is at {place:?}, outside of {bounds:?}");
            places.insert(place);
        }
        ensure_eq!(places.len(), ids.len(), "number of different places");
        Ok(())
    });
    case(suite, "devices_of_processes", |tpu, whole| {
        let mut all = BTreeSet::new();
        for process in tpu.process_ids(whole)? {
            for (device, at) in tpu.logical_device_ids(whole, process)?.into_iter().zip(0..) {
                ensure!(all.insert(device), "device {device} belongs to two processes");
                ensure_eq!(
                    tpu.process_of_device(whole, device)?,
                    (process, at),
                    "process of device {device}, and index"
                );
            }
        }
        ensure_eq!(i32::try_from(all.len()).unwrap_or(-1), tpu.logical_device_count(whole)?, "number of devices");
        Ok(())
    });
    case(suite, "chips_of_processes", |tpu, whole| {
        let processes: BTreeSet<i32> = tpu.process_ids(whole)?.into_iter().collect();
        let mut seen = BTreeSet::new();
        for chip in 0..tpu.chip_count(whole)? {
            let (process, at) = tpu.process_of_chip(whole, chip)?;
            ensure!(processes.contains(&process), "chip {chip} belongs to process {process}, which does not exist");
            ensure!(seen.insert((process, at)), "chip {at} of process {process} has two ids");
        }
        Ok(())
    });
    case(suite, "coordinates", |tpu, whole| {
        for process in tpu.process_ids(whole)? {
            for device in tpu.logical_device_ids(whole, process)? {
                let (place, at) = tpu.chip_of_device(whole, device)?;
                ensure_eq!(tpu.device_at(whole, &place, at)?, device, "device at {place:?}");
                let chip = tpu.chip_at(whole, &place)?;
                ensure!((0..tpu.chip_count(whole)?).contains(&chip), "the chip at {place:?} has the id {chip}");
                ensure_eq!(tpu.process_of_chip(whole, chip)?.0, process, "process of the chip at {place:?}");
            }
        }
        Ok(())
    });
    case(suite, "subslice", |tpu, whole| {
        ensure!(!tpu.is_subslice(whole)?, "the topology of the client is a part of another one");
        let chips = tpu.chips_per_process_bounds(whole)?;
        let part = tpu.subslice(whole, &chips, &vec![1; chips.len()])?;
        ensure!(tpu.is_subslice(&part)?, "a part of the topology is not marked as one");
        let devices = i32::try_from(part.device_descriptions()?.len()).unwrap_or(-1);
        ensure_eq!(devices, tpu.logical_devices_per_process(whole)?, "devices of one host");
        Ok(())
    });
}
