//! The layer `trace`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pjrt_sys::slot;

use super::log::{ARGS, Log, READY, RUN, Record};
use super::recording::{Outputs, Recording};
use super::report;
use crate::core::{Call, Plugin};
use crate::function::Function;
use crate::layer::{Layer, Outcome, Step};

/// Maximum number of failed calls whose errors the layer keeps. The limit bounds the memory of a program with many
/// failing calls.
const MAX_ERRORS: usize = 1000;

/// The layer `trace`, which records every call in a ring buffer of the calling thread.
#[derive(Debug)]
pub struct Trace {
    /// Identifies this layer among all `Trace` layers of the process.
    number: u64,
    recording: Recording,
    /// The output count of each loaded executable.
    outputs_of: RwLock<HashMap<usize, usize>>,
}

thread_local! {
    /// This thread's logs, each with the `number` of its layer.
    static LOGS: RefCell<Vec<(u64, Arc<Log>)>> = const { RefCell::new(Vec::new()) };
}

impl Trace {
    /// Creates the layer.
    #[must_use]
    pub fn new(outputs: Outputs) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            recording: Recording::new(outputs),
            outputs_of: RwLock::default(),
        }
    }

    #[inline]
    fn with_log(&self, run: impl FnOnce(&Log)) {
        // While a thread ends, its logs may already be freed. In this case, the last calls are not recorded.
        let _ = LOGS.try_with(|logs| {
            if logs.borrow().first().is_none_or(|(number, _)| *number != self.number) {
                self.find_log(logs);
            }
            if let Some((_, log)) = logs.borrow().first() {
                run(log);
            }
        });
    }

    /// Finds the log of this layer and this thread, or creates the log. Moves it to the front of `logs`, where the next
    /// call finds it.
    #[cold]
    fn find_log(&self, logs: &RefCell<Vec<(u64, Arc<Log>)>>) {
        let mut logs = logs.borrow_mut();
        let at = logs.iter().position(|(number, _)| *number == self.number).unwrap_or_else(|| {
            let capacity = if self.recording.outputs.calls_per_thread == 0 {
                1 << 18
            } else {
                self.recording.outputs.calls_per_thread
            };
            let log = Arc::new(Log::new(capacity));
            self.recording.logs.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&log));
            logs.push((self.number, log));
            logs.len() - 1
        });
        logs.swap(0, at);
    }

    /// Records the handles of the events and outputs of a run. The reports use them to connect later calls to the run.
    fn record_run(&self, call: &Call, start: u64, log: &Log) {
        let Some(run) = call.execution() else { return };
        let mut handles = run.events();
        handles.extend(run.outputs(self.outputs_of(call.plugin(), run.executable())));
        for some in handles.chunks(ARGS) {
            let mut args = [0; ARGS];
            for (arg, handle) in args.iter_mut().zip(some) {
                *arg = *handle as u64;
            }
            log.push(&Record { start, duration: 0, id: RUN, failed: false, args });
        }
    }

    fn outputs_of(&self, plugin: &Plugin, executable: usize) -> usize {
        let known = self.outputs_of.read().unwrap_or_else(PoisonError::into_inner).get(&executable).copied();
        known.unwrap_or_else(|| {
            let count = plugin.output_count(executable).unwrap_or(0);
            self.outputs_of.write().unwrap_or_else(PoisonError::into_inner).insert(executable, count);
            count
        })
    }
}

impl Layer for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn wants(&self, _: &Function) -> bool {
        true
    }

    #[inline]
    fn before(&self, call: &mut Call) -> Step {
        if call.is::<slot::PJRT_LoadedExecutable_Destroy>() {
            let executable = call.address_of("executable");
            self.outputs_of.write().unwrap_or_else(PoisonError::into_inner).remove(&executable);
        }
        Step::Continue(self.recording.clock.now())
    }

    #[inline]
    fn after(&self, call: &mut Call, start: u64, outcome: Outcome) {
        let duration = self.recording.clock.now().saturating_sub(start);
        let mut args = [0; ARGS];
        for (arg, field) in args.iter_mut().zip(&self.recording.fields[call.id()]) {
            *arg = call.word(field);
        }
        let failed = outcome.failed();
        let id = u16::try_from(call.id()).unwrap_or(READY);
        self.with_log(|log| {
            log.counters.add(call.id(), duration, failed);
            log.push(&Record { start, duration, id, failed, args });
            if failed {
                let mut errors = self.recording.errors.lock().unwrap_or_else(PoisonError::into_inner);
                if errors.len() < MAX_ERRORS
                    && let Some(error) = outcome.error()
                {
                    errors.insert((start, log.thread), error);
                }
            } else if call.is::<slot::PJRT_LoadedExecutable_Execute>() {
                self.record_run(call, start, log);
            }
        });
        if call.is::<slot::PJRT_Client_Destroy>() {
            report::write_files(&self.recording);
        }
    }

    fn watches_events(&self) -> bool {
        true
    }

    fn ready(&self, event: usize, failed: bool) {
        let start = self.recording.clock.now();
        let mut args = [0; ARGS];
        args[0] = event as u64;
        self.with_log(|log| log.push(&Record { start, duration: 0, id: READY, failed, args }));
    }

    fn exit(&self) {
        report::write_files(&self.recording);
        report::write_tally(&self.recording);
    }
}
