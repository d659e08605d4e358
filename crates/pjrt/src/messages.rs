//! Compares the messages of all error kinds of this crate with `tests/messages/errors.txt`. Other tests compare error
//! kinds, codes and function names, and each message beside its cause.
//!
//! To update `errors.txt`, run `UPDATE_EXPECT=1 cargo test -p pjrt-rs --lib messages`.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Arc;

use expect_test::expect_file;

use crate::table::load_error::LoaderError;
use crate::table::read::Malformed;
use crate::{ApiVersion, DeviceMemory, Error, ErrorCode, ErrorKind, LoadError, LoadErrorKind, MemoryStats};

#[test]
fn snapshot() {
    let mut text = String::from("# Reasons why a plugin cannot be loaded\n");
    let mut seen = [false; 11];
    for kind in load_error_kinds() {
        seen[load_error_number(&kind)] = true;
        writeln!(text, "{}", LoadError::new(Some(Path::new("/lib/acme.so")), kind)).expect("a string accepts any text");
    }
    assert!(seen.iter().all(|seen| *seen), "a kind is missing: {seen:?}");
    writeln!(text, "{}", LoadError::new(None, LoadErrorKind::NullTable)).expect("a string accepts any text");
    text += "\n# Errors of each kind\n";
    let mut seen = [false; 6];
    for error in errors() {
        seen[error_number(error.kind())] = true;
        writeln!(text, "{:?} {}: {error}", error.kind(), error.code()).expect("a string accepts any text");
    }
    assert!(seen.iter().all(|seen| *seen), "a kind is missing: {seen:?}");
    expect_file!["../tests/messages/errors.txt"].assert_eq(&text);
}

fn load_error_kinds() -> Vec<LoadErrorKind> {
    let loader = || LoaderError::new("the loader's message");
    let api = |major, minor| ApiVersion { major, minor };
    vec![
        LoadErrorKind::File(Arc::new(io::Error::other("the system's message"))),
        LoadErrorKind::Library(loader()),
        LoadErrorKind::NoEntryPoint(loader()),
        LoadErrorKind::NoFunction { function: "AcmeShutdown".to_owned(), why: loader() },
        LoadErrorKind::NullTable,
        LoadErrorKind::MisalignedTable,
        LoadErrorKind::TruncatedTable { struct_size: 8, needed: 40 },
        LoadErrorKind::MajorVersion { found: api(1, 0) },
        LoadErrorKind::MinorVersion { found: api(0, 3) },
        LoadErrorKind::MissingFunction { function: "PJRT_Error_Destroy" },
        LoadErrorKind::Initialize(plugin(ErrorCode::INTERNAL)),
    ]
}

/// Returns the index of `kind` in the array `seen` of [`snapshot`]. A new kind needs an index here and an example in
/// [`load_error_kinds`].
fn load_error_number(kind: &LoadErrorKind) -> usize {
    match kind {
        LoadErrorKind::File(_) => 0,
        LoadErrorKind::Library(_) => 1,
        LoadErrorKind::NoEntryPoint(_) => 2,
        LoadErrorKind::NoFunction { .. } => 3,
        LoadErrorKind::NullTable => 4,
        LoadErrorKind::MisalignedTable => 5,
        LoadErrorKind::TruncatedTable { .. } => 6,
        LoadErrorKind::MajorVersion { .. } => 7,
        LoadErrorKind::MinorVersion { .. } => 8,
        LoadErrorKind::MissingFunction { .. } => 9,
        LoadErrorKind::Initialize(_) => 10,
    }
}

fn plugin(code: ErrorCode) -> Error {
    Error::plugin("PJRT_Client_Compile", code, "the plugin's message".to_owned(), Vec::new())
}

fn out_of_memory() -> Error {
    let mut error = plugin(ErrorCode::RESOURCE_EXHAUSTED);
    let mut limited = MemoryStats::new(4096);
    limited.bytes_limit = Some(8192);
    error.set_device_memory(vec![DeviceMemory::new(0, limited), DeviceMemory::new(1, MemoryStats::new(64))]);
    error
}

fn errors() -> Vec<Error> {
    let api = ApiVersion { major: 0, minor: 54 };
    let named = "PJRT_Client_Compile: the plugin's message".to_owned();
    vec![
        LoadError::new(None, LoadErrorKind::NullTable).into(),
        Error::missing("PJRT_Client_Compile", 0, api),
        Error::missing("PJRT_Client_DmaMap", 60, api),
        Error::missing_in("PJRT_Layouts_MemoryLayout_Serialize", "layouts extension", api),
        plugin(ErrorCode::UNIMPLEMENTED),
        Error::unsupported("the message".to_owned()),
        Error::invalid("the message"),
        plugin(ErrorCode::NOT_FOUND),
        Error::plugin("PJRT_Client_Compile", ErrorCode::NOT_FOUND, named, Vec::new()),
        out_of_memory(),
        Error::malformed("PJRT_Client_Compile", Malformed("a misaligned array")),
        Error::malformed_text("PJRT_Client_Compile", "the message".to_owned()),
        Error::timeout("the message".to_owned()),
    ]
}

fn error_number(kind: ErrorKind) -> usize {
    match kind {
        ErrorKind::Load => 0,
        ErrorKind::Unsupported => 1,
        ErrorKind::InvalidArgument => 2,
        ErrorKind::Plugin => 3,
        ErrorKind::Malformed => 4,
        ErrorKind::Timeout => 5,
    }
}
