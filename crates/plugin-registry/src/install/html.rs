//! Reads the links of an HTML page, the older form of an index's pages.

/// The attributes of a link, with their names in lower case.
pub(super) type Link = Vec<(String, String)>;

/// Returns the value of an attribute.
pub(super) fn attribute<'a>(link: &'a Link, name: &str) -> Option<&'a str> {
    link.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Returns the links of a page with the text of each.
pub(super) fn links(page: &str) -> Vec<(Link, String)> {
    let mut links = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        rest = &rest[1..];
        let is_link = rest.starts_with(['a', 'A']) && rest[1..].starts_with(|c: char| c.is_ascii_whitespace());
        if !is_link {
            continue;
        }
        let (link, after) = attributes(&rest[1..]);
        let end = after.find('<').unwrap_or(after.len());
        links.push((link, decoded(after[..end].trim())));
        rest = &after[end..];
    }
    links
}

/// Parses attributes until the end of the tag. Returns the text after the tag, too.
fn attributes(text: &str) -> (Link, &str) {
    let mut link = Link::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return (link, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (link, after);
        }
        let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/');
        // A name has at least one character, so that the loop makes progress.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find(is_end).map_or(rest.len(), |end| end + first);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        let Some(value) = rest.strip_prefix('=') else {
            link.push((name, String::new()));
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len())),
        };
        link.push((name, decoded(value)));
        rest = after;
    }
}

/// Replaces the character references that occur in addresses and file names.
fn decoded(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&#43;", "+")];
    let text = named.iter().fold(text.to_owned(), |text, (name, character)| text.replace(name, character));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let page = "<!DOCTYPE html><!-- <a href='no'>no</a> --><abbr href=no>x</abbr>
            <a href=\"a.whl#sha256=1&amp;x\" data-yanked data-core-metadata='sha256=2'>a.whl</a><br/>
            <A\n HREF = b.whl >b &lt;<b>x</b></A><a>none</a><a href='c";
        let found = links(page);
        let hrefs: Vec<_> = found.iter().map(|(link, _)| attribute(link, "href")).collect();
        assert_eq!(hrefs, [Some("a.whl#sha256=1&x"), Some("b.whl"), Some("c")]);
        assert_eq!(attribute(&found[0].0, "data-yanked"), Some(""));
        assert_eq!(attribute(&found[0].0, "data-core-metadata"), Some("sha256=2"));
        assert_eq!(found[1].1, "b <");
        for page in ["<a ", "<a", "<", "<a =>", "<a =", "<a / / x", "<!--", "<a \u{e9}=\u{e9}>"] {
            links(page);
        }
    }
}
