//! The resolved plan of one process, which a program can inspect before it applies the plan.

use std::fmt;

use pjrt_types::{NamedValue, Value};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::address::Address;
use super::environment::Environment;
use super::plan::{Before, SetMode};
use super::template::is_variable;
use crate::names::names;
use crate::options::value_to_json;
use crate::{Error, OptionType, Result};

names! {
    /// The effect of a step on its environment variable.
    #[non_exhaustive]
    pub enum Effect {
        /// The variable is not set, and the step sets it.
        Set "set",
        /// The variable has another value, which the step replaces.
        Replace "replace",
        /// The variable has another value and keeps it.
        Keep "keep",
        /// The variable already has the value that the step specifies.
        Unchanged "unchanged",
    }
}

impl Effect {
    /// Returns whether the step changes the variable.
    pub fn changes(self) -> bool {
        matches!(self, Self::Set | Self::Replace)
    }
}

/// One step of an [`EnvPlan`]: the value for one environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EnvStep {
    /// Name of the variable.
    pub variable: String,
    /// The value that the plan specifies.
    pub value: String,
    /// Whether to keep or replace a value that is already set.
    pub set: SetMode,
    /// The latest time at which the variable may be set.
    pub before: Before,
    /// The reason for the step.
    pub reason: String,
    /// The variable's value in the environment for which the plan was resolved.
    pub current: Option<String>,
    /// The effect of applying the step.
    pub effect: Effect,
}

/// One option for `PJRT_Client_Create` in an [`EnvPlan`].
#[derive(Clone, Debug, PartialEq)]
// Exhaustive, because plugins that compute their own plan construct this struct.
pub struct PlannedOption {
    /// Name and value of the option.
    pub option: NamedValue,
    /// The reason for the option.
    pub reason: String,
}

impl Serialize for PlannedOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("PlannedOption", 4)?;
        fields.serialize_field("name", &self.option.name)?;
        let value = &self.option.value;
        fields.serialize_field("type", OptionType::of(value).map_or(value.type_name(), OptionType::name))?;
        fields.serialize_field("value", &value_to_json(value))?;
        fields.serialize_field("reason", &self.reason)?;
        fields.end()
    }
}

/// The resolved plan of one process. Creating a plan does not set any variables. A plugin that computes its own plan
/// adds its steps and options to the default, which is empty.
///
/// For a child process, pass [`EnvPlan::for_child`] to [`std::process::Command::envs`]. To apply a plan in the running
/// process, use `plugin-registry`. Setting variables of a running process is unsafe in Rust, because C libraries read
/// the variables without a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EnvPlan {
    /// The steps in order, including steps whose variables keep their values.
    pub steps: Vec<EnvStep>,
    /// The options for `PJRT_Client_Create`, with their reasons.
    pub options: Vec<PlannedOption>,
    /// The address of the coordinator, if clients need one. Such clients require a key-value store that all processes
    /// share.
    pub coordinator: Option<Address>,
}

impl EnvPlan {
    /// Adds a step that specifies the value of a variable. Its effect depends on `set` and on the value of the variable
    /// in `environment`.
    pub fn add_variable(
        &mut self,
        variable: impl Into<String>,
        value: impl Into<String>,
        (set, before): (SetMode, Before),
        reason: impl Into<String>,
        environment: &Environment,
    ) {
        let (variable, value) = (variable.into(), value.into());
        let current = environment.get(&variable).map(str::to_owned);
        let effect = match (&current, set) {
            (None, _) => Effect::Set,
            (Some(current), _) if *current == value => Effect::Unchanged,
            (Some(_), SetMode::Default) => Effect::Keep,
            (Some(_), SetMode::Override) => Effect::Replace,
        };
        self.steps.push(EnvStep { variable, value, set, before, reason: reason.into(), current, effect });
    }

    /// Returns the steps that change a variable and must be applied before the given event. The steps for
    /// [`Before::Client`] include the steps for [`Before::Load`].
    pub fn changes(&self, before: Before) -> impl Iterator<Item = &EnvStep> {
        self.steps.iter().filter(move |step| step.effect.changes() && step.before <= before)
    }

    /// Returns the options for `PJRT_Client_Create`.
    pub fn create_options(&self) -> Vec<NamedValue> {
        self.options.iter().map(|planned| planned.option.clone()).collect()
    }

    /// Returns the variables that change and their values, for [`std::process::Command::envs`].
    pub fn for_child(&self) -> impl Iterator<Item = (&str, &str)> {
        self.changes(Before::Client).map(|step| (step.variable.as_str(), step.value.as_str()))
    }

    /// Rejects a plan with an invalid variable name or with a value that contains a NUL byte, because
    /// [`std::env::set_var`] could panic on such a name or value.
    pub(crate) fn can_be_set(&self) -> Result<()> {
        for EnvStep { variable, value, .. } in &self.steps {
            if !is_variable(variable) {
                return Err(Error::internal(format!(
                    "{variable:?} is not a valid name of a variable; write letters, digits and _, and do not begin with a digit"
                )));
            }
            if value.contains('\0') {
                return Err(Error::internal(format!(
                    "the value {value:?} of {variable} contains a NUL byte; remove the byte"
                )));
            }
        }
        Ok(())
    }

    /// Returns whether the plan has no steps, options or coordinator.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.options.is_empty() && self.coordinator.is_none()
    }
}

/// Formats a table with one line for each variable, for each option and for the coordinator. Formats an empty plan as
/// `nothing to set`.
impl fmt::Display for EnvPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing to set");
        }
        let mut rows: Vec<[String; 4]> = Vec::new();
        for step in &self.steps {
            let shown = match (step.effect, &step.current) {
                (Effect::Keep, Some(current)) => format!("{current:?}, not {:?}", step.value),
                (Effect::Replace, Some(current)) => format!("{:?}, was {current:?}", step.value),
                _ => format!("{:?}", step.value),
            };
            let event = if step.before == Before::Load { "load" } else { "client" };
            let what = format!("{} before {event}", step.effect.name());
            rows.push([what, step.variable.clone(), shown, step.reason.clone()]);
        }
        for planned in &self.options {
            let NamedValue { name, value } = &planned.option;
            let shown = match value {
                Value::String(text) => format!("{text:?}"),
                other => other.to_string(),
            };
            rows.push(["create option".to_owned(), name.clone(), shown, planned.reason.clone()]);
        }
        if let Some(address) = &self.coordinator {
            rows.push([
                "coordinator".to_owned(),
                "key-value store".to_owned(),
                address.to_string(),
                "the processes find each other through this store".to_owned(),
            ]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        // A value of more than 40 characters does not widen its column, so it shifts only the reason in its own line.
        let short = rows.iter().map(|row| row[2].chars().count()).filter(|width| *width <= 40).max();
        let (a, b, c) = (width(0), width(1), short.unwrap_or(0));
        for (i, [what, name, value, reason]) in rows.iter().enumerate() {
            let line = format!("{what:a$}  {name:b$}  {value:c$}  {reason}");
            write!(f, "{}{}", if i == 0 { "" } else { "\n" }, line.trim_end())?;
        }
        Ok(())
    }
}
