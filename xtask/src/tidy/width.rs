//! Checks that lines of prose in Markdown files and in comments of Rust and TOML files have at most 120 characters,
//! unless they are tables, headings, quotations, HTML, code or definitions of links. rustfmt limits the width of code.

/// Maximum number of characters of a line. `rustfmt.toml` has the same number.
const WIDTH: usize = 120;

/// Adds a fault for each line that is too long although it could be broken.
pub(super) fn check(name: &str, text: &str, faults: &mut Vec<String>) {
    let markers: &[&str] = match name.rsplit_once('.') {
        Some((_, "md")) => &[""],
        Some((_, "toml")) => &["#"],
        _ => &["///", "//!", "//"],
    };
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let Some(prose) = markers.iter().find_map(|marker| start.strip_prefix(marker)) else {
            is_code = false;
            continue;
        };
        let prose = prose.trim_start();
        if prose.starts_with("```") || prose.starts_with("~~~") {
            is_code = !is_code;
        }
        let is_exempt = is_code || prose.starts_with(['|', '#', '<', '>']) || is_definition(prose);
        if !is_exempt && line.chars().count() > WIDTH && has_two_words(prose) {
            faults.push(format!("{name}:{number}: longer than {WIDTH} characters"));
        }
    }
}

/// Returns whether a line of Markdown defines the target of links, such as `[PJRT]: https://openxla.org`.
fn is_definition(line: &str) -> bool {
    line.starts_with('[') && line.split_once("]: ").is_some_and(|(name, _)| !name.contains(' '))
}

/// Returns whether a line contains a space outside of inline code, after a list marker.
fn has_two_words(line: &str) -> bool {
    let line = line.strip_prefix("- ").unwrap_or(line);
    line.split('`').step_by(2).any(|text| text.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_a_fault() {
        let (words, code) = ("word ".repeat(30), "a_b".repeat(50));
        let faults = |name: &str, text: String| {
            let mut faults = Vec::new();
            check(name, &text, &mut faults);
            faults
        };
        assert_eq!(faults("a.md", format!("short\n{words}")), ["a.md:2: longer than 120 characters"]);
        assert_eq!(faults("a.rs", format!("    /// {words}")), ["a.rs:1: longer than 120 characters"]);
        assert_eq!(faults("a.toml", format!("# {words}")), ["a.toml:1: longer than 120 characters"]);
        for exempt in
            [format!("- `{code}`"), format!("| {words}"), format!("```text\n{words}\n```"), format!("[a]: {code}")]
        {
            assert!(faults("a.md", exempt.clone()).is_empty(), "{exempt}");
        }
        assert!(faults("a.rs", format!("let text = \"{words}\";")).is_empty());
    }
}
