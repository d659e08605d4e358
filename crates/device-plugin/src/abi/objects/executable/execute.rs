//! The function `PJRT_LoadedExecutable_Execute`.

use std::borrow::Cow;
use std::sync::Arc;

use pjrt_sys::{PJRT_Buffer, PJRT_Device, PJRT_Event, PJRT_LoadedExecutable_Execute_Args, Slot, slot};
use plugin_macros::entry;

use crate::abi::objects::client::buffer::deleted;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::executable::deferred_launch::{Results, defer};
use crate::abi::objects::executable::execute_options::{Options, read_callbacks, read_full, read_options};
use crate::abi::objects::executable::handles::LoadedExecutable;
use crate::abi::objects::executable::launch::{
    FullLaunch, FullRequest, ReclaimAfterLaunch, expect_complete, finish, prepare,
};
use crate::abi::objects::executable::launch_arguments::check_donated;
use crate::abi::objects::executable::pending_arguments;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::ffi_read;
use crate::abi::table::trace;
use crate::array_layout::ArrayLayout;
use crate::profiler;
use crate::{Backend, DevicePlugin, Error, ExecuteOptions, HostChannels, Placement, Result};

/// The properties that all launches of one call share.
struct Call<'a, B: Backend> {
    executable: &'a LoadedExecutable<B>,
    /// The layouts of the parameters, from `executable`.
    parameter_layouts: &'a [ArrayLayout],
    /// The framework's handle of the same executable. Deferred launches increment its reference count.
    counted: *const LoadedExecutable<B>,
    /// For each device, the array of its arguments, with one buffer for each parameter. Empty if the program has no
    /// parameters.
    argument_lists: &'a [*const *mut PJRT_Buffer],
    /// For each device, the array that receives its outputs. Empty if the program has no outputs.
    output_lists: &'a [*mut *mut PJRT_Buffer],
    /// For each parameter, whether its argument is donated. Empty if the program donates no arguments.
    donated: &'a [bool],
    launch_id: i32,
}

impl<'a, B: Backend> Call<'a, B> {
    #[inline(always)]
    fn new(
        executable: &'a LoadedExecutable<B>,
        args: &PJRT_LoadedExecutable_Execute_Args,
        lists: &Lists<'a>,
        donated: &'a [bool],
        launch_id: i32,
    ) -> Self {
        Self {
            executable,
            parameter_layouts: &executable.parameter_layouts,
            counted: args.executable.cast_const().cast(),
            argument_lists: lists.arguments,
            output_lists: lists.outputs,
            donated,
            launch_id,
        }
    }

    /// Returns the arguments of the device at index `at` in the list of devices of the call, and their bits in the
    /// Bloom filter of the hazard domain.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the list, and V2 (handles) for the buffers.
    #[inline(always)]
    unsafe fn arguments(&self, at: usize) -> Result<(&'a [&'a BufferHandle<B>], u64)> {
        let list = self.argument_lists.get(at).copied().unwrap_or(std::ptr::null());
        // SAFETY: V3 (arrays and text) and V2 (handles), which the caller promises.
        unsafe { handles(list, self.parameter_layouts.len()) }
    }

    /// Returns the array that receives the outputs of the device at index `at` in the list of devices of the call.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the list.
    #[inline(always)]
    unsafe fn outputs(&self, at: usize) -> Result<&'a mut [*mut PJRT_Buffer]> {
        let list = self.output_lists.get(at).copied().unwrap_or(std::ptr::null_mut());
        // SAFETY: V3 (arrays and text), which the caller promises.
        unsafe { ffi_read::slice_mut(list, self.executable.output_layouts.len(), "output_lists[i]") }
    }

    /// Checks that the arguments of the launch on `device` fit the parameters of the program and can be used. Returns
    /// whether all arguments are ready.
    #[inline(always)]
    fn check(&self, device: usize, handles: &[&BufferHandle<B>]) -> Result<bool> {
        let client = &*self.executable.client;
        let mut ready = true;
        for (index, (handle, layout)) in handles.iter().zip(self.parameter_layouts).enumerate() {
            if !fits(handle, layout, device, client) {
                return Err(misfit(index, handle, layout, device, client));
            }
            if !handle.is_usable() {
                return Err(deleted_argument_error(index));
            }
            if !handle.ready.is_born_ready() {
                ready &= pending_arguments::is_ready(index, handle)?;
            }
        }
        if !self.donated.is_empty() {
            check_donated(handles, self.donated)?;
        }
        Ok(ready)
    }

    /// Runs a program on one device, with default options except for the launch id. Continues in [`Call::run_full`] if
    /// an argument is not ready.
    ///
    /// # Safety
    ///
    /// V2 (handles) and V3 (arrays and text) hold for the lists.
    #[inline(always)]
    unsafe fn run_fast(&self, device: usize, placements: &[Placement], events: &mut [*mut PJRT_Event]) -> Result<()> {
        let executable = self.executable;
        // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
        let (handles, bits) = unsafe { self.arguments(0) }?;
        {
            // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
            let list = unsafe { self.outputs(0) }?;
            let _afterwards = ReclaimAfterLaunch(&executable.client);
            let guard = executable.client.hazards.protect(bits);
            if self.check(device, handles)? {
                let options = (ExecuteOptions::new(self.launch_id), HostChannels::default());
                let (place, arguments) = ((device, placements), (handles, self.donated));
                // SAFETY: the arguments passed `check` after the guard published their bits.
                let mut launch = unsafe { prepare(executable, &guard, place, arguments, list, options) };
                let event = executable.client.backend.execute(&executable.compiled, &mut launch)?;
                expect_complete(&launch)?;
                finish(&mut launch, &event);
                if let Some(slot) = events.first_mut() {
                    *slot = into_raw(event);
                }
                return Ok(());
            }
        }
        let request = FullRequest { options: ExecuteOptions::new(self.launch_id), callbacks: None, profiled: None };
        // SAFETY: V2 (handles) and V3 (arrays and text), which the caller promises.
        unsafe { self.run_full(&[device], &[placements], events, request) }
    }

    /// Runs a program on any number of devices, with any options. Defers the launches if they must wait for arguments.
    ///
    /// # Safety
    ///
    /// V2 (handles) and V3 (arrays and text) hold for the lists, and V1 (argument structs) to V4 (callbacks) for the
    /// callbacks.
    #[inline(never)]
    unsafe fn run_full(
        &self,
        devices: &[usize],
        placements: &[&[Placement]],
        events: &mut [*mut PJRT_Event],
        request: FullRequest,
    ) -> Result<()> {
        let executable = self.executable;
        // SAFETY: V1 (argument structs) to V4 (callbacks), which the caller promises.
        let arguments = (0..devices.len()).map(|at| unsafe { self.arguments(at) }).collect::<Result<Vec<_>>>()?;
        let bits = arguments.iter().fold(0, |all, (_, bits)| all | bits);
        let handles: Vec<_> = arguments.into_iter().map(|(handles, _)| handles).collect();
        // SAFETY: V1 (argument structs) to V4 (callbacks), which the caller promises.
        let lists = (0..devices.len()).map(|at| unsafe { self.outputs(at) }).collect::<Result<Vec<_>>>()?;
        let _afterwards = ReclaimAfterLaunch(&executable.client);
        let guard = executable.client.hazards.protect(bits);
        for (device, handles) in devices.iter().zip(&handles) {
            self.check(*device, handles)?;
        }
        // SAFETY: V1 (argument structs) to V4 (callbacks), which the caller promises.
        let options = unsafe { request.open(devices.len()) }?;
        let launch = FullLaunch { executable, devices, placements, donated: self.donated, is_deferred: false };
        // SAFETY: the arguments passed `check` after the guard published their bits.
        if let Some(missing) = unsafe { pending_arguments::missing(&handles) }? {
            // SAFETY: V2 (handles): the framework does not destroy the executable before the call returns.
            unsafe { Arc::increment_strong_count(self.counted) };
            // SAFETY: the previous line added the reference.
            let executable = unsafe { Arc::from_raw(self.counted) };
            let results = Results { lists, events };
            // SAFETY: the arguments passed `check` after the guard published their bits.
            unsafe { defer(executable, &launch, (&guard, &handles), results, options, &missing) };
            return Ok(());
        }
        let arguments = pending_arguments::pending(&handles)?;
        // SAFETY: the arguments passed `check` after the guard published their bits.
        let done = unsafe { launch.start(&guard, &handles, lists, options, &arguments) }?;
        for (slot, event) in events.iter_mut().zip(done) {
            *slot = into_raw(event);
        }
        Ok(())
    }
}

/// The lists of a call, with one element for each device.
struct Lists<'a> {
    arguments: &'a [*const *mut PJRT_Buffer],
    outputs: &'a [*mut *mut PJRT_Buffer],
    events: &'a mut [*mut PJRT_Event],
}

impl Lists<'_> {
    /// Reads the lists of a call on `count` devices.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the lists in `args`.
    #[inline(always)]
    unsafe fn read<B: Backend>(
        args: &PJRT_LoadedExecutable_Execute_Args,
        executable: &LoadedExecutable<B>,
        count: usize,
    ) -> Result<Self> {
        let arguments = match args.num_args {
            0 => &[],
            // SAFETY: V3 (arrays and text), which the caller promises.
            _ => unsafe { ffi_read::slice(args.argument_lists, count, "argument_lists") }?,
        };
        let outputs = match executable.output_layouts.len() {
            0 => &[],
            // SAFETY: V3 (arrays and text), which the caller promises.
            _ => unsafe { ffi_read::slice(args.output_lists, count, "output_lists") }?,
        };
        let events: &mut [*mut PJRT_Event] = match args.device_complete_events {
            events if events.is_null() => &mut [],
            // SAFETY: V3 (arrays and text), which the caller promises.
            events => unsafe { ffi_read::slice_mut(events, count, "device_complete_events") }?,
        };
        Ok(Self { arguments, outputs, events })
    }
}

/// Runs a program with all options that the framework passed, on any number of devices. Records the call if a profile
/// is being recorded. `chosen` is the device that the framework chose, if any.
///
/// Takes `args` and `options` by value. If calls on the fast path passed their addresses here, they would have to keep
/// both in memory.
///
/// # Safety
///
/// V1 (argument structs) to V4 (callbacks) hold for `args`.
#[cold]
#[inline(never)]
unsafe fn execute_full<P: DevicePlugin>(
    mut args: PJRT_LoadedExecutable_Execute_Args,
    executable: &LoadedExecutable<P::Backend>,
    chosen: Option<usize>,
    Options { launch_id, kept, .. }: Options<'_>,
) -> Result<()> {
    let devices = chosen.as_ref().map_or(executable.devices.as_slice(), std::slice::from_ref);
    // SAFETY: V3 (arrays and text), which the caller promises.
    let lists = unsafe { Lists::read(&args, executable, devices.len()) }?;
    let donated = donations(executable, kept);
    let other_placements;
    let placements: Vec<&[Placement]> = match chosen {
        None => executable.placements.iter().map(Vec::as_slice).collect(),
        Some(device) => {
            other_placements = executable.placements_on(device)?;
            vec![&*other_placements]
        }
    };
    // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
    let options = unsafe { read_full(args.options) }?;
    // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
    let callbacks = unsafe { read_callbacks(args.options) }?;
    let mut request = FullRequest { options, callbacks, profiled: None };
    let mut span = profiler::span(slot::PJRT_LoadedExecutable_Execute::NAME).of(P::name());
    let _scope = profiler::scope();
    if profiler::is_recording() {
        request.profiled = Some(P::name());
        let executable = &executable.executable;
        span.note("program", executable.info.name.as_str());
        executable.last_profile.record(P::name(), &executable.info, &executable.program);
        // SAFETY: V1 (argument structs) and V4 (callbacks), which the caller promises.
        if let Some(context) = unsafe { trace::context_id::<slot::PJRT_LoadedExecutable_Execute>(&raw mut args) } {
            span.note("context_id", context);
        }
    }
    let call = Call::new(executable, &args, &lists, &donated, launch_id);
    // SAFETY: V1 (argument structs) to V4 (callbacks), which the caller promises.
    unsafe { call.run_full(devices, &placements, lists.events, request) }
}

/// Returns, for each parameter, whether its argument is donated. `kept` contains the indices of the arguments that the
/// framework does not donate.
fn donations<'a, B: Backend>(executable: &'a LoadedExecutable<B>, kept: &[i64]) -> Cow<'a, [bool]> {
    let mut donated = Cow::Borrowed(executable.donated.as_slice());
    for kept in kept {
        if let Some(slot) = usize::try_from(*kept).ok().and_then(|kept| donated.to_mut().get_mut(kept)) {
            *slot = false;
        }
    }
    donated
}

/// Reads an array of `len` buffer handles, and returns an error if a handle is null. Also returns the bits of the
/// buffers in the Bloom filter of the hazard domain.
///
/// # Safety
///
/// V3 (arrays and text) holds for the list, and V2 (handles) for the buffers.
#[inline(always)]
unsafe fn handles<'a, B: Backend>(
    list: *const *mut PJRT_Buffer,
    len: usize,
) -> Result<(&'a [&'a BufferHandle<B>], u64)> {
    // SAFETY: V3 (arrays and text) and V2 (handles), which the caller promises.
    let list = unsafe { ffi_read::slice(list, len, "argument_lists[i]") }?;
    let mut bits = 0;
    for (index, buffer) in list.iter().enumerate() {
        if buffer.is_null() {
            return Err(null_argument_error(index));
        }
        bits |= BufferHandle::<B>::bit_of(buffer.cast_const().cast());
    }
    // SAFETY: V2 (handles) and V5 (opaque types): a buffer that is not null points to a `BufferHandle`, which lives
    // until the call returns.
    let handles = unsafe { ffi_read::slice(list.as_ptr().cast::<&BufferHandle<B>>(), len, "argument_lists[i]") }?;
    Ok((handles, bits))
}

#[cold]
#[inline(never)]
fn null_argument_error(index: usize) -> Error {
    Error::argument(format!("argument {index} is null"))
}

#[cold]
#[inline(never)]
fn deleted_argument_error(index: usize) -> Error {
    deleted().context(format_args!("argument {index}"))
}

/// Returns whether an argument belongs to the client and the device of the launch, and has the element type, extents
/// and layout of the parameter.
#[inline]
fn fits<B: Backend>(
    argument: &BufferHandle<B>,
    layout: &ArrayLayout,
    device: usize,
    client: &Counted<Client<B>>,
) -> bool {
    argument.client.is(client)
        && (argument.layout == *layout || argument.layout.is_stored_as(layout))
        && argument.placement.device == device
}

/// Returns the error for an argument that [`fits`] rejects.
#[cold]
fn misfit<B: Backend>(
    index: usize,
    argument: &BufferHandle<B>,
    layout: &ArrayLayout,
    device: usize,
    client: &Counted<Client<B>>,
) -> Error {
    let given = &argument.layout;
    Error::argument(if !argument.client.is(client) {
        format!("argument {index} belongs to another client")
    } else if argument.placement.device != device {
        format!(
            "argument {index} is on device {}, but the program runs on device {}; copy it there first",
            client.device_id(argument.placement.device),
            client.device_id(device),
        )
    } else {
        format!("argument {index} is {given}, but the program expects {layout}")
    })
}

#[entry(hot, no_outputs, caller_context)]
unsafe fn PJRT_LoadedExecutable_Execute<P: DevicePlugin>(
    args: &mut PJRT_LoadedExecutable_Execute_Args,
    executable: &LoadedExecutable<P::Backend>,
) -> Result<()> {
    if executable.is_deleted() {
        return Err(deleted_executable_error());
    }
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    let options = unsafe { read_options(args.options.cast_const()) }?;
    if executable.devices.is_empty() && args.execute_device.is_null() && args.num_devices == 0 {
        // The program runs only on devices of other processes. Frameworks call this function in this process, too,
        // but pass no arguments.
        return Ok(());
    }
    if args.num_args != executable.parameter_layouts.len() {
        return Err(argument_count_error(args.num_args, executable.parameter_layouts.len()));
    }
    let chosen = chosen_device(executable, args.execute_device)?;
    let num_devices = if chosen.is_some() { 1 } else { executable.devices.len() };
    if args.num_devices != num_devices {
        return Err(device_count_error(args.num_devices, num_devices));
    }
    let overrides_donation = !options.kept.is_empty() && !executable.donated.is_empty();
    // The full path is slower. Use it only if the execution needs one of its features.
    let is_full = options.needs_full_path | overrides_donation | profiler::is_recording();
    let place = if is_full { None } else { single_compiled_device(executable, chosen) };
    let Some((device, placements)) = place else {
        // Pass copies of the structs, see `execute_full`.
        // SAFETY: V1 (argument structs) to V4 (callbacks).
        return unsafe { execute_full::<P>(*args, executable, chosen, Options { ..options }) };
    };
    // SAFETY: V3 (arrays and text).
    let lists = unsafe { Lists::read(args, executable, 1) }?;
    let call = Call::new(executable, args, &lists, &executable.donated, options.launch_id);
    // SAFETY: V2 (handles) and V3 (arrays and text).
    unsafe { call.run_fast(device, placements, lists.events) }
}
#[cold]
#[inline(never)]
fn deleted_executable_error() -> Error {
    Error::argument("the executable was deleted")
}

#[cold]
#[inline(never)]
fn argument_count_error(passed: usize, parameters: usize) -> Error {
    Error::argument(format!("{passed} arguments were passed, but the program has {parameters} parameters"))
}

#[cold]
#[inline(never)]
fn device_count_error(passed: usize, devices: usize) -> Error {
    Error::argument(format!("num_devices is {passed}, but the program runs on {devices} here"))
}

/// Returns the device and the placements of the outputs of a call on one device. Returns `None` if the call uses
/// several devices, or a device that the program was not compiled for.
#[inline(always)]
fn single_compiled_device<B: Backend>(
    executable: &LoadedExecutable<B>,
    chosen: Option<usize>,
) -> Option<(usize, &[Placement])> {
    let at = match chosen {
        None if executable.devices.len() == 1 => 0,
        None => return None,
        Some(device) => executable.devices.iter().position(|assigned| *assigned == device)?,
    };
    Some((*executable.devices.get(at)?, executable.placements.get(at)?))
}

/// Returns the index of the device that the framework chose, or `None` if the framework chose no device.
#[inline]
fn chosen_device<B: Backend>(executable: &LoadedExecutable<B>, device: *mut PJRT_Device) -> Result<Option<usize>> {
    if device.is_null() {
        return Ok(None);
    }
    let device = executable.client.device_index(device)?;
    if !executable.portable && !executable.devices.contains(&device) {
        return Err(Error::argument("execute_device is not among the devices that the program was compiled for"));
    }
    Ok(Some(device))
}
