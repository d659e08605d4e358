//! Connects each run, which is a call of `PJRT_LoadedExecutable_Execute`, with the later calls that use its events or
//! outputs.

use std::collections::HashMap;

use super::log::{READY, RUN, Record};
use crate::function::{Field, Function, Kind};
use crate::generated::FUNCTIONS;

/// A record, its thread, and the run to which its call belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Index of the thread's log.
    pub(super) log: usize,
    pub(super) record: Record,
    /// The number of the run to which the call belongs, or 0 if it does not belong to a run.
    pub(super) flow: u64,
}

impl Step {
    /// Returns the called function, or `None` if the record does not describe a call.
    pub(super) fn function(&self) -> Option<&'static Function> {
        FUNCTIONS.get(usize::from(self.record.id))
    }
}

/// Sorts the records of all threads by start time, numbers the runs, and removes the [`RUN`] records. Later calls that
/// use the events or outputs of a run get the run's number. `fields` contains the recorded fields of each function.
pub(super) fn steps(logs: &[Vec<Record>], fields: &[Vec<&'static Field>]) -> Vec<Step> {
    let mut steps = Vec::new();
    for (log, records) in logs.iter().enumerate() {
        steps.extend(records.iter().map(|record| Step { log, record: *record, flow: 0 }));
    }
    // If two records start at the same time, the outer call comes first, and the outputs of a run come after the run.
    steps.sort_by_key(|step| (step.record.start, step.record.id == RUN, std::cmp::Reverse(step.record.duration)));
    let mut flow_of: HashMap<u64, u64> = HashMap::new();
    let mut runs = 0;
    let mut kept: Vec<Step> = Vec::new();
    for mut step in steps {
        let args = step.record.args;
        match step.record.id {
            RUN => {
                let run = kept.iter_mut().rev().find(|s| s.log == step.log && s.record.start == step.record.start);
                let Some(run) = run else { continue };
                if run.flow == 0 {
                    runs += 1;
                    run.flow = runs;
                }
                flow_of.extend(args.into_iter().filter(|handle| *handle != 0).map(|handle| (handle, run.flow)));
                continue;
            }
            READY => step.flow = flow_of.get(&args[0]).copied().unwrap_or(0),
            id => {
                let Some(function) = FUNCTIONS.get(usize::from(id)) else { continue };
                let fields = &fields[usize::from(id)];
                let handles = || fields.iter().zip(args).filter(|(f, _)| matches!(f.kind, Kind::Handle(_)));
                let found = handles().filter(|(f, _)| !f.output).find_map(|(_, handle)| flow_of.get(&handle));
                step.flow = found.copied().unwrap_or(0);
                if function.destroys().is_some() {
                    flow_of.remove(&args[0]);
                } else if step.flow != 0 && !step.record.failed {
                    let made = handles().filter(|(field, _)| field.output && is_chained(field));
                    flow_of.extend(made.map(|(_, handle)| (handle, step.flow)));
                }
            }
        }
        kept.push(step);
    }
    kept
}

/// Returns whether later calls that use the object in an output field belong to the same run as the call that returned
/// the object. This applies to events and buffers, for example to a copy of a run's output.
fn is_chained(field: &Field) -> bool {
    matches!(field.kind, Kind::Handle("PJRT_Event" | "PJRT_Buffer"))
}
