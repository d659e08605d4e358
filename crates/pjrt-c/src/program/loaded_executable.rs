//! `dp_loaded_executable`: a compiled program that devices can run.

use std::sync::{Arc, OnceLock};

use pjrt::raw::AsRaw;
use pjrt::{Buffer, ExecuteOptions, Input, LoadedExecutable};
use pjrt_c_macros::c_function;
use pjrt_sys::PJRT_LoadedExecutable;
use plugin_manifest::c_view::capabilities::dp_string;
use smallvec::SmallVec;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::guard::Out;
use crate::border::handle;
use crate::border::handle::{Handles, Owned};
use crate::border::memory;
use crate::border::memory::Fill;
use crate::border::text::{NO_TEXT, Text};
use crate::buffer::{dp_buffer, dp_event, dp_shape};
use crate::client::{dp_client, dp_device};
use crate::program::executable::dp_executable;
use crate::program::execute_options::dp_execute_options;

/// A compiled program that is loaded onto devices.
pub struct dp_loaded_executable {
    inner: Arc<LoadedExecutable>,
    /// The layouts of the parameters, as text.
    layouts: OnceLock<Vec<Option<Text>>>,
}

impl dp_loaded_executable {
    pub(crate) fn new(inner: LoadedExecutable) -> Self {
        Self { inner: Arc::new(inner), layouts: OnceLock::new() }
    }
}

/// Returns the executable's object of PJRT, which is valid as long as the executable. Do not destroy it. Returns NULL
/// if `executable` is not a loaded executable.
#[c_function]
pub fn dp_loaded_executable_raw(executable: &dp_loaded_executable) -> *mut PJRT_LoadedExecutable {
    executable.inner.as_raw()
}

/// Returns the properties of the program.
#[c_function]
pub fn dp_loaded_executable_executable(executable: &dp_loaded_executable) -> Outcome<Owned<dp_executable>> {
    Ok(Owned(dp_executable::of_loaded(executable.inner.clone())))
}

/// Returns another object for the executable's client.
#[c_function]
pub fn dp_loaded_executable_client(executable: &dp_loaded_executable) -> Outcome<Owned<dp_client>> {
    Ok(Owned(dp_client::new(executable.inner.client())))
}

/// Returns the number of devices of this process that run the program.
#[c_function]
pub fn dp_loaded_executable_device_count(executable: &dp_loaded_executable) -> usize {
    executable.inner.addressable_devices().len()
}

/// Returns the device at `index`, counted from 0, among those of this process that run the program.
#[c_function]
pub fn dp_loaded_executable_device_at(executable: &dp_loaded_executable, index: usize) -> Outcome<Owned<dp_device>> {
    Ok(Owned(dp_device::new(memory::at(executable.inner.addressable_devices(), index)?.clone())))
}

/// Returns the number of outputs on each device.
#[c_function]
pub fn dp_loaded_executable_num_outputs(executable: &dp_loaded_executable) -> usize {
    executable.inner.num_outputs()
}

/// Returns the number of parameters. Returns `DP_UNIMPLEMENTED` if the plugin does not report them.
#[c_function]
pub fn dp_loaded_executable_num_parameters(executable: &dp_loaded_executable) -> Outcome<usize> {
    Ok(parameters(executable)?.len())
}

/// Returns the shape of the parameter at `index`, counted from 0. The extents belong to the executable. Returns
/// `DP_UNIMPLEMENTED` if the plugin does not report it.
#[c_function]
pub fn dp_loaded_executable_parameter_shape(executable: &dp_loaded_executable, index: usize) -> Outcome<dp_shape> {
    let parameter = memory::at(parameters(executable)?, index)?;
    Ok(dp_shape::lend(parameter.shape().ok_or_else(unreported)?))
}

/// Returns the layout of the parameter at `index` as in HLO, such as `{1,0}`, or a string with null `data` if it is not
/// known. The text belongs to the executable.
#[c_function]
pub fn dp_loaded_executable_parameter_layout(executable: &dp_loaded_executable, index: usize) -> Outcome<dp_string> {
    let parameters = parameters(executable)?;
    let layouts = executable.layouts.get_or_init(|| {
        parameters.iter().map(|parameter| parameter.layout().map(|layout| Text::new(layout.to_string()))).collect()
    });
    Ok(memory::at(layouts, index)?.as_ref().map_or(NO_TEXT, Text::lend))
}

fn parameters(executable: &dp_loaded_executable) -> Outcome<&[pjrt::Parameter]> {
    executable.inner.parameters().ok_or_else(unreported)
}

fn unreported() -> Failure {
    Failure::new(pjrt::ErrorCode::UNIMPLEMENTED, "the plugin does not report the parameters of its programs")
}

/// Unloads the program from its devices. It can no longer run. Returns `DP_FAILED_PRECONDITION` while a `dp_executable`
/// of it exists.
#[c_function]
pub fn dp_loaded_executable_delete(executable: &mut dp_loaded_executable) -> Outcome<()> {
    let inner = Arc::get_mut(&mut executable.inner).ok_or_else(|| {
        let message = "objects of dp_loaded_executable_executable exist; release them before";
        Failure::new(pjrt::ErrorCode::FAILED_PRECONDITION, message)
    })?;
    Ok(inner.delete()?)
}

/// Returns whether the program was unloaded.
#[c_function]
pub fn dp_loaded_executable_is_deleted(executable: &dp_loaded_executable) -> Outcome<bool> {
    Ok(executable.inner.is_deleted()?)
}

/// Runs a program on one device, and fills `outputs` with new buffers. They may not be ready when the function returns;
/// functions that use their contents wait.
///
/// `inputs` are the arguments. `donated` contains the indices of the inputs whose memory the program may reuse for its
/// outputs. These inputs must not have other references, and must not occur twice. They are released, also if the run
/// fails. Only if a handle, a size or an index is wrong, nothing is released and nothing runs. `options` may be
/// NULL. `outputs_size` must be the number of outputs. `done` may be NULL; otherwise it receives an event that is ready
/// when the run has ended. Mirrors `PJRT_LoadedExecutable_Execute`.
///
/// Before it calls the plugin, the function returns `DP_INVALID_ARGUMENT` if an input belongs to another client or
/// device or was deleted, and, if the plugin reports the parameters, if the number of inputs, a shape or a layout is
/// wrong.
#[c_function]
pub fn dp_loaded_executable_execute(
    executable: &dp_loaded_executable,
    inputs: Handles<'_, dp_buffer>,
    donated: &[usize],
    options: Option<&dp_execute_options>,
    mut outputs: Fill<*mut dp_buffer>,
    done: Out<Owned<dp_event>>,
) -> Outcome<()> {
    let program = &*executable.inner;
    outputs.expect(program.num_outputs())?;
    if donated.is_empty() && options.is_none() && !done.is_wanted() {
        let mut buffers: SmallVec<[&Buffer; 16]> = SmallVec::new();
        for index in 0..inputs.len() {
            buffers.push(&inputs.object(index)?.inner);
        }
        program.execute_each(&buffers, |output| outputs.push(handle::give_inlined(dp_buffer::new(output))))?;
        return Ok(());
    }
    execute_with(program, &inputs, donated, options, outputs, done)
}

/// Runs a program on one device with all that a run can have.
#[inline(never)]
fn execute_with(
    program: &LoadedExecutable,
    inputs: &Handles<'_, dp_buffer>,
    donated: &[usize],
    options: Option<&dp_execute_options>,
    outputs: Fill<*mut dp_buffer>,
    done: Out<Owned<dp_event>>,
) -> Outcome<()> {
    let inputs = arguments(inputs, donated, 1)?.pop().unwrap_or_default();
    let nothing = ExecuteOptions::default();
    let run = program.execute_with(inputs, options.map_or(&nothing, |options| &options.inner))?;
    outputs.each(run.outputs.into_iter().map(|output| handle::give(dp_buffer::new(output))))?;
    done.put(Owned(dp_event::new(run.done)));
    Ok(())
}

/// Runs a program on all its devices of this process, in the order of `dp_loaded_executable_device_at`. `inputs` are
/// first those of the first device, then those of the second, and so on; `outputs` likewise. `donated` contains the
/// indices of the parameters, equal for all devices, whose inputs the program may reuse. `done_size` is 0 or the number
/// of devices. Otherwise like `dp_loaded_executable_execute`.
#[c_function]
pub fn dp_loaded_executable_execute_sharded(
    executable: &dp_loaded_executable,
    inputs: Handles<'_, dp_buffer>,
    donated: &[usize],
    options: Option<&dp_execute_options>,
    outputs: Fill<*mut dp_buffer>,
    done: Fill<*mut dp_event>,
) -> Outcome<()> {
    let program = &*executable.inner;
    let devices = program.addressable_devices().len();
    outputs.expect(program.num_outputs() * devices)?;
    if done.len() != 0 {
        done.expect(devices)?;
    }
    let nothing = ExecuteOptions::default();
    let inputs = arguments(&inputs, donated, devices)?;
    let run = program.execute_sharded(inputs, options.map_or(&nothing, |options| &options.inner))?;
    let made: Vec<Buffer> = run.outputs.into_iter().flatten().collect();
    outputs.each(made.into_iter().map(|output| handle::give(dp_buffer::new(output))))?;
    if done.len() != 0 {
        done.each(run.done.into_iter().map(|event| handle::give(dp_event::new(event))))?;
    }
    Ok(())
}

/// Returns the inputs of each device. All checks that can fail are made before an input is taken.
fn arguments<'a>(inputs: &Handles<'a, dp_buffer>, donated: &[usize], devices: usize) -> Outcome<Vec<Vec<Input<'a>>>> {
    let each = inputs.len().checked_div(devices).unwrap_or(0);
    if each * devices != inputs.len() {
        let message = format!("`inputs_size` is {}, which is not a multiple of the {devices} devices", inputs.len());
        return Err(Failure::argument(message));
    }
    let mut donate = vec![false; each];
    for &index in donated {
        match donate.get_mut(index) {
            Some(donate) => *donate = true,
            None => {
                let message = format!("`donated` names input {index}, but there are {each} inputs for each device");
                return Err(Failure::argument(message));
            }
        }
    }
    for index in 0..inputs.len() {
        inputs.object(index)?;
    }
    let given_up = (0..inputs.len()).filter(|index| donate[index % each.max(1)]);
    inputs.check_takes(given_up)?;
    let mut lists: Vec<Vec<Input<'a>>> = Vec::with_capacity(devices);
    for device in 0..devices {
        let mut list = Vec::with_capacity(each);
        for (index, donate) in donate.iter().enumerate() {
            let at = device * each + index;
            list.push(if *donate {
                Input::Donate(inputs.take(at)?.inner)
            } else {
                Input::Borrow(&inputs.object(at)?.inner)
            });
        }
        lists.push(list);
    }
    Ok(lists)
}
