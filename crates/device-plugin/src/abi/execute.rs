//! `PJRT_LoadedExecutable_Execute`.

use std::borrow::Cow;

use pjrt_sys::{PJRT_Buffer, PJRT_Event, PJRT_ExecuteOptions};

use crate::abi::buffer_handle::{BufferHandle, Uses, Value};
use crate::abi::client_state::Client;
use crate::abi::counted::{Batch, Counted};
use crate::abi::entry::entries;
use crate::abi::event::into_raw;
use crate::abi::executable_state::{Executable, LoadedExecutable};
use crate::abi::raw;
use crate::{Backend, Error, Event, ExecuteOptions, Inputs, Launch, Outputs, Placement, Result, Shape};

/// Where the outputs of an execution go: the framework's array. Until it is finished the outputs are destroyed when it
/// is dropped, and the array holds nulls.
pub(crate) struct OutputList<'a, B: Backend> {
    clients: Batch<'a, Client<B>>,
    shapes: &'a [Shape],
    placements: Cow<'a, [Placement]>,
    list: &'a mut [*mut PJRT_Buffer],
    produced: usize,
}

// SAFETY: the list is a destination that the framework leaves alone during the call (V3), and the handles in it are not
// yet shared.
unsafe impl<B: Backend> Send for OutputList<'_, B> {}

impl<'a, B: Backend> OutputList<'a, B> {
    pub(crate) fn is_complete(&self) -> bool {
        self.produced == self.shapes.len()
    }

    pub(crate) fn shapes(&self) -> &'a [Shape] {
        self.shapes
    }

    pub(crate) fn placement(&self, index: usize) -> Option<Placement> {
        self.placements.get(index).copied()
    }

    /// Adds an output; false when there is no place for it.
    #[inline]
    pub(crate) fn push(&mut self, buffer: B::Buffer) -> bool {
        let at = self.produced;
        let (Some(slot), Some(shape), Some(placement)) =
            (self.list.get_mut(at), self.shapes.get(at), self.placements.get(at))
        else {
            return false;
        };
        let Some(client) = self.clients.next() else { return false };
        *slot = BufferHandle::new(client, Value::Now(buffer), shape, *placement, Event::ready()).into_raw();
        self.produced += 1;
        true
    }

    /// Leaves the outputs to the framework; they are ready when `event` is.
    #[inline]
    fn finish(mut self, event: &Event) {
        if !event.is_born_ready() {
            for handle in self.list[..self.produced].iter().copied() {
                // SAFETY: made by `push`, and nobody else knows it yet.
                let buffer = unsafe { &mut *handle.cast::<BufferHandle<B>>() };
                buffer.ready = event.clone();
            }
        }
        self.produced = 0;
    }
}

impl<B: Backend> Drop for OutputList<'_, B> {
    #[inline]
    fn drop(&mut self) {
        for slot in &mut self.list[..self.produced] {
            let handle = std::mem::replace(slot, std::ptr::null_mut());
            // SAFETY: made by `push`, and nobody else knows it.
            drop(unsafe { Box::from_raw(handle.cast::<BufferHandle<B>>()) });
        }
    }
}

/// What holds for all launches of one call.
struct Call<'a, B: Backend> {
    executable: &'a Executable<B>,
    num_args: usize,
    non_donatable: &'a [i64],
    options: ExecuteOptions,
}

impl<'a, B: Backend> Call<'a, B> {
    /// Checks the arguments and prepares the outputs of one device.
    ///
    /// # Safety
    ///
    /// V3 for the lists, V2 for the buffers.
    #[inline]
    unsafe fn launch(
        &self,
        device: usize,
        placements: Cow<'a, [Placement]>,
        arguments: *const *mut PJRT_Buffer,
        outputs: *mut *mut PJRT_Buffer,
    ) -> Result<Launch<'a, B>> {
        let executable = self.executable;
        let shapes = executable.info.outputs.as_slice();
        // SAFETY: the caller's contract.
        let list = unsafe { raw::slice_mut(outputs, shapes.len(), "output_lists[i]") }?;
        // SAFETY: the caller's contract.
        let handles = unsafe { handles::<B>(arguments, self.num_args) }?;
        let mut uses = Uses::new(handles);
        for (index, (handle, shape)) in handles.iter().zip(&executable.info.parameters).enumerate() {
            if !fits(handle, shape, device, &executable.client) {
                return Err(misfit(index, handle, shape, device, &executable.client));
            }
            uses.hold_next().map_err(|error| error.context(format_args!("argument {index}")))?;
            handle.wait().map_err(|error| error.context(format_args!("argument {index} failed")))?;
        }
        if executable.donates {
            uses.donate(&executable.donated, self.non_donatable)?;
        }
        let clients = executable.client.batch(shapes.len());
        let outputs = Outputs::new(OutputList { clients, shapes, placements, list, produced: 0 });
        Ok(Launch { inputs: Inputs::new(uses), outputs, device, options: self.options })
    }
}

/// The arguments of one device.
///
/// # Safety
///
/// V3 for the list, V2 for the buffers.
#[inline]
unsafe fn handles<'a, B: Backend>(list: *const *mut PJRT_Buffer, len: usize) -> Result<&'a [&'a BufferHandle<B>]> {
    // SAFETY: the caller's contract.
    let list = unsafe { raw::slice(list, len, "argument_lists[i]") }?;
    if let Some(index) = list.iter().position(|buffer| buffer.is_null()) {
        return Err(Error::argument(format!("argument {index} is null")));
    }
    // SAFETY: V2 and V5: buffers that are not null are references to such handles, which last for the call.
    unsafe { raw::slice(list.as_ptr().cast::<&BufferHandle<B>>(), len, "argument_lists[i]") }
}

/// Whether an argument is what the program was compiled for.
#[inline]
fn fits<B: Backend>(argument: &BufferHandle<B>, shape: &Shape, device: usize, client: &Counted<Client<B>>) -> bool {
    argument.client.is(client)
        && argument.element_type == shape.element_type
        && argument.dims() == shape.dimensions
        && argument.placement.device == device
}

/// Why it is not.
#[cold]
fn misfit<B: Backend>(
    index: usize,
    argument: &BufferHandle<B>,
    shape: &Shape,
    device: usize,
    client: &Counted<Client<B>>,
) -> Error {
    let given = argument.shape();
    Error::argument(if !argument.client.is(client) {
        format!("argument {index} belongs to another client")
    } else if given != *shape {
        format!("argument {index} is {given}, but the program was compiled for {shape}")
    } else {
        format!(
            "argument {index} is on device {}, but the program runs on device {}; copy it there first",
            client.device_id(argument.placement.device),
            client.device_id(device),
        )
    })
}

/// Leaves the outputs to the framework and deletes what it donated.
#[inline]
fn finish<B: Backend>(launch: Launch<'_, B>, event: &Event) -> Result<()> {
    let Launch { inputs, outputs, .. } = launch;
    let list = outputs.into_list();
    if !list.is_complete() {
        return Err(Error::internal(format!(
            "the backend returned {} outputs of a program with {}",
            list.produced,
            list.shapes.len()
        )));
    }
    inputs.uses().delete_donated();
    list.finish(event);
    Ok(())
}

/// The options this SDK reads.
#[inline]
fn read_options<'a>(options: &PJRT_ExecuteOptions) -> Result<(ExecuteOptions, &'a [i64])> {
    if options.num_send_ops != 0 || options.num_recv_ops != 0 {
        return Err(Error::unimplemented("send and receive callbacks").unnamed());
    }
    // SAFETY: V3.
    let non_donatable = unsafe {
        raw::slice(
            options.non_donatable_input_indices,
            options.num_non_donatable_input_indices,
            "options->non_donatable_input_indices",
        )
    }?;
    Ok((ExecuteOptions { launch_id: options.launch_id }, non_donatable))
}

entries! {
    PJRT_LoadedExecutable_Execute(args, executable) {
        let loaded: &LoadedExecutable<P::Backend> = executable;
        if loaded.is_deleted() {
            return Err(Error::argument("the executable was deleted"));
        }
        let executable = &*loaded.executable;
        // SAFETY: V1.
        let options = unsafe { raw::nested(args.options.cast_const(), "options") }?;
        let (options, non_donatable) = read_options(&options)?;
        let expected = executable.info.parameters.len();
        if args.num_args != expected {
            return Err(Error::argument(format!("{} arguments, but the program has {expected} parameters", args.num_args)));
        }
        let call = Call { executable, num_args: args.num_args, non_donatable, options };
        let chosen = if args.execute_device.is_null() {
            None
        } else {
            let device = executable.client.device_index(args.execute_device)?;
            if !executable.portable && !executable.devices.contains(&device) {
                return Err(Error::argument("execute_device is none of the devices the program was compiled for"));
            }
            Some(device)
        };
        let devices = chosen.as_ref().map_or(executable.devices.as_slice(), std::slice::from_ref);
        if args.num_devices != devices.len() {
            return Err(Error::argument(format!(
                "num_devices is {}, but the program runs on {} here", args.num_devices, devices.len()
            )));
        }
        let argument_lists = match args.num_args {
            0 => &[],
            // SAFETY: V3.
            _ => unsafe { raw::slice(args.argument_lists, devices.len(), "argument_lists") }?,
        };
        let output_lists = match executable.info.outputs.len() {
            0 => &[],
            // SAFETY: V3.
            _ => unsafe { raw::slice(args.output_lists, devices.len(), "output_lists") }?,
        };
        let events: &mut [*mut PJRT_Event] = if args.device_complete_events.is_null() {
            &mut []
        } else {
            // SAFETY: V3.
            unsafe { raw::slice_mut(args.device_complete_events, devices.len(), "device_complete_events") }?
        };
        let launch = |at: usize| {
            let device = devices[at];
            let arguments = argument_lists.get(at).copied().unwrap_or(std::ptr::null());
            let outputs = output_lists.get(at).copied().unwrap_or(std::ptr::null_mut());
            let placements = executable.placements_on(device)?;
            // SAFETY: V2 and V3.
            unsafe { call.launch(device, placements, arguments, outputs) }
        };
        if let [_] = devices {
            let mut launch = launch(0)?;
            let event = executable.client.backend.execute(&executable.compiled, &mut launch)?;
            finish(launch, &event)?;
            if let Some(slot) = events.first_mut() {
                *slot = into_raw(event);
            }
            return Ok(());
        }
        let mut launches = (0..devices.len()).map(launch).collect::<Result<Vec<_>>>()?;
        let done = executable.client.backend.execute_all(&executable.compiled, &mut launches)?;
        if done.len() != launches.len() {
            return Err(Error::internal(format!("the backend returned {} events of {} launches", done.len(), launches.len())));
        }
        if let Some(launch) = launches.iter().find(|launch| !launch.outputs.is_complete()) {
            return Err(Error::internal(format!("the backend returned too few outputs of device {}", launch.device)));
        }
        for (at, (launch, event)) in launches.into_iter().zip(done).enumerate() {
            finish(launch, &event)?;
            if let Some(slot) = events.get_mut(at) {
                *slot = into_raw(event);
            }
        }
        Ok(())
    }
}
