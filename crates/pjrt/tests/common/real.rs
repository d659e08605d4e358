//! Helpers to run tests on the embedded CPU device and on real plugins. The environment variable `PJRT_TEST_PLUGINS`
//! contains the paths of the real plugins. They are separated in the same way as the folders in `PATH`.

#![allow(dead_code, reason = "each test program uses a part")]

use expect_test::Expect;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use pjrt::{Client, ClientOptions, CompileOptions, Error, ErrorCode, ErrorKind, LoadedExecutable, Plugin, Program};

/// Returns the paths of `PJRT_TEST_PLUGINS`. If there are none, reports that the test is skipped.
fn paths(test: &str) -> Vec<PathBuf> {
    let list = std::env::var_os("PJRT_TEST_PLUGINS").unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
    if paths.is_empty() {
        // Do not use `eprintln`, because the test harness captures its output. Write the line with one call, because
        // tests run concurrently.
        let line = format!("SKIPPED {test}: PJRT_TEST_PLUGINS names no plugin\n");
        std::io::stderr().write_all(line.as_bytes()).expect("stderr");
    }
    paths
}

/// Runs a test once for each plugin of `PJRT_TEST_PLUGINS`. If there are none, reports that the test is skipped.
pub(crate) fn each_plugin(test: &str, f: impl Fn(&Plugin)) {
    for path in paths(test) {
        eprintln!("{test}: {}", path.display());
        // SAFETY: whoever runs the tests vouches for the plugins in `PJRT_TEST_PLUGINS`.
        let plugin = unsafe { Plugin::load(&path) }.unwrap_or_else(|error| panic!("{error}"));
        f(&plugin);
    }
}

/// Runs a test once with a client of each plugin of `PJRT_TEST_PLUGINS`.
pub(crate) fn each_client(test: &str, f: impl Fn(&Client)) {
    each_plugin(test, |plugin| f(&plugin.client(&ClientOptions::new()).expect("client")));
}

/// Environment variable that holds the path of the plugin for a child process of [`each_child`].
const CHILD: &str = "PJRT_TEST_CHILD";

/// Runs a test in a child process for each plugin of `PJRT_TEST_PLUGINS` and for the library of the embedded device, if
/// the variable `PJRT_CPU_PLUGIN` names it. If the plugin ends the process, the test fails and shows the output, whose
/// last lines describe the calls. `test` is the full name of the calling test, which the child process runs, too.
pub(crate) fn each_child(test: &str, f: impl Fn(&Client)) {
    const FINISHED: &str = "the child process has finished its test";
    if let Ok(path) = std::env::var(CHILD) {
        // SAFETY: whoever runs the tests vouches for the plugins in `PJRT_TEST_PLUGINS`.
        let plugin = unsafe { Plugin::load(path) }.expect("plugin");
        f(&plugin.client(&ClientOptions::new().with("cpu_device_count", 2)).expect("client"));
        return println!("{FINISHED}");
    }
    let mut paths = paths(test);
    let cpu = std::env::var_os("PJRT_CPU_PLUGIN").map(PathBuf::from).filter(|path| !paths.contains(path));
    paths.extend(cpu);
    for path in paths {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let output = child.args(["--exact", test, "--nocapture"]).env(CHILD, &path).output().expect("a child process");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let finished = output.status.success() && text.contains(FINISHED);
        assert!(finished, "{}, {}: {text}{errors}", path.display(), output.status);
    }
}

/// Compiles a program from StableHLO text. Panics on errors.
pub(crate) fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Creates a client of the embedded CPU device.
pub(crate) fn embedded() -> Client {
    plugin_registry::open("cpu").expect("the embedded device").client(&ClientOptions::new()).expect("client")
}

/// Runs a test on the embedded CPU device and on each plugin of `PJRT_TEST_PLUGINS`.
pub(crate) fn everywhere(test: &str, case: impl Fn(&Client)) {
    case(&embedded());
    each_client(test, case);
}

/// Returns the value of a result, or `None` if the plugin does not support the function. Panics on other errors, and if
/// the embedded device does not support the function.
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

/// Checks that a call returned an error of kind `InvalidArgument`, with the expected message.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, expected: Expect) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    expected.assert_eq(error.message());
}
