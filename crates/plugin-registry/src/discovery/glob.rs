//! Matches names against patterns with `*` and `?`, such as those in `PJRT_REGISTRY_SELECT`.

/// Returns whether the whole text matches the pattern, regardless of letter case. `*` matches any number of characters,
/// and `?` matches exactly one.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (pattern, text) = (lower(pattern), lower(text));
    let (mut p, mut t) = (0, 0);
    // Index of the last star in the pattern, and the end of the text that the star matches.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some('?') => (p, t) = (p + 1, t + 1),
            Some(c) if *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, swallowed)) => {
                    star = Some((at, swallowed + 1));
                    (p, t) = (at + 1, swallowed + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, text) in [
            ("cuda", "CUDA"),
            ("*", ""),
            ("*", "anything"),
            ("cu*", "cuda"),
            ("*da", "cuda"),
            ("*ud*", "cuda"),
            ("c?da", "cuda"),
            ("a*b*c", "aXXbYYbc"),
            ("*.so", "a.so"),
            ("**", "x"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("cuda", "cud"), ("cuda", "cudaa"), ("?", ""), ("a*b", "abc"), ("", "a"), ("a?", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
