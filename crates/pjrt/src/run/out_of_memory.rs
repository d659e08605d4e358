//! Handles out-of-memory errors: adds memory statistics to the error, and repeats the call after the caller's hook has
//! freed memory.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::device::Device;
use crate::objects::device_memory::DeviceMemory;
use crate::objects::loaded_executable::LoadedExecutable;
use crate::objects::owners::{Client, ClientInner};
use crate::objects::placement::Placement;
use crate::table::callback::in_callback;
use crate::table::handle::Handle;

thread_local! {
    /// Whether this thread is running a hook.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// A guard that marks the thread as running a hook. Dropping the guard removes the mark, even if the hook panics.
struct Running;

impl Running {
    /// Returns `None` if the thread already runs a hook or is ending.
    fn start() -> Option<Self> {
        // While the thread is ending, the flag is not accessible. Do not run a hook in this case.
        (!IN_HOOK.try_with(|running| running.replace(true)).unwrap_or(true)).then_some(Self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Access cannot fail here, because `start` accessed the flag on the same thread.
        let _ = IN_HOOK.try_with(|running| running.set(false));
    }
}

impl ClientInner {
    /// Runs `call`, a closure that calls a function of the plugin. If `call` fails for lack of memory, adds the memory
    /// statistics of `devices` to the error. If the client's hook then frees memory, runs `call` once more.
    ///
    /// `call` must not have side effects when it fails, because it may be repeated.
    #[inline]
    pub(crate) fn allocating(
        self: &Arc<Self>,
        devices: impl FnOnce() -> Vec<Device>,
        mut call: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match call() {
            Err(error) if error.is_out_of_memory() => self.free_and_call(error, &devices(), &mut call),
            result => result,
        }
    }

    #[cold]
    fn free_and_call(
        self: &Arc<Self>,
        error: Error,
        devices: &[Device],
        call: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let error = with_memory(error, devices);
        if !self.free_memory(&error) {
            return Err(error);
        }
        call().map_err(|error| if error.is_out_of_memory() { with_memory(error, devices) } else { error })
    }

    /// Runs the client's hook, if there is one, and returns whether the hook has freed memory. Within a callback or
    /// within a hook, returns `false` and does not run the hook.
    fn free_memory(&self, error: &Error) -> bool {
        // A hook may wait for operations of the client, but a callback must not block. Do not run the hook within a
        // callback.
        let Some(hook) = self.out_of_memory_hook().filter(|_| !in_callback()) else { return false };
        // A call within the hook may itself run out of memory. Do not run the hook recursively.
        let Some(_running) = Running::start() else { return false };
        let freed = hook(error);
        tracing::debug!(%error, freed, "a device's memory is exhausted");
        freed
    }

    /// Adds the memory statistics of all addressable devices to an out-of-memory error, unless the error already
    /// contains statistics or this thread is running a callback.
    #[cold]
    pub(crate) fn describe_memory(self: &Arc<Self>, error: Error) -> Error {
        if !error.is_out_of_memory() || !error.device_memory().is_empty() || in_callback() {
            return error;
        }
        let devices = Client::from_inner(self.clone()).addressable_devices().unwrap_or_default();
        with_memory(error, &devices)
    }
}

fn memory_of(device: &Device) -> Option<DeviceMemory> {
    Some(DeviceMemory::new(device.id().ok()?, device.memory_stats().ok()?))
}

fn with_memory(mut error: Error, devices: &[Device]) -> Error {
    error.set_device_memory(devices.iter().filter_map(memory_of).collect());
    error
}

impl Client {
    /// Returns the devices whose memory an upload to `placement` may exhaust: the default device, the given device, or
    /// the devices of the given memory.
    pub(crate) fn devices_at(&self, placement: Placement<'_>) -> Vec<Device> {
        match placement {
            Placement::Default => self.default_device().into_iter().collect(),
            Placement::Device(device) => vec![device.clone()],
            Placement::Memory(memory) => memory.devices().unwrap_or_default(),
        }
    }
}

impl LoadedExecutable {
    /// Handles the error of a run. Adds memory statistics to an out-of-memory error. If the client's hook then frees
    /// memory, launches the program once more.
    ///
    /// A run on several devices is not repeated, because it may have started on some of the devices. A run with
    /// callbacks is not repeated, because the plugin may have called the callbacks. A run is also not repeated if the
    /// plugin has consumed a donated input.
    ///
    /// # Safety
    ///
    /// `args` are the unchanged arguments of the failed call, and meet the safety requirements of that call.
    #[cold]
    pub(crate) unsafe fn free_and_launch(
        &self,
        error: Error,
        args: &mut PJRT_LoadedExecutable_Execute_Args,
    ) -> Result<(), Error> {
        if !error.is_out_of_memory() {
            return Err(error);
        }
        let client = self.handle().owner();
        let devices = match NonNull::new(args.execute_device) {
            // SAFETY: C3 (objects): the device of a run belongs to the program's client.
            Some(device) => vec![unsafe { Device::new(device, client.clone()) }],
            None => self.addressable_devices().to_vec(),
        };
        // SAFETY: this function's contract: `args` are the arguments of a call.
        if !unsafe { self.is_repeatable(args) } {
            return Err(with_memory(error, &devices));
        }
        let error = with_memory(error, &devices);
        // The hook may have deleted input buffers, so check the inputs again.
        // SAFETY: this function's contract: `args` are the arguments of a call.
        if !client.free_memory(&error) || !unsafe { self.is_repeatable(args) } {
            return Err(error);
        }
        // SAFETY: the arguments of a run contain a list of outputs for each device.
        let outputs = unsafe { *args.output_lists };
        for index in 0..self.num_outputs() {
            // SAFETY: the list contains a pointer for each output.
            unsafe { outputs.wrapping_add(index).write(ptr::null_mut()) };
        }
        if !args.device_complete_events.is_null() {
            // SAFETY: if events are requested, the array contains a pointer for each device.
            unsafe { args.device_complete_events.write(ptr::null_mut()) };
        }
        // SAFETY: this function's contract: `args` meet the requirements of the call. The outputs are null again, and
        // no input is deleted.
        let again = unsafe { self.handle().api().call::<slot::PJRT_LoadedExecutable_Execute>(args) };
        again.map_err(|error| if error.is_out_of_memory() { with_memory(error, &devices) } else { error })
    }

    /// Returns whether a failed run can be launched again with the same arguments.
    ///
    /// # Safety
    ///
    /// `args` are the arguments of a call.
    unsafe fn is_repeatable(&self, args: &PJRT_LoadedExecutable_Execute_Args) -> bool {
        // SAFETY: this function's contract: the options live through the call.
        let options = unsafe { &*args.options };
        let callbacks = options.num_send_ops + options.num_recv_ops + options.num_hlo_output_callbacks;
        if args.num_devices != 1 || callbacks != 0 {
            return false;
        }
        // SAFETY: this function's contract: the arguments contain a list of inputs for each device.
        let inputs = unsafe { *args.argument_lists };
        (0..args.num_args).all(|index| {
            // SAFETY: the list contains `num_args` buffers.
            let Some(input) = NonNull::new(unsafe { *inputs.wrapping_add(index) }) else { return false };
            // SAFETY: an input is a live buffer of the program's client, which the failed call did not destroy (C3).
            let input = unsafe { Handle::new(input, self.handle().owner().clone()) };
            matches!(input.query::<slot::PJRT_Buffer_IsDeleted>(), Ok(false))
        })
    }
}
