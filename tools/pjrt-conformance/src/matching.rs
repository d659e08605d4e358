//! Patterns that select cases by id.

/// Patterns that select cases by id.
///
/// A pattern without `*` matches every id that contains the pattern. A pattern with `*` must match the whole id, and
/// each `*` matches any string. A pattern with a leading `-` excludes the ids that the rest of the pattern matches.
///
/// ```
/// use pjrt_conformance::Filter;
///
/// let filter = Filter::new(&["data.*".to_owned(), "-f8".to_owned()]);
/// assert!(filter.matches("data.round_trip.host[dtype=f32]"));
/// assert!(!filter.matches("data.round_trip.host[dtype=f8e5m2]"));
/// assert!(Filter::default().matches("anything"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Filter {
    /// Creates a filter from patterns. If every pattern has a leading `-`, or if there are no patterns, the filter
    /// selects all ids that it does not exclude.
    #[must_use]
    pub fn new(patterns: &[String]) -> Self {
        let mut filter = Self::default();
        for pattern in patterns {
            match pattern.strip_prefix('-') {
                Some(pattern) => filter.exclude.push(pattern.to_owned()),
                None => filter.include.push(pattern.clone()),
            }
        }
        filter
    }

    /// Returns whether the filter selects an id.
    #[must_use]
    pub fn matches(&self, id: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| selects(pattern, id));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Returns whether a pattern without a leading `-` matches an id.
pub(crate) fn selects(pattern: &str, id: &str) -> bool {
    if pattern.contains('*') { glob(pattern.as_bytes(), id.as_bytes()) } else { id.contains(pattern) }
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| glob(rest, &text[at..])),
        Some((byte, rest)) => text.first() == Some(byte) && glob(rest, &text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::selects;

    #[test]
    fn patterns() {
        assert!(selects("data", "data.a.b") && selects("a.b", "data.a.b"));
        assert!(selects("data.*", "data.a.b") && !selects("a.*", "data.a.b"));
        assert!(selects("*[dtype=f32]", "data.a.b[dtype=f32]") && !selects("*[dtype=f32]", "data.a.b[dtype=f3]"));
    }
}
