//! Chooses the library whose requirements fit the machine.

use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;

use super::cpu::CpuLevel;
use super::machine::MachineProperties;
use super::requirements::{Requirements, VersionRange};
use super::version::DottedVersion;
use crate::Manifest;
use crate::names::names;

/// The libraries of a manifest for one system, and the library to load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryChoice {
    /// The libraries for this operating system and architecture, in the manifest's order.
    pub variants: Vec<Variant>,
    /// Index in `variants` of the library to load. `None` if no library fits or may fit.
    pub chosen: Option<usize>,
    /// The reason for the choice.
    pub reason: ChoiceReason,
}

/// A library, and the requirements that the machine does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variant {
    /// Index in [`Manifest::library`].
    pub index: usize,
    /// Path of the file, as in the manifest.
    pub path: PathBuf,
    /// The requirements of the library.
    pub requires: Requirements,
    /// The requirements that the machine does not meet, or may not meet because a property is unknown.
    pub unmet: Vec<UnmetNeed>,
}

/// A requirement that the machine does not meet, or may not meet because a property is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UnmetNeed {
    /// The requirement, such as `CPU level x86-64-v4`.
    pub needs: String,
    /// The machine's value of the required property. `None` if it is unknown.
    pub has: Option<String>,
    /// The remedy for the user.
    pub remedy: String,
}

names! {
    /// Whether a library fits a machine.
    // Exhaustive, because a library fits, does not fit, or may fit.
    pub enum Fit {
        /// The machine meets all requirements.
        Fits "fits",
        /// The machine may meet all requirements, but a required property is unknown.
        Unknown "unknown",
        /// The machine does not meet a requirement.
        Mismatch "mismatch",
    }
}

names! {
    /// The reason why a library is preferred over the other libraries.
    #[non_exhaustive]
    pub enum ChoiceReason {
        /// No library fits or may fit, so none is chosen.
        NoneFits "none_fits",
        /// The library is the only one that fits.
        OnlyFit "only_fit",
        /// Several libraries fit, and this library has the most specific requirements.
        MostSpecific "most_specific",
        /// Several libraries that fit have the same, most specific requirements. This library is the first of them in
        /// the manifest.
        First "first",
        /// No library is known to fit, because properties of the machine are unknown. Of the libraries that may fit,
        /// this library has the lowest requirements.
        NeedsLeast "needs_least",
    }
}

impl fmt::Display for ChoiceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoneFits => "no library fits this machine",
            Self::OnlyFit => "the only library that fits this machine",
            Self::MostSpecific => "the library with the most specific needs of those that fit this machine",
            Self::First => "the first in the manifest of those that fit this machine and have the most specific needs",
            Self::NeedsLeast => {
                "the library that needs least, because properties of this machine are unknown and no library is known to \
                 fit"
            }
        })
    }
}

impl fmt::Display for UnmetNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needs, has, remedy } = self;
        match has {
            Some(has) => write!(f, "needs {needs}, but this machine has {has}: {remedy}"),
            None => write!(f, "needs {needs}, which is unknown for this machine: {remedy}"),
        }
    }
}

impl Variant {
    /// Returns whether the library fits the machine.
    pub fn fit(&self) -> Fit {
        match self.unmet.as_slice() {
            [] => Fit::Fits,
            unmet if unmet.iter().all(|need| need.has.is_none()) => Fit::Unknown,
            _ => Fit::Mismatch,
        }
    }
}

impl LibraryChoice {
    /// Returns the library to load, or `None` if no library fits or may fit.
    pub fn chosen(&self) -> Option<&Variant> {
        self.variants.get(self.chosen?)
    }

    /// Returns whether any library has requirements. Otherwise the choice depends only on the order in the manifest.
    pub fn has_needs(&self) -> bool {
        self.variants.iter().any(|variant| !variant.requires.is_empty())
    }

    /// Returns the library with the lowest requirements, whether it fits or not.
    pub fn least(&self) -> Option<&Variant> {
        self.variants.iter().min_by_key(|variant| variant.requires.rank())
    }
}

impl Manifest {
    /// Chooses a library for an operating system and an architecture, as `std::env::consts` spells them. The module
    /// [`variants`](crate::variants) documents the order of preference.
    pub fn choose_library(&self, os: &str, arch: &str, machine: &MachineProperties) -> LibraryChoice {
        let for_system = self.library.iter().enumerate().filter(|(_, file)| file.is_for(os, arch));
        let variants: Vec<Variant> = for_system
            .map(|(index, file)| Variant {
                index,
                path: file.path.clone(),
                requires: file.requires.clone(),
                unmet: unmet(&file.requires, machine),
            })
            .collect();
        let with = |fit: Fit| variants.iter().enumerate().filter(move |(_, variant)| variant.fit() == fit);
        let rank = |variant: &Variant| variant.requires.rank();
        // `min_by_key` returns the first of several equal elements, so the order in the manifest breaks ties.
        let best = with(Fit::Fits).min_by_key(|(_, variant)| Reverse(rank(variant)));
        let (chosen, reason) = match best {
            Some((index, best)) => {
                let equals = with(Fit::Fits).filter(|(_, other)| rank(other) == rank(best)).count();
                let reason = match (with(Fit::Fits).count(), equals) {
                    (1, _) => ChoiceReason::OnlyFit,
                    (_, 1) => ChoiceReason::MostSpecific,
                    _ => ChoiceReason::First,
                };
                (Some(index), reason)
            }
            None => match with(Fit::Unknown).min_by_key(|(_, variant)| rank(variant)) {
                Some((index, _)) => (Some(index), ChoiceReason::NeedsLeast),
                None => (None, ChoiceReason::NoneFits),
            },
        };
        LibraryChoice { variants, chosen, reason }
    }
}

/// Returns the requirements that the machine does not meet, or may not meet because a property is unknown.
fn unmet(requires: &Requirements, machine: &MachineProperties) -> Vec<UnmetNeed> {
    let cuda = requires.cuda_compute_capability.as_ref().and_then(|range| {
        let remedies = [
            "use a newer GPU, or install a build of the plugin for this one",
            "install a version of the plugin for this GPU",
        ];
        let (found, variable) = (&machine.cuda_compute_capabilities, MachineProperties::COMPUTE_CAPABILITY_VARIABLE);
        version("CUDA compute capability", range, found, remedies, variable)
    });
    let driver = requires.nvidia_driver.as_ref().and_then(|range| {
        let remedies = ["update the driver", "install a version of the plugin for this driver"];
        let (found, variable) = (machine.nvidia_driver.as_slice(), MachineProperties::NVIDIA_DRIVER_VARIABLE);
        version("NVIDIA driver", range, found, remedies, variable)
    });
    requires.cpu.and_then(|level| cpu(level, machine)).into_iter().chain(cuda).chain(driver).collect()
}

fn cpu(level: CpuLevel, machine: &MachineProperties) -> Option<UnmetNeed> {
    let needs = format!("CPU level {}", level.name());
    let Some(features) = &machine.cpu_features else {
        let remedy = format!("set {} to the CPU's level", MachineProperties::CPU_LEVEL_VARIABLE);
        return Some(UnmetNeed { needs, has: None, remedy });
    };
    let missing = level.missing(features);
    if missing.is_empty() {
        return None;
    }
    let known =
        CpuLevel::of(features).map_or_else(|| "a CPU of no known level".to_owned(), |known| known.name().to_owned());
    Some(UnmetNeed {
        needs,
        has: Some(format!("{known} (without {})", missing.join(", "))),
        remedy: "run on a CPU with these features, or install a build of the plugin for this CPU".to_owned(),
    })
}

/// Compares the versions of all devices with a range. Returns `None` if all versions are known and within the range,
/// and otherwise the unmet requirement. `name` describes the versions in messages. The remedies are for a version
/// before and after the range. `variable` is the environment variable that sets an unknown version.
fn version(
    name: &str,
    range: &VersionRange,
    found: &[DottedVersion],
    [earlier, later]: [&str; 2],
    variable: &str,
) -> Option<UnmetNeed> {
    let needs = format!("{name} {range}");
    if found.is_empty() {
        let remedy = format!("set {variable} to its version");
        return Some(UnmetNeed { needs, has: None, remedy });
    }
    let outside = found.iter().find(|version| !range.contains(version))?;
    let is_earlier = range.min.as_ref().is_some_and(|min| outside < min);
    let remedy = if is_earlier { earlier } else { later };
    Some(UnmetNeed { needs, has: Some(outside.to_string()), remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;

    use super::*;
    use crate::manifest::LibraryFile;

    fn version(text: &str) -> DottedVersion {
        text.parse().unwrap()
    }

    fn from(min: &str) -> Option<VersionRange> {
        Some(VersionRange { min: Some(version(min)), below: None })
    }

    fn between(min: &str, below: &str) -> Option<VersionRange> {
        Some(VersionRange { min: Some(version(min)), below: Some(version(below)) })
    }

    fn cpu(level: CpuLevel) -> Requirements {
        Requirements { cpu: Some(level), ..Requirements::default() }
    }

    fn capability(range: Option<VersionRange>) -> Requirements {
        Requirements { cuda_compute_capability: range, ..Requirements::default() }
    }

    fn at(level: CpuLevel) -> MachineProperties {
        MachineProperties::default().with_cpu_level(level)
    }

    fn manifest(variants: &[(&str, Requirements)]) -> Manifest {
        let mut manifest = Manifest::new("x");
        let file =
            |(path, needs): &(&str, Requirements)| LibraryFile { requires: needs.clone(), ..LibraryFile::new(path) };
        manifest.library = variants.iter().map(file).collect();
        assert_eq!(Manifest::from_json(&manifest.to_json()).as_ref(), Ok(&manifest));
        manifest
    }

    #[track_caller]
    fn assert_chosen(manifest: &Manifest, machine: &MachineProperties, path: &str, reason: ChoiceReason) {
        let choice = manifest.choose_library("linux", "x86_64", machine);
        assert_eq!(choice.chosen().map(|variant| variant.path.to_str().unwrap()), Some(path));
        assert_eq!(choice.reason, reason);
    }

    fn levels() -> Manifest {
        manifest(&[
            ("v3", cpu(CpuLevel::X86_64V3)),
            ("any", Requirements::default()),
            ("v4", cpu(CpuLevel::X86_64V4)),
            ("v2", cpu(CpuLevel::X86_64V2)),
        ])
    }

    #[test]
    fn cpu_levels() {
        for (level, path) in [(CpuLevel::X86_64V2, "v2"), (CpuLevel::X86_64V3, "v3"), (CpuLevel::X86_64V4, "v4")] {
            assert_chosen(&levels(), &at(level), path, ChoiceReason::MostSpecific);
        }
        assert_chosen(&levels(), &at(CpuLevel::X86_64), "any", ChoiceReason::OnlyFit);
        assert_chosen(&levels(), &MachineProperties::default(), "any", ChoiceReason::OnlyFit);
        // This CPU lacks one feature of level 3.
        let mut machine = at(CpuLevel::X86_64V3);
        machine.cpu_features.as_mut().unwrap().remove("bmi2");
        assert_chosen(&levels(), &machine, "v2", ChoiceReason::MostSpecific);
    }

    #[test]
    fn compute_capability_before_driver_and_cpu() {
        let manifest = manifest(&[
            ("driver", Requirements { nvidia_driver: from("550"), ..Requirements::default() }),
            ("ampere", capability(from("8.0"))),
            ("hopper", capability(between("9.0", "10.0"))),
            ("cpu", cpu(CpuLevel::X86_64V4)),
            ("late", capability(from("9.0"))),
        ]);
        let machine = |capabilities: &[&str]| MachineProperties {
            cuda_compute_capabilities: capabilities.iter().map(|text| version(text)).collect(),
            nvidia_driver: Some(version("550.54.15")),
            ..at(CpuLevel::X86_64V4)
        };
        for (capabilities, path) in [
            (&["9.0"][..], "hopper"),
            (&["8.6"], "ampere"),
            (&["8.0", "9.0"], "ampere"),
            (&["10.0"], "late"),
            (&["7.5"], "driver"),
            (&["7.5", "9.0"], "driver"),
            (&[], "driver"),
        ] {
            assert_chosen(&manifest, &machine(capabilities), path, ChoiceReason::MostSpecific);
        }
    }

    #[test]
    fn equal_needs_keep_order() {
        let twice = manifest(&[("a", Requirements::default()), ("b", Requirements::default())]);
        assert_chosen(&twice, &MachineProperties::default(), "a", ChoiceReason::First);
        let needs = cpu(CpuLevel::X86_64V2);
        let twice = manifest(&[("a", needs.clone()), ("b", needs.clone())]);
        assert_chosen(&twice, &at(CpuLevel::X86_64V4), "a", ChoiceReason::First);
        assert_chosen(&twice, &MachineProperties::default(), "a", ChoiceReason::NeedsLeast);
    }

    #[test]
    fn unknown_property_needs_least() {
        let manifest = manifest(&[
            ("late", capability(from("9.0"))),
            ("early", capability(from("8.0"))),
            ("newest", Requirements { nvidia_driver: from("1"), ..cpu(CpuLevel::X86_64V4) }),
        ]);
        let machine = at(CpuLevel::X86_64V2);
        assert_chosen(&manifest, &machine, "early", ChoiceReason::NeedsLeast);
        let choice = manifest.choose_library("linux", "x86_64", &machine);
        let fits: Vec<Fit> = choice.variants.iter().map(Variant::fit).collect();
        assert_eq!(fits, [Fit::Unknown, Fit::Unknown, Fit::Mismatch]);
    }

    #[test]
    fn mismatch_has_remedy() {
        let needs = Requirements {
            cpu: Some(CpuLevel::X86_64V3),
            cuda_compute_capability: between("8.0", "9.0"),
            nvidia_driver: between("550", "560"),
        };
        let manifest = manifest(&[("x", needs)]);
        let machine = |capability: &str, driver: &str| MachineProperties {
            cuda_compute_capabilities: vec![version(capability)],
            nvidia_driver: Some(version(driver)),
            ..at(CpuLevel::X86_64V2)
        };
        let odd = BTreeSet::from(["lm2".to_owned()]);
        let cases = [
            ("earlier", machine("7.5", "535.1")),
            ("later", machine("9.0", "560")),
            ("unknown", MachineProperties::default()),
            ("no level", MachineProperties { cpu_features: Some(odd), ..MachineProperties::default() }),
        ];
        let mut messages = String::new();
        for (case, machine) in cases {
            let choice = manifest.choose_library("linux", "x86_64", &machine);
            let [variant] = choice.variants.as_slice() else { panic!("{choice:?}") };
            assert_eq!(variant.unmet.len(), 3);
            assert_eq!(choice.chosen.is_some(), case == "unknown");
            let unmet: Vec<String> = variant.unmet.iter().map(ToString::to_string).collect();
            messages += &format!("{case}: {}\n{}\n", variant.requires, unmet.join("\n"));
        }
        expect![[r#"
            earlier: CPU level x86-64-v3; CUDA compute capability 8.0 or later, below 9.0; NVIDIA driver 550 or later, below 560
            needs CPU level x86-64-v3, but this machine has x86-64-v2 (without abm, avx, avx2, bmi1, bmi2, f16c, fma, movbe, xsave): run on a CPU with these features, or install a build of the plugin for this CPU
            needs CUDA compute capability 8.0 or later, below 9.0, but this machine has 7.5: use a newer GPU, or install a build of the plugin for this one
            needs NVIDIA driver 550 or later, below 560, but this machine has 535.1: update the driver
            later: CPU level x86-64-v3; CUDA compute capability 8.0 or later, below 9.0; NVIDIA driver 550 or later, below 560
            needs CPU level x86-64-v3, but this machine has x86-64-v2 (without abm, avx, avx2, bmi1, bmi2, f16c, fma, movbe, xsave): run on a CPU with these features, or install a build of the plugin for this CPU
            needs CUDA compute capability 8.0 or later, below 9.0, but this machine has 9.0: install a version of the plugin for this GPU
            needs NVIDIA driver 550 or later, below 560, but this machine has 560: install a version of the plugin for this driver
            unknown: CPU level x86-64-v3; CUDA compute capability 8.0 or later, below 9.0; NVIDIA driver 550 or later, below 560
            needs CPU level x86-64-v3, which is unknown for this machine: set PJRT_REGISTRY_CPU_LEVEL to the CPU's level
            needs CUDA compute capability 8.0 or later, below 9.0, which is unknown for this machine: set PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY to its version
            needs NVIDIA driver 550 or later, below 560, which is unknown for this machine: set PJRT_REGISTRY_NVIDIA_DRIVER to its version
            no level: CPU level x86-64-v3; CUDA compute capability 8.0 or later, below 9.0; NVIDIA driver 550 or later, below 560
            needs CPU level x86-64-v3, but this machine has a CPU of no known level (without lm, cx16, lahf_lm, pni, popcnt, sse4_1, sse4_2, ssse3, abm, avx, avx2, bmi1, bmi2, f16c, fma, movbe, xsave): run on a CPU with these features, or install a build of the plugin for this CPU
            needs CUDA compute capability 8.0 or later, below 9.0, which is unknown for this machine: set PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY to its version
            needs NVIDIA driver 550 or later, below 560, which is unknown for this machine: set PJRT_REGISTRY_NVIDIA_DRIVER to its version
        "#]].assert_eq(&messages);
    }

    #[test]
    fn other_systems_are_left_out() {
        let mut manifest = levels();
        manifest.library[2].os = Some("windows".to_owned());
        let machine = at(CpuLevel::X86_64V4);
        let choice = manifest.choose_library("linux", "x86_64", &machine);
        assert_eq!(choice.variants.iter().map(|variant| variant.index).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(choice.chosen().map(|variant| variant.index), Some(0));
        assert_eq!(choice.least().map(|variant| variant.index), Some(1));
        assert!(choice.has_needs());
    }
}
