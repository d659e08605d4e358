//! Checks that tests compare kinds, codes and fields of errors. Only the recorded messages may compare the wording.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::prose::{self, Kind, regex};

/// The crates whose tests are checked. The tests of the other crates search the output of commands, or compile errors.
const CRATES: &[&str] = &[
    "device-plugin",
    "pjrt",
    "pjrt-bench",
    "pjrt-c",
    "pjrt-conformance",
    "pjrt-cpu",
    "pjrt-layers",
    "pjrt-record",
    "pjrt-types",
    "plugin-manifest",
    "plugin-registry",
    "private-files",
    "process-transport",
    "stablehlo",
    "stablehlo-cpu",
    "stablehlo-jit",
];
/// The file with the messages to which `recorded_messages::assert_message!` compares.
const RECORDED: &str = "tests/messages/cases.txt";
/// Number of consecutive words that must be in a message of a crate and in a test's string to count as the message's
/// wording.
const WORDS: usize = 3;

/// Adds a fault for each string that a test searches for in a message or compares with a message, if a message of the
/// crate contains the same words. Ignores words that a test itself defines, such as the error message of its own
/// plugin.
pub(super) fn check(files: &[(String, String)], faults: &mut Vec<String>) {
    for name in CRATES {
        let files = files.iter().filter(|(path, _)| path.split('/').nth(1) == Some(name));
        let parts: Vec<(&str, &str, &str)> = files
            .map(|(path, text)| (&**path, split(path, text)))
            .map(|(path, (code, test))| (path, code, test))
            .collect();
        let messages: BTreeSet<String> =
            parts.iter().flat_map(|(_, code, _)| strings(code)).flat_map(|s| runs(&s)).collect();
        let tests = || parts.iter().filter(|(path, ..)| !path.ends_with("/messages.rs"));
        let own: BTreeSet<String> =
            tests().flat_map(|(_, _, test)| strings(&without_matches(test))).flat_map(|s| runs(&s)).collect();
        for (path, code, test) in tests() {
            for (at, text) in matches(test) {
                if runs(text).iter().any(|run| messages.contains(run) && !own.contains(run)) {
                    let line = 1 + code.matches('\n').count() + test[..at].matches('\n').count();
                    faults.push(format!(
                        "{path}:{line}: the test matches the words {text:?} of a message; compare a kind, code or field, \
                         and record the message with `recorded_messages::assert_message!`"
                    ));
                }
            }
        }
    }
}

/// Adds a fault for each recorded section that no source of its crate contains. `recorded` contains the path and the
/// text of each file.
pub(super) fn check_sections(recorded: &[(String, String)], files: &[(String, String)], faults: &mut Vec<String>) {
    for (path, text) in recorded {
        let Some(folder) = path.strip_suffix(RECORDED) else { continue };
        let sources: Vec<&str> =
            files.iter().filter(|(path, _)| path.starts_with(folder)).map(|(_, text)| text.as_str()).collect();
        for section in text.lines().filter_map(|line| line.strip_prefix("# ")) {
            let literal = format!("\"{section}\"");
            if !sources.iter().any(|text| text.contains(&literal)) {
                faults.push(format!("{path}: no test has the section {section}; remove it"));
            }
        }
    }
}

/// Splits a file into its code and its tests.
fn split<'t>(path: &str, text: &'t str) -> (&'t str, &'t str) {
    let all = path.contains("/tests/") || path.ends_with("tests.rs") || path.ends_with("/messages.rs");
    let at = if all { 0 } else { text.find("\nmod tests {").unwrap_or(text.len()) };
    text.split_at(at)
}

/// Returns the string literals with at least two words.
fn strings(source: &str) -> Vec<String> {
    prose::rust(source).into_iter().filter(|found| found.kind == Kind::Message).map(|found| found.text).collect()
}

/// Returns all sequences of [`WORDS`] words in a text, with only spaces between the words.
fn runs(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphabetic() && !c.is_whitespace() && c != '\'');
    let runs = parts.flat_map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.windows(WORDS).map(|words| words.join(" ")).collect::<Vec<_>>()
    });
    runs.collect()
}

/// Matches a search for a string.
static SEARCH: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"\b(?:contains|starts_with|ends_with|strip_prefix)\(\s*&?(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#)
});
/// Matches a comparison of a message or a displayed value with a string.
static COMPARISON: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"assert_eq!\(\s*[^;"]*(?:message\b|message\(\)|to_string\(\))[^;"]*,\s*\(?[^;"]*"((?:[^"\\]|\\.)*)""#)
});

/// Returns the strings that tests search for or compare with messages, each with its byte offset in `test`.
fn matches(test: &str) -> impl Iterator<Item = (usize, &str)> {
    let found = SEARCH.captures_iter(test).chain(COMPARISON.captures_iter(test));
    found.filter_map(|found| found.get(1)).map(|text| (text.start(), text.as_str()))
}

fn without_matches(test: &str) -> String {
    COMPARISON.replace_all(&SEARCH.replace_all(test, ""), "").into_owned()
}

#[cfg(test)]
mod tests {
    use super::{check, check_sections};

    const CODE: &str = "fn f() { fail(format!(\"argument {index}: the buffer has been deleted\")) }\n";

    fn faults(test: &str) -> usize {
        let files = [("src/buffer.rs", CODE), ("tests/buffer.rs", test)];
        let files = files.map(|(path, text)| (format!("crates/pjrt/{path}"), text.to_owned()));
        let mut faults = Vec::new();
        check(&files, &mut faults);
        faults.len()
    }

    #[test]
    fn words_of_messages_are_found() {
        assert_eq!(faults("assert!(error.message().contains(\"buffer has been\"));"), 1);
        assert_eq!(faults("assert_eq!(error.to_string(), \"argument 0: the buffer has been deleted\");"), 1);
        assert_eq!(faults("assert!(error.starts_with(&format!(\"argument {i}: the buffer has\")));"), 1);
        assert_eq!(faults("assert_message!(\"deleted\", \"argument 0\", error);"), 0);
    }

    #[test]
    fn data_of_the_test_is_not_found() {
        assert_eq!(faults("assert!(error.message().contains(\"argument 7\"));"), 0);
        assert_eq!(faults("assert_eq!(output, 3, \"the buffer has been deleted\");"), 0);
        assert_eq!(faults("fail(\"the buffer has holes\"); assert!(text.contains(\"the buffer has holes\"));"), 0);
    }

    #[test]
    fn stale_sections_are_found() {
        let recorded =
            [("crates/pjrt/tests/messages/cases.txt".to_owned(), "# used\na\n    b\n\n# stale\n".to_owned())];
        let files = [("crates/pjrt/tests/x.rs".to_owned(), "assert_message!(\"used\", \"a\", error);".to_owned())];
        let mut faults = Vec::new();
        check_sections(&recorded, &files, &mut faults);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("stale"));
    }
}
