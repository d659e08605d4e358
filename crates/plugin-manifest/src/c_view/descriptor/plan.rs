//! Process plans as JSON, the form in which the C function `configure` returns them.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::options::OptionType;
use crate::process::{Address, EnvRule, PlannedOption};
use crate::{EnvPlan, Environment, Error, NamedValue, Result, Value};

pub(super) fn to_json(plan: &EnvPlan) -> Result<String> {
    serde_json::to_string(plan).map_err(|error| Error::internal(format!("the plan: {error}")))
}

/// The JSON form of a plan. The JSON does not contain the effects of the steps on the environment. [`from_json`]
/// computes these effects.
#[derive(Deserialize)]
struct Plan {
    #[serde(default)]
    steps: Vec<EnvRule>,
    #[serde(default)]
    options: Vec<Planned>,
    #[serde(default)]
    coordinator: Option<Address>,
}

#[derive(Deserialize)]
struct Planned {
    name: String,
    #[serde(rename = "type")]
    ty: OptionType,
    value: Json,
    #[serde(default)]
    reason: String,
}

pub(super) fn from_json(json: &str, environment: &Environment) -> Result<EnvPlan> {
    let read: Plan = serde_json::from_str(json)
        .map_err(|error| Error::internal(format!("the plan that configure returned: {error}")))?;
    let mut plan = EnvPlan { coordinator: read.coordinator, ..EnvPlan::default() };
    for step in read.steps {
        plan.add_variable(step.variable, step.value, (step.set, step.before), step.reason, environment);
    }
    for planned in read.options {
        let value = value(planned.ty, &planned.value).ok_or_else(|| {
            let (name, ty, value) = (&planned.name, planned.ty.name(), &planned.value);
            Error::internal(format!(
                "the plan that configure returned: option {name} is {value}, which is not of its type {ty}"
            ))
        })?;
        let option = NamedValue::new(planned.name, value);
        plan.options.push(PlannedOption { option, reason: planned.reason });
    }
    Ok(plan)
}

fn value(ty: OptionType, json: &Json) -> Option<Value> {
    Some(match ty {
        OptionType::String => Value::String(json.as_str()?.to_owned()),
        OptionType::Int64 => Value::Int64(json.as_i64()?),
        OptionType::Int64List => Value::Int64List(json.as_array()?.iter().map(Json::as_i64).collect::<Option<_>>()?),
        // Parse the decimal digits of the number, so that it is rounded only once, to the nearest 32-bit float.
        OptionType::Float => Value::Float(json.as_number()?.to_string().parse().ok()?),
        OptionType::Bool => Value::Bool(json.as_bool()?),
    })
}
