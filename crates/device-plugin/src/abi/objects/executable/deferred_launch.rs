//! Launches that wait for their arguments.
//!
//! The framework's call returns at once. The outputs are buffers whose values are set later. For each argument, the SDK
//! creates a second buffer with the same value, so that the framework may delete and destroy its own buffer. Donated
//! arguments are deleted during the call, as in any other launch. When the last argument is ready, a thread of the SDK
//! passes the launches to the backend. If an argument fails, the outputs fail too, and the backend is not called.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

use pjrt_sys::{PJRT_Buffer, PJRT_Event, Slot, slot};

use crate::abi::objects::client::at_exit::Awaited;
use crate::abi::objects::client::handle::BufferHandle;
use crate::abi::objects::client::value::Value;
use crate::abi::objects::executable::deferred_launches::{Cancel, lock};
use crate::abi::objects::executable::handles::LoadedExecutable;
use crate::abi::objects::executable::launch::{FullLaunch, FullLaunchOptions, ReclaimAfterLaunch, bits};
use crate::abi::objects::executable::pending_arguments;
use crate::abi::reclaim::hazard::Guard;
use crate::abi::table::event_handle::into_raw;
use crate::contain::{contain_in, drop_contained};
use crate::features::FeatureCalls;
use crate::threads::{COMPLETIONS, LAUNCHES};
use crate::{Backend, Completer, Error, Event, Placement, Result, profiler};

/// The name of the C function in the error messages of a launch.
const EXECUTE: &str = slot::PJRT_LoadedExecutable_Execute::NAME;

/// An argument of a deferred launch. It is a second buffer with the value of the framework's buffer. Only this launch
/// uses the second buffer.
struct Argument<B: Backend>(NonNull<BufferHandle<B>>);

// SAFETY: any thread may use a buffer.
unsafe impl<B: Backend> Send for Argument<B> {}

impl<B: Backend> Argument<B> {
    /// Creates a second buffer with the value of an argument.
    ///
    /// # Safety
    ///
    /// A guard protects the argument, and the argument was not deleted before the guard published it.
    unsafe fn of(argument: &BufferHandle<B>) -> Self {
        // SAFETY: the caller protects the argument with a guard that published it before any deletion.
        let value = unsafe { argument.value() }.clone();
        let (client, ready) = (argument.client.share(), argument.ready.clone());
        Self(BufferHandle::new(client, value, &argument.layout, argument.placement, ready, argument.is_dynamic))
    }

    fn handle(&self) -> &BufferHandle<B> {
        // SAFETY: the buffer lives until this `Argument` is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl<B: Backend> Drop for Argument<B> {
    fn drop(&mut self) {
        let handle = self.0;
        let _ = contain_in(EXECUTE, || {
            // SAFETY: V2 (handles): `of` created the buffer, and this destructor is its last use.
            unsafe { BufferHandle::destroy(handle) };
            Ok(())
        });
    }
}

/// The outputs of a deferred launch on one device. The framework already has the output buffers. This struct sets their
/// values and completes their event.
struct DeferredOutputs<B: Backend> {
    values: Vec<Arc<OnceLock<B::Buffer>>>,
    completer: Completer,
}

impl<B: Backend> DeferredOutputs<B> {
    /// Completes the event of the outputs when `done`, the event of the launch, is ready.
    fn finish(self, done: &Event) {
        let completer = self.completer;
        done.on_ready(move |result| completer.complete_internally(result.clone()));
    }
}

/// The deferred launches of a call, with all data that the backend needs to start them.
struct DeferredLaunch<B: Backend> {
    devices: Vec<usize>,
    placements: Vec<Vec<Placement>>,
    donated: Vec<bool>,
    arguments: Vec<Vec<Argument<B>>>,
    options: Option<FullLaunchOptions>,
    outputs: Vec<DeferredOutputs<B>>,
    awaited: Option<Awaited>,
    /// Declared after the arguments, so that the arguments are dropped first.
    executable: Arc<LoadedExecutable<B>>,
}

impl<B: Backend> DeferredLaunch<B> {
    /// Passes the launches to the backend, and moves the outputs' values into the buffers that the framework has.
    /// Returns one event for each launch.
    fn start(&mut self) -> Result<Vec<Event>> {
        let executable = &*self.executable;
        let client = &*executable.client;
        let _scope = profiler::scope();
        let Some(options) = self.options.take() else {
            return Err(Error::internal("the backend began a launch twice"));
        };
        let handles: Vec<Vec<_>> =
            self.arguments.iter().map(|arguments| arguments.iter().map(Argument::handle).collect()).collect();
        let handles: Vec<_> = handles.iter().map(Vec::as_slice).collect();
        let placements: Vec<_> = self.placements.iter().map(Vec::as_slice).collect();
        let mut lists: Vec<Vec<*mut PJRT_Buffer>> =
            placements.iter().map(|placements| vec![std::ptr::null_mut(); placements.len()]).collect();
        let _afterwards = ReclaimAfterLaunch(client);
        let guard = client.hazards.protect(handles.iter().fold(0, |all, handles| all | bits(handles)));
        // With the feature `queued`, some arguments may still be pending here.
        let arguments = pending_arguments::pending(&handles)?;
        let (devices, donated) = (&*self.devices, &*self.donated);
        let launch = FullLaunch { executable, devices, placements: &placements, donated, is_deferred: true };
        let into = lists.iter_mut().map(Vec::as_mut_slice).collect();
        // SAFETY: the arguments passed the checks of the call, and only this launch can delete them.
        let done = unsafe { launch.start(&guard, &handles, into, options, &arguments) }?;
        for (list, outputs) in lists.into_iter().zip(&self.outputs) {
            for (buffer, place) in list.into_iter().zip(&outputs.values) {
                // SAFETY: the launch created the buffer, and no other code has a reference to it.
                if let Some(value) = unsafe { BufferHandle::<B>::into_value(buffer) } {
                    // Each output belongs to exactly one launch, so the cell is still empty.
                    drop(place.set(value));
                }
            }
        }
        Ok(done)
    }

    fn run(mut self) {
        let begun = contain_in(EXECUTE, || self.start());
        match begun {
            Ok(done) => {
                let outputs = self.release();
                outputs.into_iter().zip(done).for_each(|(outputs, done)| outputs.finish(&done));
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(self, error: &Error) {
        let failed = Event::failed(error.clone().named(EXECUTE));
        self.release().into_iter().for_each(|outputs| outputs.finish(&failed));
    }

    /// Drops all values whose destructors may be vendor code, and returns the outputs. Call this before the outputs
    /// become ready.
    fn release(mut self) -> Vec<DeferredOutputs<B>> {
        let (mut all, awaited) = (std::mem::take(&mut self.outputs), self.awaited.take());
        for outputs in &mut all {
            drop_contained(std::mem::take(&mut outputs.values));
        }
        drop_contained(self);
        drop(awaited);
        all
    }
}

/// The place of a deferred launch. It is empty after one thread has taken the launch to run it or to fail it.
struct DeferredSlot<B: Backend> {
    number: u64,
    launch: Mutex<Option<DeferredLaunch<B>>>,
}

impl<B: Backend> DeferredSlot<B> {
    fn take(&self) -> Option<DeferredLaunch<B>> {
        let launch = lock(&self.launch).take()?;
        launch.executable.client.deferred.remove(self.number);
        Some(launch)
    }

    /// Runs the launch if its arguments are ready, or fails it if an argument has failed. The current thread may belong
    /// to a driver or to the framework, so the work is done on a thread of the SDK.
    fn arrived(self: &Arc<Self>, result: &Result<()>) {
        let this = Arc::clone(self);
        match result {
            Err(error) => {
                let error = error.clone();
                COMPLETIONS.submit_or_run(Box::new(move || {
                    if let Some(launch) = this.take() {
                        launch.fail(&error);
                    }
                }));
            }
            Ok(()) => {
                let job = move || {
                    if let Some(launch) = this.take() {
                        launch.run();
                    }
                };
                if LAUNCHES.submit(Box::new(job)).is_err()
                    && let Some(launch) = self.take()
                {
                    launch.fail(&Error::resource_exhausted(
                        "the system cannot start a thread for the launch; raise the limit on threads",
                    ));
                }
            }
        }
    }
}

impl<B: Backend> Cancel for DeferredSlot<B> {
    fn cancel(&self, error: &Error) -> bool {
        let launch = self.take();
        let is_cancelled = launch.is_some();
        if let Some(launch) = launch {
            launch.fail(error);
        }
        is_cancelled
    }
}

/// The arrays that receive the output buffers and the events of a call.
pub(crate) struct Results<'a> {
    pub(crate) lists: Vec<&'a mut [*mut PJRT_Buffer]>,
    pub(crate) events: &'a mut [*mut PJRT_Event],
}

/// Defers launches until `missing`, the event of the pending arguments, is ready. The launches then start on a thread
/// of the SDK. The output buffers and their events are stored in `results` at once.
///
/// # Safety
///
/// The arguments, including the donated ones, passed the checks of the call after `guard` published the [`bits`] of the
/// arguments.
pub(crate) unsafe fn defer<B: Backend>(
    executable: Arc<LoadedExecutable<B>>,
    launch: &FullLaunch<'_, B>,
    (guard, handles): (&Guard, &[&[&BufferHandle<B>]]),
    results: Results<'_>,
    options: FullLaunchOptions,
    missing: &Event,
) {
    // Clone the values and query the backend before any state changes, because vendor code may panic.
    let arguments = handles.iter().map(|handles| {
        // SAFETY: the arguments passed the checks of the call, which the caller promises.
        let argument = |handle: &&BufferHandle<B>| unsafe { Argument::of(*handle) };
        handles.iter().map(argument).collect()
    });
    let arguments = arguments.collect();
    let compiled = &executable.compiled;
    let output = |index| executable.client.backend.is_dynamic_output(compiled, index);
    let is_dynamic: Vec<bool> = (0..executable.output_layouts.len()).map(output).collect();
    let mut deferred = DeferredLaunch {
        devices: launch.devices.to_vec(),
        placements: launch.placements.iter().map(|placements| placements.to_vec()).collect(),
        donated: launch.donated.to_vec(),
        arguments,
        outputs: Vec::with_capacity(launch.devices.len()),
        awaited: None,
        options: Some(options),
        executable,
    };
    let client = &deferred.executable.client;
    let mut slots = results.events.iter_mut();
    for (list, placements) in results.lists.into_iter().zip(&deferred.placements) {
        let (ready, completer) = Event::pending();
        let outputs = list.iter_mut().zip(&deferred.executable.output_layouts).zip(placements).zip(&is_dynamic);
        let values = outputs.map(|(((slot, layout), placement), is_dynamic)| {
            let place = Arc::new(OnceLock::new());
            let value = Value::Later(Arc::clone(&place));
            let handle = BufferHandle::new(client.share(), value, layout, *placement, ready.clone(), *is_dynamic);
            *slot = handle.as_ptr().cast();
            place
        });
        deferred.outputs.push(DeferredOutputs { values: values.collect(), completer });
        if let Some(slot) = slots.next() {
            *slot = into_raw(ready);
        }
    }
    for handles in handles {
        for (handle, _) in handles.iter().zip(&deferred.donated).filter(|(_, donated)| **donated) {
            handle.delete(Some(guard));
        }
    }
    let client = client.share();
    deferred.awaited = client.at_exit.await_launch();
    let launch_id = deferred.options.as_ref().map_or(0, |options| options.options.launch_id);
    let devices = deferred.devices.clone();
    let launch = Mutex::new(Some(deferred));
    let slot = client.deferred.add(devices, launch_id, |number| DeferredSlot { number, launch });
    missing.on_ready(move |result| slot.arrived(result));
}
