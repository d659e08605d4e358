//! `dp_plan`: the environment that a plugin needs in one process.

use crate::border::error::{dp_code, dp_error};
use crate::border::handle::Owned;
use crate::border::memory::Struct;
use pjrt::ErrorCode;
use pjrt_c_macros::c_function;
use plugin_manifest::EnvPlan;
use plugin_manifest::c_view::capabilities::dp_string;
use plugin_manifest::process::{Before, EnvStep, SetMode};

use plugin_registry::{PluginEntry, Status};

use crate::border::failure::{Failure, Outcome};
use crate::border::guard;
use crate::border::memory;
use crate::border::sized::struct_sizes;
use crate::border::text::lend;
use crate::border::text::{NO_TEXT, Text};
use crate::registry::options::dp_options;

/// The environment that a plugin needs in one process: environment variables, options of the client and a coordinator.
/// Creating a plan does not change the process. Only `dp_plan_apply` sets variables.
pub struct dp_plan {
    plan: EnvPlan,
    entry: PluginEntry,
    steps: Vec<Step>,
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
    pub(crate) fn new(plan: EnvPlan, entry: PluginEntry) -> Self {
        Self {
            steps: plan.steps.iter().map(Step::new).collect(),
            coordinator: plan.coordinator.as_ref().map(|address| Text::new(address.to_string())),
            // Every field is a string, a number, a list or a map with string keys, so the serialization cannot fail.
            json: Text::new(serde_json::to_string(&plan).unwrap_or_default()),
            shown: Text::new(plan.to_string()),
            plan,
            entry,
        }
    }

    pub(crate) fn plan(&self) -> &EnvPlan {
        &self.plan
    }
}

/// Applying the plan changes the variable. Without this flag, the variable already has the planned value, or its
/// existing value is kept.
pub const DP_STEP_CHANGES: u32 = 1;
/// The variable must be set before the plugin is loaded. Without this flag, it must be set before a client is created.
pub const DP_STEP_BEFORE_LOAD: u32 = 2;
/// The planned value replaces an existing value. Without this flag, an existing value is kept.
pub const DP_STEP_OVERRIDES: u32 = 4;

/// One variable of a plan, as `dp_plan_at` returns it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_plan_step {
    /// `sizeof(dp_plan_step)`, set by the caller.
    pub struct_size: usize,
    /// Name of the variable.
    pub variable: dp_string,
    /// The value that the plan sets.
    pub value: dp_string,
    /// The value of the variable when the plan was created. Its `data` is null if the variable was not set.
    pub current: dp_string,
    /// The reason why the plugin needs the variable.
    pub reason: dp_string,
    /// A combination of `DP_STEP_CHANGES`, `DP_STEP_BEFORE_LOAD` and `DP_STEP_OVERRIDES`.
    pub flags: u32,
    /// Always 0.
    pub reserved: u32,
}

struct_sizes!(dp_plan_step);

/// Returns the number of variables in the plan, including those that need no change. Returns 0 for NULL.
#[c_function]
pub fn dp_plan_count(plan: &dp_plan) -> usize {
    plan.steps.len()
}

/// Fills `out` with the variable at `index`, counted from 0, in the order in which the variables are set. The strings
/// in `out` belong to the plan.
#[c_function]
pub fn dp_plan_at(plan: &dp_plan, index: usize) -> Outcome<Struct<dp_plan_step>> {
    let step = memory::at(&plan.steps, index)?;
    Ok(Struct(dp_plan_step {
        struct_size: size_of::<dp_plan_step>(),
        variable: step.variable.lend(),
        value: step.value.lend(),
        current: step.current.as_ref().map_or(NO_TEXT, Text::lend),
        reason: step.reason.lend(),
        flags: step.flags,
        reserved: 0,
    }))
}

/// Returns the plan's options for the client.
#[c_function]
pub fn dp_plan_options(plan: &dp_plan) -> Outcome<Owned<dp_options>> {
    Ok(Owned(dp_options::from_values(plan.plan.create_options())))
}

/// Returns the address on which the coordinator listens, as `host:port`. If there is an address, clients need the
/// key-value callbacks of a store that all processes share. Returns a string with null `data` if clients do not need a
/// coordinator, or if `plan` is NULL.
#[c_function]
pub fn dp_plan_coordinator(plan: &dp_plan) -> dp_string {
    lend(plan.coordinator.as_ref())
}

/// Returns the plan as JSON, or a string with null `data` if `plan` is NULL.
#[c_function]
pub fn dp_plan_json(plan: &dp_plan) -> dp_string {
    lend(Some(&plan.json))
}

/// Returns the plan as a table for display, or a string with null `data` if `plan` is NULL.
#[c_function]
pub fn dp_plan_to_string(plan: &dp_plan) -> dp_string {
    lend(Some(&plan.shown))
}

/// Sets the plan's variables in this process. Call this function at the start of the program, before the program starts
/// threads. C code reads variables without a lock, so no other code may read or set a variable during the call. For a
/// child process, set the variables in the environment of the child instead. Returns `DP_FAILED_PRECONDITION` if the
/// plugin is already loaded, or if it was disabled, replaced or removed after the plan was created.
#[c_function]
pub fn dp_plan_apply(plan: &dp_plan) -> Outcome<()> {
    let name = plan.entry.name();
    let refused = |why: &str| Err(Failure::new(ErrorCode::FAILED_PRECONDITION, format!("{name} {why}")));
    match plan.entry.status() {
        Status::Loaded(_) => return refused("is already loaded; apply the plan before the plugin is loaded"),
        Status::Stale => return refused("was disabled, replaced or removed; create a new plan"),
        _ => {}
    }
    for step in plan.plan.changes(Before::Client) {
        // SAFETY: K6 (no other thread uses the environment).
        unsafe { guard::set_variable(&step.variable, &step.value) };
    }
    Ok(())
}
