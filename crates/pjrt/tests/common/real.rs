//! The embedded CPU device, and the real plugins of `PJRT_TEST_PLUGINS`, a list of files separated by colons.

#![allow(dead_code, reason = "each test program uses a part")]

use recorded_messages::assert_message;
use std::io::Write;

use pjrt::{Client, ClientOptions, CompileOptions, Error, ErrorCode, ErrorKind, LoadedExecutable, Plugin, Program};

/// Runs a test once for each plugin. Prints a line if there are none.
pub(crate) fn each_plugin(test: &str, f: impl Fn(&Plugin)) {
    let list = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    let paths: Vec<&str> = list.split(':').filter(|path| !path.is_empty()).collect();
    if paths.is_empty() {
        // Does not use `eprintln`, which the test harness captures. Writes the line in one piece, because tests run
        // concurrently.
        let line = format!("SKIPPED {test}: PJRT_TEST_PLUGINS names no plugin\n");
        std::io::stderr().write_all(line.as_bytes()).expect("stderr");
    }
    for path in paths {
        eprintln!("{test}: {path}");
        // SAFETY: whoever runs the tests vouches for the plugins they name.
        let plugin = unsafe { Plugin::load(path) }.unwrap_or_else(|error| panic!("{error}"));
        f(&plugin);
    }
}

/// Runs a test once for each plugin, with a client.
pub(crate) fn each_client(test: &str, f: impl Fn(&Client)) {
    each_plugin(test, |plugin| f(&plugin.client(&ClientOptions::new()).expect("client")));
}

/// Compiles StableHLO text.
pub(crate) fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A client of the embedded CPU device.
pub(crate) fn embedded() -> Client {
    plugin_registry::open("cpu").expect("the embedded device").client(&ClientOptions::new()).expect("client")
}

/// Runs a test on the embedded device and on the real plugins.
pub(crate) fn everywhere(test: &str, case: impl Fn(&Client)) {
    case(&embedded());
    each_client(test, case);
}

/// The result, or `None` if the plugin does not support the function. The embedded device supports all of them.
pub(crate) fn supported<T>(client: &Client, what: &str, result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.kind() == ErrorKind::Unsupported || error.code() == ErrorCode::UNIMPLEMENTED => {
            let path =
                client.plugin().path().unwrap_or_else(|| panic!("{what} on the embedded device: {error}")).to_owned();
            let line = format!("SKIPPED {what}: {}: {error}\n", path.display());
            std::io::stderr().write_all(line.as_bytes()).expect("stderr");
            None
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Checks that a call was rejected before the plugin, with the message that is recorded for this case.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, section: &str, case: &str) {
    let error = result.expect_err(case);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_message!(section, case, error.message());
}
