//! Capabilities as a table for display.

use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use super::{Capabilities, for_each_capability};

/// One field of [`Capabilities`], as the command line prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// Name of the field, which is also its JSON key.
    pub field: &'static str,
    /// Value of the field for display. `None` and empty lists are displayed as `none`.
    pub value: String,
    /// Whether the value is what frameworks assume about an unknown device.
    pub is_default: bool,
    /// The rule of a framework that the field replaces. Empty if there is no such rule.
    pub replaces: &'static str,
}

/// Generates the field names, and the function that returns the rows.
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty { c: [$($c:ident),*], replaces: $replaces:literal, }
    )*) => {
        /// Names of the fields, in the order of the struct.
        pub(super) const FIELDS: &[&str] = &[$(stringify!($field)),*];

        fn rows(capabilities: &Capabilities) -> Vec<Row> {
            let default = Capabilities::default();
            vec![$(
                Row {
                    field: stringify!($field),
                    value: text(&serde_json::to_value(&capabilities.$field).unwrap_or(Json::Null)),
                    is_default: capabilities.$field == default.$field,
                    replaces: $replaces,
                },
            )*]
        }
    };
}
for_each_capability!(rows);

impl Capabilities {
    /// Returns every field with its value, in the order of the struct.
    pub fn rows(&self) -> Vec<Row> {
        rows(self)
    }

    /// Returns the fields that differ from their defaults, with their values.
    pub fn differences(&self) -> Vec<(&'static str, String)> {
        self.rows().into_iter().filter(|row| !row.is_default).map(|row| (row.field, row.value)).collect()
    }

    /// Returns a table of all fields, or only of the fields that differ from their defaults.
    pub fn table(&self, all: bool) -> Table {
        Table(self.rows().into_iter().filter(|row| all || !row.is_default).collect())
    }
}

/// Prints the fields that differ from their defaults. If all fields have their defaults, prints a line that states
/// this.
impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(false).fmt(f)
    }
}

/// Table of fields and values. Its text has one line for each field, and no final line break. The text of an empty
/// table states that the capabilities are those of an unknown device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(Vec<Row>);

impl Table {
    /// Returns the rows of the table.
    pub fn rows(&self) -> &[Row] {
        &self.0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("as of a device that frameworks do not know");
        }
        let width = self.0.iter().map(|row| row.field.len()).max().unwrap_or(0);
        for (index, Row { field, value, .. }) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{field:width$}  {value}")?;
        }
        Ok(())
    }
}

/// Formats a field's value for display, without JSON's quotation marks, braces and brackets.
fn text(json: &Json) -> String {
    let join = |items: Vec<String>, empty: &str| if items.is_empty() { empty.to_owned() } else { items.join(", ") };
    match json {
        Json::Null => "none".to_owned(),
        Json::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Json::String(word) => word.clone(),
        Json::Number(number) => number.to_string(),
        Json::Array(items) => {
            let nested = |item: &Json| matches!(item, Json::Array(_) | Json::Object(_));
            let item = |item: &Json| if nested(item) { format!("({})", text(item)) } else { text(item) };
            join(items.iter().map(item).collect(), "none")
        }
        Json::Object(fields) => {
            let field = |(name, value): (&String, &Json)| match value {
                Json::Array(_) | Json::Object(_) => format!("{name} ({})", text(value)),
                _ => format!("{name} {}", text(value)),
            };
            join(fields.iter().map(field).collect(), "none")
        }
    }
}
