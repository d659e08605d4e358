//! Tests functions of libtpu's extensions that do not require a TPU.

use pjrt::extensions::{Megascale, Processes, TpuExecutables, TpuTopology};
use pjrt::{ErrorCode, ErrorKind, Executable, NamedValue, Plugin, TopologyDescription, Value};

use crate::report;

/// Number of chips in each topology. The topologies have the bounds 2x2x1.
const CHIPS: i32 = 4;

/// Queries a topology of four chips that belong to one process.
pub(crate) fn query_topology(plugin: &Plugin, topology: &TopologyDescription) {
    let Some(tpu) = plugin.extension::<TpuTopology>() else { return };
    let devices = tpu.logical_device_count(topology).unwrap();
    let per_chip = tpu.logical_devices_per_chip(topology).unwrap();
    assert_eq!((tpu.chip_count(topology).unwrap(), tpu.chips_per_process(topology).unwrap()), (CHIPS, CHIPS));
    assert_eq!((tpu.process_count(topology).unwrap(), tpu.process_ids(topology).unwrap()), (1, vec![0]));
    assert_eq!((devices, tpu.logical_devices_per_process(topology).unwrap()), (CHIPS * per_chip, devices));
    let cores = tpu.core_count(topology).unwrap();
    assert_eq!(cores, CHIPS * tpu.cores_per_chip(topology).unwrap());
    assert_eq!(cores, tpu.cores_per_process(topology).unwrap());
    assert_eq!(tpu.chip_bounds(topology).unwrap(), [2, 2, 1]);
    assert_eq!(tpu.chips_per_process_bounds(topology).unwrap(), [2, 2, 1]);
    assert_eq!(tpu.process_bounds(topology).unwrap(), [1, 1, 1]);
    assert_eq!(tpu.process_coordinates(topology, 0).unwrap(), [0, 0, 0]);
    let ids = tpu.logical_device_ids(topology, 0).unwrap();
    assert_eq!(ids, (0..devices).collect::<Vec<_>>());
    for id in ids {
        let (chip, index) = tpu.chip_of_device(topology, id).unwrap();
        assert_eq!(tpu.device_at(topology, &chip, index).unwrap(), id);
        let chip_id = tpu.chip_at(topology, &chip).unwrap();
        assert_eq!(tpu.process_of_chip(topology, chip_id).unwrap().0, 0);
        assert_eq!(tpu.process_of_device(topology, id).unwrap().0, 0);
    }
    assert!(!tpu.is_subslice(topology).unwrap());
    assert!(!tpu.routing_strategy(topology).unwrap().is_empty());
    report("enhanced barrier", tpu.is_enhanced_barrier_enabled(topology));
    report("limited connectivity", tpu.has_limited_connectivity(topology));
    report("reachability", tpu.is_reachable(topology, 0, 3));
    let chip = tpu.subslice(topology, &[1, 1, 1], &[1, 1, 1]).unwrap();
    assert_eq!((tpu.chip_count(&chip).unwrap(), tpu.is_subslice(&chip).unwrap()), (1, true));
    report("device of a part", tpu.subslice_device_id(topology, &chip, &[0, 0, 0], 0));
    report("other hosts", tpu.with_hosts(topology, &[1, 1, 1]));
    // The valid platform names are not published, so test only that unknown names are errors.
    for error in [
        tpu.slice_config("no such platform", "2x2x1").unwrap_err(),
        tpu.slice_configs("no such platform").unwrap_err(),
        tpu.platform_config("no such platform").unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Plugin, ErrorCode::INVALID_ARGUMENT), "{error}");
    }
    println!("arrangement of chips: ok");
    query_megascale(plugin, topology, devices);
}

fn query_megascale(plugin: &Plugin, topology: &TopologyDescription, devices: i32) {
    let megascale = plugin.extension::<Megascale>().unwrap();
    let id = megascale.megascale_id(1, 2).unwrap();
    assert_eq!(megascale.device_id(id).unwrap(), (1, 2));
    let config = megascale.ahead_of_time_config(topology, 2).unwrap();
    assert_eq!((config.num_slices().unwrap(), config.slice_id().unwrap()), (2, 0));
    let mut slices = config.devices_per_slice().unwrap();
    slices.sort_unstable();
    assert_eq!(slices, [(0, devices), (1, devices)]);
    assert!(!config.serialize().unwrap().is_empty());
    let context = megascale.default_context().unwrap();
    // libtpu 0.0.52 requires an arguments struct of 32 bytes, which no published header defines.
    report("connect", context.initialize());
    report("port", context.port());
    let processes = Processes { addresses: &["localhost:1"], devices_per_process: 1, ..Processes::default() };
    let collectives = context.collectives(&processes, None).unwrap();
    drop(context);
    // Creating communicators fails if the context is not connected.
    if let Some(all) = report("communicators", collectives.communicators(&[0], None, &[0])) {
        assert_eq!(all.len(), 1);
        report("text of a communicator", all[0].description());
    }
    println!("slices: ok");
}

/// Serializes an executable that doubles six elements, and reads the serialized bytes with the TPU executable
/// extension.
pub(crate) fn query_executable(plugin: &Plugin, executable: &Executable) {
    let Some(tpu) = plugin.extension::<TpuExecutables>() else { return };
    let serialized = executable.serialize().unwrap();
    let module = tpu.hlo_module(&serialized).unwrap();
    assert_eq!(module.format(), "hlo_with_config");
    assert!(!tpu.compiled_memory_stats(&serialized).unwrap().is_empty());
    let target = tpu.target_arguments(&serialized).unwrap();
    let costs = tpu.cost_analysis(&target, &[module.code()]).unwrap();
    let operations = costs.iter().find(|NamedValue { name, .. }| name == "flops").map(|cost| &cost.value);
    assert!(matches!(operations, Some(Value::Float(6.0))), "{costs:?}");
    let environment = tpu.set_compilation_environment(&[]).unwrap();
    let field = |name| tpu.compilation_environment_field(&environment, name);
    assert_eq!(field("xla_tpu_enable_async_collective_fusion").unwrap(), "true");
    let error = field("no_such_field").unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Plugin, ErrorCode::INVALID_ARGUMENT), "{error}");
    // Pass a serialized status message with the code 13, `INTERNAL`.
    assert!(!tpu.is_predetermined_error(&[8, 13]).unwrap());
    println!("serialized program: ok");
}
