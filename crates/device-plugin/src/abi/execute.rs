//! `PJRT_LoadedExecutable_Execute`.

use std::borrow::Cow;
use std::time::Instant;

use pjrt_sys::{PJRT_Buffer, PJRT_Device, PJRT_Event, PJRT_LoadedExecutable_Execute_Args, Slot, slot};

use crate::abi::buffer_handle::{BufferHandle, Uses, Value, check_donated, deleted};
use crate::abi::client_state::Client;
use crate::abi::counted::Counted;
use crate::abi::entry::{contain, entries};
use crate::abi::event::into_raw;
use crate::abi::executable_state::LoadedExecutable;
use crate::abi::execute_options::{Options, read_all, read_callbacks, read_options};
use crate::abi::form::Form;
use crate::abi::host_channel::Callbacks;
use crate::abi::ledger::Pin;
use crate::abi::{raw, recorded};
use crate::profiler;
use crate::{
    Backend, DevicePlugin, Error, Event, ExecuteOptions, HostChannels, Inputs, Launch, Outputs, Placement, Result,
    Shape,
};

/// Where the outputs of an execution go: the framework's array. Until it is finished the outputs are destroyed when it
/// is dropped, and the array holds nulls.
pub(crate) struct OutputList<'a, B: Backend> {
    executable: &'a LoadedExecutable<B>,
    /// Noted that all outputs are made.
    pin: &'a Pin,
    placements: &'a [Placement],
    list: &'a mut [*mut PJRT_Buffer],
    produced: usize,
    /// Whether the framework has the outputs.
    finished: bool,
}

// SAFETY: the list is a destination that the framework leaves alone during the call (V3), and the handles in it are not
// yet shared.
unsafe impl<B: Backend> Send for OutputList<'_, B> {}

impl<'a, B: Backend> OutputList<'a, B> {
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.produced == self.list.len()
    }

    /// How many outputs there are, and how many there will be.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.produced, self.list.len())
    }

    pub(crate) fn shapes(&self) -> &'a [Shape] {
        &self.executable.executable.info.outputs
    }

    pub(crate) fn placement(&self, index: usize) -> Option<Placement> {
        self.placements.get(index).copied()
    }

    /// Adds an output; false when there is no place for it.
    #[inline]
    pub(crate) fn push(&mut self, buffer: B::Buffer) -> bool {
        let at = self.produced;
        let (Some(slot), Some(form), Some(placement)) =
            (self.list.get_mut(at), self.executable.output_forms.get(at), self.placements.get(at))
        else {
            return false;
        };
        // SAFETY: the pin noted as many outputs as there are places, and those not made are taken back on drop.
        let client = unsafe { self.executable.client.link_output() };
        *slot = BufferHandle::give(client, Value::Now(buffer), form, *placement, Event::ready());
        self.produced += 1;
        true
    }

    #[cold]
    fn take_back(&mut self) {
        for slot in &mut self.list[..self.produced] {
            let handle = std::mem::replace(slot, std::ptr::null_mut());
            // The backend may have panicked, and its buffers may do so as they go.
            let _ = contain(|| {
                // SAFETY: made by `push`, and nobody else knows it.
                unsafe { BufferHandle::<B>::take_back(handle) };
                Ok(())
            });
        }
        self.pin.unmade(self.list.len() - self.produced);
    }

    /// Leaves the outputs to the framework; they are ready when `event` is.
    #[inline(always)]
    fn finish(&mut self, event: &Event) {
        if !event.is_born_ready() {
            for handle in self.list[..self.produced].iter().copied() {
                // SAFETY: made by `push`, and nobody else knows it yet.
                let buffer = unsafe { &mut *handle.cast::<BufferHandle<B>>() };
                buffer.ready = event.clone();
            }
        }
        self.finished = true;
    }
}

impl<B: Backend> Drop for OutputList<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if !self.finished {
            self.take_back();
        }
    }
}

/// What holds for all launches of one call.
struct Call<'a, B: Backend> {
    executable: &'a LoadedExecutable<B>,
    /// For each device its list of arguments, of which there are as many as parameters; empty when there are none.
    argument_lists: &'a [*const *mut PJRT_Buffer],
    /// For each device its list of outputs; empty when there are none.
    output_lists: &'a [*mut *mut PJRT_Buffer],
    /// For each argument whether it is given up; empty when none is.
    donated: &'a [bool],
    launch_id: i32,
}

/// What few calls have.
struct Special {
    options: ExecuteOptions,
    /// Callbacks to send and receive.
    callbacks: Option<Callbacks>,
    /// Name of the plugin and begin of the call, while a profile runs.
    profiled: Option<(&'static str, Instant)>,
}

impl<'a, B: Backend> Call<'a, B> {
    /// The arguments of one device.
    ///
    /// # Safety
    ///
    /// V3 for the list, V2 for the buffers.
    #[inline(always)]
    unsafe fn arguments(&self, at: usize) -> Result<&'a [&'a BufferHandle<B>]> {
        let list = self.argument_lists.get(at).copied().unwrap_or(std::ptr::null());
        // SAFETY: the caller's contract.
        unsafe { handles(list, self.executable.parameter_forms.len()) }
    }

    /// Where the outputs of one device go.
    ///
    /// # Safety
    ///
    /// V3 for the list.
    #[inline(always)]
    unsafe fn outputs(&self, at: usize) -> Result<&'a mut [*mut PJRT_Buffer]> {
        let list = self.output_lists.get(at).copied().unwrap_or(std::ptr::null_mut());
        // SAFETY: the caller's contract.
        unsafe { raw::slice_mut(list, self.executable.output_forms.len(), "output_lists[i]") }
    }

    /// Checks the arguments of one device.
    #[inline(always)]
    fn check(&self, device: usize, handles: &[&BufferHandle<B>]) -> Result<()> {
        let client = &*self.executable.client;
        for (index, (handle, form)) in handles.iter().zip(&self.executable.parameter_forms).enumerate() {
            if !fits(handle, form, device, client) {
                return Err(misfit(index, handle, form, device, client));
            }
            if !handle.is_usable() {
                return Err(deleted().context(format_args!("argument {index}")));
            }
            handle.wait().map_err(|error| error.context(format_args!("argument {index} failed")))?;
        }
        if !self.donated.is_empty() {
            check_donated(handles, self.donated)?;
        }
        Ok(())
    }

    /// Prepares the launch on one device.
    ///
    /// # Safety
    ///
    /// The arguments passed the check after the pin showed their bits.
    #[inline(always)]
    unsafe fn launch<'b>(
        &self,
        pin: &'b Pin,
        device: usize,
        placements: &'b [Placement],
        handles: &'b [&'b BufferHandle<B>],
        list: &'b mut [*mut PJRT_Buffer],
        (options, channels): (ExecuteOptions, HostChannels),
    ) -> Launch<'b, B>
    where
        'a: 'b,
    {
        let executable = self.executable;
        // SAFETY: the caller's contract: none was deleted, and one that is given up is no other argument.
        let uses = unsafe { Uses::new(handles, pin, self.donated) };
        pin.make(placements.len());
        let outputs = Outputs::new(OutputList { executable, pin, placements, list, produced: 0, finished: false });
        Launch { inputs: Inputs::new(uses), outputs, device, options, channels }
    }

    /// Runs on one device a program without channels.
    ///
    /// # Safety
    ///
    /// V2 and V3 for the lists.
    #[inline(always)]
    unsafe fn run(&self, device: usize, placements: &[Placement], events: &mut [*mut PJRT_Event]) -> Result<()> {
        let executable = self.executable;
        // SAFETY: the caller's contract.
        let handles = unsafe { self.arguments(0) }?;
        // SAFETY: the caller's contract.
        let list = unsafe { self.outputs(0) }?;
        let _afterwards = Afterwards(&executable.client);
        let pin = executable.client.ledger.pin(bits(handles));
        self.check(device, handles)?;
        let usual = (ExecuteOptions::new(self.launch_id), HostChannels::default());
        // SAFETY: checked, and shown by the pin.
        let mut launch = unsafe { self.launch(&pin, device, placements, handles, list, usual) };
        let event = executable.client.backend.execute(&executable.compiled, &mut launch)?;
        expect_complete(&launch)?;
        finish(&mut launch, &event);
        if let Some(slot) = events.first_mut() {
            *slot = into_raw(event);
        }
        Ok(())
    }

    /// Runs on these devices, whatever the program.
    ///
    /// # Safety
    ///
    /// V2 and V3 for the lists.
    #[inline(never)]
    unsafe fn run_all(
        &self,
        devices: &[usize],
        placements: &[&[Placement]],
        events: &mut [*mut PJRT_Event],
        special: &Special,
    ) -> Result<()> {
        let executable = self.executable;
        // SAFETY: the caller's contract.
        let handles = (0..devices.len()).map(|at| unsafe { self.arguments(at) }).collect::<Result<Vec<_>>>()?;
        let _afterwards = Afterwards(&executable.client);
        let pin = executable.client.ledger.pin(handles.iter().fold(0, |all, handles| all | bits(handles)));
        let open = |at| match &special.callbacks {
            None => Ok(None),
            // SAFETY: the caller's contract.
            Some(callbacks) => unsafe { callbacks.open(at, devices.len()) }.map(Some),
        };
        let opened = (0..devices.len()).map(open).collect::<Result<Vec<_>>>()?;
        let outputs = special.options.output_callbacks().open();
        let mut launches = Vec::with_capacity(devices.len());
        for (at, device) in devices.iter().enumerate() {
            // SAFETY: the caller's contract.
            let list = unsafe { self.outputs(at) }?;
            self.check(*device, handles[at])?;
            let channels = opened[at].as_ref().map_or_else(HostChannels::default, |opened| opened.channels.clone());
            let special = (special.options.clone(), channels);
            // SAFETY: checked, and shown by the pin.
            launches.push(unsafe { self.launch(&pin, *device, placements[at], handles[at], list, special) });
        }
        let done = match launches.as_mut_slice() {
            [launch] => vec![executable.client.backend.execute(&executable.compiled, launch)?],
            launches => executable.client.backend.execute_all(&executable.compiled, launches)?,
        };
        if done.len() != launches.len() {
            let (events, launches) = (done.len(), launches.len());
            return Err(Error::internal(format!("the backend returned {events} events of {launches} launches")));
        }
        for launch in &launches {
            expect_complete(launch)?;
        }
        if let Some((plugin, begun)) = special.profiled {
            for (device, event) in devices.iter().zip(&done) {
                let (device, name) = (*device, executable.executable.info.name.clone());
                event.on_ready(move |_| {
                    profiler::device_activity(Some(begun), plugin, (device, "executions"), name, Vec::new());
                });
            }
        }
        // The framework's callbacks are over before any of its events is ready.
        let outputs = outputs.map(|outputs| outputs.hand_over(&done));
        for (at, ((launch, event), opened)) in launches.iter_mut().zip(done).zip(opened).enumerate() {
            let event = match &outputs {
                None => event,
                Some(outputs) => Event::all([event, outputs.clone()]),
            };
            let event = opened.map_or(event.clone(), |opened| opened.hand_over(&event));
            finish(launch, &event);
            if let Some(slot) = events.get_mut(at) {
                *slot = into_raw(event);
            }
        }
        Ok(())
    }

    /// Runs on these devices, with whatever the framework asks for, and records it while a profile runs.
    ///
    /// # Safety
    ///
    /// V1 to V4 for the arguments, of which the lists are taken.
    #[cold]
    #[inline(never)]
    unsafe fn run_specially<P: DevicePlugin<Backend = B>>(
        &self,
        args: &mut PJRT_LoadedExecutable_Execute_Args,
        devices: &[usize],
        placements: &[&[Placement]],
        events: &mut [*mut PJRT_Event],
        talks: bool,
    ) -> Result<()> {
        // SAFETY: the caller's contract.
        let options = unsafe { read_all(args.options) }?;
        // SAFETY: the caller's contract.
        let callbacks = if talks { Some(unsafe { read_callbacks(args.options) }?) } else { None };
        let mut special = Special { options, callbacks, profiled: None };
        let mut span = profiler::span(slot::PJRT_LoadedExecutable_Execute::NAME).of(P::NAME);
        let _scope = profiler::scope();
        if let Some(begun) = profiler::begun() {
            special.profiled = Some((P::NAME, begun));
            span.note("program", self.executable.executable.info.name.as_str());
            // SAFETY: the caller's contract.
            if let Some(context) = unsafe { recorded::context_id::<slot::PJRT_LoadedExecutable_Execute>(args) } {
                span.note("context_id", context);
            }
        }
        // SAFETY: the caller's contract.
        unsafe { self.run_all(devices, placements, events, &special) }
    }
}

/// For each parameter whether its argument is given up, once the framework kept some.
fn donations<'a, B: Backend>(executable: &'a LoadedExecutable<B>, kept: &[i64]) -> Cow<'a, [bool]> {
    let mut donated = Cow::Borrowed(executable.donated.as_slice());
    for kept in kept {
        if let Some(slot) = usize::try_from(*kept).ok().and_then(|kept| donated.to_mut().get_mut(kept)) {
            *slot = false;
        }
    }
    donated
}

/// The arguments of one device.
///
/// # Safety
///
/// V3 for the list, V2 for the buffers.
#[inline(always)]
unsafe fn handles<'a, B: Backend>(list: *const *mut PJRT_Buffer, len: usize) -> Result<&'a [&'a BufferHandle<B>]> {
    // SAFETY: the caller's contract.
    let list = unsafe { raw::slice(list, len, "argument_lists[i]") }?;
    if let Some(index) = list.iter().position(|buffer| buffer.is_null()) {
        return Err(Error::argument(format!("argument {index} is null")));
    }
    // SAFETY: V2 and V5: buffers that are not null are references to such handles, which last for the call.
    unsafe { raw::slice(list.as_ptr().cast::<&BufferHandle<B>>(), len, "argument_lists[i]") }
}

/// What shows the arguments.
#[inline]
fn bits<B: Backend>(handles: &[&BufferHandle<B>]) -> u64 {
    handles.iter().fold(0, |all, handle| all | handle.bit())
}

/// Drops, once a call no longer shows its arguments, the values of those that others deleted meanwhile.
struct Afterwards<'a, B: Backend>(&'a Client<B>);

impl<B: Backend> Drop for Afterwards<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.left.is_empty() {
            self.0.left.drop_unused(self.0);
        }
    }
}

/// Whether an argument is what the program was compiled for.
#[inline]
fn fits<B: Backend>(argument: &BufferHandle<B>, form: &Form, device: usize, client: &Counted<Client<B>>) -> bool {
    argument.client.is(client)
        && (argument.form == *form || argument.form.is_stored_as(form))
        && argument.placement.device == device
}

/// Why it is not.
#[cold]
fn misfit<B: Backend>(
    index: usize,
    argument: &BufferHandle<B>,
    form: &Form,
    device: usize,
    client: &Counted<Client<B>>,
) -> Error {
    let given = &argument.form;
    Error::argument(if !argument.client.is(client) {
        format!("argument {index} belongs to another client")
    } else if !given.is_stored_as(form) {
        format!("argument {index} is {given}, but the program was compiled for {form}")
    } else {
        format!(
            "argument {index} is on device {}, but the program runs on device {}; copy it there first",
            client.device_id(argument.placement.device),
            client.device_id(device),
        )
    })
}

/// Checks that the backend made all outputs.
#[inline(always)]
fn expect_complete<B: Backend>(launch: &Launch<'_, B>) -> Result<()> {
    if launch.outputs.is_complete() { Ok(()) } else { Err(incomplete(launch)) }
}

#[cold]
fn incomplete<B: Backend>(launch: &Launch<'_, B>) -> Error {
    let (made, all) = launch.outputs.progress();
    Error::internal(format!("the backend returned {made} outputs of a program with {all}"))
}

/// Leaves the outputs to the framework and deletes what it donated.
#[inline(always)]
fn finish<B: Backend>(launch: &mut Launch<'_, B>, event: &Event) {
    launch.inputs.uses().delete_donated();
    launch.outputs.list_mut().finish(event);
}

entries! {
    PJRT_LoadedExecutable_Execute(args, executable) {
        let executable: &LoadedExecutable<P::Backend> = executable;
        if executable.is_deleted() {
            return Err(Error::argument("the executable was deleted"));
        }
        // SAFETY: V1 and V3.
        let Options { launch_id, kept, talks, has_more } = unsafe { read_options(args.options.cast_const()) }?;
        if args.num_args != executable.parameter_forms.len() {
            return Err(Error::argument(format!(
                "{} arguments, but the program has {} parameters",
                args.num_args,
                executable.parameter_forms.len()
            )));
        }
        let chosen = chosen_device(executable, args.execute_device)?;
        let devices = chosen.as_ref().map_or(executable.devices.as_slice(), std::slice::from_ref);
        if args.num_devices != devices.len() {
            return Err(Error::argument(format!(
                "num_devices is {}, but the program runs on {} here",
                args.num_devices,
                devices.len()
            )));
        }
        let argument_lists = match args.num_args {
            0 => &[],
            // SAFETY: V3.
            _ => unsafe { raw::slice(args.argument_lists, devices.len(), "argument_lists") }?,
        };
        let output_lists = match executable.output_forms.len() {
            0 => &[],
            // SAFETY: V3.
            _ => unsafe { raw::slice(args.output_lists, devices.len(), "output_lists") }?,
        };
        let events: &mut [*mut PJRT_Event] = match args.device_complete_events {
            events if events.is_null() => &mut [],
            // SAFETY: V3.
            events => unsafe { raw::slice_mut(events, devices.len(), "device_complete_events") }?,
        };
        let left;
        let donated = if executable.donates {
            left = donations(executable, kept);
            &*left
        } else {
            &[]
        };
        let call = Call { executable, argument_lists, output_lists, donated, launch_id };
        let [device] = *devices else {
            let placements: Vec<_> = executable.placements.iter().map(Vec::as_slice).collect();
            // SAFETY: V1 to V4.
            return unsafe { call.run_specially::<P>(args, devices, &placements, events, talks) };
        };
        let elsewhere;
        let placements = if chosen.is_none() {
            executable.placements[0].as_slice()
        } else {
            elsewhere = executable.placements_on(device)?;
            &*elsewhere
        };
        // The usual execution pays for nothing that it does not use.
        if talks | has_more | profiler::is_recording() {
            // SAFETY: V1 to V4.
            return unsafe { call.run_specially::<P>(args, &[device], &[placements], events, talks) };
        }
        // SAFETY: V2 and V3.
        unsafe { call.run(device, placements, events) }
    }
}

/// Index of the device that the framework chose, if it did.
#[inline]
fn chosen_device<B: Backend>(executable: &LoadedExecutable<B>, device: *mut PJRT_Device) -> Result<Option<usize>> {
    if device.is_null() {
        return Ok(None);
    }
    let device = executable.client.device_index(device)?;
    if !executable.portable && !executable.devices.contains(&device) {
        return Err(Error::argument("execute_device is none of the devices the program was compiled for"));
    }
    Ok(Some(device))
}
