//! Compares error messages with the messages that are recorded in `tests/messages/cases.txt` of a crate. Tests match
//! the kinds, codes and fields of errors, and only this file contains the wording.
//!
//! ```text
//! # execution::deleted_arguments
//! argument 0
//!     argument 0: the buffer has been deleted
//! ```
//!
//! `UPDATE_EXPECT=1 cargo test -p CRATE` records the messages that the tests produce. A section belongs to one test.
//! Recording replaces the whole section, which removes cases that the test no longer has.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Asserts that a message equals the recorded message of a case in a section.
///
/// `cargo xtask tidy` rejects recorded sections that no source file of the crate contains as a string.
#[macro_export]
macro_rules! assert_message {
    ($section:expr, $case:expr, $message:expr $(,)?) => {
        $crate::Recorded::of_crate(env!("CARGO_MANIFEST_DIR")).assert($section, &$case, &$message)
    };
}

/// The sections by name. Each section contains the message of each case, by the name of the case.
type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// The file with the recorded messages of a crate.
#[derive(Debug)]
pub struct Recorded {
    path: PathBuf,
    update: bool,
}

impl Recorded {
    /// Returns the file of the crate in `folder`. The environment variable `UPDATE_EXPECT` determines whether messages
    /// are recorded or compared.
    pub fn of_crate(folder: &str) -> Self {
        let path = Path::new(folder).join("tests/messages/cases.txt");
        Self { path, update: std::env::var_os("UPDATE_EXPECT").is_some() }
    }

    /// Compares or records a message.
    ///
    /// # Panics
    ///
    /// Panics if the recorded message of the case differs or is missing. While messages are recorded, panics if this
    /// run has already recorded another message for the case, or if the file cannot be written.
    #[track_caller]
    pub fn assert(&self, section: &str, case: &dyn Display, message: &dyn Display) {
        let (case, message) = (case.to_string(), message.to_string());
        if self.update {
            return self.record(section, &case, &message);
        }
        let sections = self.read();
        let recorded = sections.get(section).and_then(|cases| cases.get(&case));
        assert_eq!(
            Some(&message),
            recorded,
            "the message of {section}, case {case}, differs from {}; set UPDATE_EXPECT=1 to record it",
            self.path.display()
        );
    }

    /// Records a message. A mutex is sufficient, because the tests of a program are threads, and Cargo runs one test
    /// program at a time.
    fn record(&self, section: &str, case: &str, message: &str) {
        static BEGUN: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());
        let mut begun = BEGUN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut sections = self.read();
        let cases = sections.entry(section.to_owned()).or_default();
        if begun.insert((self.path.clone(), section.to_owned())) {
            cases.clear();
        }
        let earlier = cases.insert(case.to_owned(), message.to_owned());
        if let Some(earlier) = earlier.filter(|earlier| earlier != message) {
            drop(begun);
            panic!(
                "{section} records two messages for the case {case}; give each a case of its own:\n{earlier}\n{message}"
            );
        }
        let folder = self.path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = folder.and_then(|()| std::fs::write(&self.path, written(&sections))) {
            panic!("cannot write {}: {error}", self.path.display());
        }
    }

    fn read(&self) -> Sections {
        parse(&std::fs::read_to_string(&self.path).unwrap_or_default())
    }
}

fn parse(text: &str) -> Sections {
    let (mut section, mut case) = (String::new(), String::new());
    let mut sections = Sections::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            name.clone_into(&mut section);
        } else if let Some(part) = line.strip_prefix("    ") {
            let message = sections.entry(section.clone()).or_default().entry(case.clone()).or_default();
            message.push_str(if message.is_empty() { "" } else { "\n" });
            message.push_str(part);
        } else {
            line.clone_into(&mut case);
        }
    }
    sections
}

fn written(sections: &Sections) -> String {
    let mut text = String::new();
    for (section, cases) in sections {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}# {section}");
        for (case, message) in cases {
            let _ = writeln!(text, "{case}\n    {}", message.replace('\n', "\n    "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> Recorded {
        let path = std::env::temp_dir().join(format!("recorded-messages-{}-{name}", std::process::id()));
        Recorded { path, update: true }
    }

    #[test]
    fn sections_are_replaced() {
        let file = recorded("sections");
        std::fs::write(&file.path, "# a\nold\n    dropped\n\n# b\nkept\n    stays\n").unwrap();
        file.assert("a", &"one", &"first\nsecond");
        file.assert("a", &2, &"third");
        let text = std::fs::read_to_string(&file.path).unwrap();
        std::fs::remove_file(&file.path).unwrap();
        assert_eq!(text, "# a\n2\n    third\none\n    first\n    second\n\n# b\nkept\n    stays\n");
        assert_eq!(written(&parse(&text)), text);
    }

    #[test]
    fn second_message_of_a_case_panics() {
        let file = recorded("twice");
        std::fs::write(&file.path, "# a\none\n    of an earlier run\n").unwrap();
        file.assert("a", &"one", &"first");
        file.assert("a", &"one", &"first");
        file.assert("b", &"one", &"second");
        #[allow(clippy::disallowed_methods, reason = "the panic is the result")]
        let outcome = std::panic::catch_unwind(|| file.assert("a", &"one", &"second"));
        let panic = *outcome.unwrap_err().downcast::<String>().unwrap();
        assert!(panic.starts_with("a records two messages for the case one;"), "{panic}");
        assert!(panic.ends_with(":\nfirst\nsecond"), "{panic}");
        let text = std::fs::read_to_string(&file.path).unwrap();
        std::fs::remove_file(&file.path).unwrap();
        assert_eq!(text, "# a\none\n    first\n\n# b\none\n    second\n");
    }

    #[test]
    fn other_messages_panic() {
        let file = Recorded { update: false, ..recorded("others") };
        std::fs::write(&file.path, "# a\none\n    first\n").unwrap();
        file.assert("a", &"one", &"first");
        for (section, case, message) in [("a", "one", "second"), ("a", "two", "first"), ("b", "one", "first")] {
            let compare = || file.assert(section, &case, &message);
            #[allow(clippy::disallowed_methods, reason = "the panic is the result")]
            let outcome = std::panic::catch_unwind(compare);
            assert!(outcome.is_err(), "{section} {case} {message}");
        }
        std::fs::remove_file(&file.path).unwrap();
    }
}
