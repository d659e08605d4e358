//! A client of the plugin, and the reference results of the host.

use pjrt::{Buffer, Client, ClientOptions, CompileOptions, Error, LoadedExecutable, Plugin, Program, Shape, Upload};

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

pub(crate) fn compile(client: &Client, text: &str) -> Result<LoadedExecutable, Error> {
    client.compile(&Program::mlir(text.to_owned()), &CompileOptions::default())
}

/// Uploads the bytes of an array.
pub(crate) fn upload(client: &Client, shape: &Shape, bytes: &[u8]) -> Buffer {
    client.upload(Upload::of(bytes).shape(shape)).unwrap()
}
