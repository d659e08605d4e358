//! The programs that a device supports, as data in `pjrt_plugin.json`.

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
/// assert!(table.complete && table.operations.len() == 5);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct SupportTable {
    /// Whether the table lists all supported operations. If so, all other operations are unsupported. Otherwise, the
    /// support of other operations is unknown.
    #[serde(default)]
    pub complete: bool,
    /// Whether the plugin runs operations on the host that the device does not support, because the table does not list
    /// them or because of their types, attributes or ranks. Operations whose rule says `no` do not run on the host
    /// either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub host_fallback: bool,
    /// Named groups of element types. Rules and other groups refer to a group as `@name`. The order of the groups does
    /// not matter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub type_groups: BTreeMap<String, Vec<String>>,
    /// Whether the device supports dynamic extents.
    #[serde(default)]
    pub dynamic_shapes: bool,
    /// Maximum rank of any tensor, or `None` if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<usize>,
    /// Rules by the name of the operation, such as `stablehlo.add`. The rule of `stablehlo.custom_call(Qr)` applies to
    /// one call target, and the rule of `stablehlo.composite(chlo.erf)` to one composite. The rule of `stablehlo.*`
    /// applies to all operations of the dialect that have no rule of their own.
    #[serde(default)]
    pub operations: BTreeMap<String, OperationRule>,
}

/// The restrictions under which a device supports an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct OperationRule {
    /// Whether the operation is supported. The other fields restrict the support.
    #[serde(default)]
    pub support: Verdict,
    /// The reason why the operation is not supported, or the condition under which it is supported.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Supported element types of the operands and results in StableHLO's spelling, such as `f32`, `i1`, `ui8` or
    /// `complex<f32>`, or `@name` for the types of a group. If omitted, all types are supported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// Maximum rank of an operand or result. If omitted, the maximum rank of the table applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rank: Option<usize>,
    /// Rules for attributes, by the attribute names of the StableHLO specification.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeRule>,
}

/// The supported values of an attribute. A list is supported if all of its elements are supported. Attributes with
/// their default value are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct AttributeRule {
    /// The supported values in the specification's spelling, such as `DEFAULT`, `true` or `1`. If omitted, any value is
    /// supported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<String>,
    /// Smallest supported integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<i64>,
    /// Largest supported integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<i64>,
    /// Maximum number of elements, if the value is a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
}

/// Whether an operation is supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verdict {
    /// The operation is supported, subject to the other fields of the rule.
    #[default]
    Yes,
    /// The operation is not supported.
    No,
    /// The operation is supported under a condition that the table cannot express.
    Maybe,
}

impl SupportTable {
    /// Returns all faults of the table, except for unknown names of element types. `Checker::new`, which requires the
    /// feature `stablehlo`, also checks these names.
    pub(crate) fn validate(&self) -> Vec<Fault> {
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

    /// Expands the groups in a list of element types. Each group is expanded only once, even if it contains itself.
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
    /// Creates the rule of an operation that is supported for these element types.
    pub fn of_types<T: Into<String>>(types: impl IntoIterator<Item = T>) -> Self {
        Self { types: types.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}
