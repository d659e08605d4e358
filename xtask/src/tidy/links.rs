//! Checks that each relative link in a Markdown file leads to a file, and each link with a fragment to a heading.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// The folder of the book whose files `cargo xtask book` writes.
const WRITTEN: &str = "conformance/";

/// Adds a fault for each broken link of a Markdown file. `path` is the file's path in the repository.
pub(super) fn check(root: &Path, path: &str, text: &str, faults: &mut Vec<String>) {
    for (offset, link) in links(text) {
        let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
        if file.contains("://") || file.starts_with("mailto:") || file.starts_with(WRITTEN) {
            continue;
        }
        let this = root.join(path);
        let target = if file.is_empty() { this } else { this.parent().unwrap_or(root).join(file) };
        let line = text[..offset].matches('\n').count() + 1;
        if !target.exists() {
            faults.push(format!("{path}:{line}: the link {link:?} leads to no file"));
        } else if !fragment.is_empty() && target.extension().is_some_and(|extension| extension == "md") {
            let other = if file.is_empty() { text.to_owned() } else { fs::read_to_string(&target).unwrap_or_default() };
            if !anchors(&other).contains(fragment) {
                faults.push(format!("{path}:{line}: the link {link:?} leads to no heading"));
            }
        }
    }
}

/// Returns the links of a text, each with its offset. Omits the links of Rust's documentation to items, such as
/// ``[`Plugin`](pjrt::Plugin)``.
fn links(text: &str) -> Vec<(usize, String)> {
    let links = Parser::new(text).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((range.start, dest_url.into_string()))
        }
        _ => None,
    });
    links.filter(|(_, link)| !link.contains("::")).collect()
}

/// Returns the fragments with which links lead to the headings of a text.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut heading) = (BTreeSet::new(), None::<String>);
    for event in Parser::new(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(part) | Event::Code(part), Some(heading)) => heading.push_str(&part),
            (Event::End(TagEnd::Heading(_)), _) => {
                let words = heading.take().unwrap_or_default().to_lowercase();
                let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
                anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
            }
            _ => {}
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_faults() {
        let text = "# One `two`, three\n[a](README.md) [b](no.md) [c](#one-two-three) [d](#four)\n[e](https://no.md) [`f`](g::f)\n";
        let mut faults = Vec::new();
        check(&crate::sh::root(), "README.md", text, &mut faults);
        let expected =
            ["README.md:2: the link \"no.md\" leads to no file", "README.md:2: the link \"#four\" leads to no heading"];
        assert_eq!(faults, expected);
    }
}
