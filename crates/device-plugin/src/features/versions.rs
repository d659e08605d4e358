//! Versions and descriptions of executables, for frameworks that store them.

use crate::{Backend, Result};

/// A device that reports whether a stored executable runs on another machine's runtime, without loading it.
///
/// A version is a sequence of bytes that the backend defines. Frameworks store versions and compare them with the
/// versions of other processes, so the checks also receive bytes that this process did not write.
#[doc(alias = "PJRT_AbiVersion_Extension")]
pub trait AbiVersions: Backend {
    /// The number of the platform, the same in all processes. XLA uses a hash of the platform's name.
    #[doc(alias = "PJRT_RuntimeAbiVersion_PlatformId")]
    #[doc(alias = "PJRT_ExecutableAbiVersion_PlatformId")]
    fn platform_id() -> u64;

    /// The version of this process's runtime.
    #[doc(alias = "PJRT_Client_RuntimeAbiVersion")]
    fn runtime_abi_version(&self) -> Result<Vec<u8>>;

    /// The version that an executable needs.
    #[doc(alias = "PJRT_Executable_GetAbiVersion")]
    fn executable_abi_version(executable: &Self::Executable) -> Result<Vec<u8>>;

    /// Checks that executables for the runtime `other` run on `runtime`.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for bytes that are not a version, `FAILED_PRECONDITION` for incompatible versions.
    #[doc(alias = "PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime")]
    fn check_runtime(runtime: &[u8], other: &[u8]) -> Result<()>;

    /// Checks that an executable of this version runs on `runtime`.
    ///
    /// # Errors
    ///
    /// As for [`AbiVersions::check_runtime`].
    #[doc(alias = "PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable")]
    fn check_executable(runtime: &[u8], executable: &[u8]) -> Result<()>;
}

/// A compiler that describes its executables in a form of its own.
#[doc(alias = "PJRT_ExecutableMetadata_Extension")]
pub trait ExecutableMetadata: Backend {
    /// The description of an executable. XLA's plugins write an `xla.PjRtExecutableMetadata` message.
    #[doc(alias = "PJRT_ExecutableMetadata_GetExecutableMetadata")]
    fn executable_metadata(executable: &Self::Executable) -> Result<Vec<u8>>;
}
