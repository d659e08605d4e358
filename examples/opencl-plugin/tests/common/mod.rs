//! A client of the plugin.

use pjrt::{Client, ClientOptions, CompileOptions, Error, LoadedExecutable, Plugin, Program};

/// Returns a client. If there is no OpenCL device, reports that the test is skipped, and returns `None`.
pub(crate) fn client(test: &str, options: &ClientOptions) -> Option<Client> {
    let plugin = Plugin::from_static(pjrt_plugin_opencl::Plugin::api()).expect("the table is complete");
    match plugin.client(options) {
        Ok(client) => Some(client),
        Err(error) if error.to_string().contains("there is no OpenCL device") => {
            println!("SKIPPED {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Compiles a program. Not all test files use it.
#[allow(dead_code, reason = "one of the test files compiles no programs")]
pub(crate) fn compile(client: &Client, text: &str) -> Result<LoadedExecutable, Error> {
    client.compile(&Program::mlir(text.to_owned()), &CompileOptions::default())
}
