//! Plans as JSON.

use crate::{EnvPlan, Environment, Error, Result};

pub(super) fn to_json(plan: &EnvPlan) -> Result<String> {
    serde_json::to_string(plan).map_err(|error| Error::internal(format!("the plan: {error}")))
}

pub(super) fn from_json(json: &str, _: &Environment) -> Result<EnvPlan> {
    serde_json::from_str(json).map_err(|error| Error::internal(format!("the plan: {error}")))
}
