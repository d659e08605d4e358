//! Checks that each test has a short name for its case. The module of the test names the subject.

use std::sync::LazyLock;

use regex::Regex;

use super::prose::regex;

/// Maximum length of a test's name, in characters.
const MAX_LENGTH: usize = 50;

/// Adds a fault for each test of a file whose name is too long or begins like a sentence.
pub(super) fn check(file: &str, text: &str, faults: &mut Vec<String>) {
    // Other attributes may be between `#[test]` and the function.
    static TEST: LazyLock<Regex> = LazyLock::new(|| regex(r"#\[test\]\s+(?:#\[[^\n]*\]\s+)*(?:pub )?fn (\w+)"));
    static SENTENCE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(a|an|the|what|who|it|there)_"));
    for found in TEST.captures_iter(text) {
        let name = &found[1];
        if name.len() > MAX_LENGTH || SENTENCE.is_match(name) {
            faults.push(format!(
                "{file}: test {name}: write a short case, such as `pending_callback_still_runs`, of at most {MAX_LENGTH} characters"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn long_and_sentence_like_names_are_faults() {
        let test = |name: &str| format!("    #[test]\n    #[cfg(unix)]\n    fn {name}() {{}}\n");
        let names = ["a_call_fails", "what_fails_is_named", &"x".repeat(51), "fails", "an", &"x".repeat(50)];
        let text: String = names.map(test).concat();
        let mut faults = Vec::new();
        check("x.rs", &text, &mut faults);
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].starts_with("x.rs: test a_call_fails: "));
    }
}
