//! `PJRT_AbiVersion_Extension`: checks whether a runtime can run an executable that was compiled elsewhere.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::executable::Executable;
use crate::objects::owners::Client;
use crate::table::handle::{Destroy, Handle, Owned, Owner as _};
use crate::table::query::serialized;
use crate::table::read;

/// Functions for the versions of a plugin's binary interface. These functions check whether a runtime can run a stored
/// executable, without loading the executable.
///
/// ```no_run
/// # fn example(client: pjrt::Client, stored: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// use pjrt::extensions::AbiVersions;
///
/// let versions = client.plugin().extension::<AbiVersions>().ok_or("the plugin has no ABI versions")?;
/// let executable = versions.parse_executable(stored)?;
/// versions.of_client(&client)?.check_executable(&executable)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_AbiVersion_Extension")]
pub struct AbiVersions(Functions<PJRT_AbiVersion_Extension>);

plugin_extension!(AbiVersions(PJRT_AbiVersion_Extension));

impl AbiVersions {
    /// Returns the version of the runtime that a client uses.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin.
    #[doc(alias = "PJRT_Client_RuntimeAbiVersion")]
    pub fn of_client(&self, client: &Client) -> Result<RuntimeAbiVersion, Error> {
        type Function = function::PJRT_Client_RuntimeAbiVersion;
        self.0.check(client.api())?;
        let mut args = PJRT_Client_RuntimeAbiVersion_Args::new();
        args.client = client.inner().raw().as_ptr();
        // SAFETY: C2 (calls): the client is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        self.runtime(args.abi_version, Function::NAME)
    }

    /// Returns the version of the runtime for which an executable was compiled.
    ///
    /// # Errors
    ///
    /// Returns an error if the executable belongs to another plugin.
    #[doc(alias = "PJRT_Executable_GetAbiVersion")]
    pub fn of_executable(&self, executable: &Executable) -> Result<ExecutableAbiVersion, Error> {
        type Function = function::PJRT_Executable_GetAbiVersion;
        self.0.check(executable.handle().api())?;
        let mut args = PJRT_Executable_GetAbiVersion_Args::new();
        args.executable = executable.handle().as_ptr();
        // SAFETY: C2 (calls): the executable is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        self.executable(args.abi_version, Function::NAME)
    }

    /// Deserializes a version from the bytes that [`RuntimeAbiVersion::serialize`] returned.
    #[doc(alias = "PJRT_RuntimeAbiVersion_FromProto")]
    pub fn parse_runtime(&self, serialized: &[u8]) -> Result<RuntimeAbiVersion, Error> {
        type Function = function::PJRT_RuntimeAbiVersion_FromProto;
        let mut args = PJRT_RuntimeAbiVersion_FromProto_Args::new();
        args.serialized_proto = serialized.as_ptr().cast::<c_char>();
        args.serialized_proto_size = serialized.len();
        // SAFETY: C2 (calls): the bytes live through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        self.runtime(args.abi_version, Function::NAME)
    }

    /// Deserializes a version from the bytes that [`ExecutableAbiVersion::serialize`] returned.
    #[doc(alias = "PJRT_ExecutableAbiVersion_FromProto")]
    pub fn parse_executable(&self, serialized: &[u8]) -> Result<ExecutableAbiVersion, Error> {
        type Function = function::PJRT_ExecutableAbiVersion_FromProto;
        let mut args = PJRT_ExecutableAbiVersion_FromProto_Args::new();
        args.serialized_proto = serialized.as_ptr().cast::<c_char>();
        args.serialized_proto_size = serialized.len();
        // SAFETY: C2 (calls): the bytes live through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        self.executable(args.abi_version, Function::NAME)
    }

    fn runtime(&self, raw: *mut PJRT_RuntimeAbiVersion, function: &'static str) -> Result<RuntimeAbiVersion, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3 (objects): the plugin created the version for this caller.
        Ok(RuntimeAbiVersion(unsafe { Owned::new(raw, self.clone()) }))
    }

    fn executable(
        &self,
        raw: *mut PJRT_ExecutableAbiVersion,
        function: &'static str,
    ) -> Result<ExecutableAbiVersion, Error> {
        let raw = read::object(raw).map_err(|broken| Error::malformed(function, broken))?;
        // SAFETY: C3 (objects): the plugin created the version for this caller.
        Ok(ExecutableAbiVersion(unsafe { Owned::new(raw, self.clone()) }))
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<AbiVersions> for PJRT_RuntimeAbiVersion {
    unsafe fn destroy(owner: &AbiVersions, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_RuntimeAbiVersion_Destroy_Args::new();
        args.abi_version = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.0.call::<function::PJRT_RuntimeAbiVersion_Destroy>(&mut args) }
    }
}

// SAFETY: the body is one call of the object's destroy function.
unsafe impl Destroy<AbiVersions> for PJRT_ExecutableAbiVersion {
    unsafe fn destroy(owner: &AbiVersions, raw: *mut Self) -> Result<(), Error> {
        let mut args = PJRT_ExecutableAbiVersion_Destroy_Args::new();
        args.abi_version = raw;
        // SAFETY: C2 (calls): the only input is a live object that is not used afterwards, by this function's contract.
        unsafe { owner.0.call::<function::PJRT_ExecutableAbiVersion_Destroy>(&mut args) }
    }
}

/// The version of a runtime's binary interface.
#[derive(Debug)]
#[doc(alias = "PJRT_RuntimeAbiVersion")]
pub struct RuntimeAbiVersion(Owned<PJRT_RuntimeAbiVersion, AbiVersions>);

impl RuntimeAbiVersion {
    pub(crate) fn handle(&self) -> &Handle<PJRT_RuntimeAbiVersion, AbiVersions> {
        &self.0
    }

    /// Checks that this runtime can run executables that were compiled for the runtime of version `other`.
    ///
    /// # Errors
    ///
    /// Returns an error if the versions belong to different plugins, or if the plugin reports that they are
    /// incompatible.
    #[doc(alias = "PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime")]
    pub fn check_runtime(&self, other: &Self) -> Result<(), Error> {
        let versions = self.0.owner();
        versions.0.check(other.0.owner().api())?;
        let mut args = PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args::new();
        args.abi_version = self.0.as_ptr();
        args.other_abi_version = other.0.as_ptr();
        // SAFETY: C2 (calls): both versions are live and belong to this plugin.
        unsafe { versions.0.call::<function::PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime>(&mut args) }
    }

    /// Checks that this runtime can run an executable.
    ///
    /// # Errors
    ///
    /// Returns an error if the versions belong to different plugins, or if the plugin reports that they are
    /// incompatible.
    #[doc(alias = "PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable")]
    pub fn check_executable(&self, executable: &ExecutableAbiVersion) -> Result<(), Error> {
        let versions = self.0.owner();
        versions.0.check(executable.0.owner().api())?;
        let mut args = PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args::new();
        args.abi_version = self.0.as_ptr();
        args.executable_abi_version = executable.0.as_ptr();
        // SAFETY: C2 (calls): both versions are live and belong to this plugin.
        unsafe { versions.0.call::<function::PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable>(&mut args) }
    }

    /// Returns the id of the platform. The plugin defines this id.
    #[doc(alias = "PJRT_RuntimeAbiVersion_PlatformId")]
    pub fn platform_id(&self) -> Result<u64, Error> {
        let mut args = PJRT_RuntimeAbiVersion_PlatformId_Args::new();
        args.abi_version = self.0.as_ptr();
        // SAFETY: C2 (calls): the version is live.
        unsafe { self.0.owner().0.call::<function::PJRT_RuntimeAbiVersion_PlatformId>(&mut args) }?;
        Ok(args.platform_id)
    }

    /// Serializes the version. XLA's plugins return an `xla.PjRtRuntimeAbiVersionProto` message.
    #[doc(alias = "PJRT_RuntimeAbiVersion_ToProto")]
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        type Function = function::PJRT_RuntimeAbiVersion_ToProto;
        let mut args = PJRT_RuntimeAbiVersion_ToProto_Args::new();
        args.abi_version = self.0.as_ptr();
        // SAFETY: C2 (calls): the version is live.
        unsafe { self.0.owner().0.call::<Function>(&mut args) }?;
        let (bytes, len) = (args.serialized_proto, args.serialized_proto_size);
        let (holder, deleter) = (args.serialized_proto_holder, args.serialized_proto_deleter);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        unsafe { serialized(Function::NAME, bytes, len, holder, deleter) }
    }
}

/// The version of the runtime's binary interface that an executable requires.
#[derive(Debug)]
#[doc(alias = "PJRT_ExecutableAbiVersion")]
pub struct ExecutableAbiVersion(Owned<PJRT_ExecutableAbiVersion, AbiVersions>);

impl ExecutableAbiVersion {
    pub(crate) fn handle(&self) -> &Handle<PJRT_ExecutableAbiVersion, AbiVersions> {
        &self.0
    }

    /// Returns the id of the platform. The plugin defines this id.
    #[doc(alias = "PJRT_ExecutableAbiVersion_PlatformId")]
    pub fn platform_id(&self) -> Result<u64, Error> {
        let mut args = PJRT_ExecutableAbiVersion_PlatformId_Args::new();
        args.abi_version = self.0.as_ptr();
        // SAFETY: C2 (calls): the version is live.
        unsafe { self.0.owner().0.call::<function::PJRT_ExecutableAbiVersion_PlatformId>(&mut args) }?;
        Ok(args.platform_id)
    }

    /// Serializes the version. XLA's plugins return an `xla.PjRtExecutableAbiVersionProto` message.
    #[doc(alias = "PJRT_ExecutableAbiVersion_ToProto")]
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        type Function = function::PJRT_ExecutableAbiVersion_ToProto;
        let mut args = PJRT_ExecutableAbiVersion_ToProto_Args::new();
        args.abi_version = self.0.as_ptr();
        // SAFETY: C2 (calls): the version is live.
        unsafe { self.0.owner().0.call::<Function>(&mut args) }?;
        let (bytes, len) = (args.serialized_proto, args.serialized_proto_size);
        let (holder, deleter) = (args.serialized_proto_holder, args.serialized_proto_deleter);
        // SAFETY: the call succeeded and returned the bytes, their length, their owner and the owner's deleter.
        unsafe { serialized(Function::NAME, bytes, len, holder, deleter) }
    }
}
