//! Formats source locations.

use std::fmt::Write;

use crate::ir::{Location, LocationId, Locations, Module};

/// Maximum depth of nested locations that are followed, because the locations of a malicious program may be cyclic.
const MAX_DEPTH: usize = 16;
/// Length in bytes after which a formatted location is truncated.
const MAX_LENGTH: usize = 1024;

impl Module {
    /// Formats the source location of an op in one line: `jit(f)/add at f.py:3:10 from g.py:8:1`. Returns an empty
    /// string if no location is recorded.
    ///
    /// A location without a file name refers to a line of the program text. Very long or deeply nested locations are
    /// truncated.
    #[must_use]
    pub fn location(&self, id: LocationId) -> String {
        self.locations.format(id)
    }
}

impl Locations {
    /// Formats a location as [`Module::location`] does.
    pub(crate) fn format(&self, id: LocationId) -> String {
        let mut text = String::new();
        self.write_location(&mut text, id, 0);
        text
    }

    fn write_location(&self, text: &mut String, id: LocationId, depth: usize) {
        if depth > MAX_DEPTH || text.len() > MAX_LENGTH {
            if !text.ends_with("...") {
                text.push_str("...");
            }
            return;
        }
        let nested = |text: &mut String, id, separator: &str| {
            let mark = text.len();
            text.push_str(separator);
            let start = text.len();
            self.write_location(text, id, depth + 1);
            if text.len() == start {
                text.truncate(mark);
            }
        };
        let location = self.get(id);
        match location.as_deref() {
            None | Some(Location::Unknown) => {}
            Some(Location::File { file, line, column }) => {
                let _ = match (file.is_empty(), line, column) {
                    (true, ..) => write!(text, "line {line}:{column}"),
                    (false, 0, _) => write!(text, "{file}"),
                    (false, _, 0) => write!(text, "{file}:{line}"),
                    (false, ..) => write!(text, "{file}:{line}:{column}"),
                };
            }
            Some(Location::Name(name, place)) => {
                text.push_str(name);
                nested(text, *place, " at ");
            }
            Some(Location::CallSite(callee, caller)) => {
                nested(text, *callee, "");
                let separator = if text.is_empty() { "" } else { " from " };
                nested(text, *caller, separator);
            }
            Some(Location::Fused(places)) => {
                for (i, place) in places.iter().enumerate() {
                    if text.len() > MAX_LENGTH {
                        break;
                    }
                    nested(text, *place, if i == 0 { "" } else { " and " });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_start_innermost() {
        let file = |file: &str, line, column| Location::File { file: file.into(), line, column };
        let module = Module {
            locations: vec![
                Location::Unknown,
                file("f.py", 3, 10),
                file("g.py", 8, 0),
                Location::CallSite(LocationId(1), LocationId(2)),
                Location::Name("add".into(), LocationId(3)),
                Location::Name("bare".into(), LocationId(0)),
                Location::Fused(vec![LocationId(5), LocationId(2)]),
                file("", 12, 5),
            ]
            .into(),
            ..Module::default()
        };
        assert_eq!(module.location(LocationId(4)), "add at f.py:3:10 from g.py:8");
        assert_eq!(module.location(LocationId(5)), "bare");
        assert_eq!(module.location(LocationId(6)), "bare and g.py:8");
        assert_eq!(module.location(LocationId(7)), "line 12:5");
        assert_eq!(module.location(LocationId(0)), "");
        assert_eq!(module.location(LocationId(99)), "");
    }

    #[test]
    fn cycles_end() {
        let module = Module {
            locations: vec![Location::Fused(vec![LocationId(0), LocationId(0), LocationId(0)])].into(),
            ..Module::default()
        };
        assert!(module.location(LocationId(0)).len() < 2 * MAX_LENGTH);
    }
}
