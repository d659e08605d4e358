//! Colors reports for terminals. `anstream` removes the color sequences if the output is a pipe or a file, or if
//! `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};

/// The meaning of a word in a report, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Good,
    Notable,
    Bad,
    #[cfg_attr(not(feature = "full"), expect(dead_code, reason = "only `doctor` has headings"))]
    Heading,
}

impl Meaning {
    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Notable => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Heading => Style::new().bold(),
        }
    }
}

/// Formats a text in the color of a meaning. The text must not contain control characters.
pub(crate) fn paint(meaning: Meaning, text: &str) -> String {
    let style = meaning.style();
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_change_text() {
        for meaning in [Meaning::Good, Meaning::Notable, Meaning::Bad, Meaning::Heading] {
            let painted = paint(meaning, "ok");
            assert!(painted.starts_with('\u{1b}') && painted.ends_with("\u{1b}[0m"), "{painted:?}");
            assert_eq!(anstream::adapter::strip_str(&painted).to_string(), "ok");
        }
    }
}
