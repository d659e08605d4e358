//! Tests the symbols that plugin libraries export: their names, and the results of calling them.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "loads a library and calls it"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use device_plugin::c_view::descriptor::{DP_GET_DESCRIPTOR, dp_descriptor};
use device_plugin::{Descriptor, Library, Manifest, header};
use object::{Object, ObjectSymbol};
use pjrt_sys::{AbiStruct, PJRT_Api, PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, PJRT_Client_PlatformName_Args};

/// Returns the path of an example's library, which cargo builds together with this test.
fn library(name: &str) -> PathBuf {
    file(&format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
}

fn file(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing; `cargo build -p device-plugin --examples` makes it", path.display());
    path
}

#[test]
fn library_returns_table() {
    let library = unsafe { libloading::Library::new(library("echo_plugin")) }.unwrap();
    let get: libloading::Symbol<'_, unsafe extern "C" fn() -> *const PJRT_Api> =
        unsafe { library.get(b"GetPjrtApi") }.unwrap();
    let (first, second) = unsafe { (get(), get()) };
    assert_eq!(first, second);
    let api = unsafe { &*first };
    assert_eq!(api.struct_size, PJRT_Api::STRUCT_SIZE);
    let mut create = PJRT_Client_Create_Args::new();
    assert!(unsafe { api.PJRT_Client_Create.unwrap()(&raw mut create) }.is_null());
    let mut name = PJRT_Client_PlatformName_Args::new();
    name.client = create.client;
    assert!(unsafe { api.PJRT_Client_PlatformName.unwrap()(&raw mut name) }.is_null());
    let text = unsafe { std::slice::from_raw_parts(name.platform_name.cast::<u8>(), name.platform_name_size) };
    assert_eq!(text, b"echo");
    let mut destroy = PJRT_Client_Destroy_Args::new();
    destroy.client = create.client;
    assert!(unsafe { api.PJRT_Client_Destroy.unwrap()(&raw mut destroy) }.is_null());
}

/// Returns the description that a library exports.
fn described(name: &str) -> Descriptor {
    let library = unsafe { libloading::Library::new(library(name)) }.unwrap();
    // Descriptors are valid for the life of the process, so their library must never be unloaded.
    let library = Box::leak(Box::new(library));
    let get: libloading::Symbol<'_, unsafe extern "C" fn() -> *const dp_descriptor> =
        unsafe { library.get(DP_GET_DESCRIPTOR.as_bytes()) }.unwrap();
    assert_eq!(unsafe { get() }, unsafe { get() });
    unsafe { Descriptor::from_raw(get()) }.unwrap()
}

#[test]
fn libraries_export_descriptions() {
    let echo = described("echo_plugin");
    let mut expected = Manifest::new("echo");
    expected.version = env!("CARGO_PKG_VERSION").to_owned();
    assert_eq!(echo.manifest(), &expected);
    let Library::Static(table) = echo.library() else { panic!("{echo:?}") };
    assert_eq!(unsafe { table.as_raw().cast::<usize>().read() }, PJRT_Api::STRUCT_SIZE);

    let library = unsafe { libloading::Library::new(library("echo_plugin")) }.unwrap();
    let get: libloading::Symbol<'_, unsafe extern "C" fn() -> *const PJRT_Api> =
        unsafe { library.get(b"GetPjrtApi") }.unwrap();
    assert_eq!(table.as_raw(), unsafe { get() }, "one plugin has one table");

    let wrapper = described("wrapper_plugin");
    assert_eq!(wrapper.manifest().name, "example");
    assert!(matches!(wrapper.library(), Library::Beside { file, .. } if file == "libexample_pjrt.so"));
}

fn exported(name: &str) -> Vec<String> {
    let bytes = std::fs::read(library(name)).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition() && symbol.is_global());
    let mut names: Vec<String> = symbols.map(|symbol| symbol.name().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads ELF")]
fn exports_only_requested_symbols() {
    assert_eq!(exported("echo_plugin"), ["DevicePlugin_GetDescriptor", "GetPjrtApi"]);
    assert_eq!(exported("wrapper_plugin"), ["DevicePlugin_GetDescriptor"]);
}

#[test]
fn wrapper_has_under_twenty_lines() {
    let source = include_str!("../examples/wrapper_plugin.rs");
    assert!(source.lines().count() < 20, "{} lines", source.lines().count());
}

/// Runs a command and returns its output. Returns `None` if the program does not exist.
fn run(command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output.stderr));
    Some(text(&output.stdout))
}

/// Writes the header of a plugin with the given name and exported symbols, and checks that C and C++ compilers accept
/// it. Returns `None` if a compiler is missing.
fn checked_header(folder: &Path, name: &str, symbols: &[&str]) -> Option<()> {
    let mut manifest = Manifest::new(name);
    manifest.description = "Ends a comment */ begins one /* and continues a line \\ ??/".to_owned();
    let path = folder.join(header::file_name(&manifest));
    std::fs::write(&path, header::header(&[manifest], symbols.iter().copied()).unwrap()).unwrap();
    for (compiler, language, standard) in [("cc", "c", "c11"), ("c++", "c++", "c++17")] {
        let mut command = Command::new(compiler);
        command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", language]);
        command.arg(format!("-std={standard}")).arg("-include").arg(&path).arg(&path);
        run(&mut command)?;
    }
    Some(())
}

#[test]
#[cfg_attr(windows, ignore = "names the libraries of Unix")]
fn one_program_in_c_holds_two_plugins() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two_names");
    std::fs::create_dir_all(&folder).unwrap();
    let first = ["first_GetPjrtApi", "first_DevicePlugin_GetDescriptor"];
    if checked_header(&folder, "first", &first).is_none() {
        println!("SKIPPED one_program_in_c_holds_two_plugins: no C or C++ compiler");
        return;
    }
    checked_header(&folder, "second", &["second_DevicePlugin_GetDescriptor"]).unwrap();
    let program = folder.join("two_names");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&folder).arg("-o").arg(&program);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/two_names.c")).arg(file("libstatic_plugins.a"));
    run(command.args(["-lpthread", "-ldl", "-lm"])).unwrap();
    assert_eq!(run(&mut Command::new(&program)).unwrap(), "first 1 \nsecond 3 /opt/second/libsecond.so\n");
}
