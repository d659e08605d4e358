//! Extracts comments and strings from files in languages other than Rust: Python, C, C++, TOML, YAML and shell scripts.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::prose::{Kind, Paragraph, code, regex};

/// A group of languages with the same syntax of comments and strings.
#[derive(Clone, Copy)]
pub(super) enum Language {
    Python,
    /// C and C++.
    C,
    Toml,
    /// Shell scripts and YAML. Strings are ignored.
    Shell,
}

impl Language {
    /// Returns the language of a file, according to its name.
    pub(super) fn of(name: &str) -> Option<Self> {
        if name == ".ci/run" {
            return Some(Self::Shell);
        }
        match name.rsplit_once('.')?.1 {
            "py" => Some(Self::Python),
            "c" | "cc" | "cpp" | "h" | "hpp" => Some(Self::C),
            "toml" => Some(Self::Toml),
            "sh" | "yml" => Some(Self::Shell),
            _ => None,
        }
    }

    /// Returns the pattern of a comment or a string. The text of a match is in one of three groups: `block` for a
    /// comment or a documentation string that may have several lines, `line` for a comment that ends with its line, or
    /// `string`.
    fn tokens(self) -> &'static Regex {
        static PYTHON: LazyLock<Regex> = LazyLock::new(|| {
            regex(
                r#"(?s)"""(?<block>.*?)"""|'''.*?'''|"(?<string>(?:\\.|[^"\\\n])*)"|'(?:\\.|[^'\\\n])*'|#(?<line>[^\n]*)"#,
            )
        });
        static C: LazyLock<Regex> = LazyLock::new(|| {
            regex(
                r#"(?s)/\*(?<block>.*?)\*/|"(?<string>(?:\\.|[^"\\\n])*)"|'(?:\\.|[^'\\\n])*'|//[/!]?(?<line>[^\n]*)"#,
            )
        });
        static TOML: LazyLock<Regex> =
            LazyLock::new(|| regex(r#"(?<block>\x00)|"(?<string>(?:\\.|[^"\\\n])*)"|'[^'\n]*'|#(?<line>[^\n]*)"#));
        static SHELL: LazyLock<Regex> =
            LazyLock::new(|| regex(r"(?m)(?<block>\x00)|(?<string>\x00)|(?:^|[ \t])#(?<line>[^\n]*)"));
        match self {
            Self::Python => &PYTHON,
            Self::C => &C,
            Self::Toml => &TOML,
            Self::Shell => &SHELL,
        }
    }
}

/// Returns the paragraphs of comments and string literals.
pub(super) fn paragraphs(source: &str, language: Language) -> Vec<Paragraph> {
    let mut found = Vec::new();
    // A paragraph of adjacent line comments without code on the same line, and the number of the line after it.
    let mut adjacent: Option<(Paragraph, usize)> = None;
    for token in language.tokens().captures_iter(source) {
        let Some((kind, text, line)) = part(source, &token) else { continue };
        if kind == "line" {
            let start = source[..text.start()].rfind('\n').map_or(0, |end| end + 1);
            let alone = source[start..text.start()].trim_matches([' ', '\t', '#', '/', '!']).is_empty();
            match &mut adjacent {
                Some((paragraph, next)) if alone && *next == line => {
                    paragraph.text.push('\n');
                    paragraph.text.push_str(text.as_str());
                    *next += 1;
                }
                _ => {
                    found.extend(adjacent.take().map(|(paragraph, _)| paragraph));
                    let paragraph = Paragraph { line, kind: Kind::Text, text: text.as_str().to_owned() };
                    adjacent = Some((paragraph, if alone { line + 1 } else { 0 }));
                }
            }
            continue;
        }
        found.extend(adjacent.take().map(|(paragraph, _)| paragraph));
        if kind == "block" {
            block(text.as_str(), line, &mut found);
        } else if text.as_str().contains(' ') {
            found.push(Paragraph { line, kind: Kind::Message, text: text.as_str().to_owned() });
        }
    }
    found.extend(adjacent.map(|(paragraph, _)| paragraph));
    for paragraph in &mut found {
        paragraph.text = code(&paragraph.text);
    }
    found
}

/// Returns the name and the text of the group that matched, and the line on which the text starts.
fn part<'a>(source: &str, token: &Captures<'a>) -> Option<(&'static str, regex::Match<'a>, usize)> {
    let found = |name: &'static str| Some((name, token.name(name)?));
    let (name, text) = found("line").or_else(|| found("block")).or_else(|| found("string"))?;
    Some((name, text, source[..text.start()].matches('\n').count() + 1))
}

/// Adds the paragraphs of a comment or documentation string of several lines, without the `*` at the start of its
/// lines.
fn block(text: &str, first: usize, found: &mut Vec<Paragraph>) {
    let mut current: Option<Paragraph> = None;
    for (line, text) in (first..).zip(text.lines()) {
        let text = text.trim().trim_start_matches('*').trim_start();
        match &mut current {
            _ if text.is_empty() => found.extend(current.take()),
            Some(paragraph) => {
                paragraph.text.push('\n');
                paragraph.text.push_str(text);
            }
            None => current = Some(Paragraph { line, kind: Kind::Text, text: text.to_owned() }),
        }
    }
    found.extend(current);
}

#[cfg(test)]
mod tests {
    use super::{Kind, Language, paragraphs};

    fn found(source: &str, language: Language) -> Vec<(usize, Kind, String)> {
        let trimmed = |text: String| text.lines().map(str::trim).collect::<Vec<_>>().join("|");
        paragraphs(source, language).into_iter().map(|p| (p.line, p.kind, trimmed(p.text))).collect()
    }

    #[test]
    fn python() {
        let source =
            "\"\"\"First.\n\nSecond\nline.\n\"\"\"\n# a\n# b\nx = 1  # c\n# d\nf('it # is', \"one `x` two\")\n";
        let expected = [
            (1, Kind::Text, "First."),
            (3, Kind::Text, "Second|line."),
            (6, Kind::Text, "a|b"),
            (8, Kind::Text, "c"),
            (9, Kind::Text, "d"),
            (10, Kind::Message, "one `_` two"),
        ];
        assert_eq!(found(source, Language::Python), expected.map(|(line, kind, text)| (line, kind, text.to_owned())));
    }

    #[test]
    fn c() {
        let source = "/// a\n/// b\n/* one\n *\n * two\n */\nint x; // c\nputs(\"no // comment\");";
        let expected = [
            (1, Kind::Text, "a|b"),
            (3, Kind::Text, "one"),
            (5, Kind::Text, "two"),
            (7, Kind::Text, "c"),
            (8, Kind::Message, "no // comment"),
        ];
        assert_eq!(found(source, Language::C), expected.map(|(line, kind, text)| (line, kind, text.to_owned())));
    }

    #[test]
    fn toml_and_shell() {
        let source = "# a\nkey = \"not # one\"  # b\n";
        let expected = [(1, Kind::Text, "a"), (2, Kind::Message, "not # one"), (2, Kind::Text, "b")];
        assert_eq!(found(source, Language::Toml), expected.map(|(line, kind, text)| (line, kind, text.to_owned())));
        let expected = [(1, Kind::Text, "it's"), (2, Kind::Text, "b")];
        let found = found("# it's\necho $# \"x\"  # b\n", Language::Shell);
        assert_eq!(found, expected.map(|(line, kind, text)| (line, kind, text.to_owned())));
    }
}
