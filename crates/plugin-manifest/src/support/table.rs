//! The programs that a device supports, as data: part of `pjrt_plugin.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagnostic::Fault;

/// Operations, attributes and types that a device supports.
///
/// ```
/// let table: plugin_manifest::SupportTable = serde_json::from_str(r#"{
///     "complete": true,
///     "type_groups": { "float": ["f32", "bf16"], "any": ["@float", "i32", "i1"] },
///     "operations": {
///         "stablehlo.add": { "types": ["@any"] },
///         "stablehlo.dot_general": { "types": ["@float"], "attributes": { "precision": { "one_of": ["DEFAULT"] } } },
///         "stablehlo.sort": { "support": "maybe", "reason": "only where the rows fit the scratchpad" },
///         "stablehlo.custom_call(Qr)": { "types": ["f32"] },
///         "func.*": {}
///     }
/// }"#)?;
/// assert!(table.validate().is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SupportTable {
    /// Whether the table lists all supported operations. If so, operations that it does not list are not supported.
    /// Otherwise, their support is unknown.
    #[serde(default)]
    pub complete: bool,
    /// Names for lists of element types. Rules and other groups refer to a group as `@name`, before or after its
    /// definition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub type_groups: BTreeMap<String, Vec<String>>,
    /// Whether extents may be dynamic.
    #[serde(default)]
    pub dynamic_shapes: bool,
    /// Maximum rank of any value, or `None` if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<usize>,
    /// Rules by the name of the operation, such as `stablehlo.add`. `stablehlo.custom_call(Qr)` and
    /// `stablehlo.composite(chlo.erf)` are the rules for one target or name. `stablehlo.*` applies to all operations of
    /// a dialect that have no rule of their own.
    #[serde(default)]
    pub operations: BTreeMap<String, OperationRule>,
}

/// The part of an operation that a device supports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperationRule {
    /// Whether the operation is supported at all. If it is supported, the other fields apply.
    #[serde(default)]
    pub support: Verdict,
    /// Why the operation is not supported, or what its support depends on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Element types of its operands and results in StableHLO's spelling, such as `f32`, `i1`, `ui8` or `complex<f32>`,
    /// or `@name` for the types of a group. All if omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Maximum rank of an operand or result, or that of the table if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<usize>,
    /// Rules of attributes, by their names in the specification.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeRule>,
}

/// The values of an attribute that a device supports. A list is supported if each of its elements is. Attributes with
/// their default value are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttributeRule {
    /// The values in the specification's spelling, such as `DEFAULT`, `true` or `1`. If omitted, any value is
    /// supported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// Minimum number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<i64>,
    /// Maximum number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<i64>,
    /// Maximum number of elements of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
}

/// Whether an operation is supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verdict {
    /// The operation is supported, subject to the other fields.
    #[default]
    Yes,
    /// The operation is not supported.
    No,
    /// The operation is supported under a condition that the table cannot express.
    Maybe,
}

impl SupportTable {
    /// Creates an empty table, to which all supported operations are to be added.
    pub fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Defines a name for a list of element types.
    #[must_use]
    pub fn type_group<T: Into<String>>(mut self, name: impl Into<String>, types: impl IntoIterator<Item = T>) -> Self {
        self.type_groups.insert(name.into(), types.into_iter().map(Into::into).collect());
        self
    }

    /// Adds the rule of an operation.
    #[must_use]
    pub fn operation(mut self, name: impl Into<String>, rule: OperationRule) -> Self {
        self.operations.insert(name.into(), rule);
        self
    }

    /// Returns all faults of the table. Does not check names of element types. `Checker::new`, which requires the
    /// feature `stablehlo`, checks them.
    pub fn validate(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (name, types) in &self.type_groups {
            self.groups_exist(&format!("type_groups.{name}"), types, &mut faults);
        }
        for (name, rule) in &self.operations {
            let field = format!("operations.{name}");
            let (operation, rest) = name.split_once('(').unwrap_or((name, ""));
            let plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
            let named =
                operation.split_once('.').is_some_and(|(dialect, operation)| plain(dialect) && plain(operation));
            if !named || (name.contains('(') && (!rest.ends_with(')') || rest.len() < 2)) {
                let message = "the operation's name lacks its dialect or is malformed; write a name such as \
                               `stablehlo.add`, `stablehlo.custom_call(Qr)` or `stablehlo.*`";
                faults.push(Fault::new(field.clone(), message));
            }
            self.groups_exist(&format!("{field}.types"), &rule.types, &mut faults);
            if rule.support != Verdict::Yes && rule.reason.is_empty() {
                let message = format!("{field} is not fully supported and has no reason; write the reason");
                faults.push(Fault::new(format!("{field}.reason"), message));
            }
            for (attribute, allowed) in &rule.attributes {
                if let (Some(least), Some(most)) = (allowed.at_least, allowed.at_most)
                    && least > most
                {
                    let field = format!("{field}.attributes.{attribute}");
                    faults.push(Fault::new(field, format!("at_least is {least}, but at_most is {most}; swap the two")));
                }
            }
        }
        faults
    }

    fn groups_exist(&self, field: &str, types: &[String], faults: &mut Vec<Fault>) {
        for group in types.iter().filter_map(|ty| ty.strip_prefix('@')) {
            if !self.type_groups.contains_key(group) {
                faults.push(Fault::new(field, format!("unknown group {group:?}; add it to type_groups")));
            }
        }
    }

    /// Expands the groups in a list of element types. A group that contains itself adds nothing.
    #[cfg(feature = "stablehlo")]
    pub(crate) fn element_types<'a>(&'a self, types: &'a [String]) -> Vec<&'a str> {
        let mut seen = std::collections::BTreeSet::new();
        let mut open: Vec<&str> = types.iter().map(String::as_str).collect();
        let mut found = Vec::new();
        while let Some(ty) = open.pop() {
            if seen.insert(ty) {
                match ty.strip_prefix('@') {
                    Some(group) => open.extend(self.type_groups.get(group).into_iter().flatten().map(String::as_str)),
                    None => found.push(ty),
                }
            }
        }
        found
    }
}

impl OperationRule {
    /// The operation is supported for these element types.
    pub fn of_types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { types: types.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The operation is not supported, for the given reason.
    pub fn no(reason: impl Into<String>) -> Self {
        Self { support: Verdict::No, reason: reason.into(), ..Self::default() }
    }

    /// The operation is supported under a condition that the table cannot express.
    pub fn maybe(reason: impl Into<String>) -> Self {
        Self { support: Verdict::Maybe, reason: reason.into(), ..Self::default() }
    }

    /// Restricts an attribute.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, rule: AttributeRule) -> Self {
        self.attributes.insert(name.into(), rule);
        self
    }
}

impl AttributeRule {
    /// Restricts an attribute to these values.
    pub fn one_of<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self { one_of: values.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Restricts an attribute to a range of numbers, including both ends.
    pub fn between(least: i64, most: i64) -> Self {
        Self { at_least: Some(least), at_most: Some(most), ..Self::default() }
    }
}
