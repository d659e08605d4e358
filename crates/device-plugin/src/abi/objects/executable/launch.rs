//! Starts the launches of one call of `PJRT_LoadedExecutable_Execute`: prepares the arguments for the backend, and
//! passes the outputs to the framework.
//!
//! A call on one device with default options takes the fast path: [`prepare`], the backend, [`finish`]. All other calls
//! take the full path, [`FullLaunch::start`].

use pjrt_sys::PJRT_Buffer;

use crate::abi::lend::{gate, host_channel};
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::executable::handles::LoadedExecutable;
use crate::abi::objects::executable::launch_arguments::LaunchArguments;
use crate::abi::objects::executable::output_list::OutputList;
use crate::abi::objects::executable::pending_arguments;
use crate::abi::reclaim::hazard::Guard;
use crate::features::FeatureCalls;
use crate::{
    Backend, Error, Event, ExecuteOptions, HostChannels, Inputs, Launch, Outputs, Placement, Result, profiler,
};

/// The options of a call on the full path, as the framework passed them.
pub(crate) struct FullRequest {
    pub(crate) options: ExecuteOptions,
    /// The send and receive callbacks of the framework.
    pub(crate) callbacks: Option<host_channel::Callbacks>,
    /// The plugin's name if a profile is being recorded.
    pub(crate) profiled: Option<&'static str>,
}

/// The options and the enabled callbacks of a call on the full path. They borrow nothing from the framework's
/// arguments, because a deferred launch uses them after the framework's call has returned.
pub(crate) struct FullLaunchOptions {
    pub(crate) options: ExecuteOptions,
    /// The channels of each launch. Empty if the framework passed no send or receive callbacks.
    channels: Vec<host_channel::Opened>,
    /// `None` if the framework passed neither output callbacks nor a context.
    gate: Option<gate::Opened>,
    /// The plugin's name if a profile is being recorded.
    profiled: Option<&'static str>,
}

impl FullRequest {
    /// Enables the callbacks of a call that runs on `count` devices.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the lists of the callbacks, and V4 (callbacks) for the callbacks until the events
    /// of the call are ready.
    pub(crate) unsafe fn open(self, count: usize) -> Result<FullLaunchOptions> {
        let Self { options, callbacks, profiled } = self;
        let channels = match callbacks {
            None => Vec::new(),
            Some(callbacks) => {
                // SAFETY: V3 (arrays and text) and V4 (callbacks), which the caller promises.
                let open = |at| unsafe { callbacks.open(at, count) };
                (0..count).map(open).collect::<Result<_>>()?
            }
        };
        let gate = options.open();
        Ok(FullLaunchOptions { options, channels, gate, profiled })
    }
}

/// The launches of one call on the full path, without their arguments.
pub(crate) struct FullLaunch<'a, B: Backend> {
    pub(crate) executable: &'a LoadedExecutable<B>,
    pub(crate) devices: &'a [usize],
    /// For each device, the placements of its outputs.
    pub(crate) placements: &'a [&'a [Placement]],
    /// For each parameter, whether its argument is donated. Empty if no argument is donated.
    pub(crate) donated: &'a [bool],
    /// Whether the launches were deferred, so that the framework's call has already returned.
    pub(crate) is_deferred: bool,
}

impl<B: Backend> FullLaunch<'_, B> {
    /// Passes the launches to the backend and stores the outputs in `lists`. Returns one event for each launch. The
    /// outputs of a launch become ready together with its event. Unless the launch fails, this event waits for
    /// `arguments`, the event of the arguments that are still pending.
    ///
    /// # Errors
    ///
    /// Returns an error if the backend fails. In this case, all outputs are destroyed.
    ///
    /// # Safety
    ///
    /// The requirements of [`prepare`] apply.
    pub(crate) unsafe fn start(
        &self,
        guard: &Guard,
        handles: &[&[&BufferHandle<B>]],
        lists: Vec<&mut [*mut PJRT_Buffer]>,
        options: FullLaunchOptions,
        arguments: &Event,
    ) -> Result<Vec<Event>> {
        let FullLaunchOptions { options, channels: opened, gate, profiled } = options;
        let (executable, client) = (self.executable, &self.executable.client);
        let mut launches = Vec::with_capacity(self.devices.len());
        for (at, list) in lists.into_iter().enumerate() {
            let channels = opened.get(at).map_or_else(HostChannels::default, |opened| opened.channels.clone());
            let (device, placements) = (self.devices[at], self.placements[at]);
            let (arguments, options) = ((handles[at], self.donated), (options.clone(), channels));
            // SAFETY: the arguments passed the checks of the call, which the caller promises.
            launches.push(unsafe { prepare(executable, guard, (device, placements), arguments, list, options) });
        }
        let begun = profiled.and_then(|plugin| Some((plugin, profiler::begun()?)));
        let done = match launches.as_mut_slice() {
            [launch] => vec![client.backend.execute(&executable.compiled, launch)?],
            launches => {
                let _turn = client.order.enter(self.is_deferred);
                client.backend.execute_all(&executable.compiled, launches)?
            }
        };
        if done.len() != launches.len() {
            let (events, launches) = (done.len(), launches.len());
            return Err(Error::internal(format!("the backend returned {events} events for {launches} launches")));
        }
        for launch in &launches {
            expect_complete(launch)?;
        }
        if let Some((plugin, begun)) = begun {
            for (device, event) in self.devices.iter().zip(&done) {
                let (device, name) = (*device, executable.executable.info.name.clone());
                event.on_ready(move |_| {
                    profiler::device_activity(Some(begun), plugin, (device, "executions"), name, Vec::new());
                });
            }
        }
        // All output callbacks, and all handlers in C that may use the context, must have ended before an event of the
        // call becomes ready.
        let ended = gate.map(|gate| gate.hand_over(&done));
        let mut opened = opened.into_iter();
        let finished = launches.iter_mut().zip(done).map(|(launch, event)| {
            let event = match &ended {
                None => event,
                Some(ended) => Event::all([event, ended.clone()]),
            };
            let event = opened.next().map_or(event.clone(), |opened| opened.hand_over(&event));
            let event = pending_arguments::after(arguments, event);
            finish(launch, &event);
            event
        });
        Ok(finished.collect())
    }
}

/// Creates the [`Launch`] that the backend receives for one device. `list` receives the handles of the outputs.
///
/// # Safety
///
/// The arguments, including the donated ones, passed the checks of the call after `guard` published the [`bits`] of the
/// arguments.
#[inline(always)]
pub(crate) unsafe fn prepare<'a, B: Backend>(
    executable: &'a LoadedExecutable<B>,
    guard: &'a Guard,
    (device, placements): (usize, &'a [Placement]),
    (handles, donated): (&'a [&'a BufferHandle<B>], &'a [bool]),
    list: &'a mut [*mut PJRT_Buffer],
    (options, channels): (ExecuteOptions, HostChannels),
) -> Launch<'a, B> {
    // SAFETY: the caller promises that the checks found no deleted argument and no donated buffer that occurs twice.
    let uses = unsafe { LaunchArguments::new(handles, guard, donated) };
    guard.add_outputs(placements.len());
    let program = (&executable.executable.info, executable.output_layouts.as_slice());
    let outputs = Outputs::new(OutputList::new(&executable.client, program, guard, placements, list));
    Launch { inputs: Inputs::new(uses), outputs, device, options, channels }
}

/// Returns an error unless the backend has pushed all outputs of the launch.
#[inline(always)]
pub(crate) fn expect_complete<B: Backend>(launch: &Launch<'_, B>) -> Result<()> {
    if launch.outputs.is_complete() { Ok(()) } else { Err(incomplete(launch)) }
}

#[cold]
fn incomplete<B: Backend>(launch: &Launch<'_, B>) -> Error {
    let (made, all) = launch.outputs.progress();
    Error::internal(format!("the backend returned {made} outputs for a program with {all}"))
}

/// Deletes the donated arguments, and passes the outputs to the framework with `event` as their ready event.
#[inline(always)]
pub(crate) fn finish<B: Backend>(launch: &mut Launch<'_, B>, event: &Event) {
    launch.inputs.uses().delete_donated();
    launch.outputs.list_mut().finish(event);
}

/// Returns the bits of the arguments in the Bloom filter of the hazard domain.
#[inline]
pub(crate) fn bits<B: Backend>(handles: &[&BufferHandle<B>]) -> u64 {
    handles.iter().fold(0, |all, handle| all | handle.bit())
}

/// A guard whose destructor drops the values of buffers that other threads deleted during a launch. Create it before
/// the [`Guard`] of the launch, so that the [`Guard`] is dropped first.
pub(crate) struct ReclaimAfterLaunch<'a, B: Backend>(pub(crate) &'a Client<B>);

impl<B: Backend> Drop for ReclaimAfterLaunch<'_, B> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.retired.is_empty() {
            self.0.retired.drop_unused(self.0);
        }
    }
}
