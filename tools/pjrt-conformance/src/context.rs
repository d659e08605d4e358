//! The plugin under test, and helper functions for the cases.

use std::any::Any;
use std::cell::OnceCell;
use std::fmt;
use std::time::Duration;

use pjrt::{
    Buffer, Client, ClientOptions, CompileOptions, Device, ElementType, Error, HostArray, LoadedExecutable, Memory,
    Plugin, Shape, Upload,
};

use crate::process::lines;
use crate::program;
use crate::stop::Stop;

/// An open plugin, and the options for its clients.
pub struct Opened {
    /// The plugin.
    pub plugin: Plugin,
    /// Options for each client that the suite creates.
    pub options: ClientOptions,
    /// An object that must live until the plugin is no longer in use. An example is a lock that reserves the device for
    /// this process.
    pub keep: Box<dyn Any>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

/// The plugin under test, with one client that the cases of a process share.
#[derive(Debug)]
pub(crate) struct Context {
    opened: Opened,
    client: OnceCell<Result<Client, String>>,
    /// The reason why earlier processes failed to create a client. If it is present, this process does not create
    /// clients, and skips the cases that need one.
    blocked: Option<String>,
    pub(crate) seed: u64,
    /// Minimum time for each case that calls functions from several threads in random order.
    pub(crate) stress: Duration,
}

impl Context {
    pub(crate) fn new(opened: Opened, seed: u64, stress: Duration, blocked: Option<String>) -> Self {
        Self { opened, client: OnceCell::new(), blocked, seed, stress }
    }

    pub(crate) fn plugin(&self) -> &Plugin {
        &self.opened.plugin
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.opened.options
    }

    /// Returns the client that the cases of this process share. The first call creates the client.
    pub(crate) fn client(&self) -> Result<&Client, Stop> {
        if let Some(reason) = &self.blocked {
            return Err(Stop::Skip(reason.clone()));
        }
        let client = self.client.get_or_init(|| {
            lines::stage("client", true);
            let client = self.plugin().client(self.options()).map_err(|error| error.to_string());
            lines::stage("client", false);
            client
        });
        client.as_ref().map_err(|error| Stop::Skip(format!("the plugin cannot create a client: {error}")))
    }

    /// Creates a client that the calling case does not share with other cases.
    pub(crate) fn new_client(&self) -> Result<Client, Stop> {
        if let Some(reason) = &self.blocked {
            return Err(Stop::Skip(reason.clone()));
        }
        self.plugin().client(self.options()).map_err(Stop::from)
    }

    /// Returns all addressable devices. Skips the case if the client has fewer than `count` devices.
    pub(crate) fn devices(&self, count: usize) -> Result<Vec<Device>, Stop> {
        let devices = self.client()?.addressable_devices()?;
        if devices.len() < count {
            return Err(Stop::Skip(format!(
                "the case needs {count} devices, but the client has {}; pass an option such as --option device_count=4 \
                 if the plugin has one",
                devices.len()
            )));
        }
        Ok(devices)
    }

    pub(crate) fn device(&self) -> Result<Device, Stop> {
        Ok(self.client()?.default_device()?)
    }

    pub(crate) fn memory(&self) -> Result<Memory, Stop> {
        Ok(self.device()?.default_memory()?)
    }

    /// Compiles StableHLO text for one device. Sends the program to the plugin as a portable artifact, as frameworks
    /// do.
    pub(crate) fn compile(&self, text: &str) -> Result<LoadedExecutable, Stop> {
        self.compile_with(text, &CompileOptions::default())
    }

    pub(crate) fn compile_with(&self, text: &str, options: &CompileOptions) -> Result<LoadedExecutable, Stop> {
        let program = program::for_plugin(text, self.plugin())?;
        Ok(self.client()?.compile(&program, options)?)
    }

    pub(crate) fn upload(&self, array: &HostArray) -> Result<Buffer, Stop> {
        Ok(self.client()?.upload(Upload::of(array.bytes()).shape(array.shape()))?)
    }

    /// Uploads `f32` elements to the default device.
    pub(crate) fn floats(&self, data: &[f32]) -> Result<Buffer, Stop> {
        let len = i64::try_from(data.len()).unwrap_or(i64::MAX);
        Ok(self.client()?.buffer_from_host(data, &[len])?)
    }

    /// Compiles a program that adds 1 to each element of an `f32` array of this length.
    pub(crate) fn add_one(&self, len: usize) -> Result<LoadedExecutable, Stop> {
        self.compile(&program::add_one(len))
    }
}

/// Returns the functions of an extension that the plugin lists.
pub(crate) fn extension<E: pjrt::extensions::PluginExtension>(cx: &Context) -> Result<E, Stop> {
    cx.plugin()
        .extension::<E>()
        .ok_or_else(|| Stop::Fail("the plugin lists the extension, but its table cannot be used".to_owned()))
}

/// Copies a buffer to the host with `PJRT_Buffer_ToHostBuffer`, even if the host could read the buffer's memory
/// directly.
pub(crate) fn download(buffer: &Buffer) -> Result<HostArray, Stop> {
    let shape = buffer.shape()?.clone();
    let bytes = buffer.download().start_bytes()?.wait()?;
    Ok(HostArray::new(shape, bytes)?)
}

/// Copies the `f32` elements of a buffer to the host with `PJRT_Buffer_ToHostBuffer`.
pub(crate) fn floats(buffer: &Buffer) -> Result<Vec<f32>, Stop> {
    Ok(buffer.download().start::<f32>()?.wait()?)
}

/// Converts an error of an operation with elements of type `ty`. If the error's code may mean that the plugin does not
/// support the type, the result is [`Stop::Unsupported`].
pub(crate) fn unsupported_type(ty: ElementType, error: Error) -> Stop {
    use pjrt::ErrorCode;
    let refusal = [ErrorCode::INVALID_ARGUMENT, ErrorCode::UNIMPLEMENTED, ErrorCode::NOT_FOUND];
    if error.kind() == pjrt::ErrorKind::Unsupported || refusal.contains(&error.code()) {
        Stop::Unsupported(format!("the plugin does not support {ty}: {error}"))
    } else {
        Stop::from(error)
    }
}

pub(crate) fn shape(ty: ElementType, dimensions: &[i64]) -> Shape {
    Shape::new(ty, dimensions)
}
