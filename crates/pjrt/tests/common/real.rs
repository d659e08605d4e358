//! The real plugins of `PJRT_TEST_PLUGINS`, a list of files separated by colons.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Write;

use pjrt::{Client, ClientOptions, CompileOptions, LoadedExecutable, Plugin, Program};

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
