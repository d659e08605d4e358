//! Extracts the text that people read from a file: paragraphs of comments, doc comments, string literals and Markdown.

use std::ops::Range;
use std::sync::LazyLock;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use ra_ap_rustc_lexer::{DocStyle, FrontmatterAllowed, LiteralKind, TokenKind, tokenize};
use regex::Regex;

/// The origin of a paragraph. Some rules apply only to some kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A comment, a doc comment or a paragraph of Markdown.
    Text,
    /// A heading, which need not be a sentence.
    Heading,
    /// A string literal.
    Message,
}

/// One paragraph. Line breaks within it are kept, so that the line of each position can be found. Inline code and
/// placeholders of format strings are replaced by `_`.
#[derive(Debug)]
pub(super) struct Paragraph {
    pub(super) line: usize,
    pub(super) kind: Kind,
    pub(super) text: String,
}

impl Paragraph {
    /// Returns the sentences, each with the line on which it starts.
    pub(super) fn sentences(&self) -> Vec<(usize, &str)> {
        static END: LazyLock<Regex> = LazyLock::new(|| regex(r#"[.!?]['")]*\s+|\x01"#));
        let mut sentences = Vec::new();
        let mut start = 0;
        for end in END.find_iter(&self.text) {
            let next = self.text[end.end()..].chars().next();
            if next.is_some_and(|next| !next.is_lowercase()) {
                self.push(start..end.end(), &mut sentences);
                start = end.end();
            }
        }
        self.push(start..self.text.len(), &mut sentences);
        sentences
    }

    fn push<'a>(&'a self, range: Range<usize>, sentences: &mut Vec<(usize, &'a str)>) {
        let sentence = &self.text[range.clone()];
        let skipped = range.start + sentence.len() - sentence.trim_start().len();
        let sentence = sentence.trim();
        if !sentence.is_empty() {
            sentences.push((self.line + self.text[..skipped].matches('\n').count(), sentence));
        }
    }
}

pub(super) fn regex(pattern: &str) -> Regex {
    #[expect(clippy::unwrap_used, reason = "all patterns are constants of this program, and its tests compile them")]
    Regex::new(pattern).unwrap()
}

/// Returns the paragraphs of comments, doc comments and string literals in a Rust file.
pub(super) fn rust(source: &str) -> Vec<Paragraph> {
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| regex(r"\{[^{}\n]*\}"));
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| regex(r"\\\n[ \t]*"));
    let mut paragraphs = Vec::new();
    let mut block = Block::default();
    let (mut offset, mut line) = (0, 1);
    // The last line that contains code.
    let mut code_line = 0;
    for token in tokenize(source, FrontmatterAllowed::No) {
        let text = &source[offset..offset + token.len as usize];
        match token.kind {
            TokenKind::LineComment { doc_style } => {
                if block.doc != doc_style.map(is_inner) || block.next != line {
                    block.flush(&mut paragraphs);
                    block = Block { doc: doc_style.map(is_inner), start: line, ..Block::default() };
                }
                let marks = if doc_style.is_some() { 3 } else { 2 };
                block.text.push_str(&text[marks..]);
                block.text.push('\n');
                // A comment at the end of a line of code is a separate paragraph.
                block.next = if code_line == line { 0 } else { line + 1 };
            }
            TokenKind::Whitespace => {}
            TokenKind::Literal { kind: LiteralKind::Str { .. } | LiteralKind::RawStr { .. }, .. } => {
                block.flush(&mut paragraphs);
                let text = text.trim_start_matches(['r', '#']).trim_end_matches('#').trim_matches('"');
                if text.contains(' ') {
                    let text = CONTINUED.replace_all(text, "\n").replace("\\n", "\x01").replace("\\\"", "\"");
                    let text = code(&PLACEHOLDER.replace_all(&text, "_"));
                    paragraphs.push(Paragraph { line, kind: Kind::Message, text });
                }
            }
            _ => block.flush(&mut paragraphs),
        }
        offset += text.len();
        line += text.matches('\n').count();
        if !matches!(token.kind, TokenKind::LineComment { .. } | TokenKind::Whitespace) {
            code_line = line;
        }
    }
    block.flush(&mut paragraphs);
    paragraphs
}

fn is_inner(style: DocStyle) -> bool {
    matches!(style, DocStyle::Inner)
}

/// Adjacent comment lines of one style.
#[derive(Default)]
struct Block {
    /// Whether the lines are inner doc comments, or `None` for plain comments.
    doc: Option<bool>,
    start: usize,
    next: usize,
    text: String,
}

impl Block {
    fn flush(&mut self, paragraphs: &mut Vec<Paragraph>) {
        let text = std::mem::take(&mut self.text);
        self.next = 0;
        if text.is_empty() {
            return;
        }
        if self.doc.is_some() {
            paragraphs.extend(
                markdown(&text)
                    .into_iter()
                    .map(|paragraph| Paragraph { line: paragraph.line + self.start - 1, ..paragraph }),
            );
        } else {
            paragraphs.push(Paragraph { line: self.start, kind: Kind::Text, text: code(text.trim_end()) });
        }
    }
}

/// Returns the paragraphs, list items, table cells and headings of a Markdown text, without its code blocks.
pub(super) fn markdown(source: &str) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut current: Option<Paragraph> = None;
    let mut skipped = 0usize;
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        let text: &str = match &event {
            Event::Start(Tag::CodeBlock(_)) => {
                skipped += 1;
                continue;
            }
            Event::End(TagEnd::CodeBlock) => {
                skipped -= 1;
                continue;
            }
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell)
            | Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell) => {
                paragraphs.extend(current.take().filter(|paragraph| !paragraph.text.is_empty()));
                let heading = matches!(event, Event::Start(Tag::Heading { .. }));
                if matches!(event, Event::Start(_)) {
                    let kind = if heading { Kind::Heading } else { Kind::Text };
                    current = Some(Paragraph { line: 1, kind, text: String::new() });
                }
                continue;
            }
            Event::Code(_) => "`_`",
            Event::Text(text) => text,
            Event::SoftBreak | Event::HardBreak => "\n",
            _ => continue,
        };
        if skipped > 0 {
            continue;
        }
        let paragraph = current.get_or_insert(Paragraph { line: 1, kind: Kind::Text, text: String::new() });
        if paragraph.text.is_empty() {
            paragraph.line = 1 + source[..range.start].matches('\n').count();
        }
        paragraph.text.push_str(text);
    }
    paragraphs.extend(current.filter(|paragraph| !paragraph.text.is_empty()));
    paragraphs
}

/// Replaces inline code by a placeholder.
pub(super) fn code(text: &str) -> String {
    static CODE: LazyLock<Regex> = LazyLock::new(|| regex(r"`[^`\n]*`"));
    CODE.replace_all(text, "`_`").into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Kind, markdown, rust};

    #[test]
    fn paragraphs_of_rust() {
        let source = "//! Inner. With\n//! two lines.\n//!\n//! ```\n//! code is skipped\n//! ```\n\
                      /// Outer `x y`.\nfn f() { // trailing\n    // a\n    // b\n    call(\"one {x:?} \\\n      two\", \"nospace\");\n}\n";
        let found: Vec<_> = rust(source).into_iter().map(|p| (p.line, p.kind, p.text)).collect();
        let text = |line, text: &str| (line, Kind::Text, text.to_owned());
        assert_eq!(
            found,
            [
                text(1, "Inner. With\ntwo lines."),
                text(7, "Outer `_`."),
                text(8, " trailing\n"),
                text(9, " a\n b"),
                (11, Kind::Message, "one _ \ntwo".to_owned()),
            ]
            .map(|(line, kind, text)| (
                line,
                kind,
                if kind == Kind::Text { text.trim_end().to_owned() } else { text }
            ))
        );
    }

    #[test]
    fn paragraphs_of_markdown() {
        let source = "# Title\n\nOne `a`\ntwo.\n\n- item\n- next\n  line\n\n```rust\nlet x = 1;\n```\n\n| a | b c |\n|---|---|\n| d | e |\n";
        let found: Vec<_> = markdown(source).into_iter().map(|p| (p.line, p.text)).collect();
        let expected = [
            (1, "Title"),
            (3, "One `_`\ntwo."),
            (6, "item"),
            (7, "next\nline"),
            (14, "a"),
            (14, "b c"),
            (16, "d"),
            (16, "e"),
        ];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn sentences_have_lines() {
        let paragraphs = markdown("One is here. Two\nis there, e.g. this.\n`Three` is last.");
        let found = paragraphs[0].sentences();
        assert_eq!(found, [(1, "One is here."), (1, "Two\nis there, e.g. this."), (3, "`_` is last.")]);
    }
}
