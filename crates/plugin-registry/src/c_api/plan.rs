//! `dp_plan`: what a plugin needs of one process.

use device_plugin::EnvPlan;
use device_plugin::describe::capabilities::dp_string;
use device_plugin::process::{Before, EnvStep, SetMode};
use pjrt::ErrorCode;

use crate::{PluginEntry, Status};

use super::error::{dp_code, dp_error};
use super::guard::{self, Call, Failure};
use super::options::dp_options;
use super::sized::StructSize;
use super::text::{NO_TEXT, Text};

/// What a plugin needs of one process: environment variables, options of the client, a coordinator. It is data; only
/// `dp_plan_apply` sets anything.
pub struct dp_plan {
    plan: EnvPlan,
    entry: PluginEntry,
    steps: Vec<Step>,
    options: dp_options,
    coordinator: Option<Text>,
    json: Text,
    shown: Text,
}

struct Step {
    variable: Text,
    value: Text,
    current: Option<Text>,
    reason: Text,
    flags: u32,
}

impl Step {
    fn new(step: &EnvStep) -> Self {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = flag(step.effect.changes(), DP_STEP_CHANGES)
            | flag(step.before == Before::Load, DP_STEP_BEFORE_LOAD)
            | flag(step.set == SetMode::Override, DP_STEP_OVERRIDES);
        Self {
            variable: Text::new(&step.variable),
            value: Text::new(&step.value),
            current: step.current.as_ref().map(Text::new),
            reason: Text::new(&step.reason),
            flags,
        }
    }
}

impl dp_plan {
    pub(super) fn new(plan: EnvPlan, entry: PluginEntry) -> Self {
        Self {
            steps: plan.steps().iter().map(Step::new).collect(),
            options: dp_options::from_values(plan.create_options()),
            coordinator: plan.coordinator().map(|address| Text::new(address.to_string())),
            // Every field is text, a number, a list or a map with text keys, so this cannot fail.
            json: Text::new(serde_json::to_string(&plan).unwrap_or_default()),
            shown: Text::new(plan.to_string()),
            plan,
            entry,
        }
    }

    pub(super) fn plan(&self) -> &EnvPlan {
        &self.plan
    }
}

/// Carrying out the step changes the variable; without this flag it is kept.
pub const DP_STEP_CHANGES: u32 = 1;
/// The variable must be set before the plugin is loaded; without this flag, before a client is created.
pub const DP_STEP_BEFORE_LOAD: u32 = 2;
/// The plugin's value replaces another one; without this flag, a value that is set stays.
pub const DP_STEP_OVERRIDES: u32 = 4;

/// One variable of a plan, as `dp_plan_at` tells it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_plan_step {
    /// `sizeof(dp_plan_step)`, set by the caller.
    pub struct_size: usize,
    /// The variable.
    pub variable: dp_string,
    /// The value the plan wants.
    pub value: dp_string,
    /// The value it had when the plan was made; absent where it was not set.
    pub current: dp_string,
    /// Why.
    pub reason: dp_string,
    /// Some of `DP_STEP_CHANGES`, `DP_STEP_BEFORE_LOAD` and `DP_STEP_OVERRIDES`.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: it is repr(C) and begins with `struct_size`; it is written only, never read from C.
unsafe impl StructSize for dp_plan_step {
    const FIRST_SIZE: usize = size_of::<Self>();
    const NAME: &'static str = "dp_plan_step";
}

/// Frees a plan; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_free(plan: *mut dp_plan) {
    // SAFETY: this function's contract.
    unsafe { guard::free(plan) }
}

/// How many variables the plan has, also those that stay as they are; 0 for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_count(plan: *const dp_plan) -> usize {
    // SAFETY: this function's contract.
    unsafe { guard::get(0, |call| Ok(call.object(plan, "plan")?.steps.len())) }
}

/// Fills `out` with the variable at `index`, counted from 0, in the order in which they are set. The text belongs to the
/// plan.
///
/// # Safety
///
/// K1, K2 and K5.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_at(
    plan: *const dp_plan,
    index: usize,
    out: *mut dp_plan_step,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| {
        let step = guard::at(&call.object(plan, "plan")?.steps, index)?;
        let told = dp_plan_step {
            struct_size: size_of::<dp_plan_step>(),
            variable: step.variable.lend(),
            value: step.value.lend(),
            current: step.current.as_ref().map_or(NO_TEXT, Text::lend),
            reason: step.reason.lend(),
            flags: step.flags,
            reserved: 0,
        };
        call.write(out, "out", &told)
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_plan_at", error, body) }
}

/// The options the plan wants for the client, borrowed from the plan. NULL for NULL.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_options(plan: *const dp_plan) -> *const dp_options {
    let body = |call: &Call| Ok(std::ptr::from_ref(&call.object(plan, "plan")?.options));
    // SAFETY: this function's contract.
    unsafe { guard::get(std::ptr::null(), body) }
}

/// Where the coordinator listens, as `host:port`, when clients need one: then they must be given key-value callbacks of
/// a store that all processes share. Absent where they need none.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_coordinator(plan: *const dp_plan) -> dp_string {
    let body = |call: &Call| Ok(call.object(plan, "plan")?.coordinator.as_ref().map_or(NO_TEXT, Text::lend));
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, body) }
}

/// The plan as JSON.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_json(plan: *const dp_plan) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, |call| Ok(call.object(plan, "plan")?.json.lend())) }
}

/// The plan as a table for people.
///
/// # Safety
///
/// K2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_to_string(plan: *const dp_plan) -> dp_string {
    // SAFETY: this function's contract.
    unsafe { guard::get(NO_TEXT, |call| Ok(call.object(plan, "plan")?.shown.lend())) }
}

/// Sets the plan's variables in this process. Call it at the start of the program, before it starts threads: C code
/// reads variables without a lock, so nothing else may read or set any meanwhile. To start a child process, give it the
/// variables instead. `DP_FAILED_PRECONDITION` once the plugin is loaded, which is too late.
///
/// # Safety
///
/// K1, K2 and K7.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_plan_apply(plan: *const dp_plan, error: *mut *mut dp_error) -> dp_code {
    let body = |call: &Call| {
        let plan = call.object(plan, "plan")?;
        let name = plan.entry.name();
        let refused = |why: &str| Err(Failure::new(ErrorCode::FAILED_PRECONDITION, format!("{name} {why}")));
        match plan.entry.status() {
            Status::Loaded(_) => return refused("is loaded: its variables must be set before"),
            Status::Stale => return refused("was switched off, replaced or removed: make a new plan"),
            _ => {}
        }
        for step in plan.plan.changes(Before::Client) {
            call.set_variable(&step.variable, &step.value);
        }
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run("dp_plan_apply", error, body) }
}
