//! Checks that tests still compare the messages that are recorded in `tests/messages/cases.txt` of their crate.

/// The file with the messages to which `recorded_messages::assert_message!` compares.
const RECORDED: &str = "tests/messages/cases.txt";

/// Adds a fault for each recorded section that no source of its crate contains. `recorded` and `sources` contain the path
/// and the text of each file.
pub(super) fn check(recorded: &[(String, String)], sources: &[(String, String)], faults: &mut Vec<String>) {
    for (path, text) in recorded {
        let Some(folder) = path.strip_suffix(RECORDED) else { continue };
        let own = || sources.iter().filter(|(path, _)| path.starts_with(folder));
        for section in text.lines().filter_map(|line| line.strip_prefix("# ")) {
            let literal = format!("\"{section}\"");
            if !own().any(|(_, text)| text.contains(&literal)) {
                faults.push(format!("{path}: no test has the section {section}; remove it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn sections_without_test_are_faults() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let recorded = [file("crates/a/tests/messages/cases.txt", "# kept\none\n    x\n\n# gone\none\n    x\n")];
        let sources = [file("crates/a/tests/t.rs", "\"kept\""), file("crates/b/tests/t.rs", "\"gone\"")];
        let mut faults = Vec::new();
        check(&recorded, &sources, &mut faults);
        assert_eq!(faults, ["crates/a/tests/messages/cases.txt: no test has the section gone; remove it"]);
    }
}
