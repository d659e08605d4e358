//! Tests that libraries of every format are recognized by their headers, and that missing dependencies are reported.

use crate::common::binaries::{
    MACHO_ARM64, MACHO_X86_64, PE_AMD64, PE_ARM64, X86_64, fat, host_machine, macho, other_machine, pe,
};
use crate::common::{Elf, Machine, line, names_and_paths};
use expect_test::expect;
use plugin_registry::discovery::{
    Architecture, LibraryFacts, LibraryFormat, OperatingSystem, Refusal, Target, inspect,
};

fn target(os: OperatingSystem, architecture: Architecture) -> Target {
    Target { os, architecture }
}

fn facts(machine: &Machine, name: &str, bytes: Vec<u8>) -> LibraryFacts {
    let path = machine.file(name, bytes);
    inspect(&path).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn elf_with_either_hash_table() {
    let machine = Machine::new("elf");
    for gnu_hash in [true, false] {
        let library = Elf {
            exports: vec!["Other", "GetPjrtApi", "TFNPD_InitPlugin", "DevicePlugin_GetDescriptor"],
            imports: vec!["memcpy"],
            runpath: Some("$ORIGIN/a:$ORIGIN/b".to_owned()),
            gnu_hash,
            ..Elf::new()
        };
        let facts = facts(&machine, "all.so", library.needing(&["liba.so.1", "libb.so"]).bytes());
        assert!(facts.exports.get_pjrt_api && facts.exports.descriptor && facts.exports.tensorflow, "{facts:?}");
        assert_eq!(facts.format, LibraryFormat::Elf);
        assert_eq!(facts.targets, [target(OperatingSystem::Linux, Target::host().architecture)]);
        assert_eq!(facts.needed, ["liba.so.1", "libb.so"]);
        assert_eq!(facts.runpath, ["$ORIGIN/a", "$ORIGIN/b"]);
    }
    for gnu_hash in [true, false] {
        // A library that imports `GetPjrtApi` and does not define it uses a plugin, but is not a plugin.
        let user = Elf { imports: vec!["GetPjrtApi"], exports: vec!["main_entry"], gnu_hash, ..Elf::new() };
        assert!(!facts(&machine, "user.so", user.bytes()).exports.get_pjrt_api);
        let none = Elf { gnu_hash, ..Elf::new() };
        assert!(!facts(&machine, "none.so", none.bytes()).exports.get_pjrt_api);
    }
}

// This test reads ELF libraries, but a compiler for Windows writes PE libraries. The tests with MinGW load PE
// libraries.
#[cfg(unix)]
#[test]
fn compiled_library() {
    let machine = Machine::new("compiled");
    let source = machine.file("p.c", "void *GetPjrtApi(void) { return 0; } int other(void) { return 1; }");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    for style in ["gnu", "sysv", "both"] {
        let output = machine.path(&format!("lib{style}.so"));
        let status = std::process::Command::new(&compiler)
            .args(["-shared", "-fPIC", &format!("-Wl,--hash-style={style}"), "-Wl,-rpath,$ORIGIN/x", "-o"])
            .arg(&output)
            .arg(&source)
            .status();
        match status {
            Ok(status) if status.success() => {}
            _ => {
                println!("SKIPPED compiled_library: no C compiler for --hash-style={style}");
                return;
            }
        }
        let facts = inspect(&output).unwrap();
        assert!(facts.exports.get_pjrt_api && !facts.exports.descriptor, "{facts:?}");
        assert_eq!(facts.targets, [Target::host()]);
        assert_eq!([&facts.rpath[..], &facts.runpath[..]].concat(), ["$ORIGIN/x"]);
    }
}

#[test]
fn pe_and_mach_o() {
    let machine = Machine::new("formats");
    let dll = facts(&machine, "a.dll", pe(PE_AMD64, &["Another", "GetPjrtApi"], &["KERNEL32.dll", "x.dll"]));
    assert!(dll.exports.get_pjrt_api && !dll.exports.tensorflow);
    assert_eq!(dll.targets, [target(OperatingSystem::Windows, Architecture::X86_64)]);
    assert_eq!(dll.needed, ["KERNEL32.dll", "x.dll"]);
    let qnn = facts(&machine, "qnn.dll", pe(PE_ARM64, &["Something"], &[]));
    assert!(!qnn.exports.get_pjrt_api);
    assert_eq!(qnn.targets, [target(OperatingSystem::Windows, Architecture::Aarch64)]);

    for trie in [true, false] {
        let dylib = facts(&machine, "a.dylib", macho(MACHO_ARM64, &["X", "GetPjrtApi"], &["@rpath/libz.dylib"], trie));
        assert!(dylib.exports.get_pjrt_api && !dylib.exports.descriptor, "trie: {trie}");
        assert_eq!(dylib.targets, [target(OperatingSystem::MacOs, Architecture::Aarch64)]);
        assert_eq!(dylib.needed, ["@rpath/libz.dylib"]);
        let none = facts(&machine, "b.dylib", macho(MACHO_ARM64, &["GetPjrtApi2"], &[], trie));
        assert!(!none.exports.get_pjrt_api, "trie: {trie}");
    }
    let slices = [MACHO_X86_64, MACHO_ARM64].map(|cpu| (cpu, macho(cpu, &["GetPjrtApi"], &[], true)));
    let universal = facts(&machine, "fat.dylib", fat(&slices));
    let both = [Architecture::X86_64, Architecture::Aarch64].map(|a| target(OperatingSystem::MacOs, a));
    assert_eq!(universal.targets, both);
    assert!(universal.exports.get_pjrt_api);
}

#[test]
fn other_files_are_named() {
    let machine = Machine::new("others");
    let object = Elf { kind: 1, ..Elf::new() }.bytes();
    let program = Elf { kind: 2, ..Elf::new() }.bytes();
    let files: [(&str, &[u8]); 11] = [
        ("nothing", b""),
        ("a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:0"),
        ("an archive", b"!<arch>\nxxxx"),
        ("a shell script", b"#!/bin/sh\n"),
        ("a linker script", b"INPUT(libx.so.1)"),
        ("text", b"hello"),
        ("other bytes", &[0, 1, 2, 3]),
        ("a Java class", &[0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 52]),
        ("an ELF object", &object),
        ("an ELF program", &program),
        ("the start of an ELF library", &Elf::plugin().bytes()[..80]),
    ];
    let mut messages = String::new();
    for (case, bytes) in files {
        match inspect(&machine.file("x.so", bytes)) {
            Err(Refusal::NotALibrary { what, .. }) => messages += &format!("{case}: {what}\n"),
            other => panic!("{case}: {other:?}"),
        }
    }
    expect![[r#"
        nothing: an empty file
        a pointer of Git LFS: a Git LFS pointer, whose content was not fetched
        an archive: a static library
        a shell script: a script
        a linker script: a linker script
        text: a text file
        other bytes: a file of another kind
        a Java class: a Java class file
        an ELF object: an object file that was not linked
        an ELF program: a program
        the start of an ELF library: a damaged library (Invalid ELF program header size or alignment)
    "#]]
    .assert_eq(&messages);
    assert!(matches!(inspect(&machine.path("none.so")), Err(Refusal::Missing { .. })));
    assert!(matches!(inspect(&machine.root), Err(Refusal::NotALibrary { what, .. }) if what == "a folder"));
}

#[cfg(unix)]
#[test]
fn pipes_block_nothing() {
    let machine = Machine::new("pipes");
    let fifo = |path: &str| {
        let path = machine.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success())
    };
    let paths = [
        "etc/pjrt/plugins.d/pipe.json",
        "etc/ld.so.conf",
        "usr/lib/python3/dist-packages/x-1.dist-info/entry_points.txt",
        "usr/lib/python3/dist-packages/pjrt-1.dist-info/RECORD",
        "usr/lib/python3/dist-packages/x.pth",
        "usr/lib/python3/dist-packages/jax_plugins/pipe.so",
        "usr/lib/libtpu.so",
    ];
    if !paths.iter().all(|path| fifo(path)) {
        println!("SKIPPED pipes_block_nothing: no mkfifo");
        return;
    }
    let found = machine.discovery().variable("PYPJRT_PLUGIN", machine.path("usr/lib/libtpu.so")).discover();
    let lines: Vec<String> = found.candidates.iter().map(|candidate| line(&machine, candidate)).collect();
    assert_eq!(lines, ["tpu usr/lib/libtpu.so !not a library", "pipe - !unreadable"]);
}

#[test]
fn description_only_library() {
    let machine = Machine::new("describes");
    let path = machine.library("d.so", &Elf { exports: vec!["DevicePlugin_GetDescriptor"], ..Elf::new() });
    let found = machine.discovery().variable("PYPJRT_PLUGIN", path).discover();
    assert!(matches!(&found.candidates[0].refusals[..], [Refusal::NoGetPjrtApi { .. }]));
    expect!["the library describes a plugin (DevicePlugin_GetDescriptor) whose PJRT library is another file; name that file in a manifest"]
        .assert_eq(&machine.relative(&found.candidates[0].notes[0]));
}

/// Checks that inspecting truncated libraries and libraries with one damaged byte never panics.
#[test]
fn damage_is_survived() {
    let machine = Machine::new("damage");
    let universal = fat(&[(MACHO_ARM64, macho(MACHO_ARM64, &["GetPjrtApi"], &[], true))]);
    let whole = [
        Elf::plugin().needing(&["liba.so"]).bytes(),
        Elf { gnu_hash: false, ..Elf::plugin() }.bytes(),
        pe(PE_AMD64, &["GetPjrtApi"], &["a.dll"]),
        macho(MACHO_ARM64, &["GetPjrtApi"], &["x"], true),
        macho(MACHO_ARM64, &["GetPjrtApi"], &["x"], false),
    ];
    let mut answers = 0;
    for bytes in &whole {
        for at in (0..bytes.len()).step_by(3) {
            let _ = inspect(&machine.file("cut", &bytes[..at]));
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            answers += usize::from(inspect(&machine.file("cut", &damaged)).is_ok());
        }
    }
    // Most bytes of a library do not affect the inspection.
    assert!(answers > 100, "{answers}");
    for end in (0..universal.len()).step_by(31) {
        let _ = inspect(&machine.file("cut", &universal[..end]));
    }
}

#[test]
fn wrong_hosts_are_refused_with_both() {
    let machine = Machine::new("hosts");
    let arm = machine.library("arm.so", &Elf { machine: other_machine(), ..Elf::plugin() });
    let (foreign, os) = if cfg!(windows) {
        (Elf { machine: X86_64, ..Elf::plugin() }.bytes(), OperatingSystem::Linux)
    } else {
        (pe(PE_AMD64, &["GetPjrtApi"], &[]), OperatingSystem::Windows)
    };
    let foreign = machine.file("foreign.so", foreign);
    let value = names_and_paths(&[("arm", &arm), ("foreign", &foreign)]);
    let found = machine.discovery().variable("PJRT_NAMES_AND_LIBRARY_PATHS", value).python(false).discover();
    let lines: Vec<String> = found.candidates.iter().map(|candidate| line(&machine, candidate)).collect();
    assert_eq!(lines, ["arm arm.so !architecture", "foreign foreign.so !architecture"]);
    let Refusal::WrongTarget { library, host, .. } = &found.candidates[1].refusals[0] else { panic!("{lines:?}") };
    assert_eq!(library[..], [target(os, Architecture::X86_64)]);
    assert_eq!(*host, Target::host());
    assert_ne!(host_machine(), other_machine());
}

// Windows has neither `/etc/ld.so.conf` nor search paths in libraries. Discovery ignores the imports of Windows
// libraries.
#[cfg(unix)]
#[test]
fn resolves_dependencies_like_linker() {
    let machine = Machine::new("needed");
    let check = |needed: &[&str], library: Elf, environment: &[(&str, String)]| -> Vec<String> {
        let path = machine.library("p/plugin.so", &library.needing(needed));
        let mut discovery = machine.discovery().python(false).conventional(false);
        discovery = discovery.variable("PYPJRT_PLUGIN", &path);
        for (name, value) in environment {
            discovery = discovery.variable(name, value);
        }
        let found = discovery.discover();
        assert_eq!(found.candidates.len(), 1);
        match &found.candidates[0].refusals[..] {
            [] => Vec::new(),
            [Refusal::MissingDependencies { missing, .. }] => missing.iter().map(|m| m.name.clone()).collect(),
            other => panic!("{other:?}"),
        }
    };
    // Test the system's folders, and those in `ld.so.conf` with an `include` line.
    machine.library("usr/lib/libsystem.so.6", &Elf::new());
    machine.library("opt/vendor/libconf.so.1", &Elf::new());
    machine.file("etc/ld.so.conf", "# comment\ninclude /etc/ld.so.conf.d/*.conf\n");
    machine.file("etc/ld.so.conf.d/vendor.conf", "/opt/vendor\n");
    assert!(check(&["libsystem.so.6", "libconf.so.1"], Elf::plugin(), &[]).is_empty());
    assert_eq!(check(&["libno.so", "libsystem.so.6", "libno2.so"], Elf::plugin(), &[]), ["libno.so", "libno2.so"]);

    // Test `DT_RUNPATH` with `$ORIGIN`. The search ignores a library of another architecture.
    machine.library("p/deps/libown.so", &Elf::new());
    machine.library("p/deps/libarm.so", &Elf { machine: other_machine(), ..Elf::new() });
    let runpath = || Elf { runpath: Some("$ORIGIN/deps".to_owned()), ..Elf::plugin() };
    assert!(check(&["libown.so"], runpath(), &[]).is_empty());
    assert_eq!(check(&["libarm.so"], runpath(), &[]), ["libarm.so"]);
    assert_eq!(check(&["libown.so"], Elf::plugin(), &[]), ["libown.so"]);
    assert!(check(&["libown.so"], Elf::plugin(), &[("LD_LIBRARY_PATH", machine.text("p/deps"))]).is_empty());

    // Missing dependencies of a dependency are reported, too, with the library that depends on them. `DT_RPATH` of the
    // plugin applies to its dependencies. `DT_RUNPATH` does not.
    machine.library("p/deps/libdeep.so", &Elf::new().needing(&["libown.so", "libgone.so"]));
    assert_eq!(check(&["libdeep.so"], runpath(), &[]), ["libown.so", "libgone.so"]);
    let rpath = Elf { rpath: Some("${ORIGIN}/deps".to_owned()), ..Elf::plugin() };
    assert_eq!(check(&["libdeep.so"], rpath, &[]), ["libgone.so"]);
    let found = machine.discovery().python(false).variable("PYPJRT_PLUGIN", machine.path("p/plugin.so")).discover();
    let [Refusal::MissingDependencies { missing, .. }] = &found.candidates[0].refusals[..] else { panic!("{found:?}") };
    assert_eq!((&*missing[0].name, missing[0].needed_by.ends_with("deps/libdeep.so")), ("libgone.so", true));

    // A dependency cycle does not cause an endless search.
    machine.library("p/deps/liba.so", &Elf { runpath: Some("$ORIGIN".to_owned()), ..Elf::new().needing(&["libb.so"]) });
    machine.library("p/deps/libb.so", &Elf { runpath: Some("$ORIGIN".to_owned()), ..Elf::new().needing(&["liba.so"]) });
    assert!(check(&["liba.so"], runpath(), &[]).is_empty());
}

#[test]
fn long_list_of_folders() {
    let machine = Machine::new("long-list");
    let folders: Vec<String> =
        (0..300).map(|number| format!("$ORIGIN/bazel/a_long_name_of_a_folder_{number}")).collect();
    let plugin = Elf { runpath: Some(folders.join(":")), ..Elf::plugin() }.needing(&["libone.so"]);
    let path = machine.file("plugin.so", plugin.bytes());
    let facts = inspect(&path).unwrap();
    assert_eq!((facts.runpath, facts.exports.get_pjrt_api), (folders, true));
}
