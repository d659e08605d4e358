//! Runs the steps of a search in order.

use super::candidate::Candidate;
use super::collector::Collector;
use super::config::Discovery;
use super::provenance::SourceKind;
use super::report::Discovered;
use crate::variables::{ADD_MANIFESTS, ALLOWLIST, MANIFESTS};

impl Discovery {
    /// Searches the machine. Never fails, because every fault becomes a refusal of a candidate or a note.
    pub fn discover(&self) -> Discovered {
        let mut collector = Collector::new(self);
        collector.hints();
        if self.get(MANIFESTS).is_some() && !self.elevated {
            collector.note(MANIFESTS, "is set, so its manifests are the only source that was searched");
            collector.manifests_of_variable(SourceKind::ManifestOverride, MANIFESTS);
            return collector.finish();
        }
        for variable in [MANIFESTS, ADD_MANIFESTS, ALLOWLIST] {
            if self.elevated && self.get(variable).is_some() {
                collector.note(variable, "ignored, because this process runs with elevated privileges");
            }
        }
        if !self.elevated {
            collector.manifests_of_variable(SourceKind::ManifestAdded, ADD_MANIFESTS);
        }
        collector.environment();
        collector.manifest_directories();
        collector.installed();
        let sites = if self.python { collector.python() } else { Vec::new() };
        collector.tensorflow(&sites);
        if self.conventional {
            collector.conventional();
        }
        collector.finish()
    }

    /// Returns the candidates of [`discover`](Self::discover).
    pub fn candidates(&self) -> Vec<Candidate> {
        self.discover().candidates
    }
}
