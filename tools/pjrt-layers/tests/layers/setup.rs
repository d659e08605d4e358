//! Plugins for these tests: the embedded device (`pjrt-cpu`), and tables with functions of the tests.

use device_plugin::raw;
use pjrt_cpu::Cpu;
use pjrt_sys::StaticApi;

pub(crate) use crate::fake::{fake, table};

pub(crate) fn embedded() -> StaticApi {
    // SAFETY: `device-plugin` keeps C1 to C9 for its tables.
    unsafe { StaticApi::new(raw::api::<Cpu>()) }
}
