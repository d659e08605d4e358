//! Tests [`Plugin::load`]. A file that is not a plugin causes an error. Loading the same file again returns the same
//! plugin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pjrt::{LoadError, LoadErrorKind, LoaderError, Plugin};

fn load(path: impl AsRef<Path>) -> Result<Plugin, LoadError> {
    // SAFETY: the files are not libraries, or are libraries that were built for these tests and keep the contracts.
    unsafe { Plugin::load(path) }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Builds a shared library from C source. Calls the compiler that the environment variable `CC` names, or `cc` if the
/// variable is not set. On Unix, `cc` is usually installed, because Rust uses it as its linker. This function is not
/// available on Windows, where Rust does not need `cc`.
#[cfg(unix)]
fn build(name: &str, source: &str) -> PathBuf {
    let (c, library) = (directory().join(format!("{name}.c")), directory().join(format!("{name}.so")));
    std::fs::write(&c, source).unwrap();
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status =
        std::process::Command::new(cc).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&c).status().unwrap();
    assert!(status.success());
    library
}

/// Returns the C source of a plugin with only the required functions. `initialize` is the code of its initialization
/// function.
#[cfg(unix)]
fn plugin_source(major: i32, minor: i32, initialize: &str) -> String {
    format!(
        "#include <stddef.h>
        struct args {{ size_t size; void *extensions; }};
        struct message {{ size_t size; void *extensions; void *error; const char *text; size_t length; }};
        struct code {{ size_t size; void *extensions; void *error; int code; }};
        static void destroy(void *args) {{}}
        static void message(struct message *args) {{ args->text = \"no such card\"; args->length = 12; }}
        static void *code(struct code *args) {{ args->code = 5; return 0; }}
        static int calls;
        static void *initialize(struct args *args) {{ calls++; {initialize} }}
        static struct {{
          size_t size; void *extensions;
          size_t version_size; void *version_extensions; int major, minor;
          void *functions[4];
        }} table = {{72, 0, 24, 0, {major}, {minor}, {{destroy, message, code, initialize}}}};
        void *GetPjrtApi(void) {{ return &table; }}"
    )
}

#[test]
fn rejects_files_that_are_not_plugins() {
    let error = load(directory().join("absent.so")).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::File(_)), "{error}");
    assert_eq!(error.path(), Some(directory().join("absent.so").as_path()));
    let cause = std::error::Error::source(error.kind()).and_then(|cause| cause.downcast_ref::<Arc<std::io::Error>>());
    assert_eq!(cause.map(|cause| cause.kind()), Some(std::io::ErrorKind::NotFound));

    let text = directory().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    let error = load(&text).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::Library(_)), "{error}");
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<LoaderError>());
    assert!(cause.is_some_and(|cause| error.to_string().ends_with(&cause.to_string())), "{error}");
    assert!(cause.is_some_and(|cause| std::error::Error::source(cause).is_some()), "the loader's own error is kept");
    let error = load(directory()).unwrap_err();
    // On Windows, opening a folder as a file fails. On other systems, the dynamic loader rejects the folder.
    let expected =
        |kind: &_| matches!((kind, cfg!(windows)), (LoadErrorKind::Library(_), false) | (LoadErrorKind::File(_), true));
    assert!(expected(error.kind()), "{error}");

    // Load a library that does not export `GetPjrtApi`.
    let error = load(without_entry_point()).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::NoEntryPoint(_)), "{error}");
    // SAFETY: a null table is rejected.
    let error = Plugin::from_static(unsafe { pjrt::StaticApi::new(std::ptr::null()) }).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::NullTable), "{error}");
    assert_eq!(error.path(), None);
}

#[cfg(unix)]
#[test]
fn rejects_faulty_plugins() {
    let error = load(build(
        "missing_symbol",
        "void undefined_elsewhere(void); void f(void) { undefined_elsewhere(); }
        void (*p)(void) = undefined_elsewhere;",
    ));
    let error = error.unwrap_err();
    let LoadErrorKind::Library(cause) = error.kind() else { panic!("{error}") };
    assert!(cause.to_string().contains("undefined_elsewhere"), "the loader's message is kept: {cause}");

    let error = load(build("no_entry", "int something_else;")).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::NoEntryPoint(_)), "{error}");

    let error = load(build("null", "void *GetPjrtApi(void) { return 0; }")).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::NullTable), "{error}");

    assert_eq!(error.path(), Some(directory().join("null.so").as_path()));
    let error = load(build("null_too", "void *GetPjrtApi(void) { return 0; }")).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::NullTable), "{error}");
    assert_eq!(error.path(), Some(directory().join("null_too.so").as_path()), "its own path");

    let error = load(build("major", &plugin_source(1, 0, "return 0;"))).unwrap_err();
    assert!(matches!(error.kind(), LoadErrorKind::MajorVersion { .. }), "{error}");
    let error = load(build("minor", &plugin_source(0, 45, "return 0;"))).unwrap_err();
    let LoadErrorKind::MinorVersion { found } = error.kind() else { panic!("{error}") };
    assert_eq!((found.major, found.minor), (0, 45));

    let error = load(build("failing", &plugin_source(0, 80, "return \"error\";"))).unwrap_err();
    let LoadErrorKind::Initialize(why) = error.kind() else { panic!("{error}") };
    assert_eq!(why.code(), pjrt::ErrorCode::NOT_FOUND);
    assert_eq!((why.function(), why.message()), (Some("PJRT_Plugin_Initialize"), "no such card"));
    let as_error = pjrt::Error::from(error);
    assert_eq!(as_error.kind(), pjrt::ErrorKind::Load);
    assert!(as_error.load_error().is_some());
}

/// Builds a library that does not export `GetPjrtApi`.
#[cfg(unix)]
fn without_entry_point() -> PathBuf {
    build("without_entry_point", "int unrelated = 1;")
}

/// Builds a library that does not export `GetPjrtApi`.
#[cfg(windows)]
fn without_entry_point() -> PathBuf {
    device_plugin_testing::library("dlpack_exchange")
}

/// Builds a plugin whose initialization function fails from the second call on.
#[cfg(unix)]
fn once() -> PathBuf {
    build("once", &plugin_source(0, 100, "return calls == 1 ? 0 : \"error\";"))
}

/// Copies a plugin to a path that no other test loads. No 8-bit code page of Windows contains all characters of the
/// path.
#[cfg(windows)]
fn once() -> PathBuf {
    let path = directory().join("数 é.dll");
    std::fs::copy(device_plugin_testing::library("echo_plugin"), &path).unwrap();
    path
}

/// Creates a symbolic link.
#[cfg(unix)]
fn link(path: &Path, link: &Path) {
    std::os::unix::fs::symlink(path, link).unwrap();
}

/// Creates a hard link, because not every Windows user may create symbolic links.
#[cfg(windows)]
fn link(path: &Path, link: &Path) {
    std::fs::hard_link(path, link).unwrap();
}

#[test]
fn same_file_is_same_plugin() {
    let path = once();
    let (symbolic, hard) = (directory().join("once_symbolic.so"), directory().join("once_hard.so"));
    for link in [&symbolic, &hard] {
        drop(std::fs::remove_file(link));
    }
    link(&path, &symbolic);
    std::fs::hard_link(&path, &hard).unwrap();
    let plugins: Vec<Plugin> = std::thread::scope(|scope| {
        let paths = [&path, &symbolic, &hard, &path, &symbolic, &hard];
        let threads: Vec<_> = paths.map(|path| scope.spawn(move || load(path).unwrap())).into_iter().collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(plugins.iter().all(|plugin| *plugin == plugins[0]));
    assert_eq!(load(&path).unwrap(), plugins[0]);
    #[cfg(unix)]
    assert_eq!(plugins[0].api_version().to_string(), "0.100");
    let copy = directory().join("once_copy.so");
    std::fs::copy(&path, &copy).unwrap();
    assert_ne!(load(&copy).unwrap(), plugins[0], "another file is another plugin");
}
