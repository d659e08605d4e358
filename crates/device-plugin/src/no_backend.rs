//! The backend of plugins whose device is driven by another library.

use std::sync::Arc;

use crate::features::Features;
use crate::{
    Backend, ClientOptions, CompileOptions, Compiled, DeviceInfo, Error, Event, HostArray, Inputs, Launch, Placement,
    Program, Result,
};

/// The backend of a [`DevicePlugin`](crate::DevicePlugin) whose device is driven by another library. An instance cannot
/// be created.
#[derive(Debug)]
pub enum NoBackend {}

impl Backend for NoBackend {
    type Buffer = ();
    type Executable = ();

    const FEATURES: Features<Self> = Features::absent();

    fn create(_: &ClientOptions) -> Result<Self> {
        Err(Error::unimplemented("this plugin only describes a device; load the PJRT library that it names instead"))
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        match *self {}
    }

    fn buffer_from_host(&self, _: HostArray<'_>, _: Placement) -> Result<()> {
        match *self {}
    }

    fn read(&self, (): &(), _: &mut [u8]) -> Result<()> {
        match *self {}
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        match *self {}
    }

    fn execute(&self, _: &Arc<()>, _: &mut Launch<'_, Self>) -> Result<Event> {
        match *self {}
    }
}

// Backends may move a launch to their own threads, and share its inputs between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Launch<'_, NoBackend>>();
    const fn is_sync<T: Sync>() {}
    is_sync::<Inputs<'_, NoBackend>>();
};
