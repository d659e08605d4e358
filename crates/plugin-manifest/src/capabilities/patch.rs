//! Reads and changes capabilities as JSON.

use serde_json::Value as Json;

use super::Capabilities;
use crate::manifest_parse::{read, unknown_field};
use crate::{Fault, Faults};

impl Capabilities {
    /// Reads capabilities from a JSON object and checks them. Omitted fields have their defaults.
    ///
    /// # Errors
    ///
    /// If a value has the wrong type, its field. Otherwise all unknown fields and invalid values.
    pub fn from_json(text: &str) -> Result<Self, Faults> {
        Self::from_value(&parse(text)?)
    }

    /// Serializes the fields that differ from their defaults as a JSON object.
    pub fn to_json(&self) -> String {
        // Every field is text, a number, a list or a map with text keys, so this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Applies a JSON merge patch (RFC 7396) to these capabilities. Fields in the patch replace values, and `null`
    /// restores a default.
    ///
    /// Users override capabilities with such a patch, in the variable of [`Self::override_variable`].
    ///
    /// # Errors
    ///
    /// If a value has the wrong type, its field. Otherwise all unknown fields and invalid values of the result.
    pub fn patched(&self, patch: &str) -> Result<Self, Faults> {
        let patch = parse(patch)?;
        if !patch.is_object() {
            return Self::from_value(&patch);
        }
        let mut json = serde_json::to_value(self).map_err(|error| Fault::new("capabilities", error.to_string()))?;
        merge(&mut json, patch);
        Self::from_value(&json)
    }

    /// Returns the environment variable in which a user can give a patch for the plugin of that name:
    /// `PJRT_REGISTRY_CAPABILITIES_<NAME>`. The registry reads it.
    pub fn override_variable(name: &str) -> String {
        format!("PJRT_REGISTRY_CAPABILITIES_{}", name.to_ascii_uppercase())
    }

    fn from_value(json: &Json) -> Result<Self, Faults> {
        // Derived deserializers also accept a list of all fields in order. Reject it, because it is surely a mistake.
        if !json.is_object() {
            let message =
                format!("{json} is not a JSON object; write an object with fields, such as {{\"donation\": true}}");
            return Err(Fault::new("capabilities", message).into());
        }
        let (read, unknown): (Self, _) = read(json, "capabilities")?;
        let mut faults = read.validate().err().map(Faults::into_vec).unwrap_or_default();
        faults.extend(unknown.iter().map(|field| {
            let Fault { message, .. } = unknown_field(&format!("capabilities.{field}"));
            Fault::new(field, message)
        }));
        Faults::check(faults)?;
        Ok(read)
    }
}

fn parse(text: &str) -> Result<Json, Faults> {
    serde_json::from_str(text)
        .map_err(|error| Fault::new("capabilities", format!("this is not valid JSON: {error}")).into())
}

/// RFC 7396.
fn merge(target: &mut Json, patch: Json) {
    let Json::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Json::Object(serde_json::Map::new());
    }
    let Json::Object(target) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Json::Null), value);
        }
    }
}
