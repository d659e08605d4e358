//! Test doubles for PJRT plugins.
//!
//! The macros implement the methods of a [`Backend`](device_plugin::Backend) that are irrelevant to a test. A test uses
//! them within its `impl Backend` and writes the other methods itself. [`library`] returns the plugin libraries of the
//! folder `plugins`, which tests load.
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

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

#[doc(hidden)]
pub use device_plugin;

/// Implements `create` without options and declares one device of the given kind, for a backend that is a unit struct.
#[macro_export]
macro_rules! unit_device {
    ($kind:expr) => {
        fn create(_: &$crate::device_plugin::CreateOptions) -> $crate::device_plugin::Result<Self> {
            ::core::result::Result::Ok(Self)
        }

        $crate::one_device!($kind);
    };
}

/// Declares one device of the given kind.
#[macro_export]
macro_rules! one_device {
    ($kind:expr) => {
        fn devices(&self) -> ::std::vec::Vec<$crate::device_plugin::DeviceInfo> {
            ::std::vec![$crate::device_plugin::DeviceInfo::new(0, $kind)]
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

/// Declares that there are no programs: `compile` returns UNIMPLEMENTED.
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

/// Implements `execute` for a backend whose `compile` always fails. It returns UNIMPLEMENTED.
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

/// Returns the path of a plugin library of this crate, such as `witness_plugin`. Cargo builds it together with the
/// tests of the workspace. If it is missing, because cargo built the tests of one package only, this function builds
/// it.
///
/// # Panics
///
/// If the library does not build, or if the program is not a test in cargo's target folder.
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
