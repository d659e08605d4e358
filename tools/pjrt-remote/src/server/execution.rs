//! Runs of programs.

use std::ffi::CString;
use std::sync::Arc;

use pjrt::{Buffer, ErrorCode, Event, ExecuteOptions, Input, Outputs};

use crate::server::failure::{Outcome, fail, invalid};
use crate::server::replies::{Batch, Replies};
use crate::server::served::Served;
use crate::server::table::{Counted, Loaded, Object, Table};
use crate::wire::frame::Broken;
use crate::wire::messages::{Execute, Failure, Launch};

/// An argument of a run, taken from the table.
enum Argument {
    Borrowed(Arc<Counted>),
    Donated(Buffer),
}

/// The outputs and the end of a run on each device.
type Runs = Vec<(Outputs, Event)>;

/// Starts a run with the plugin's `launch_id`. If it fails, its outputs become handles of the failure.
pub(crate) fn execute(
    request: &Execute,
    launch_id: i32,
    served: &Served,
    table: &mut Table,
    batch: &mut Batch,
    replies: &Replies,
) -> Result<(), Broken> {
    for launch in &request.launches {
        replies.begin()?;
        if launch.first_output.checked_add(launch.outputs.into()).is_none() {
            return Err(Broken::Protocol(format!("there is no handle after {}", u64::MAX)));
        }
    }
    let executable = table.executable(request.executable).cloned();
    // Take all arguments, also if the run fails, because the client no longer has the donated ones.
    let arguments: Vec<_> = request.launches.iter().map(|launch| take_arguments(launch, table)).collect();
    if let Ok(loaded) = &executable
        && let Some(launch) =
            request.launches.iter().find(|launch| launch.outputs as usize != loaded.output_bytes.len())
    {
        let (own, theirs) = (loaded.output_bytes.len(), launch.outputs);
        return Err(Broken::Protocol(format!("the program has {own} outputs, the client wants {theirs}")));
    }
    let run = executable.and_then(|loaded| {
        let arguments = arguments.into_iter().collect::<Result<Vec<_>, _>>()?;
        table.check_space(loaded.output_space.saturating_mul(request.launches.len() as u64))?;
        Ok((start(request, launch_id, &loaded, arguments, served)?, loaded))
    });
    match run {
        Ok((runs, loaded)) => {
            for (launch, (outputs, done)) in request.launches.iter().zip(runs) {
                for ((handle, buffer), bytes) in (launch.first_output..).zip(outputs).zip(&loaded.output_bytes) {
                    let buffer = table.buffer_object(buffer, *bytes);
                    table.insert(handle, buffer)?;
                }
                batch.when_ready(launch.ticket, &done);
            }
        }
        Err(failure) => {
            for launch in &request.launches {
                for handle in (launch.first_output..).take(launch.outputs as usize) {
                    table.insert(handle, Object::Failed(Arc::clone(&failure)))?;
                }
                batch.fail(launch.ticket, &failure);
            }
        }
    }
    Ok(())
}

/// Takes the arguments of a launch from the table. Donated ones leave it.
fn take_arguments(launch: &Launch, table: &mut Table) -> Outcome<Vec<Argument>> {
    let mut donated = launch.donated.iter().copied().peekable();
    let mut arguments = Vec::with_capacity(launch.arguments.len());
    for (index, handle) in (0u32..).zip(&launch.arguments) {
        let buffer = table.buffer(*handle).cloned();
        if donated.next_if_eq(&index).is_some() {
            table.remove(*handle);
            // A read in progress still uses the buffer. The program then copies it.
            let take = |buffer| Arc::try_unwrap(buffer).map(Counted::into_buffer);
            arguments.push(buffer.map(|buffer| take(buffer).map_or_else(Argument::Borrowed, Argument::Donated)));
        } else {
            arguments.push(buffer.map(Argument::Borrowed));
        }
    }
    arguments.into_iter().collect()
}

fn start(
    request: &Execute,
    launch_id: i32,
    loaded: &Loaded,
    arguments: Vec<Vec<Argument>>,
    served: &Served,
) -> Outcome<Runs> {
    let mut options = ExecuteOptions::new().with_launch_id(launch_id);
    if let Ok(location) = CString::new(request.call_location.as_str())
        && !location.is_empty()
    {
        options = options.with_call_location(location);
    }
    let mut kept = Vec::new();
    let mut owned = Vec::with_capacity(arguments.len());
    for list in arguments {
        let (mut borrowed, mut inputs) = (Vec::new(), Vec::with_capacity(list.len()));
        for argument in list {
            inputs.push(match argument {
                Argument::Donated(buffer) => Some(buffer),
                Argument::Borrowed(buffer) => {
                    borrowed.push(buffer);
                    None
                }
            });
        }
        kept.push(borrowed);
        owned.push(inputs);
    }
    let inputs = owned.into_iter().zip(&kept).map(|(inputs, kept)| {
        let mut kept = kept.iter();
        let input = move |donated: Option<Buffer>| match donated {
            Some(buffer) => Some(Input::Donate(buffer)),
            None => kept.next().map(|buffer| Input::Borrow(buffer)),
        };
        inputs.into_iter().filter_map(input)
    });
    if !request.all_devices {
        let ([launch], Some(inputs)) = (&request.launches[..], inputs.into_iter().next()) else {
            return Err(invalid(&format!("a run on one device with {} launches", request.launches.len())));
        };
        if loaded.devices != [launch.device] {
            options = options.with_device(served.device(launch.device)?);
        }
        let run = loaded.executable.execute_with(inputs, &options).map_err(fail)?;
        return Ok(vec![(run.outputs, run.done)]);
    }
    if !request.launches.iter().map(|launch| launch.device).eq(loaded.devices.iter().copied()) {
        let message = format!(
            "the program runs on the devices {:?}, but the client launches it on others or in another order",
            loaded.devices
        );
        return Err(Arc::new(Failure::of(ErrorCode::INTERNAL, &message)));
    }
    let inputs = inputs.map(|list| list.collect()).collect();
    let run = loaded.executable.execute_sharded(inputs, &options).map_err(fail)?;
    Ok(run.outputs.into_iter().zip(run.done).collect())
}
