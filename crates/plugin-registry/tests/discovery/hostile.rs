//! Tests with files that are made to hang or crash a reader, and with folders in which other users prepared attacks.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;

use crate::common::binaries::{MACHO_X86_64, PE_AMD64, fat, macho, pe};
use crate::common::{Elf, Machine, named};
use expect_test::expect;
use plugin_registry::discovery::{AllowList, Refusal, inspect};
use plugin_registry::{Error, PluginRegistry, Policy};

/// Returns the CPU time of this thread in seconds.
fn processor_time() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
}

/// Runs `work`, and checks that it takes less than 20 seconds of CPU time.
pub(crate) fn soon<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = processor_time();
    let done = work();
    let seconds = processor_time() - start;
    assert!(seconds < 20, "{what} took {seconds} s");
    done
}

fn refused(what: &str, path: &Path) -> String {
    match soon(what, || inspect(path)) {
        Err(refusal @ Refusal::NotALibrary { .. }) => refusal.to_string(),
        other => panic!("{what}: {other:?}"),
    }
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Makes a file longer without using disk space.
fn stretch(path: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Offset in an [`Elf`] file of the program header of the loaded segment. The program header of the dynamic section
/// follows.
const SEGMENT: usize = 64;
const DYNAMIC: usize = 64 + 56;

#[test]
fn hash_tables_without_an_end() {
    let machine = Machine::new("hostile-hash");
    // Test a hash chain that leads to itself, with a stated length of four billion symbols.
    let symbols = Elf { exports: vec!["other"], gnu_hash: false, ..Elf::new() };
    let mut bytes = symbols.bytes();
    let table: Vec<u8> = [1u32, 2, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let at = bytes.windows(table.len()).position(|window| window == table).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes[at + 16..at + 20].copy_from_slice(&1u32.to_le_bytes());
    let path = machine.file("circle.so", bytes);
    assert!(!soon("a chain in a circle", || inspect(&path)).unwrap().exports.get_pjrt_api);

    // Test a hash chain that continues through gigabytes of zeros.
    let mut bytes = Elf { exports: vec!["other"], ..Elf::new() }.bytes();
    let table: Vec<u8> = [1u32, 1, 1, 6].iter().flat_map(|word| word.to_le_bytes()).collect();
    let at = bytes.windows(table.len()).position(|window| window == table).unwrap();
    let end = bytes.len();
    // Copy the dynamic section to the end of the file, and append the hash table after it.
    let (table, dynamic) = (bytes[at..at + 28].to_vec(), bytes[at + 32..].to_vec());
    let dynamic_at = bytes.len() as u64;
    bytes.extend(&dynamic);
    let table_at = bytes.len() as u64;
    bytes.extend(&table);
    for entry in bytes[dynamic_at as usize..table_at as usize].chunks_exact_mut(16) {
        if entry[..8] == 0x6fff_fef5u64.to_le_bytes() {
            entry[8..].copy_from_slice(&table_at.to_le_bytes());
        }
    }
    assert!(end < table_at as usize);
    for place in [8, 16, 24] {
        word(&mut bytes, DYNAMIC + place, dynamic_at);
    }
    for size in [32, 40] {
        word(&mut bytes, SEGMENT + size, 4 << 30);
        word(&mut bytes, DYNAMIC + size, table_at - dynamic_at);
    }
    let path = machine.file("zeros.so", bytes);
    stretch(&path, 4 << 30);
    let message = machine.relative(&refused("a chain of zeros", &path));
    expect!["ROOT/zeros.so is not a shared library but a damaged library (the hash table has no end): name the plugin's library"]
        .assert_eq(&message);
}

#[test]
fn lengths_beyond_reason() {
    let machine = Machine::new("hostile-lengths");
    // Test a dynamic section of 32 gigabytes of zeros.
    let mut bytes = Elf::plugin().bytes();
    for size in [32, 40] {
        word(&mut bytes, DYNAMIC + size, 32 << 30);
    }
    let path = machine.file("dynamic.so", bytes);
    stretch(&path, 64 << 30);
    refused("a long dynamic section", &path);
    // Test a hundred thousand dependencies, for which a naive search would look in every folder.
    let names: Vec<String> = (0..100_000).map(|index| format!("lib{index}.so")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let path = machine.library("needs.so", &Elf::plugin().needing(&names));
    expect!["ROOT/needs.so is not a shared library but a damaged library (it needs too many libraries): name the plugin's library"]
        .assert_eq(&machine.relative(&refused("many needs", &path)));
    // Test the largest 32-bit length of the load commands in a Mach-O header.
    let mut bytes = macho(MACHO_X86_64, &["GetPjrtApi"], &[], true);
    bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    let path = machine.file("commands.dylib", bytes);
    stretch(&path, 8 << 30);
    refused("long commands", &path);
}

#[test]
fn flipped_bits_are_survived() {
    let machine = Machine::new("hostile-flips");
    let sysv = Elf { gnu_hash: false, rpath: Some("/x".to_owned()), ..Elf::plugin() };
    let formats = [
        Elf::plugin().needing(&["libc.so.6"]).bytes(),
        sysv.bytes(),
        pe(PE_AMD64, &["GetPjrtApi"], &["k.dll"]),
        macho(MACHO_X86_64, &["GetPjrtApi"], &["libc"], true),
        macho(MACHO_X86_64, &["GetPjrtApi"], &["libc"], false),
        fat(&[(MACHO_X86_64, macho(MACHO_X86_64, &["GetPjrtApi"], &[], true))]),
    ];
    let path = machine.path("flipped");
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % below
    };
    let (mut good, mut bad) = (0, 0);
    for bytes in formats {
        for _ in 0..500 {
            let mut flipped = bytes.clone();
            for _ in 0..=next(4) {
                let at = next(flipped.len());
                flipped[at] = [0, 1, 0x7f, 0x80, 0xff, next(256) as u8][next(6)];
            }
            fs::write(&path, &flipped).unwrap();
            match soon("a damaged library", || inspect(&path)) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
    }
    assert!(good > 0 && bad > 0, "{good} {bad}");
}

#[test]
fn finds_plugins_beside_odd_files() {
    let machine = Machine::new("hostile-names");
    machine.plugin("home/.local/lib/pjrt/libpjrt_good.so");
    let folder = machine.path("home/.local/lib/pjrt");
    let odd = |bytes: &[u8]| folder.join(std::ffi::OsString::from_vec(bytes.to_vec()));
    fs::copy(folder.join("libpjrt_good.so"), odd(b"libpjrt_\xff.so")).unwrap();
    machine.link("home/.local/lib/pjrt/libpjrt_circle.so", "libpjrt_circle.so");
    machine.link("home/.local/lib/pjrt/libpjrt_up.so", "..");
    pipe(&folder.join("libpjrt_pipe.so"));
    let manifests = machine.path("home/.config/pjrt/plugins.d");
    pipe(&manifests.join("pipe.json"));
    machine.file("home/.config/pjrt/plugins.d/long.json", vec![b' '; (1 << 20) + 1]);
    machine.file("home/.config/pjrt/plugins.d/deep.json", "[".repeat(1 << 19));
    machine.file("home/.config/pjrt/plugins.d/deeper.json", r#"{"capabilities":"#.repeat(1 << 15));
    let features = format!("{{\"capabilities\": {{\"features\": {{\"a\": {}", "[".repeat(1 << 19));
    machine.file("home/.config/pjrt/plugins.d/deepest.json", features);
    machine.file("home/.config/pjrt/plugins.d/bytes.json", b"{\"name\": \"\xff\"}");
    machine.link("home/.config/pjrt/plugins.d/circle.json", "circle.json");
    let discovery = machine
        .discovery()
        .variable("PJRT_PLUGIN_PATH", std::ffi::OsString::from_vec(b"/no/\xff.so".to_vec()))
        .variable("PJRT_NAMES_AND_LIBRARY_PATHS", std::ffi::OsString::from_vec(b"x:/\xff,\xff:/y".to_vec()))
        .variable("PATH", std::ffi::OsString::from_vec(b"/no/\xff".to_vec()));
    let found = soon("a hostile home", || discovery.discover());
    assert!(named(&found, "good").is_usable(), "{found:#?}");
    let usable = found.candidates.iter().filter(|candidate| candidate.is_usable()).count();
    assert_eq!(usable, 1, "{found:#?}");
    let about = |file: &str| {
        let about = |candidate: &&plugin_registry::discovery::Candidate| {
            candidate.manifest_path.as_deref().is_some_and(|path| path.ends_with(file))
        };
        &found.candidates.iter().find(about).unwrap_or_else(|| panic!("{file}: {found:#?}")).refusals[0]
    };
    let mut messages = String::new();
    for file in ["pipe.json", "long.json", "deep.json", "deeper.json", "deepest.json"] {
        match about(file) {
            Refusal::Unreadable { .. } => assert!(["pipe.json", "long.json"].contains(&file), "{file}"),
            Refusal::MalformedManifest { field, .. } => {
                assert!(file.starts_with("deep") && !field.is_empty(), "{file}")
            }
            other => panic!("{file}: {other:?}"),
        }
        messages += &format!("{file}: {}\n", machine.relative(about(file)));
    }
    expect![[r#"
        pipe.json: ROOT/home/.config/pjrt/plugins.d/pipe.json cannot be read (not a file): check its permissions
        long.json: ROOT/home/.config/pjrt/plugins.d/long.json cannot be read (larger than 1048576 bytes): check its permissions
        deep.json: ROOT/home/.config/pjrt/plugins.d/deep.json: field manifest: a manifest must be a JSON object: `{"format_version": …, …}`: correct the file
        deeper.json: ROOT/home/.config/pjrt/plugins.d/deeper.json: field manifest: EOF while parsing a value at line 1 column 524288: correct the file
        deepest.json: ROOT/home/.config/pjrt/plugins.d/deepest.json: field capabilities.features.a[0]: invalid type: sequence, expected i64 at line 1 column 37: correct the file
    "#]].assert_eq(&messages);
}

#[test]
fn pipes_beside_a_registered_library() {
    let machine = Machine::new("hostile-beside");
    let library = machine.plugin("libx.so");
    pipe(&machine.path("pjrt_plugin.json"));
    let registry = PluginRegistry::empty();
    let error = soon("a manifest that is a pipe", || {
        // SAFETY: R1 (the library is trusted): it is a library of these tests.
        unsafe { registry.register_library(&library, None) }
    });
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Description { .. }), "{error}");
    expect![[r#"the description of plugin "ROOT/pjrt_plugin.json" has faults: ROOT/pjrt_plugin.json: ROOT/pjrt_plugin.json cannot be read (not a file): check its permissions"#]]
        .assert_eq(&machine.relative(&error));
    let pipe = machine.path("pjrt_plugin.json");
    assert!(soon("a list that is a pipe", || AllowList::read(&pipe)).is_err());
    assert!(soon("a hash of a pipe", || plugin_registry::discovery::verify_sha256(&pipe, "")).is_err());
}

#[test]
fn unreadable_allow_list_allows_nothing() {
    let machine = Machine::new("hostile-list");
    machine.plugin("home/.local/lib/pjrt/libpjrt_x.so");
    assert!(named(&machine.discovery().discover(), "x").is_usable());
    machine.link("etc/pjrt/plugins.allow", "absent");
    let found = machine.discovery().discover();
    assert!(matches!(named(&found, "x").refusals[..], [Refusal::Unreadable { .. }]), "{found:#?}");
}

#[test]
fn does_not_load_replaced_file() {
    use sha2::Digest;
    let machine = Machine::new("hostile-replaced");
    let library = machine.plugin("home/.local/lib/pjrt/libpjrt_swapped.so");
    let sum: String = sha2::Sha256::digest(fs::read(&library).unwrap()).iter().map(|b| format!("{b:02x}")).collect();
    let list = machine.file("allowed", sum);
    let registry = PluginRegistry::with(machine.discovery().variable("PJRT_REGISTRY_ALLOWLIST", &list));
    let entry = registry.select(&Policy::named("swapped")).unwrap();
    fs::write(&library, Elf { rpath: Some("/evil".to_owned()), ..Elf::plugin() }.bytes()).unwrap();
    match entry.load() {
        Err(Error::Refused { refusals, .. }) => assert!(matches!(refusals[..], [Refusal::NotAllowed { .. }])),
        other => panic!("{other:?}"),
    }
    // A library whose file was replaced is not loaded either if the registry verifies the hash in the manifest.
    let manifest = format!(
        r#"{{"format_version": "1.0", "name": "hashed", "library": {{"path": "libhashed.so", "sha256": "{}"}}}}"#,
        fs::read_to_string(&list).unwrap()
    );
    machine.file("hashed/hashed.json", manifest);
    let library = machine.plugin("hashed/libhashed.so");
    let discovery = machine.discovery().variable("PJRT_REGISTRY_MANIFESTS", machine.path("hashed")).verify_sha256(true);
    let registry = PluginRegistry::with(discovery);
    let entry = registry.select(&Policy::named("hashed")).unwrap();
    fs::write(&library, Elf { rpath: Some("/evil".to_owned()), ..Elf::plugin() }.bytes()).unwrap();
    match entry.load() {
        Err(Error::Refused { refusals, .. }) => assert!(matches!(refusals[..], [Refusal::Sha256Mismatch { .. }])),
        other => panic!("{other:?}"),
    }
}
