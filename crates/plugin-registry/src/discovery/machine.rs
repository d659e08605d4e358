//! Reads the properties of a machine that libraries may require, from files and environment variables. Loads no driver
//! library.
//!
//! | property | variable | file |
//! |---|---|---|
//! | CPU features | `PJRT_REGISTRY_CPU_LEVEL` | `/proc/cpuinfo` |
//! | NVIDIA driver | `PJRT_REGISTRY_NVIDIA_DRIVER` | `/sys/module/nvidia/version`, else `/proc/driver/nvidia/version` |
//! | CUDA compute capability | `PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY` | none, because the driver does not publish it in a file |
//!
//! A variable takes precedence over files. `variants.py` of `pjrt package` reads the same files and variables, and a
//! test compares the results.

use std::collections::BTreeSet;
use std::path::Path;

use plugin_manifest::variants::{CpuLevel, DottedVersion, MachineProperties};

use super::config::Discovery;
use super::folder::read_text;

/// Maximum size in bytes of `/proc/cpuinfo` that is read. A machine with 1000 processors has about 2 MB.
const LARGEST_CPU_INFO: u64 = 16 << 20;
/// Maximum size in bytes of a file with a driver version.
const LARGEST_VERSION: u64 = 1 << 16;

impl Discovery {
    /// Returns the properties of the machine that libraries may require, and a note for each variable with an invalid
    /// value. A process with elevated privileges ignores all variables.
    pub(super) fn read_machine(&self) -> (MachineProperties, Vec<(&'static str, String)>) {
        let mut machine = MachineProperties {
            cpu_features: cpu_features(&self.system("/proc/cpuinfo")),
            nvidia_driver: nvidia_driver(&self.system("/")),
            ..MachineProperties::default()
        };
        let mut notes = Vec::new();
        let text = |variable| self.trusted(variable).map(|value| value.to_string_lossy().trim().to_owned());
        let variable = MachineProperties::CPU_LEVEL_VARIABLE;
        if let Some(name) = text(variable) {
            match CpuLevel::named(&name) {
                Some(level) => machine = machine.with_cpu_level(level),
                None => {
                    let known = CpuLevel::ALL.map(CpuLevel::name).join(", ");
                    notes.push((variable, format!("ignored: unknown CPU level {name:?}; the levels are {known}")));
                }
            }
        }
        let variable = MachineProperties::COMPUTE_CAPABILITY_VARIABLE;
        if let Some(list) = text(variable) {
            match list.split(',').map(|item| item.trim().parse()).collect::<Result<Vec<DottedVersion>, _>>() {
                Ok(versions) => machine.cuda_compute_capabilities = versions,
                Err(fault) => notes.push((variable, format!("ignored: {fault}"))),
            }
        }
        let variable = MachineProperties::NVIDIA_DRIVER_VARIABLE;
        match text(variable).map(|version| version.parse()) {
            Some(Ok(version)) => machine.nvidia_driver = Some(version),
            Some(Err(fault)) => notes.push((variable, format!("ignored: {fault}"))),
            None => {}
        }
        (machine, notes)
    }
}

/// Returns the CPU features that all processors have, or `None` if the file cannot be read or lists no features. On
/// x86, the line with the features starts with `flags`. On ARM, it starts with `Features`.
fn cpu_features(file: &Path) -> Option<BTreeSet<String>> {
    let text = read_text(file, LARGEST_CPU_INFO)?;
    let lists = text.lines().filter_map(|line| {
        let (key, list) = line.split_once(':')?;
        matches!(key.trim(), "flags" | "Features").then_some(list.trim())
    });
    let mut common: Option<BTreeSet<&str>> = None;
    let mut last = "";
    for list in lists {
        // On most machines, all processors have the same features, so skip a list that equals the previous one.
        if common.is_some() && list == last {
            continue;
        }
        last = list;
        let features: BTreeSet<&str> = list.split_ascii_whitespace().collect();
        common = Some(match common {
            Some(common) => common.intersection(&features).copied().collect(),
            None => features,
        });
    }
    Some(common?.into_iter().map(str::to_owned).collect())
}

/// Returns the version of NVIDIA's kernel driver, or `None` if no file states a version. The files
/// `/sys/module/nvidia/version` and `/proc/driver/nvidia/version` exist while the driver is loaded.
fn nvidia_driver(root: &Path) -> Option<DottedVersion> {
    let module = read_text(&root.join("sys/module/nvidia/version"), LARGEST_VERSION);
    if let Some(version) = module.and_then(|text| text.trim().parse().ok()) {
        return Some(version);
    }
    let text = read_text(&root.join("proc/driver/nvidia/version"), LARGEST_VERSION)?;
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    // The words before the version do not parse as a version.
    line.split_ascii_whitespace().filter(|word| word.contains('.')).find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, files: &[(&str, &str)]) -> Discovery {
        let root = std::env::temp_dir().join(format!("registry-machine-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Discovery::isolated(root)
    }

    fn version(text: &str) -> Option<DottedVersion> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn files_of_machine() {
        let cpu = "processor\t: 0\nflags\t\t: fpu lm avx\nbugs\t\t: sse\n\nprocessor\t: 1\nflags\t\t: lm avx2 fpu\n";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.02  Release Build\nGCC version:  gcc 12.3.0\n";
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n";
        let proc = "proc/driver/nvidia/version";
        for (name, file, text, expected) in [
            ("open", proc, open, version("555.42.02")),
            ("closed", proc, closed, version("550.54.15")),
            ("module", "sys/module/nvidia/version", "535.183.06\n", version("535.183.06")),
            ("other", proc, "something 1.2\n", None),
        ] {
            let discovery = machine(name, &[("proc/cpuinfo", cpu), (file, text)]);
            let (found, notes) = discovery.read_machine();
            assert_eq!(found.nvidia_driver, expected, "{name}");
            let features: Vec<String> = found.cpu_features.unwrap().into_iter().collect();
            assert_eq!(features, ["fpu", "lm"]);
            assert!(found.cuda_compute_capabilities.is_empty() && notes.is_empty());
        }
        let (nothing, _) = machine("nothing", &[("proc/cpuinfo", "processor: 0\n")]).read_machine();
        assert_eq!(nothing, MachineProperties::default());
        let (arm, _) = machine("arm", &[("proc/cpuinfo", "Features\t: fp asimd\n")]).read_machine();
        assert_eq!(CpuLevel::of(&arm.cpu_features.unwrap()), Some(CpuLevel::Armv8));
    }

    #[test]
    fn variables_before_files() {
        let files = [("proc/cpuinfo", "flags : lm\n"), ("sys/module/nvidia/version", "535.1\n")];
        let discovery = machine("variables", &files)
            .variable("PJRT_REGISTRY_CPU_LEVEL", "x86-64-v2")
            .variable("PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY", "8.0, 9.0")
            .variable("PJRT_REGISTRY_NVIDIA_DRIVER", "550");
        let (found, notes) = discovery.read_machine();
        let expected = MachineProperties {
            cuda_compute_capabilities: version("8.0").into_iter().chain(version("9.0")).collect(),
            nvidia_driver: version("550"),
            ..MachineProperties::default().with_cpu_level(CpuLevel::X86_64V2)
        };
        assert_eq!((found, notes.len()), (expected, 0));
        let (elevated, _) = discovery.clone().elevated(true).read_machine();
        assert_eq!(elevated.nvidia_driver, version("535.1"));
        assert!(elevated.cuda_compute_capabilities.is_empty());
        let faulty = discovery
            .variable("PJRT_REGISTRY_CPU_LEVEL", "v9")
            .variable("PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY", "8.0,sm_90")
            .variable("PJRT_REGISTRY_NVIDIA_DRIVER", "new");
        let (found, notes) = faulty.read_machine();
        assert_eq!(found, elevated);
        assert_eq!(notes.len(), 3, "{notes:?}");
    }
}
