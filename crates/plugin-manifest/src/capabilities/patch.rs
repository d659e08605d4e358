//! Reads and changes capabilities as JSON.

use serde_json::Value as Json;

use super::Capabilities;
use crate::manifest::{read, unknown_field};
use crate::{Fault, Faults};

impl Capabilities {
    /// Reads capabilities from a JSON object and checks them. Omitted fields have their defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if the JSON is malformed, a field is unknown or a value is invalid. If the JSON is malformed or
    /// a value has the wrong type, the error contains only that fault. Otherwise, the error contains all faults.
    pub fn from_json(text: &str) -> Result<Self, Faults> {
        Self::from_value(&parse(text)?)
    }

    /// Serializes the fields that differ from their defaults as a JSON object.
    pub fn to_json(&self) -> String {
        // All maps have string keys, so serialization cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Applies a JSON merge patch (RFC 7396) to these capabilities. A value in the patch replaces the field of the same
    /// name, except that objects are merged recursively. `null` restores the default of a field.
    ///
    /// Users can set such a patch in the environment variable whose name [`Self::override_variable`] returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the JSON is malformed, a field is unknown or a value of the patched capabilities is invalid.
    /// If the JSON is malformed or a value has the wrong type, the error contains only that fault. Otherwise, the error
    /// contains all faults.
    pub fn patched(&self, patch: &str) -> Result<Self, Faults> {
        let patch = parse(patch)?;
        if !patch.is_object() {
            return Self::from_value(&patch);
        }
        let mut json = serde_json::to_value(self).map_err(|error| Fault::new("capabilities", error.to_string()))?;
        merge(&mut json, patch);
        Self::from_value(&json)
    }

    /// Returns the name of the environment variable that holds the user's patch for a plugin:
    /// `PJRT_REGISTRY_CAPABILITIES_<NAME>`. The registry reads this variable.
    pub fn override_variable(name: &str) -> String {
        format!("PJRT_REGISTRY_CAPABILITIES_{}", name.to_ascii_uppercase())
    }

    fn from_value(json: &Json) -> Result<Self, Faults> {
        // A derived deserializer also accepts an array with the values of all fields in order. Accept only objects,
        // because an array is almost certainly a mistake.
        if !json.is_object() {
            let message =
                format!("{json} is not a JSON object; write an object with fields, such as {{\"donation\": true}}");
            return Err(Fault::new("capabilities", message).into());
        }
        let (read, unknown): (Self, _) = read(&json.to_string()).map_err(|(field, error)| {
            let message = error.to_string();
            // The position is not one in the user's text.
            let position = format!(" at line {} column {}", error.line(), error.column());
            let message = message.strip_suffix(&position).unwrap_or(&message);
            Fault::new(field.unwrap_or_else(|| "capabilities".to_owned()), message)
        })?;
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

/// Applies a merge patch to `target` as RFC 7396 defines it.
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
