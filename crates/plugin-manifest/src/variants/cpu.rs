//! Levels of CPU features.

use std::collections::BTreeSet;

use crate::names::names;

names! {
    /// A set of CPU features for which a library can be compiled. Its name is the value of the compiler option
    /// `-march`.
    #[non_exhaustive]
    pub enum CpuLevel {
        /// Every 64-bit x86 processor.
        X86_64 "x86-64",
        /// Level 2 of the x86-64 psABI, with SSE4.2.
        X86_64V2 "x86-64-v2",
        /// Level 3 of the x86-64 psABI, with AVX2 and FMA.
        X86_64V3 "x86-64-v3",
        /// Level 4 of the x86-64 psABI, with AVX-512.
        X86_64V4 "x86-64-v4",
        /// Every 64-bit ARM processor with floating point.
        Armv8 "armv8-a",
        /// 64-bit ARM with the mandatory features of Armv8.2, such as atomic instructions.
        Armv8_2 "armv8.2-a",
        /// 64-bit ARM with the mandatory features of Armv8.5, and SVE2.
        Armv9 "armv9-a",
    }
}

impl CpuLevel {
    /// All levels, in ascending order for each architecture.
    pub const ALL: [Self; 7] =
        [Self::X86_64, Self::X86_64V2, Self::X86_64V3, Self::X86_64V4, Self::Armv8, Self::Armv8_2, Self::Armv9];

    /// Returns the architecture, as `std::env::consts::ARCH` spells it.
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::X86_64 | Self::X86_64V2 | Self::X86_64V3 | Self::X86_64V4 => "x86_64",
            Self::Armv8 | Self::Armv8_2 | Self::Armv9 => "aarch64",
        }
    }

    /// Returns the features that this level adds to the level below it, as `/proc/cpuinfo` of Linux spells them.
    const fn added(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["lm"],
            Self::X86_64V2 => &["cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3"],
            Self::X86_64V3 => &["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"],
            Self::X86_64V4 => &["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"],
            Self::Armv8 => &["asimd", "fp"],
            Self::Armv8_2 => &["asimdrdm", "atomics", "crc32", "dcpop"],
            Self::Armv9 => &[
                "asimddp", "dcpodp", "dit", "fcma", "flagm", "flagm2", "frint", "ilrcpc", "jscvt", "lrcpc", "sb",
                "sve", "sve2", "uscat",
            ],
        }
    }

    /// Returns all features of the level, as `/proc/cpuinfo` of Linux spells them.
    pub fn features(self) -> Vec<&'static str> {
        let levels = Self::ALL.into_iter().filter(|level| level.architecture() == self.architecture());
        levels.filter(|level| *level <= self).flat_map(|level| level.added().iter().copied()).collect()
    }

    /// Returns the features of the level that `features` lacks.
    pub(super) fn missing(self, features: &BTreeSet<String>) -> Vec<&'static str> {
        self.features().into_iter().filter(|feature| !features.contains(*feature)).collect()
    }

    /// Returns the highest level whose features are all in `features`, if there is one.
    pub fn of(features: &BTreeSet<String>) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|level| level.missing(features).is_empty())
    }

    /// Returns the level with this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_json() {
        for level in CpuLevel::ALL {
            assert_eq!(serde_json::to_value(level).unwrap(), level.name());
            assert_eq!(CpuLevel::named(level.name()), Some(level));
        }
        assert_eq!(CpuLevel::named("x86-64-v5"), None);
    }

    #[test]
    fn level_of_features() {
        for level in CpuLevel::ALL {
            let features: BTreeSet<String> = level.features().into_iter().map(str::to_owned).collect();
            assert_eq!(CpuLevel::of(&features), Some(level));
            for feature in level.added() {
                let mut without = features.clone();
                without.remove(*feature);
                assert!(CpuLevel::of(&without) < Some(level), "{level:?} without {feature}");
            }
        }
        assert_eq!(CpuLevel::of(&BTreeSet::new()), None);
    }
}
