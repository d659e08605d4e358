//! What a device supports, as data: part of `pjrt_plugin.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagnostic::Fault;

/// Operations, attributes and types a device supports.
///
/// ```
/// let table: device_plugin::SupportTable = serde_json::from_str(r#"{
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
    /// Whether it lists all that is supported: then an operation it does not list is not supported; else nobody can tell.
    #[serde(default)]
    pub complete: bool,
    /// Names for lists of element types; rules refer to one as `@name`, and so may a later or earlier group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub type_groups: BTreeMap<String, Vec<String>>,
    /// Whether extents may be unknown until run time.
    #[serde(default)]
    pub dynamic_shapes: bool,
    /// Most dimensions any value may have; none where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<usize>,
    /// Rules by the name of the operation, such as `stablehlo.add`. `stablehlo.custom_call(Qr)` and
    /// `stablehlo.composite(chlo.erf)` are those of one target or name; `stablehlo.*` is every other operation of a
    /// dialect.
    #[serde(default)]
    pub operations: BTreeMap<String, OperationRule>,
}

/// What a device supports of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperationRule {
    /// Whether it is supported at all; where it is, the rest counts.
    #[serde(default)]
    pub support: Verdict,
    /// Why it is not, or what it depends on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Element types its operands and results may have, in StableHLO's spelling: `f32`, `i1`, `ui8`, `complex<f32>`; or
    /// `@name` for those of a group. All where left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Most dimensions an operand or result may have; that of the table where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<usize>,
    /// Rules of attributes, by the specification's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeRule>,
}

/// The values a device supports of an attribute. A list has them where each of its elements has. An attribute that has
/// its default value is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttributeRule {
    /// The values, as the specification spells them: `DEFAULT`, `true`, `1`. Any where left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// The least number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<i64>,
    /// The greatest number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<i64>,
    /// Most elements of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
}

/// Whether an operation is supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As far as the other fields allow.
    #[default]
    Yes,
    /// Never.
    No,
    /// Where something holds that the table cannot say.
    Maybe,
}

impl SupportTable {
    /// A table that lists all a device supports, empty at first.
    pub fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Names a list of element types.
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

    /// All that is wrong with it; nothing where it is right. Names of element types are checked by whoever reads
    /// programs: `Checker::new`, of the feature `stablehlo`.
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
                let message = "an operation is named with its dialect: `stablehlo.add`, `stablehlo.custom_call(Qr)` or \
                               `stablehlo.*`";
                faults.push(Fault::new(field.clone(), message));
            }
            self.groups_exist(&format!("{field}.types"), &rule.types, &mut faults);
            if rule.support != Verdict::Yes && rule.reason.is_empty() {
                let message = format!("{field} is not simply supported; say why");
                faults.push(Fault::new(format!("{field}.reason"), message));
            }
            for (attribute, allowed) in &rule.attributes {
                if let (Some(least), Some(most)) = (allowed.at_least, allowed.at_most)
                    && least > most
                {
                    let field = format!("{field}.attributes.{attribute}");
                    faults.push(Fault::new(field, format!("no number is at least {least} and at most {most}")));
                }
            }
        }
        faults
    }

    fn groups_exist(&self, field: &str, types: &[String], faults: &mut Vec<Fault>) {
        for group in types.iter().filter_map(|ty| ty.strip_prefix('@')) {
            if !self.type_groups.contains_key(group) {
                faults.push(Fault::new(field, format!("there is no group {group:?} in type_groups")));
            }
        }
    }

    /// The element types of a list, its groups resolved. A group that contains itself adds nothing.
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
    /// Supported for these element types.
    pub fn of_types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { types: types.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Never supported.
    pub fn no(reason: impl Into<String>) -> Self {
        Self { support: Verdict::No, reason: reason.into(), ..Self::default() }
    }

    /// Supported where something holds that the table cannot say.
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
    /// One of these values.
    pub fn one_of<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self { one_of: values.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Numbers of a range.
    pub fn between(least: i64, most: i64) -> Self {
        Self { at_least: Some(least), at_most: Some(most), ..Self::default() }
    }
}
