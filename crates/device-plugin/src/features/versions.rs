//! Versions and descriptions of executables, for frameworks that store executables.

use crate::{Backend, Result};

/// A device that reports whether a stored executable runs on another machine's runtime, without loading it.
///
/// A version is a sequence of bytes that the backend defines. Frameworks store versions and compare them with the
/// versions of other processes, so the checks also receive bytes that this process did not write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `AbiVersions`",
    label = "`AbiVersions` is not implemented",
    note = "write `impl AbiVersions for {Self} {{ … }}`, or remove `.abi_versions()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_AbiVersion_Extension")]
pub trait AbiVersions: Backend {
    /// Returns the id of the platform, which is the same in all processes. XLA uses a hash of the platform's name.
    #[doc(alias = "PJRT_RuntimeAbiVersion_PlatformId")]
    #[doc(alias = "PJRT_ExecutableAbiVersion_PlatformId")]
    fn platform_id() -> u64;

    /// Returns the version of this process's runtime.
    #[doc(alias = "PJRT_Client_RuntimeAbiVersion")]
    fn runtime_abi_version(&self) -> Result<Vec<u8>>;

    /// Returns the version that an executable requires.
    #[doc(alias = "PJRT_Executable_GetAbiVersion")]
    fn executable_abi_version(executable: &Self::Executable) -> Result<Vec<u8>>;

    /// Checks that executables for a runtime of the version `other` run on a runtime of the version `runtime`.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` for bytes that are not a version, and `FAILED_PRECONDITION` for incompatible
    /// versions.
    #[doc(alias = "PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime")]
    fn check_runtime(runtime: &[u8], other: &[u8]) -> Result<()>;

    /// Checks that an executable of the version `executable` runs on a runtime of the version `runtime`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`AbiVersions::check_runtime`].
    #[doc(alias = "PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable")]
    fn check_executable(runtime: &[u8], executable: &[u8]) -> Result<()>;
}

/// A backend whose compiler describes its executables in its own format.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `ExecutableMetadata`",
    label = "`ExecutableMetadata` is not implemented",
    note = "write `impl ExecutableMetadata for {Self} {{ … }}`, or remove `.executable_metadata()` from `Backend::FEATURES`"
)]
#[doc(alias = "PJRT_ExecutableMetadata_Extension")]
pub trait ExecutableMetadata: Backend {
    /// Returns the description of an executable. XLA's plugins return a serialized `xla.PjRtExecutableMetadata`
    /// message.
    #[doc(alias = "PJRT_ExecutableMetadata_GetExecutableMetadata")]
    fn executable_metadata(executable: &Self::Executable) -> Result<Vec<u8>>;
}
