//! Test doubles for PJRT plugins.
//!
//! The macros implement the methods of a [`Backend`](device_plugin::Backend) that are irrelevant to a test. A test uses
//! them within its `impl Backend` and implements the other methods itself. [`Exclusive`] makes tests that share statics
//! run one after another. [`ServerKind`] starts servers of key-value stores. [`library`] returns the path of a plugin
//! library that is built from the folder `plugins`.
//!
//! ```
//! use device_plugin::Backend;
//!
//! struct Device;
//!
//! impl Backend for Device {
//!     device_plugin_testing::unit_device!("example");
//!     device_plugin_testing::host_memory!();
//!     device_plugin_testing::no_programs!();
//! }
//! ```
#![forbid(unsafe_code)]

mod servers;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[doc(hidden)]
pub use device_plugin;
pub use servers::{Server, ServerKind, free_port};

/// Implements `create` without options and declares one device of the given kind, for a backend that is a unit struct.
#[macro_export]
macro_rules! unit_device {
    ($kind:expr) => {
        $crate::unit_backend!();
        $crate::one_device!($kind);
    };
}

/// Implements `create` without options, for a backend that is a unit struct.
#[macro_export]
macro_rules! unit_backend {
    () => {
        fn create(_: &$crate::device_plugin::ClientOptions) -> $crate::device_plugin::Result<Self> {
            ::core::result::Result::Ok(Self)
        }
    };
}

/// Declares one device of the given kind.
#[macro_export]
macro_rules! one_device {
    ($kind:expr) => {
        $crate::several_devices!(1, $kind);
    };
}

/// Declares a number of devices of the given kind. Their ids count from 0.
#[macro_export]
macro_rules! several_devices {
    ($count:expr, $kind:expr) => {
        fn devices(&self) -> ::std::vec::Vec<$crate::device_plugin::DeviceInfo> {
            (0..$count).map(|id| $crate::device_plugin::DeviceInfo::new(id, $kind)).collect()
        }
    };
}

/// Implements buffers in host memory as `Arc<[u8]>`.
#[macro_export]
macro_rules! host_memory {
    () => {
        type Buffer = ::std::sync::Arc<[u8]>;

        fn buffer_from_host(
            &self,
            host: $crate::device_plugin::HostArray<'_>,
            _: $crate::device_plugin::Placement,
        ) -> $crate::device_plugin::Result<Self::Buffer> {
            ::core::result::Result::Ok(host.into_bytes().into())
        }

        fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> $crate::device_plugin::Result<()> {
            to.copy_from_slice(buffer);
            ::core::result::Result::Ok(())
        }
    };
}

/// Implements buffers in host memory that programs and tests may change, as `Arc<RwLock<Vec<u8>>>`.
#[macro_export]
macro_rules! writable_host_memory {
    () => {
        type Buffer = ::std::sync::Arc<::std::sync::RwLock<::std::vec::Vec<u8>>>;

        fn buffer_from_host(
            &self,
            host: $crate::device_plugin::HostArray<'_>,
            _: $crate::device_plugin::Placement,
        ) -> $crate::device_plugin::Result<Self::Buffer> {
            ::core::result::Result::Ok(::std::sync::Arc::new(::std::sync::RwLock::new(host.into_bytes())))
        }

        fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> $crate::device_plugin::Result<()> {
            to.copy_from_slice(&buffer.read().expect("no test panics while it writes"));
            ::core::result::Result::Ok(())
        }
    };
}

/// Implements `compile`, which accepts every program and gives it this name. The program takes and returns one array of
/// the given shape. The test implements `execute`.
#[macro_export]
macro_rules! one_program {
    ($name:expr, $shape:expr) => {
        type Executable = ();

        fn compile(
            &self,
            _: &$crate::device_plugin::Program,
            _: &$crate::device_plugin::CompileOptions,
        ) -> $crate::device_plugin::Result<$crate::device_plugin::Compiled<()>> {
            let info = $crate::device_plugin::ExecutableInfo::new($name, [$shape], [$shape]);
            ::core::result::Result::Ok($crate::device_plugin::Compiled::new((), info))
        }
    };
}

/// Implements `execute` for executables of the given type. It returns the first input as the output.
#[macro_export]
macro_rules! echo_executions {
    ($executable:ty) => {
        type Executable = $executable;

        fn execute(
            &self,
            _: &::std::sync::Arc<$executable>,
            launch: &mut $crate::device_plugin::Launch<'_, Self>,
        ) -> $crate::device_plugin::Result<$crate::device_plugin::Event> {
            let output = launch.inputs[0].clone();
            launch.outputs.push(output)?;
            ::core::result::Result::Ok($crate::device_plugin::Event::ready())
        }
    };
}

/// Implements `compile` and `execute` for a device without programs. Both return `UNIMPLEMENTED`.
#[macro_export]
macro_rules! no_programs {
    () => {
        fn compile(
            &self,
            _: &$crate::device_plugin::Program,
            _: &$crate::device_plugin::CompileOptions,
        ) -> $crate::device_plugin::Result<$crate::device_plugin::Compiled<()>> {
            ::core::result::Result::Err($crate::device_plugin::Error::unimplemented("this device runs no programs"))
        }

        $crate::no_executions!();
    };
}

/// Implements `execute` for a backend whose `compile` always fails. It returns `UNIMPLEMENTED`.
#[macro_export]
macro_rules! no_executions {
    () => {
        type Executable = ();

        fn execute(
            &self,
            _: &::std::sync::Arc<()>,
            _: &mut $crate::device_plugin::Launch<'_, Self>,
        ) -> $crate::device_plugin::Result<$crate::device_plugin::Event> {
            ::core::result::Result::Err($crate::device_plugin::Error::unimplemented("this device runs no programs"))
        }
    };
}

/// Makes tests run one after another, because they share a device that keeps its state in statics.
///
/// ```
/// static EXCLUSIVE: device_plugin_testing::Exclusive = device_plugin_testing::Exclusive::new();
///
/// let _turn = EXCLUSIVE.turn();
/// ```
#[derive(Debug, Default)]
pub struct Exclusive(Mutex<()>);

impl Exclusive {
    /// Creates a lock that no test holds.
    pub const fn new() -> Self {
        Self(Mutex::new(()))
    }

    /// Waits until no other test holds the lock, and returns a guard that holds it. A panic in another test is ignored.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the path of a plugin library of this crate, such as `witness_plugin`. Cargo builds the library together with
/// the tests of the workspace. If cargo built only the tests of one package, the library may be missing. In this case,
/// the function builds it.
///
/// # Panics
///
/// Panics if the library cannot be built, or if the test program is not in cargo's target folder.
#[expect(clippy::expect_used, reason = "for tests, which fail with this message")]
pub fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of the test");
    let profile = program.parent().and_then(Path::parent).expect("the test is in cargo's target folder");
    let path = profile.join("examples").join(format!("{DLL_PREFIX}{name}{DLL_SUFFIX}"));
    if !path.exists() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "-p", "device-plugin-testing", "--example", name, "--target-dir"]);
        build.arg(profile.parent().expect("the target folder"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "building {}", path.display());
    }
    path
}
