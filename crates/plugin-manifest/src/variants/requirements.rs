//! The properties of a machine that a library requires.

use std::cmp::{Ordering, Reverse};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpu::CpuLevel;
use super::version::DottedVersion;

/// The properties of a machine that a library requires. If a field is omitted, the library works with any value of that
/// property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct Requirements {
    /// The lowest CPU level on which the library runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuLevel>,
    /// CUDA compute capabilities of the GPUs for which the library has code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda_compute_capability: Option<VersionRange>,
    /// Versions of NVIDIA's kernel driver that the library supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvidia_driver: Option<VersionRange>,
}

/// A range of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct VersionRange {
    /// First version in the range. `None` if the range has no lower limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<DottedVersion>,
    /// First version after the range. `None` if the range has no upper limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<DottedVersion>,
}

impl VersionRange {
    /// Returns whether the range contains this version.
    pub(super) fn contains(&self, version: &DottedVersion) -> bool {
        self.min.as_ref().is_none_or(|min| version >= min) && self.below.as_ref().is_none_or(|below| version < below)
    }

    /// Returns a fault if the range contains no version, or if it contains every version.
    fn fault(&self) -> Option<String> {
        match (&self.min, &self.below) {
            (None, None) => Some("the range has no limit; write \"min\" or \"below\", or remove it".to_owned()),
            (Some(min), Some(below)) if min >= below => {
                Some(format!("no version is at least {min} and below {below}; correct one of the limits"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.min, &self.below) {
            (Some(min), Some(below)) => write!(f, "{min} or later, below {below}"),
            (Some(min), None) => write!(f, "{min} or later"),
            (None, Some(below)) => write!(f, "below {below}"),
            (None, None) => f.write_str("any"),
        }
    }
}

/// Specificity of a range. The larger value is more specific. `None` means that there is no range.
type RangeRank = Option<(Option<DottedVersion>, bool, Reverse<Option<DottedVersion>>)>;

impl Requirements {
    /// Returns whether the library works on any machine.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the faults, each with the name of its field within `requires`. `arch` is the library's architecture, if
    /// the manifest contains it.
    pub(crate) fn faults(&self, arch: Option<&str>) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if let (Some(level), Some(arch)) = (self.cpu, arch)
            && level.architecture() != arch
        {
            let levels = CpuLevel::ALL.into_iter().filter(|level| level.architecture() == arch);
            let levels: Vec<&str> = levels.map(CpuLevel::name).collect();
            let known = if levels.is_empty() { "none".to_owned() } else { levels.join(", ") };
            let message = format!(
                "{} is a level of {}, but the library is for {arch}; its levels are: {known}",
                level.name(),
                level.architecture()
            );
            faults.push(("cpu", message));
        }
        for (field, range) in
            [("cuda_compute_capability", &self.cuda_compute_capability), ("nvidia_driver", &self.nvidia_driver)]
        {
            faults.extend(range.iter().filter_map(VersionRange::fault).map(|message| (field, message)));
        }
        faults
    }

    /// Compares the specificity of two sets of requirements, in the order that the [module](crate::variants) documents.
    /// If two libraries fit, the one with the greater requirements is preferred.
    pub fn compare_specificity(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }

    /// Returns the specificity of the requirements. If several libraries fit, the one with the largest value is
    /// preferred.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        let range = |range: &Option<VersionRange>| -> RangeRank {
            range.as_ref().map(|range| (range.min.clone(), range.below.is_some(), Reverse(range.below.clone())))
        };
        (range(&self.cuda_compute_capability), range(&self.nvidia_driver), self.cpu)
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu.map(|level| format!("CPU level {}", level.name()));
        let range = |name: &str, range: &Option<VersionRange>| range.as_ref().map(|range| format!("{name} {range}"));
        let needs: Vec<String> = [
            cpu,
            range("CUDA compute capability", &self.cuda_compute_capability),
            range("NVIDIA driver", &self.nvidia_driver),
        ]
        .into_iter()
        .flatten()
        .collect();
        f.write_str(if needs.is_empty() { "nothing" } else { "" })?;
        f.write_str(&needs.join("; "))
    }
}
