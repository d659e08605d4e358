//! Escapes control characters, so that they never reach a terminal.
//!
//! Names, paths and descriptions come from manifests, variables and libraries. An escape sequence in such a string
//! could clear the screen or forge a line of output.

use std::borrow::Cow;

/// Returns whether a terminal may interpret a character as a command, or change the order of the characters after it.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, active: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(&active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if active(c) { escape(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Escapes all control characters except line feeds and tabs. Use this function for whole reports.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_active(c) && !matches!(c, '\n' | '\t'), |out, c| out.extend(c.escape_default()))
}

/// Escapes all control characters. Use this function for strings within a line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_active, |out, c| out.extend(c.escape_default()))
}

/// Escapes the control characters that JSON permits unescaped. These characters occur only within strings, so the JSON
/// value stays the same.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let active = |c| is_active(c) && !matches!(c, '\n' | '\t');
    escaped(text, active, |out, c| out.push_str(&format!("\\u{:04x}", u32::from(c))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_get_nothing_to_obey() {
        let hostile = "a\u{1b}[2J\u{7}\0\u{9b}1m\u{202e}\u{7f}\n\tb";
        assert_eq!(lines(hostile), "a\\u{1b}[2J\\u{7}\\u{0}\\u{9b}1m\\u{202e}\\u{7f}\n\tb");
        assert!(one_line(hostile).ends_with("\\n\\tb"));
        assert!(matches!(lines("größe µs\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "name": "a\u{9b}\u{7f}\u{202e}\u{1b}" });
        let (plain, safe) = (format!("{value:#}"), json(&format!("{value:#}")).into_owned());
        assert!(plain != safe && !safe.contains(|c| is_active(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
