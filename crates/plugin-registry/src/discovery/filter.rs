//! Applies the patterns in `PJRT_REGISTRY_SELECT` and `PJRT_REGISTRY_DISABLE`.

use wildmatch::WildMatch;

use super::candidate::Candidate;
use super::config::Discovery;
use super::refusal::Refusal;
use crate::variables::{DISABLE, SELECT};

/// Pattern in `PJRT_REGISTRY_DISABLE` that disables all plugins that are not selected.
const ALL: &str = "~all~";

/// The patterns in `PJRT_REGISTRY_SELECT` and `PJRT_REGISTRY_DISABLE`.
#[derive(Debug)]
pub(super) struct Filter {
    select: Option<Vec<String>>,
    disable: Vec<String>,
}

impl Filter {
    /// Reads the patterns from `PJRT_REGISTRY_SELECT` and `PJRT_REGISTRY_DISABLE`. These variables can only exclude
    /// plugins, so they also apply with elevated privileges.
    pub(super) fn new(discovery: &Discovery) -> Self {
        let patterns = |name: &str| -> Option<Vec<String>> {
            let value = discovery.get(name)?.to_string_lossy().into_owned();
            Some(value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect())
        };
        Self { select: patterns(SELECT), disable: patterns(DISABLE).unwrap_or_default() }
    }

    /// Returns the reason why the patterns exclude the candidate, if they do. Disabling takes precedence over
    /// selecting, except that `~all~` does not disable a plugin that is selected.
    pub(super) fn refusal(&self, candidate: &Candidate) -> Option<Refusal> {
        let matched = |patterns: &[String]| patterns.iter().find(|pattern| applies(pattern, candidate)).cloned();
        let disabled = |pattern: &str| Refusal::Disabled { variable: DISABLE.to_owned(), pattern: pattern.to_owned() };
        if let Some(pattern) = matched(&self.disable) {
            return Some(disabled(&pattern));
        }
        match &self.select {
            Some(select) if matched(select).is_some() => None,
            Some(_) => Some(Refusal::Disabled { variable: SELECT.to_owned(), pattern: String::new() }),
            None => self.disable.iter().any(|pattern| pattern.eq_ignore_ascii_case(ALL)).then(|| disabled(ALL)),
        }
    }
}

/// Returns whether a pattern matches one of the candidate's names or aliases, or the file name of its manifest.
fn applies(pattern: &str, candidate: &Candidate) -> bool {
    let pattern = WildMatch::new_case_insensitive(pattern);
    let file = candidate.manifest_path.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    let manifest = candidate.manifest.iter().flat_map(|manifest| manifest.aliases.iter().map(String::as_str));
    candidate.names.iter().map(|name| name.name.as_str()).chain(file).chain(manifest).any(|text| pattern.matches(text))
}
