//! Handles out-of-memory errors: adds memory statistics to them, and retries after the caller's hook has freed memory.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::in_callback;
use crate::client::{Client, ClientInner};
use crate::device::Device;
use crate::device_memory::DeviceMemory;
use crate::error::Error;
use crate::handle::Handle;
use crate::loaded_executable::LoadedExecutable;
use crate::upload::Placement;

thread_local! {
    /// Whether a hook is on this thread's stack.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running a hook, also if the hook panics.
struct Running;

impl Running {
    /// Returns `None` if the thread already runs a hook.
    fn start() -> Option<Self> {
        // The flag is not accessible while the thread is ending. Do not run a hook then.
        (!IN_HOOK.try_with(|running| running.replace(true)).unwrap_or(true)).then_some(Self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This cannot fail, because `start` accessed the flag on the same thread.
        let _ = IN_HOOK.try_with(|running| running.set(false));
    }
}

impl ClientInner {
    /// Calls a function of the plugin. If memory is exhausted, adds statistics of `devices` to the error, and calls the
    /// function once more if the client's hook has freed memory.
    ///
    /// A failed `call` must not have side effects, because it may be repeated.
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

    /// Runs the client's hook. Returns whether the hook has freed memory.
    fn free_memory(&self, error: &Error) -> bool {
        // A hook may wait for operations of the client, but a callback must not block.
        let Some(hook) = self.out_of_memory_hook().filter(|_| !in_callback()) else { return false };
        // The hook itself may run out of memory.
        let Some(_running) = Running::start() else { return false };
        let freed = hook(error);
        tracing::debug!(%error, freed, "a device's memory is exhausted");
        freed
    }

    /// Adds the statistics of all addressable devices to the error of an operation, if memory was exhausted.
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
    /// The devices that share the memory at a place.
    pub(crate) fn devices_at(&self, placement: Placement<'_>) -> Vec<Device> {
        match placement {
            Placement::Default => self.default_device().into_iter().collect(),
            Placement::Device(device) => vec![device.clone()],
            Placement::Memory(memory) => memory.devices().unwrap_or_default(),
        }
    }
}

impl LoadedExecutable {
    /// Handles the failure of a run. If memory was exhausted, adds statistics to the error, and launches the program once
    /// more if the client's hook has freed memory.
    ///
    /// A run on several devices is not repeated, because it may have started on some of them. A run with callbacks is not
    /// repeated, because it may have called them. A run whose donated inputs the plugin has consumed is not repeated either.
    ///
    /// # Safety
    ///
    /// `args` are the unchanged arguments of the failed call, and meet its safety requirements.
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
            // SAFETY: C3: the device of a run belongs to the program's client.
            Some(device) => vec![unsafe { Device::new(device, client.clone()) }],
            None => self.addressable_devices().to_vec(),
        };
        // SAFETY: this function's contract: the arguments are those of a call.
        if !unsafe { self.is_repeatable(args) } {
            return Err(with_memory(error, &devices));
        }
        let error = with_memory(error, &devices);
        // The hook may delete buffers, so check the inputs again.
        // SAFETY: as above.
        if !client.free_memory(&error) || !unsafe { self.is_repeatable(args) } {
            return Err(error);
        }
        // SAFETY: the arguments of a run have a list of outputs for each device.
        let outputs = unsafe { *args.output_lists };
        for index in 0..self.num_outputs() {
            // SAFETY: the list has a place for each output.
            unsafe { outputs.wrapping_add(index).write(ptr::null_mut()) };
        }
        if !args.device_complete_events.is_null() {
            // SAFETY: events that are requested have a place for each device.
            unsafe { args.device_complete_events.write(ptr::null_mut()) };
        }
        // SAFETY: this function's contract. The failed call left nothing behind, and the inputs are usable.
        let again = unsafe { self.handle().api().call::<slot::PJRT_LoadedExecutable_Execute>(args) };
        again.map_err(|error| if error.is_out_of_memory() { with_memory(error, &devices) } else { error })
    }

    /// Whether a failed run can be launched again with the same arguments.
    ///
    /// # Safety
    ///
    /// The arguments are those of a call.
    unsafe fn is_repeatable(&self, args: &PJRT_LoadedExecutable_Execute_Args) -> bool {
        // SAFETY: this function's contract: the options live through the call.
        let options = unsafe { &*args.options };
        let callbacks = options.num_send_ops + options.num_recv_ops + options.num_hlo_output_callbacks;
        if args.num_devices != 1 || callbacks != 0 {
            return false;
        }
        // SAFETY: this function's contract: the arguments have a list for each device.
        let inputs = unsafe { *args.argument_lists };
        (0..args.num_args).all(|index| {
            // SAFETY: the list has `num_args` buffers.
            let Some(input) = NonNull::new(unsafe { *inputs.wrapping_add(index) }) else { return false };
            // SAFETY: an input is a live buffer of the program's client, which the failed call did not destroy (C3).
            let input = unsafe { Handle::new(input, self.handle().owner().clone()) };
            matches!(input.query::<slot::PJRT_Buffer_IsDeleted>(), Ok(false))
        })
    }
}
