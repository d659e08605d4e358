//! The options that a plugin's clients accept: their names, types and defaults.
//!
//! Plugins reject unknown options and values of the wrong type. Frameworks, however, often read values as strings from
//! environment variables. With a schema, a framework can check and convert options before it loads the plugin.

use pjrt_types::is_framework_option;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use strsim::levenshtein;

use crate::diagnostic::{Fault, Faults};
use crate::names::names;
use crate::{NamedValue, Value};

/// The options of `PJRT_Client_Create` that a plugin accepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct OptionSchema {
    /// Whether options that the schema does not list are passed to the plugin unchanged.
    #[serde(default)]
    pub open: bool,
    /// The options that the schema lists. If `open` is false, the plugin accepts no others.
    #[serde(default)]
    pub options: Vec<OptionSpec>,
}

/// One option of a schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct OptionSpec {
    /// Name of the option.
    pub name: String,
    /// Type of the option's value.
    #[serde(rename = "type")]
    pub ty: OptionType,
    /// Description for users.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The value that is passed if the user does not set the option.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_value")]
    pub default: Option<Value>,
    /// Whether [`OptionSchema::resolve`] reports a fault if the option is not given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

names! {
    /// Type of an option's value: one of the types of `PJRT_NamedValue`.
    #[non_exhaustive]
    pub enum OptionType {
        /// UTF-8 text.
        String "string",
        /// A 64-bit integer.
        Int64 "int64",
        /// A list of 64-bit integers.
        Int64List "int64_list",
        /// A 32-bit float.
        Float "float",
        /// A boolean.
        Bool "bool",
    }
}

impl OptionType {
    /// Returns the type of a value, or `None` if an option cannot have this type.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::String(_) => Self::String,
            Value::Int64(_) => Self::Int64,
            Value::Int64List(_) => Self::Int64List,
            Value::Float(_) => Self::Float,
            Value::Bool(_) => Self::Bool,
            _ => return None,
        })
    }

    /// Parses text as a value of this type. A boolean is `true`, `false`, `1` or `0`, and a list is `1,2` or `[1, 2]`.
    /// Any text is a valid string.
    pub fn parse(self, text: &str) -> Option<Value> {
        let trimmed = text.trim();
        Some(match self {
            Self::String => Value::String(text.to_owned()),
            Self::Int64 => Value::Int64(trimmed.parse().ok()?),
            Self::Float => Value::Float(trimmed.parse().ok()?),
            Self::Bool => Value::Bool(match trimmed.to_ascii_lowercase().as_str() {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return None,
            }),
            Self::Int64List => {
                let inner = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(trimmed);
                let items = inner.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::Int64List(items.map(|item| item.parse().ok()).collect::<Option<_>>()?)
            }
        })
    }

    /// Converts a value to this type. Strings are parsed. An integer converts to a list with one element. An integer
    /// that fits into 16 bits also converts to a float. Returns `None` if the value does not fit the type.
    fn convert(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Float, Value::Int64(number)) => {
                let small = i16::try_from(*number).ok()?;
                Some(Value::Float(f32::from(small)))
            }
            (Self::Int64List, Value::Int64(number)) => Some(Value::Int64List(vec![*number])),
            (_, Value::String(text)) => self.parse(text),
            _ if Self::of(value) == Some(self) => Some(value.clone()),
            _ => None,
        }
    }
}

impl OptionSpec {
    /// Creates an option that is not required and has no default. `description` is for users.
    pub fn new(name: impl Into<String>, ty: OptionType, description: impl Into<String>) -> Self {
        Self { name: name.into(), ty, description: description.into(), default: None, required: false }
    }

    /// Sets the value that is passed if the user does not set the option.
    #[must_use]
    pub fn with_default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }
}

impl Default for OptionSchema {
    fn default() -> Self {
        Self::any()
    }
}

impl OptionSchema {
    /// Returns a schema that passes every option to the plugin unchanged.
    pub fn any() -> Self {
        Self { open: true, options: Vec::new() }
    }

    /// Returns a schema that accepts only these options. Use `[]` for a plugin without options.
    pub fn only(options: impl IntoIterator<Item = OptionSpec>) -> Self {
        Self { open: false, options: options.into_iter().collect() }
    }

    /// Returns the options to pass to the plugin: the given values in the types of the schema, and the defaults of
    /// options that are not given. If an option is given twice, the last value is used. A closed schema omits options
    /// that it does not list and that a framework passes to every plugin, see [`is_framework_option`].
    ///
    /// # Errors
    ///
    /// Returns an error if a name is unknown, if a value has the wrong type, or if a required option is missing. The
    /// error contains all faults.
    pub fn resolve(&self, given: &[NamedValue]) -> Result<Vec<NamedValue>, Faults> {
        let mut faults = Vec::new();
        let mut resolved: Vec<NamedValue> = Vec::new();
        for option @ NamedValue { name, value } in given {
            let value = match self.options.iter().find(|spec| spec.name == *name) {
                Some(spec) => spec.ty.convert(value).ok_or_else(|| {
                    let (wanted, found, value) = (spec.ty.name(), value.type_name(), value_to_json(value));
                    Fault::new(
                        name,
                        format!("this option has the type {wanted}, but its value {value} has the type {found}"),
                    )
                }),
                None if self.open => Ok(value.clone()),
                None if is_framework_option(option, |name| self.lists(name)) => continue,
                None => Err(Fault::new(name, format!("unknown option; {}", self.known(name)))),
            };
            match value {
                Ok(value) => {
                    resolved.retain(|earlier| earlier.name != *name);
                    resolved.push(NamedValue { name: name.clone(), value });
                }
                Err(fault) => faults.push(fault),
            }
        }
        for spec in &self.options {
            if given.iter().any(|given| given.name == spec.name) {
                continue;
            }
            match &spec.default {
                Some(value) => resolved.push(NamedValue { name: spec.name.clone(), value: value.clone() }),
                None if spec.required => {
                    let message = format!("this option is required; set it to a value of type {}", spec.ty.name());
                    faults.push(Fault::new(&spec.name, message));
                }
                None => {}
            }
        }
        Faults::check(faults).map(|()| resolved)
    }

    fn lists(&self, name: &str) -> bool {
        self.options.iter().any(|spec| spec.name == name)
    }

    fn known(&self, unknown: &str) -> String {
        let nearest = self.options.iter().min_by_key(|spec| levenshtein(&spec.name, unknown));
        match nearest {
            None => "the plugin takes no options".to_owned(),
            Some(near) if levenshtein(&near.name, unknown) <= 2 => format!("did you mean {:?}?", near.name),
            Some(_) => {
                let names: Vec<&str> = self.options.iter().map(|spec| spec.name.as_str()).collect();
                format!("the plugin takes {}", names.join(", "))
            }
        }
    }

    /// Returns the reason why a process plan cannot pass the option `name` with the type `ty`, or `None` if it can.
    pub(crate) fn refuses(&self, name: &str, ty: OptionType) -> Option<String> {
        match self.options.iter().find(|spec| spec.name == name) {
            None if self.open => None,
            None => Some(format!("create_options does not list the option {name:?}; {}", self.known(name))),
            Some(spec) => {
                let widens = matches!((spec.ty, ty), (OptionType::Float | OptionType::Int64List, OptionType::Int64));
                let fits = spec.ty == ty || ty == OptionType::String || widens;
                let (here, there) = (ty.name(), spec.ty.name());
                let message =
                    || format!("{name:?} has the type {here} here, but {there} in create_options; use one type");
                (!fits).then(message)
            }
        }
    }

    /// Returns the faults of the schema itself: empty or repeated names, and defaults that have the wrong type or
    /// belong to required options.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (index, spec) in self.options.iter().enumerate() {
            let mut fault = |message: String| faults.push(Fault::new(format!("options[{index}]"), message));
            if spec.name.is_empty() {
                fault("the option's name is empty; write one".to_owned());
            }
            if self.options[..index].iter().any(|earlier| earlier.name == spec.name) {
                fault(format!("option {:?} is listed twice; remove one of the two", spec.name));
            }
            if let Some(Value::Float(default)) = &spec.default
                && !default.is_finite()
            {
                let name = &spec.name;
                fault(format!(
                    "the default of {name:?} is {default}, which JSON cannot express; write a finite 32-bit float"
                ));
            } else if let Some(default) = &spec.default
                && spec.ty.convert(default).as_ref() != Some(default)
            {
                let (name, ty, default) = (&spec.name, spec.ty.name(), value_to_json(default));
                fault(format!(
                    "the default of {name:?} is {default}, which is not of type {ty}; change the default or the type"
                ));
            }
            if spec.required && spec.default.is_some() {
                fault(format!("option {:?} is required and has a default; remove one of the two", spec.name));
            }
        }
        faults
    }

    /// Converts defaults to the types of their options, because JSON does not distinguish all of these types.
    pub(crate) fn normalize(&mut self) {
        for spec in &mut self.options {
            if let Some(value) = spec.default.as_ref().and_then(|default| spec.ty.convert(default)) {
                spec.default = Some(value);
            }
        }
    }
}

/// Converts JSON to an option's value: a string, a number, a boolean or a list of integers. Returns `None` for other
/// JSON.
pub fn value_from_json(json: &serde_json::Value) -> Option<Value> {
    Value::deserialize(json).ok()
}

/// Converts an option's value to JSON.
pub fn value_to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Int64(number) => (*number).into(),
        Value::Int64List(list) => list.as_slice().into(),
        Value::Float(number) => shortest(*number).into(),
        Value::Bool(flag) => (*flag).into(),
        // This version of the SDK does not have other types of values.
        _ => serde_json::Value::Null,
    }
}

/// Returns the number with the fewest decimal places that rounds to this 32-bit float: 0.1 instead of the float's exact
/// value 0.10000000149011612. Returns the exact value if [`pjrt_types::shortest_decimal`] returns `None`.
fn shortest(number: f32) -> f64 {
    pjrt_types::shortest_decimal(number)
        .map_or(f64::from(number), |(whole, places)| whole / 10f64.powi(places.cast_signed()))
}

mod json_value {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &Option<Value>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(value_to_json).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
        let Some(json) = Option::<serde_json::Value>::deserialize(from)? else { return Ok(None) };
        match value_from_json(&json) {
            Some(value) => Ok(Some(value)),
            None => Err(D::Error::custom(format!(
                "{json} is not a valid value of an option; write text, a number, true, false or a list of integers"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn schema() -> OptionSchema {
        OptionSchema::only([
            OptionSpec::new("memory_fraction", OptionType::Float, "share of the device's memory").with_default(0.75),
            OptionSpec::new("preallocate", OptionType::Bool, ""),
            OptionSpec { required: true, ..OptionSpec::new("node_id", OptionType::Int64, "") },
            OptionSpec::new("visible_devices", OptionType::Int64List, ""),
        ])
    }

    #[test]
    fn environment_text_is_typed() {
        let given = [
            NamedValue::new("node_id", "3"),
            NamedValue::new("preallocate", "0"),
            NamedValue::new("visible_devices", "[0, 2]"),
            NamedValue::new("node_id", " 4"),
        ];
        let resolved = schema().resolve(&given).unwrap();
        let value = |name: &str| resolved.iter().find(|v| v.name == name).map(|v| v.value.clone());
        assert_eq!(value("node_id"), Some(Value::Int64(4)));
        assert_eq!(value("preallocate"), Some(Value::Bool(false)));
        assert_eq!(value("visible_devices"), Some(Value::Int64List(vec![0, 2])));
        assert_eq!(value("memory_fraction"), Some(Value::Float(0.75)));
        assert_eq!(resolved.len(), 4);
    }

    #[test]
    fn options_of_frameworks_are_omitted() {
        let given = [NamedValue::new("node_id", 3i64), NamedValue::new("partition_index", 1i64)];
        let names = |schema: OptionSchema| {
            schema.resolve(&given).map(|all| all.into_iter().map(|v| v.name).collect::<Vec<_>>())
        };
        assert_eq!(names(schema()).unwrap(), ["node_id", "memory_fraction"]);
        let both = ["node_id", "partition_index"].map(|name| OptionSpec::new(name, OptionType::Int64, ""));
        assert_eq!(names(OptionSchema::only(both)).unwrap(), ["node_id", "partition_index"]);
        let other = OptionSchema::only([OptionSpec::new("device_count", OptionType::Int64, "")]);
        assert_eq!(names(other.clone()).unwrap_err().all().len(), 2);
        let size = [NamedValue::new("premapped_buffer_size", 0i64)];
        assert_eq!(other.resolve(&size).unwrap(), []);
        assert_eq!(OptionSchema::any().resolve(&size).unwrap(), size);
    }

    #[test]
    fn lists_all_faults_with_remedies() {
        let given = [
            NamedValue::new("preallocat", true),
            NamedValue::new("bogus", 1i64),
            NamedValue::new("memory_fraction", "much"),
            NamedValue::new("visible_devices", 0.5),
        ];
        let faults = schema().resolve(&given).unwrap_err();
        let fields: Vec<&str> = faults.all().iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, ["preallocat", "bogus", "memory_fraction", "visible_devices", "node_id"]);
        let mut messages = String::new();
        for fault in faults.all() {
            messages += &format!("{}: {}\n", fault.field, fault.message);
        }
        expect![[r#"
            preallocat: unknown option; did you mean "preallocate"?
            bogus: unknown option; the plugin takes memory_fraction, preallocate, node_id, visible_devices
            memory_fraction: this option has the type float, but its value "much" has the type string
            visible_devices: this option has the type int64_list, but its value 0.5 has the type float
            node_id: this option is required; set it to a value of type int64
        "#]]
        .assert_eq(&messages);
    }

    #[test]
    fn open_schema_passes_unknown_options() {
        let given = [NamedValue::new("bogus", 1i64)];
        assert_eq!(OptionSchema::any().resolve(&given).unwrap(), given);
        let faults = OptionSchema::only([]).resolve(&given).unwrap_err();
        assert_eq!(faults.all()[0].field, "bogus");
    }

    #[test]
    fn float_decimals() {
        for (number, text) in [
            (0.1f32, "0.1"),
            (-2.5, "-2.5"),
            (3.0, "3.0"),
            (0.333_333_34, "0.33333334"),
            (1e-5, "0.00001"),
            (16_777_216.0, "16777216.0"),
            (0.0, "0.0"),
            (1.0e30, "1.0000000150474662e+30"),
        ] {
            let json = value_to_json(&Value::Float(number));
            let written: f64 = text.parse().unwrap();
            assert_eq!(json.as_f64(), Some(written), "{number}: {json}");
        }
        #[expect(clippy::cast_possible_truncation, reason = "the rounding is what is tested")]
        let narrow = |wide: f64| wide as f32;
        for bits in (0..u32::MAX / 2).step_by(10_007) {
            let number = f32::from_bits(bits);
            if number.is_finite() {
                assert_eq!(narrow(shortest(number)), number);
                assert_eq!(narrow(shortest(-number)), -number);
            }
        }
    }

    #[test]
    fn json_round_trip_keeps_types() {
        let json = serde_json::to_string(&schema()).unwrap();
        let mut read: OptionSchema = serde_json::from_str(&json).unwrap();
        read.normalize();
        assert_eq!(read, schema());
        assert!(json.contains("\"default\":0.75"), "{json}");
        let mut whole = OptionSchema::only([OptionSpec::new("x", OptionType::Float, "").with_default(2i64)]);
        assert_eq!(whole.faults().len(), 1);
        whole.normalize();
        assert_eq!(whole.options[0].default, Some(Value::Float(2.0)));
    }

    #[test]
    fn rejects_broken_schemas() {
        let broken = OptionSchema::only([
            OptionSpec::new("", OptionType::Bool, ""),
            OptionSpec::new("a", OptionType::Bool, "").with_default("maybe"),
            OptionSpec { required: true, ..OptionSpec::new("a", OptionType::Bool, "").with_default(true) },
            OptionSpec::new("b", OptionType::Float, "").with_default(f32::INFINITY),
            OptionSpec::new("c", OptionType::Float, "").with_default(f32::NAN),
        ]);
        let faults = broken.faults();
        assert_eq!(faults.len(), 6, "{faults:?}");
        let mut messages = String::new();
        for fault in faults {
            messages += &format!("{fault}\n");
        }
        expect![[r#"
            options[0]: the option's name is empty; write one
            options[1]: the default of "a" is "maybe", which is not of type bool; change the default or the type
            options[2]: option "a" is listed twice; remove one of the two
            options[2]: option "a" is required and has a default; remove one of the two
            options[3]: the default of "b" is inf, which JSON cannot express; write a finite 32-bit float
            options[4]: the default of "c" is NaN, which JSON cannot express; write a finite 32-bit float
        "#]]
        .assert_eq(&messages);
    }
}
