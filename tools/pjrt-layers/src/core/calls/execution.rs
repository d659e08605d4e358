//! The arguments and results of a run of an executable.

use std::ptr;

use pjrt_sys::{AbiStruct, PJRT_ExecuteOptions, slot};
use pjrt_types::NamedValue;

use super::call::Call;
use crate::core::memory::{self, decode};

impl Call {
    /// Returns the arguments and results of a run, if this is a call of `PJRT_LoadedExecutable_Execute`.
    #[must_use]
    pub fn execution(&self) -> Option<Execution> {
        let args = self.args::<slot::PJRT_LoadedExecutable_Execute>()?;
        let mut options = PJRT_ExecuteOptions::new();
        if !args.options.is_null() {
            let from = args.options.cast::<u8>();
            // SAFETY: L2 (arguments): the struct begins with its size.
            let announced = unsafe { memory::read::<usize>(from) };
            let size = announced.min(PJRT_ExecuteOptions::STRUCT_SIZE);
            // SAFETY: L2 (arguments): the struct is readable for this size, and `options` has at least this size.
            unsafe { memory::copy(from, (&raw mut options).cast(), size) };
        }
        Some(Execution { args, options })
    }
}

/// The arguments and results of a call of `PJRT_LoadedExecutable_Execute`.
pub struct Execution {
    args: pjrt_sys::PJRT_LoadedExecutable_Execute_Args,
    options: PJRT_ExecuteOptions,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").field("devices", &self.devices()).finish_non_exhaustive()
    }
}

impl Execution {
    /// Returns the handle of the executable.
    #[must_use]
    pub fn executable(&self) -> usize {
        self.args.executable.addr()
    }

    /// Returns the number of devices. Each device has a list of arguments and a list of outputs.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.args.num_devices
    }

    /// Returns the device of each argument list. `devices` contains the addressable devices of the executable. If the
    /// call sets `execute_device`, all lists belong to this device. Otherwise, the result is `devices`, or is empty if
    /// the number of lists differs from the length of `devices`.
    #[must_use]
    pub fn on_devices(&self, devices: &[usize]) -> Vec<usize> {
        match (self.args.execute_device.addr(), self.devices()) {
            (0, count) if count == devices.len() => devices.to_vec(),
            (0, _) => Vec::new(),
            (device, count) => vec![device; count],
        }
    }

    /// Returns whether the caller passed no lists for the outputs.
    #[must_use]
    pub fn lacks_output_lists(&self) -> bool {
        self.args.output_lists.is_null()
    }

    /// Returns the launch id in the execute options.
    #[must_use]
    pub fn launch(&self) -> i32 {
        self.options.launch_id
    }

    /// Returns the handles of the arguments of all devices, one device after another.
    #[must_use]
    pub fn arguments(&self) -> Vec<usize> {
        // SAFETY: L2 (arguments): the array has one list for each device.
        let lists = unsafe { memory::pointers(self.args.argument_lists.cast(), self.devices()) };
        let mut all = Vec::new();
        for list in lists {
            // SAFETY: L2 (arguments): the list has one buffer for each argument.
            all.extend(unsafe { memory::pointers(ptr::with_exposed_provenance(list), self.args.num_args) });
        }
        all
    }

    /// Returns the outputs of all devices, one device after another. The call must have succeeded. `count` is the
    /// number of outputs of the executable. The arguments do not contain this number.
    #[must_use]
    pub fn outputs(&self, count: usize) -> Vec<usize> {
        // SAFETY: L2 (arguments): the array has one list for each device.
        let lists = unsafe { memory::pointers(self.args.output_lists.cast(), self.devices()) };
        let mut all = Vec::new();
        for list in lists {
            // SAFETY: L2 (arguments): the list has an element for each output.
            all.extend(unsafe { memory::pointers(ptr::with_exposed_provenance(list), count) });
        }
        all
    }

    /// Returns the events of all devices, if the framework requested events. The call must have succeeded.
    #[must_use]
    pub fn events(&self) -> Vec<usize> {
        // SAFETY: L2 (arguments): the array is null or has one event for each device.
        unsafe { memory::pointers(self.args.device_complete_events.cast(), self.devices()) }
    }

    /// Replaces each event that is not null with the result of `other` for this event. The call must have succeeded.
    pub(in crate::core) fn replace_events(&self, mut other: impl FnMut(usize) -> usize) {
        for (at, event) in self.events().into_iter().enumerate().filter(|(_, event)| *event != 0) {
            let place = self.args.device_complete_events.wrapping_add(at);
            let event = ptr::with_exposed_provenance_mut(other(event));
            // SAFETY: L2 (arguments): the framework provides memory for one event for each device.
            unsafe { place.write_unaligned(event) };
        }
    }

    /// Returns the options that are specific to the plugin.
    pub(crate) fn custom_options(&self) -> Vec<NamedValue> {
        // SAFETY: L2 (arguments): the array has this length.
        unsafe { decode::named_values(self.options.custom_options, self.options.num_custom_options) }
    }

    /// Returns the arguments of each device.
    pub(crate) fn argument_lists(&self) -> Vec<Vec<usize>> {
        let count = self.args.num_args;
        let all = self.arguments();
        if count == 0 { vec![Vec::new(); self.devices()] } else { all.chunks(count).map(<[usize]>::to_vec).collect() }
    }

    /// Returns the device on which a portable executable runs, or 0 if the call does not select a device.
    pub(crate) fn device(&self) -> usize {
        self.args.execute_device.addr()
    }

    /// Returns the source location of the call in the framework's program.
    pub(crate) fn call_location(&self) -> String {
        // SAFETY: L2 (arguments): the string is NUL-terminated.
        unsafe { memory::terminated_text(self.options.call_location.cast()) }
    }

    /// Returns descriptions of the options that the call sets although only few programs need them. An example is the
    /// execute context, which contains the user data of custom calls.
    pub(crate) fn optional_parts(&self) -> Vec<&'static str> {
        let options = &self.options;
        let parts = [
            (!options.context.is_null(), "an execute context"),
            (options.num_hlo_output_callbacks > 0, "output callbacks"),
            (options.num_tasks > 0, "incarnations of tasks"),
        ];
        parts.into_iter().filter(|(is_set, _)| *is_set).map(|(_, part)| part).collect()
    }

    /// Returns descriptions of the options in this call that refer to functions of the framework or to other objects.
    pub(crate) fn foreign_parts(&self) -> Vec<&'static str> {
        let options = &self.options;
        let parts = [
            (options.num_send_ops > 0, "send callbacks"),
            (options.num_recv_ops > 0, "receive callbacks"),
            (!options.multi_slice_config.is_null(), "a configuration of slices"),
        ];
        parts.into_iter().filter(|(is_set, _)| *is_set).map(|(_, part)| part).collect()
    }

    /// Returns the indices of the arguments that must not be donated.
    #[must_use]
    pub fn non_donatable(&self) -> Vec<i64> {
        let from = self.options.non_donatable_input_indices.cast::<u8>();
        // SAFETY: L2 (arguments): the array has this length.
        let words = unsafe { memory::pointers(from, self.options.num_non_donatable_input_indices) };
        words.into_iter().map(usize::cast_signed).map(|index| i64::try_from(index).unwrap_or(-1)).collect()
    }
}
