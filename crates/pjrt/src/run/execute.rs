//! `PJRT_LoadedExecutable_Execute`: runs programs. A run is one execution of a program.

use std::borrow::Cow;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::Layout;
use smallvec::SmallVec;

use crate::error::Error;
use crate::layout;
use crate::objects::buffer::Buffer;
use crate::objects::device::Device;
use crate::objects::event::Event;
use crate::objects::loaded_executable::LoadedExecutable;
use crate::run::execute_options::{ExecuteOptions, FullOptions};
use crate::run::outputs::Outputs;
use crate::run::parameter::Parameter;
use crate::run::run_callbacks::CallbackArguments;
use crate::table::read::{self, Malformed};
use crate::table::send_ptr::SendPtr;

/// An argument of a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input<'a> {
    /// The program reads the buffer without changing it, even if the program could update this argument in place.
    Borrow(&'a Buffer),
    /// The program may reuse the buffer's memory for its outputs. The buffer is deleted even if the program does not
    /// reuse the memory.
    Donate(Buffer),
}

impl<'a> From<&'a Buffer> for Input<'a> {
    fn from(buffer: &'a Buffer) -> Self {
        Self::Borrow(buffer)
    }
}

impl From<Buffer> for Input<'_> {
    fn from(buffer: Buffer) -> Self {
        Self::Donate(buffer)
    }
}

/// The results of a run on one device.
#[derive(Debug)]
#[non_exhaustive]
pub struct Execution {
    /// The outputs. They may not be ready yet.
    pub outputs: Outputs,
    /// An event that becomes ready when the run has ended.
    pub done: Event,
}

/// The results of a run on several devices.
#[derive(Debug)]
#[non_exhaustive]
pub struct ShardedExecution {
    /// The outputs of each device. They may not be ready yet.
    pub outputs: Vec<Outputs>,
    /// For each device, an event that becomes ready when the run has ended.
    pub done: Vec<Event>,
}

/// Pointers to the arguments or outputs of one device. Up to 32 pointers need no allocation.
type Pointers = SmallVec<[*mut PJRT_Buffer; 32]>;

/// Indices of arguments. Up to 32 indices need no allocation.
type Indices = SmallVec<[i64; 32]>;

/// Returns the number of inputs for which to reserve memory. The number is at most 4096, because an iterator may report
/// any lower bound.
fn expected(inputs: &impl Iterator) -> usize {
    inputs.size_hint().0.min(4096)
}

/// Returns the indices from 0 to `len - 1`. These are the indices of the non-donatable inputs of a run that donates
/// nothing.
#[inline]
fn indices(len: usize) -> Cow<'static, [i64]> {
    static INDICES: [i64; 128] = {
        let mut indices = [0; 128];
        let mut i = 0;
        while i < 128 {
            indices[i] = i as i64;
            i += 1;
        }
        indices
    };
    match INDICES.get(..len) {
        Some(indices) => Cow::Borrowed(indices),
        None => Cow::Owned((0i64..).take(len).collect()),
    }
}

/// Arguments of `PJRT_LoadedExecutable_Execute` other than the lists of buffers and events. `keep` contains the indices
/// of the arguments that the run must not donate.
struct Launch<'a> {
    num_args: usize,
    keep: &'a [i64],
    options: Option<&'a ExecuteOptions>,
}

impl LoadedExecutable {
    /// Runs a program that was compiled for a single device. The input buffers do not change and can be used again
    /// immediately.
    ///
    /// The outputs may not be ready when this function returns. Operations that use their contents wait.
    ///
    /// # Errors
    ///
    /// Before it calls the plugin, this function returns an error if an argument belongs to another client or device,
    /// has been deleted, or does not have the layout of the parameter. If the plugin reports the program's parameters
    /// ([`LoadedExecutable::parameters`]), it also returns an error if the number of arguments or a shape is wrong.
    /// Parameters whose layout is unknown are assumed to be row-major. These errors have the code `INVALID_ARGUMENT`.
    #[doc(alias = "PJRT_LoadedExecutable_Execute")]
    pub fn execute(&self, inputs: &[&Buffer]) -> Result<Outputs, Error> {
        let device = self.only_device(None)?;
        let mut arguments = Pointers::new();
        self.check_each(inputs, device, &mut arguments)?;
        // SAFETY: `check_each` accepted every argument.
        unsafe { self.run_one(device, &arguments, &indices(inputs.len()), None) }.map(|(outputs, _)| outputs)
    }

    /// Runs a program like [`LoadedExecutable::execute`], but passes the outputs to `each` instead of making a list of
    /// them. If `each` panics, the outputs after this one are leaked.
    #[doc(hidden)]
    #[inline]
    pub fn execute_each(&self, inputs: &[&Buffer], mut each: impl FnMut(Buffer)) -> Result<(), Error> {
        let owner = self.handle().owner();
        let device = self.only_device(None)?;
        let mut arguments = Pointers::new();
        self.check_each(inputs, device, &mut arguments)?;
        let mut outputs = Pointers::new();
        (0..self.num_outputs()).for_each(|_| outputs.push(ptr::null_mut()));
        let mut event = [ptr::null_mut::<PJRT_Event>()];
        let events = if owner.tracks_runs() { &mut event[..] } else { &mut [] };
        let launch = Launch { num_args: inputs.len(), keep: &indices(inputs.len()), options: None };
        // SAFETY: `check_each` accepted every argument, and the lists have the lengths of the inputs and outputs.
        unsafe { self.launch(&launch, &[arguments.as_ptr()], &[outputs.as_mut_ptr()], events) }?;
        if let Some(done) = NonNull::new(event[0]) {
            // SAFETY: C3 (objects): the plugin created the event for this caller.
            unsafe { Event::new(done, owner.clone()) }.track(0);
        }
        if outputs.iter().any(|raw| raw.is_null()) {
            // Destroys the other outputs, and returns an error.
            // SAFETY: the call succeeded, so the plugin filled the list.
            return unsafe { self.take_outputs(&outputs, device) }.map(drop);
        }
        for raw in outputs.iter().filter_map(|raw| NonNull::new(*raw)) {
            // SAFETY: C7 (runs): the plugin created the buffer for this caller.
            each(unsafe { Buffer::new(raw, owner.clone(), device) });
        }
        Ok(())
    }

    /// Runs a program on a single device. Inputs can be donated, `options` apply to the run, and an event reports the
    /// end of the run.
    ///
    /// The inputs are an array, a vector or another iterator, such as
    /// `cache.map(Input::Donate).chain(weights.iter().map(Input::Borrow))`. An iterator avoids building a list of
    /// inputs for each run.
    ///
    /// # Errors
    ///
    /// The errors of [`LoadedExecutable::execute`] apply. Donated buffers are dropped even if the call fails.
    pub fn execute_with<'a>(
        &self,
        inputs: impl IntoIterator<Item = Input<'a>>,
        options: &ExecuteOptions,
    ) -> Result<Execution, Error> {
        let mut inputs = (0i64..).zip(inputs);
        let device = self.only_device(options.device.as_ref())?;
        let mut arguments = Pointers::new();
        arguments.reserve(expected(&inputs));
        // The indices of the borrowed inputs. The list stays empty until the first donated input, because a run that
        // donates nothing uses the static list of `indices` instead.
        let mut kept = Indices::new();
        let mut donated: SmallVec<[Buffer; 32]> = SmallVec::new();
        while let Some((index, input)) = inputs.next() {
            arguments.push(self.check_input(arguments.len(), &input, device)?);
            match input {
                Input::Borrow(_) if donated.is_empty() => {}
                Input::Borrow(_) => kept.push(index),
                Input::Donate(buffer) => {
                    if donated.is_empty() {
                        kept.extend(0..index);
                    }
                    if donated.len() == donated.capacity() {
                        donated.reserve(1 + expected(&inputs));
                    }
                    donated.push(buffer);
                }
            }
        }
        self.check_count(arguments.len())?;
        let kept = if donated.is_empty() { indices(arguments.len()) } else { Cow::Borrowed(&kept[..]) };
        // SAFETY: `check` accepted every argument. The caller keeps the borrowed buffers alive, and `donated` keeps the
        // donated buffers alive.
        let run = unsafe { self.run_one(device, &arguments, &kept, Some(options)) };
        // Drop the donated buffers, even if the plugin did not consume them.
        drop(donated);
        let (outputs, done) = run?;
        let name = slot::PJRT_LoadedExecutable_Execute::NAME;
        let done = done.ok_or_else(|| Error::malformed(name, Malformed("no event for the run")))?;
        Ok(Execution { outputs, done })
    }

    /// Runs the program on all its addressable devices. `inputs` contains one list of inputs for each device, in the
    /// order of [`LoadedExecutable::addressable_devices`].
    ///
    /// If the input at an index is borrowed on one device, the inputs at this index are not donated on the other
    /// devices either. PJRT has one list of such indices for all devices.
    ///
    /// # Errors
    ///
    /// The errors of [`LoadedExecutable::execute_with`] apply. Also returns an error if the number of lists differs
    /// from the number of devices, if the lists have different lengths, or if the options select a device.
    pub fn execute_sharded(
        &self,
        inputs: Vec<Vec<Input<'_>>>,
        options: &ExecuteOptions,
    ) -> Result<ShardedExecution, Error> {
        let devices = self.addressable_devices();
        if options.device.is_some() {
            return Err(Error::invalid("a run on all devices cannot select one device; use execute_with"));
        }
        if devices.is_empty() || inputs.len() != devices.len() {
            let (lists, devices) = (inputs.len(), devices.len());
            return Err(Error::invalid(format!("the program runs on {devices} devices, but has inputs for {lists}")));
        }
        let devices: Vec<_> = devices.iter().map(|device| Some(device.raw())).collect();
        self.run_all(inputs, &devices, options)
    }

    /// Runs the program on one device. Also returns the event for the end of the run if `options` is set or if the
    /// client tracks its runs.
    ///
    /// # Safety
    ///
    /// The arguments are live buffers of this client that `check` accepted.
    #[inline]
    unsafe fn run_one(
        &self,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
        arguments: &[*mut PJRT_Buffer],
        keep: &[i64],
        options: Option<&ExecuteOptions>,
    ) -> Result<(Outputs, Option<Event>), Error> {
        let num_args = arguments.len();
        let launch = Launch { num_args, keep, options };
        let mut outputs = Pointers::new();
        (0..self.num_outputs()).for_each(|_| outputs.push(ptr::null_mut()));
        let mut event = [ptr::null_mut::<PJRT_Event>()];
        let tracked = self.handle().owner().tracks_runs();
        let events = if options.is_some() || tracked { &mut event[..] } else { &mut [] };
        // SAFETY: this function's contract: the arguments are live, and the list has `launch.num_args` of them.
        let callbacks = unsafe { self.launch(&launch, &[arguments.as_ptr()], &[outputs.as_mut_ptr()], events) }?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        let done = NonNull::new(event[0]).map(|raw| unsafe { Event::new(raw, self.handle().owner().clone()) });
        if tracked && let Some(done) = &done {
            done.track(options.map_or(0, |options| options.launch_id));
        }
        if let Some(options) = options {
            // Keep the context and the callbacks before checking the outputs, because the run may use them even if the
            // outputs are invalid.
            options.keep(callbacks, done.as_ref());
        }
        // SAFETY: the call succeeded, so the plugin filled the list.
        Ok((unsafe { self.take_outputs(&outputs, device) }?, done))
    }

    fn run_all(
        &self,
        inputs: Vec<Vec<Input<'_>>>,
        devices: &[Option<SendPtr<NonNull<PJRT_Device>>>],
        options: &ExecuteOptions,
    ) -> Result<ShardedExecution, Error> {
        let num_args = inputs.first().map_or(0, Vec::len);
        let mut arguments: Vec<Vec<*mut PJRT_Buffer>> = Vec::with_capacity(inputs.len());
        let mut borrowed = vec![false; num_args];
        for (list, device) in inputs.iter().zip(devices) {
            self.check_count(list.len())?;
            if list.len() != num_args {
                return Err(Error::invalid("the devices have different numbers of inputs"));
            }
            let mut pointers = Vec::with_capacity(num_args);
            for (index, input) in list.iter().enumerate() {
                pointers.push(self.check_input(index, input, *device)?);
                borrowed[index] |= matches!(input, Input::Borrow(_));
            }
            arguments.push(pointers);
        }
        let keep: Vec<i64> = (0i64..).zip(&borrowed).filter_map(|(i, borrowed)| borrowed.then_some(i)).collect();
        let lists: Vec<_> = arguments.iter().map(|list| list.as_ptr()).collect();
        let mut outputs = vec![vec![ptr::null_mut::<PJRT_Buffer>(); self.num_outputs()]; devices.len()];
        let places: Vec<_> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events = vec![ptr::null_mut::<PJRT_Event>(); devices.len()];
        let launch = Launch { num_args, keep: &keep, options: Some(options) };
        // SAFETY: `check` accepted every argument, and each list has `launch.num_args` of them.
        let launched = unsafe { self.launch(&launch, &lists, &places, &mut events) };
        // Drop the donated buffers, even if the plugin did not consume them. The plugin does not free memory that the
        // run still uses.
        drop(inputs);
        let callbacks = launched?;
        let name = slot::PJRT_LoadedExecutable_Execute::NAME;
        let mut execution = ShardedExecution { outputs: Vec::new(), done: Vec::new() };
        let mut broken = None;
        for event in events {
            match read::object(event) {
                // SAFETY: C3 (objects): the plugin created the event for this caller.
                Ok(raw) => execution.done.push(unsafe { Event::new(raw, self.handle().owner().clone()) }),
                Err(why) => {
                    options.keep(callbacks.clone(), None);
                    broken = Some(Error::malformed(name, why));
                }
            }
        }
        execution.done.iter().for_each(|run| options.keep(callbacks.clone(), Some(run)));
        if self.handle().owner().tracks_runs() {
            execution.done.iter().for_each(|run| run.track(options.launch_id));
        }
        for (list, device) in outputs.iter().zip(devices) {
            // SAFETY: the call succeeded, so the plugin filled the list.
            match unsafe { self.take_outputs(list, *device) } {
                Ok(outputs) => execution.outputs.push(outputs),
                Err(why) => broken = Some(why),
            }
        }
        broken.map_or(Ok(execution), Err)
    }

    /// Returns `chosen` if it is set, and otherwise the only device of the program. Returns `None` if the plugin does
    /// not report the program's devices, and an error if the program runs on several devices.
    #[inline]
    fn only_device(&self, chosen: Option<&Device>) -> Result<Option<SendPtr<NonNull<PJRT_Device>>>, Error> {
        if let Some(device) = chosen {
            if !Arc::ptr_eq(device.handle().owner(), self.handle().owner()) {
                return Err(Error::invalid("the device to run on belongs to another client than the program"));
            }
            return Ok(Some(device.raw()));
        }
        match self.addressable_devices() {
            [] => Ok(None),
            [device] => Ok(Some(device.raw())),
            devices => {
                let n = devices.len();
                Err(Error::invalid(format!("the program runs on {n} devices; use execute_sharded")))
            }
        }
    }

    /// Adds the raw pointers of the inputs to `arguments`, or returns an error if an input is not valid.
    #[inline(always)]
    fn check_each(
        &self,
        inputs: &[&Buffer],
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
        arguments: &mut Pointers,
    ) -> Result<(), Error> {
        self.check_count(inputs.len())?;
        for (index, input) in inputs.iter().enumerate() {
            arguments.push(self.check(index, input, device)?);
        }
        Ok(())
    }

    #[inline]
    fn check_count(&self, found: usize) -> Result<(), Error> {
        match self.checked_parameters() {
            Some(parameters) if parameters.len() != found => {
                let expected = parameters.len();
                Err(Error::invalid(format!("the program has {expected} parameters, but {found} arguments were given")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the raw pointer of the input's buffer, or an error if the buffer is not valid as argument `index`.
    #[inline]
    fn check_input(
        &self,
        index: usize,
        input: &Input<'_>,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Result<*mut PJRT_Buffer, Error> {
        match input {
            Input::Borrow(buffer) => self.check(index, buffer, device),
            Input::Donate(buffer) => {
                let parameter = self.checked_parameters().and_then(|all| all.get(index));
                if parameter.is_some_and(Parameter::has_non_default_layout)
                    || !self.owns(buffer)
                    || !buffer.is_plain(parameter.and_then(Parameter::shape))
                {
                    return self.check(index, buffer, device);
                }
                self.check_device(index, buffer, device)?;
                Ok(buffer.handle().as_ptr())
            }
        }
    }

    /// Returns whether the buffer belongs to the program's client.
    #[inline]
    fn owns(&self, buffer: &Buffer) -> bool {
        Arc::ptr_eq(buffer.handle().owner(), self.handle().owner())
    }

    /// Returns the buffer's raw pointer, or an error if the buffer is not valid as argument `index`. Does not call the
    /// plugin if the buffer has cached the properties to check.
    #[inline(always)]
    fn check(
        &self,
        index: usize,
        buffer: &Buffer,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Result<*mut PJRT_Buffer, Error> {
        let parameter = self.checked_parameters().and_then(|all| all.get(index));
        if self.owns(buffer)
            && buffer.is_known_plain(parameter.and_then(Parameter::shape))
            && !parameter.is_some_and(Parameter::has_non_default_layout)
            && device.is_none_or(|device| buffer.is_known_on(device))
        {
            return Ok(buffer.handle().as_ptr());
        }
        self.check_all(index, buffer, device)
    }

    /// Like [`Self::check`], but queries properties from the plugin. The buffer caches its shape, layout and device for
    /// the next run.
    #[inline(never)]
    fn check_all(
        &self,
        index: usize,
        buffer: &Buffer,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Result<*mut PJRT_Buffer, Error> {
        if !self.owns(buffer) {
            return Err(Error::invalid(format!("argument {index} belongs to another client than the program")));
        }
        let raw = buffer.live().map_err(|error| Error::invalid(format!("argument {index}: {}", error.message())))?;
        let parameter = self.checked_parameters().and_then(|all| all.get(index));
        if let Some(expected) = parameter.and_then(Parameter::shape) {
            let found = buffer.shape()?;
            if found != expected {
                return Err(Error::invalid(format!("argument {index} is {found}, but the program expects {expected}")));
            }
        }
        // Plugins do not check the layout. They read memory of any layout as if it had the parameter's layout.
        if buffer.non_default_layout().is_some() || parameter.is_some_and(Parameter::has_non_default_layout) {
            check_layout(index, buffer, parameter)?;
        }
        self.check_device(index, buffer, device)?;
        Ok(raw.as_ptr())
    }

    #[inline]
    fn check_device(
        &self,
        index: usize,
        buffer: &Buffer,
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Result<(), Error> {
        match (device, buffer.device_raw()) {
            (Some(expected), Ok(found)) if expected != found => Err(self.wrong_device(index, buffer, expected)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn wrong_device(&self, index: usize, buffer: &Buffer, expected: SendPtr<NonNull<PJRT_Device>>) -> Error {
        let id = |device: Result<Device, Error>| {
            device.and_then(|device| device.id()).map_or("?".to_owned(), |id| id.to_string())
        };
        // SAFETY: C3 (objects): the device belongs to the program's client.
        let expected = id(Ok(unsafe { Device::new(expected.0, self.handle().owner().clone()) }));
        let found = id(buffer.device());
        Error::invalid(format!("argument {index} is on device {found}, but the program runs on device {expected}"))
    }

    /// Calls `PJRT_LoadedExecutable_Execute`. Returns the arguments of the run's callbacks. They must live until the
    /// run has ended. Returns `None` if the run has no callbacks.
    ///
    /// # Safety
    ///
    /// Each list of `arguments` has `launch.num_args` live buffers of this client. Each list of `outputs` has an
    /// element for each output. `outputs` has as many lists as `arguments`. `events` is empty or has an element for
    /// each list.
    #[inline(always)]
    unsafe fn launch(
        &self,
        launch: &Launch<'_>,
        arguments: &[*const *mut PJRT_Buffer],
        outputs: &[*mut *mut PJRT_Buffer],
        events: &mut [*mut PJRT_Event],
    ) -> Result<Option<Arc<CallbackArguments>>, Error> {
        let _span = tracing::trace_span!("execute", program = self.traced_name(), devices = arguments.len()).entered();
        let mut full = None;
        let mut options = PJRT_ExecuteOptions::new();
        options.struct_size = self.handle().api().execute_options_size();
        options.non_donatable_input_indices = launch.keep.as_ptr();
        options.num_non_donatable_input_indices = launch.keep.len();
        let mut args = PJRT_LoadedExecutable_Execute_Args::new();
        if let Some(given) = launch.options {
            options.launch_id = given.launch_id;
            options.call_location = given.call_location.as_ref().map_or(ptr::null(), |text| text.as_ptr());
            if let Some(context) = &given.context {
                if !ptr::eq(context.handle().api(), self.handle().api()) {
                    return Err(Error::invalid("the execute context belongs to another plugin than the program"));
                }
                options.context = context.handle().as_ptr();
            }
            if given.has_full_options() {
                full = Some(given.fill_full_options(&mut options, self.handle().owner(), arguments.len())?);
            }
            args.execute_device = given.device.as_ref().map_or(ptr::null_mut(), |device| device.handle().as_ptr());
        }
        args.executable = self.live()?.as_ptr();
        args.options = &raw mut options;
        args.argument_lists = arguments.as_ptr();
        args.num_devices = arguments.len();
        args.num_args = launch.num_args;
        args.output_lists = outputs.as_ptr();
        if !events.is_empty() {
            args.device_complete_events = events.as_mut_ptr();
        }
        // SAFETY: C2 (calls), C7 (runs): the executable is live, the lists have the lengths in `args`, and all lists
        // live through the call. After a failed call no callback of the run is called (C10).
        let called = unsafe { self.handle().api().call::<slot::PJRT_LoadedExecutable_Execute>(&mut args) };
        if let Err(error) = called {
            // SAFETY: the arguments are those of the failed call.
            unsafe { self.free_and_launch(error, &mut args) }?;
        }
        Ok(full.and_then(FullOptions::into_callbacks))
    }

    /// Takes ownership of the outputs of one device.
    ///
    /// # Safety
    ///
    /// Each pointer in `raw` is null or a buffer of this client that the caller owns.
    #[inline]
    unsafe fn take_outputs(
        &self,
        raw: &[*mut PJRT_Buffer],
        device: Option<SendPtr<NonNull<PJRT_Device>>>,
    ) -> Result<Outputs, Error> {
        // SAFETY: C7 (runs) and this function's contract: the plugin created the buffers for this caller.
        unsafe { Outputs::take(raw, self.handle().owner().clone(), device) }.ok_or_else(|| {
            let name = slot::PJRT_LoadedExecutable_Execute::NAME;
            Error::malformed(name, Malformed("a null pointer for an output"))
        })
    }
}

/// Returns an error if the layouts of the buffer and of the parameter are not equivalent. An unknown layout counts as
/// row-major.
#[cold]
fn check_layout(index: usize, buffer: &Buffer, parameter: Option<&Parameter>) -> Result<(), Error> {
    let dimensions = buffer.dimensions()?;
    // The default layout of buffers and parameters is row-major.
    let row_major = Layout::row_major(dimensions.len());
    let found = buffer.non_default_layout().unwrap_or(&row_major);
    let expected = parameter.and_then(Parameter::layout).unwrap_or(&row_major);
    if layout::is_same(found, expected, dimensions) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "argument {index} has the layout {found}, but the program expects {expected}; compile the program for {found}, \
         or produce the argument with {expected}"
    )))
}
