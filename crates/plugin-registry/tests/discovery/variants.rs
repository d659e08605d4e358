//! Tests manifests that list several libraries for one system.

use expect_test::expect;
use plugin_manifest::variants::{ChoiceReason, CpuLevel, Fit, MachineProperties};
use plugin_registry::discovery::{Architecture, Discovery, OperatingSystem, Refusal, Target};

use crate::common::binaries::X86_64;
use crate::common::{Content, Elf, Machine, list, named, names_and_paths};

/// Returns a manifest with a library for each variant. A variant has a name and requirements.
fn manifest(variants: &[(&str, &str)]) -> String {
    let one = |(name, needs): &(&str, &str)| format!(r#"{{"path": "./libpjrt_{name}.so", "requires": {{{needs}}}}}"#);
    let libraries: Vec<String> = variants.iter().map(one).collect();
    format!(r#"{{"format_version": "1.1", "name": "acme", "library": [{}]}}"#, libraries.join(", "))
}

const LEVELS: &[(&str, &str)] = &[("any", ""), ("v3", r#""cpu": "x86-64-v3""#), ("v4", r#""cpu": "x86-64-v4""#)];

/// The target of the searches. It is an x86-64 target, because the CPU levels in the manifests are those of x86-64.
const HOST: Target = Target {
    os: if cfg!(windows) { OperatingSystem::Windows } else { OperatingSystem::Linux },
    architecture: Architecture::X86_64,
};

fn plugin() -> Elf {
    Elf { machine: X86_64, ..Elf::plugin() }
}

fn discovery(machine: &Machine) -> Discovery {
    machine.discovery().host(HOST).python(false).conventional(false)
}

/// Creates a machine with a manifest below `/etc` and the libraries that the manifest lists.
fn machine(name: &str, variants: &[(&str, &str)]) -> Machine {
    let machine = Machine::new(name);
    for (variant, _) in variants {
        machine.library(&format!("etc/pjrt/plugins.d/libpjrt_{variant}.so"), &plugin());
    }
    machine.file("etc/pjrt/plugins.d/acme.json", manifest(variants));
    machine
}

fn with(level: CpuLevel) -> MachineProperties {
    MachineProperties::default().with_cpu_level(level)
}

#[test]
fn most_specific_library_that_fits() {
    let machine = machine("variants-levels", LEVELS);
    for (properties, file, reason) in [
        (with(CpuLevel::X86_64V4), "v4", ChoiceReason::MostSpecific),
        (with(CpuLevel::X86_64V3), "v3", ChoiceReason::MostSpecific),
        (with(CpuLevel::X86_64V2), "any", ChoiceReason::OnlyFit),
        (MachineProperties::default(), "any", ChoiceReason::OnlyFit),
    ] {
        let found = discovery(&machine).machine(properties).discover();
        let lines: Vec<String> = list(&machine, &found).iter().map(|line| line.replace("/./", "/")).collect();
        assert_eq!(lines, [format!("acme etc/pjrt/plugins.d/libpjrt_{file}.so")]);
        let choice = found.candidates[0].choice.as_ref().unwrap();
        assert_eq!((choice.reason, choice.variants.len()), (reason, 3));
    }
}

#[test]
fn machine_is_read_from_files_and_variables() {
    let machine = machine("variants-files", LEVELS);
    let flags = CpuLevel::X86_64V3.features().join(" ");
    machine.file("proc/cpuinfo", format!("processor\t: 0\nflags\t\t: {flags}\n"));
    let chosen = |discovery: Discovery| {
        let found = discovery.discover();
        let file = named(&found, "acme").location.path().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        (file, found.notes.len())
    };
    let discovery = || discovery(&machine);
    assert_eq!(chosen(discovery()), ("libpjrt_v3.so".to_owned(), 0));
    let variable = "PJRT_REGISTRY_CPU_LEVEL";
    assert_eq!(chosen(discovery().variable(variable, "x86-64-v2")), ("libpjrt_any.so".to_owned(), 0));
    assert_eq!(chosen(discovery().variable(variable, "v2")), ("libpjrt_v3.so".to_owned(), 1));
}

#[test]
fn no_library_fits() {
    let needs = [("new", r#""nvidia_driver": {"min": "550"}"#), ("v4", r#""cpu": "x86-64-v4""#)];
    let machine = machine("variants-none", &needs);
    let mut properties = with(CpuLevel::X86_64V2);
    properties.nvidia_driver = Some("535.54".parse().unwrap());
    let found = discovery(&machine).machine(properties).discover();
    let candidate = named(&found, "acme");
    let [refusal @ Refusal::NoVariantFits { unmet, .. }] = candidate.refusals.as_slice() else {
        panic!("{:?}", candidate.refusals)
    };
    assert_eq!((refusal.kind(), unmet.len()), ("no variant", 2));
    let choice = candidate.choice.as_ref().unwrap();
    assert_eq!((choice.chosen, choice.reason), (None, ChoiceReason::NoneFits));
    expect!["ROOT/etc/pjrt/plugins.d/acme.json names no library that fits this machine: ./libpjrt_new.so needs NVIDIA driver 550 or later, but this machine has 535.54: update the driver; ./libpjrt_v4.so needs CPU level x86-64-v4, but this machine has x86-64-v2 (without abm, avx, avx2, bmi1, bmi2, f16c, fma, movbe, xsave, avx512bw, avx512cd, avx512dq, avx512f, avx512vl): run on a CPU with these features, or install a build of the plugin for this CPU"]
        .assert_eq(&machine.relative(refusal));

    // The driver version is unknown, so only the library that requires a driver version may fit.
    let found = discovery(&machine).machine(with(CpuLevel::X86_64V2)).discover();
    let candidate = named(&found, "acme");
    assert!(candidate.is_usable(), "{candidate}");
    let choice = candidate.choice.as_ref().unwrap();
    assert_eq!((choice.chosen, choice.reason), (Some(0), ChoiceReason::NeedsLeast));
    assert_eq!(choice.chosen().unwrap().fit(), Fit::Unknown);
}

#[test]
fn missing_file_of_chosen_library() {
    let machine = machine("variants-missing", LEVELS);
    std::fs::remove_file(machine.path("etc/pjrt/plugins.d/libpjrt_v4.so")).unwrap();
    let found = discovery(&machine).machine(with(CpuLevel::X86_64V4)).discover();
    assert!(matches!(named(&found, "acme").refusals[..], [Refusal::Missing { .. }]));
}

#[test]
fn libraries_of_wheel_are_one_plugin() {
    let machine = Machine::new("variants-wheel");
    let site = "venv/lib/python3.12/site-packages";
    let text = manifest(LEVELS);
    let files = [
        ("jax_plugins/acme/__init__.py", Content::Text("")),
        ("jax_plugins/acme/libpjrt_v4.so", Content::Library(plugin())),
        ("jax_plugins/acme/libpjrt_any.so", Content::Library(plugin())),
        ("jax_plugins/acme/libpjrt_v3.so", Content::Library(plugin())),
        ("jax_plugins/acme/pjrt_plugin.json", Content::Text(&text)),
    ];
    machine.wheel(site, "acme", "1.0", &files, "[jax_plugins]\nacme = jax_plugins.acme\n");
    machine.file("venv/pyvenv.cfg", "home = /usr/bin\n");
    let discover = |properties| {
        let discovery = discovery(&machine).python(true).variable("VIRTUAL_ENV", machine.path("venv"));
        discovery.machine(properties).discover()
    };
    for (level, file) in [(CpuLevel::X86_64V4, "v4"), (CpuLevel::X86_64V3, "v3"), (CpuLevel::X86_64, "any")] {
        let found = discover(with(level));
        let lines: Vec<String> = list(&machine, &found).iter().map(|line| line.replace("/./", "/")).collect();
        assert_eq!(lines, [format!("acme {site}/jax_plugins/acme/libpjrt_{file}.so")]);
    }
}

#[test]
fn user_names_another_library() {
    let machine = machine("variants-named", LEVELS);
    let folder = machine.path("etc/pjrt/plugins.d");
    std::fs::rename(folder.join("acme.json"), folder.join("pjrt_plugin.json")).unwrap();
    let value = names_and_paths(&[("acme", &folder.join("libpjrt_v4.so"))]);
    let found = machine
        .discovery()
        .host(HOST)
        .python(false)
        .conventional(false)
        .variable("PJRT_NAMES_AND_LIBRARY_PATHS", value);
    let found = found.machine(with(CpuLevel::X86_64V3)).discover();
    let candidate = &found.candidates[0];
    assert_eq!(candidate.location.path(), Some(folder.join("libpjrt_v4.so").as_path()));
    assert!(candidate.is_usable(), "{candidate}");
    let [note] = candidate.notes.as_slice() else { panic!("{:?}", candidate.notes) };
    expect!["./libpjrt_v4.so was named in the environment: it needs CPU level x86-64-v4, but this machine has x86-64-v3 (without avx512bw, avx512cd, avx512dq, avx512f, avx512vl): run on a CPU with these features, or install a build of the plugin for this CPU; the manifest's choice for this machine is ./libpjrt_v3.so (the library with the most specific needs of those that fit this machine)"]
        .assert_eq(&machine.relative(note));
}

#[test]
fn sha256_of_each_library() {
    let machine = machine("variants-sha256", LEVELS);
    let wrong = "0".repeat(64);
    let text = manifest(LEVELS).replace("libpjrt_v4.so\"", &format!("libpjrt_v4.so\", \"sha256\": \"{wrong}\""));
    machine.file("etc/pjrt/plugins.d/acme.json", text);
    let refusals = |level| {
        let found = discovery(&machine).verify_sha256(true).machine(with(level)).discover();
        named(&found, "acme").refusals.iter().map(Refusal::kind).collect::<Vec<_>>()
    };
    assert_eq!(refusals(CpuLevel::X86_64V4), ["sha256"]);
    assert!(refusals(CpuLevel::X86_64V3).is_empty());
}
