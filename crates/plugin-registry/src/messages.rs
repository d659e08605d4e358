//! Compares the messages of this crate's errors, except those of opening key-value stores, with
//! `tests/messages/errors.txt`. Other tests match variants and fields, not messages.
//!
//! `UPDATE_EXPECT=1 cargo test -p plugin-registry --lib messages` updates the file.

use std::fmt::{Display, Write};
use std::io;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use plugin_manifest::manifest::LibraryFile;
use plugin_manifest::variants::{CpuLevel, MachineProperties, Requirements, UnmetNeed, VersionRange};
use plugin_manifest::{Fault, Manifest, Ownership};

use crate::discovery::{Architecture, MissingDependency, OperatingSystem, Refusal, SelectionHint, Target};
use crate::hardware::HardwareStatus;
use crate::{
    Error, FileChange, HardwarePresence, LeaseConflict, LeaseHolder, MissingVariable, PluginId, Policy, RejectReason,
    Rejected, SelectError,
};

#[test]
fn snapshot() {
    let mut text = String::from("# Errors\n");
    list(&mut text, &errors(), error_number, 25);
    text += "\n# Why a plugin cannot be used\n";
    list(&mut text, &refusals(), refusal_number, 17);
    text += "\n# Why a plugin was not selected\n";
    list(&mut text, &reasons(), reason_number, 6);
    text += "\n# Policies that no plugin fits\n";
    let rejected = Rejected::new(name(), vec!["gpu".to_owned()], "a manifest".to_owned(), RejectReason::OtherName);
    let hint = SelectionHint { variable: "PJRT_DEVICE".to_owned(), names: vec!["cuda".to_owned()] };
    for error in [
        SelectError::new(Policy::named("cuda"), None, vec![rejected]),
        SelectError::new(Policy::any(), None, Vec::new()),
        SelectError::new(Policy::prefer("gpu").or_any(), None, Vec::new()),
        SelectError::new(Policy::any(), Some(hint), Vec::new()),
    ] {
        writeln!(text, "{error}").expect("a string accepts any text");
    }
    text += "\n# Conflicts of leases\n";
    for error in conflicts() {
        writeln!(text, "{error}").expect("a string accepts any text");
    }
    expect_file!["../tests/messages/errors.txt"].assert_eq(&text);
}

/// Writes the messages of `errors`. Checks that each of the `count` variants occurs. `number` returns the index of an
/// error's variant.
fn list<E: Display>(text: &mut String, errors: &[E], number: fn(&E) -> usize, count: usize) {
    let mut seen = vec![false; count];
    for error in errors {
        seen[number(error)] = true;
        let message = error.to_string().replace(&no_such_file(), "the system's message");
        writeln!(text, "{message}").expect("a string accepts any text");
    }
    assert!(seen.iter().all(|seen| *seen), "a variant is missing: {seen:?}");
}

/// A path at which no file exists.
const NO_FILE: &str = "/there/is/no/acme.so";

/// Returns the operating system's error message for [`NO_FILE`], which differs between systems.
fn no_such_file() -> String {
    Path::new(NO_FILE).canonicalize().expect_err("there is no such file").to_string()
}

fn name() -> String {
    "acme".to_owned()
}

fn path() -> PathBuf {
    "/lib/acme.so".into()
}

fn fault() -> plugin_manifest::Error {
    plugin_manifest::Error::invalid_argument("the plugin's message")
}

fn errors() -> Vec<Error> {
    let variable = |name: &str, found: Option<&str>, reason: &str| MissingVariable {
        variable: name.to_owned(),
        value: "1".to_owned(),
        found: found.map(str::to_owned),
        reason: reason.to_owned(),
    };
    vec![
        Error::Description { name: name(), faults: Fault::new("version", "a fault; a remedy").into() },
        Error::NameTaken { name: name(), by: "registered by main.rs:3".to_owned() },
        Error::DescribedOtherwise { name: name(), by: "registered by main.rs:3".to_owned() },
        Error::Select(SelectError::new(Policy::any(), None, Vec::new())),
        Error::Refused { name: name(), refusals: refusals()[..2].to_vec() },
        Error::Stale { name: name(), id: PluginId::new(1, 2) },
        Error::Disabled { name: name(), reason: "it is being updated".to_owned() },
        Error::Unknown { asked: name() },
        Error::PathNotName { path: path() },
        Error::NoLibrary { name: name() },
        Error::Path { name: name(), error: fault() },
        Error::Configure { name: name(), error: fault() },
        Error::Supports { name: name(), error: fault() },
        Error::Setup {
            name: name(),
            missing: vec![variable("A", None, ""), variable("B", Some("2"), "the core of this process")],
        },
        Error::DifferentSetup { name: name() },
        Error::Replaced { name: name(), path: path(), change: FileChange::Replaced },
        Error::Replaced { name: name(), path: path(), change: FileChange::Overwritten },
        Error::ShutDown { name: name() },
        Error::Reentered { name: name() },
        Error::Load(load_error()),
        Error::Options(fault()),
        Error::NoStore { name: name(), coordinator: "node0:8476".to_owned() },
        Error::LeaseConflict(Box::new(conflicts().remove(0))),
        Error::Lock {
            name: name(),
            path: "/locks/acme.lock".into(),
            error: io::Error::new(io::ErrorKind::PermissionDenied, "the system's message"),
        },
        Error::Client { name: name(), error: load_error().into() },
        Error::InUse { name: name(), clients: 1 },
        Error::InUse { name: name(), clients: 2 },
    ]
}

fn load_error() -> pjrt::LoadError {
    // SAFETY: R1 (the library is trusted): the file does not exist, so no code runs.
    unsafe { pjrt::Plugin::load(NO_FILE) }.expect_err("there is no such file")
}

/// Returns the index of a variant. A new variant needs an index here and an example in [`errors`].
fn error_number(error: &Error) -> usize {
    match error {
        Error::Description { .. } => 0,
        Error::NameTaken { .. } => 1,
        Error::DescribedOtherwise { .. } => 2,
        Error::Select(_) => 3,
        Error::Refused { .. } => 4,
        Error::Stale { .. } => 5,
        Error::Disabled { .. } => 6,
        Error::Unknown { .. } => 7,
        Error::NoLibrary { .. } => 8,
        Error::Path { .. } => 9,
        Error::Configure { .. } => 10,
        Error::Supports { .. } => 11,
        Error::Setup { .. } => 12,
        Error::DifferentSetup { .. } => 13,
        Error::Replaced { .. } => 14,
        Error::ShutDown { .. } => 15,
        Error::Load(_) => 16,
        Error::Options(_) => 17,
        Error::NoStore { .. } => 18,
        Error::LeaseConflict(_) => 19,
        Error::Lock { .. } => 20,
        Error::Client { .. } => 21,
        Error::InUse { .. } => 22,
        Error::Reentered { .. } => 23,
        Error::PathNotName { .. } => 24,
    }
}

fn refusals() -> Vec<Refusal> {
    let text = str::to_owned;
    let host = Target { os: OperatingSystem::Linux, architecture: Architecture::X86_64 };
    let other = Target { os: OperatingSystem::MacOs, architecture: Architecture::Aarch64 };
    let needs = |name: &str, by: PathBuf| MissingDependency { name: text(name), needed_by: by };
    let manifest = |field: &str| Refusal::MalformedManifest {
        path: "/etc/pjrt_plugin.json".into(),
        field: text(field),
        message: text("the fault; the remedy"),
    };
    vec![
        Refusal::Missing { path: path() },
        Refusal::NotInLibrarySearch { name: text("libacme.so") },
        Refusal::NoLibrary { searched: vec!["/a".into(), "/b".into()] },
        Refusal::Unreadable { path: path(), message: text("the system's message") },
        Refusal::NotALibrary { path: path(), what: text("a text file") },
        Refusal::NoGetPjrtApi { path: path() },
        Refusal::WrongTarget { path: path(), library: vec![other], host },
        Refusal::MissingDependencies {
            path: path(),
            missing: vec![needs("libc.so", path()), needs("libd.so", "/lib/libc.so".into())],
        },
        Refusal::Sha256Mismatch { path: path(), expected: text("00…"), actual: text("ff…") },
        Refusal::NotAllowed { path: path(), sha256: text("ff…"), list: "/etc/allowed".into() },
        Refusal::Disabled { variable: text("PJRT_REGISTRY_DISABLE"), pattern: text("ac*") },
        Refusal::Disabled { variable: text("PJRT_REGISTRY_ENABLE"), pattern: String::new() },
        Refusal::InsecureLocation { path: path(), why: text("can be written by others than root") },
        Refusal::NoLibraryForHost { manifest: "/etc/pjrt_plugin.json".into(), host },
        manifest(""),
        manifest("library.path"),
        Refusal::BadEnvironmentItem {
            variable: text("PJRT_NAMES_AND_LIBRARY_PATHS"),
            item: "a".repeat(300),
            message: text("the fault; the remedy"),
        },
        Refusal::DuplicateName {
            variable: text("PJRT_NAMES_AND_LIBRARY_PATHS"),
            name: name(),
            winner: text("acme:/new.so"),
        },
        Refusal::NoVariantFits { manifest: "/etc/pjrt_plugin.json".into(), unmet: unmet() },
    ]
}

fn refusal_number(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::Missing { .. } => 0,
        Refusal::NotInLibrarySearch { .. } => 1,
        Refusal::NoLibrary { .. } => 2,
        Refusal::Unreadable { .. } => 3,
        Refusal::NotALibrary { .. } => 4,
        Refusal::NoGetPjrtApi { .. } => 5,
        Refusal::WrongTarget { .. } => 6,
        Refusal::MissingDependencies { .. } => 7,
        Refusal::Sha256Mismatch { .. } => 8,
        Refusal::NotAllowed { .. } => 9,
        Refusal::Disabled { .. } => 10,
        Refusal::InsecureLocation { .. } => 11,
        Refusal::NoLibraryForHost { .. } => 12,
        Refusal::MalformedManifest { .. } => 13,
        Refusal::BadEnvironmentItem { .. } => 14,
        Refusal::DuplicateName { .. } => 15,
        Refusal::NoVariantFits { .. } => 16,
    }
}

/// Returns two libraries with the requirements that a machine with an old driver and an old CPU does not meet.
fn unmet() -> Vec<(PathBuf, Vec<UnmetNeed>)> {
    let mut manifest = Manifest::new("acme");
    let v4 = Requirements { cpu: Some(CpuLevel::X86_64V4), ..Requirements::default() };
    let driver = VersionRange { min: Some("550.54".parse().unwrap()), below: None };
    let both = Requirements { nvidia_driver: Some(driver), ..v4.clone() };
    manifest.library = [("liba.so", v4), ("libb.so", both)]
        .map(|(path, requires)| LibraryFile { requires, ..LibraryFile::new(path) })
        .into();
    let mut machine = MachineProperties::default().with_cpu_level(CpuLevel::X86_64V3);
    machine.nvidia_driver = Some("535.1".parse().unwrap());
    let choice = manifest.choose_library("linux", "x86_64", &machine);
    choice.variants.into_iter().map(|variant| (variant.path, variant.unmet)).collect()
}

fn reasons() -> Vec<RejectReason> {
    let hardware = |presence, evidence: &[&str]| {
        let evidence = evidence.iter().map(|&found| found.to_owned()).collect();
        RejectReason::NoHardware(HardwareStatus { presence, evidence })
    };
    vec![
        RejectReason::OtherName,
        RejectReason::Refused(refusals()[..1].to_vec()),
        RejectReason::Disabled("it is being updated".to_owned()),
        hardware(HardwarePresence::Absent, &["/dev/acme*", "PCI vendor 1234"]),
        hardware(HardwarePresence::Unknown, &["PCI vendor 1234"]),
        hardware(HardwarePresence::Unknown, &[]),
        RejectReason::Condition("at least 2 devices".to_owned()),
        RejectReason::Experimental,
    ]
}

fn reason_number(reason: &RejectReason) -> usize {
    match reason {
        RejectReason::OtherName => 0,
        RejectReason::Refused(_) => 1,
        RejectReason::Disabled(_) => 2,
        RejectReason::NoHardware(_) => 3,
        RejectReason::Condition(_) => 4,
        RejectReason::Experimental => 5,
    }
}

fn conflicts() -> Vec<LeaseConflict> {
    let holder = |process, label: &str, here| LeaseHolder {
        process,
        program: "/bin/train".to_owned(),
        label: label.to_owned(),
        here,
    };
    let conflict = |ownership, holder, lock: Option<&str>| LeaseConflict {
        plugin: name(),
        ownership,
        holder,
        lock: lock.map(PathBuf::from),
    };
    let lock = Some("/locks/acme.lock");
    vec![
        conflict(Ownership::PerProcess, holder(Some(7), "main.rs:3", true), None),
        conflict(Ownership::Exclusive, holder(Some(7), "main.rs:3", false), lock),
        conflict(Ownership::Exclusive, holder(Some(7), "", false), lock),
        conflict(Ownership::Exclusive, holder(None, "", false), lock),
    ]
}
