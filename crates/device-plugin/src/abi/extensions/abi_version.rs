//! The ABI version extension: reports whether a stored executable runs on a given runtime.

use pjrt_sys::PJRT_RuntimeAbiVersion;
use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::client::handle::Client;
use crate::abi::objects::executable::handles::Executable;
use crate::abi::objects::owned_arrays::{Blob, delete_blob};
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::backend::functions;
use crate::{Backend, DevicePlugin, Error, Result};

/// The object behind a `PJRT_RuntimeAbiVersion*` or a `PJRT_ExecutableAbiVersion*`. It holds the serialized version.
pub(crate) struct Version(Vec<u8>);

handles! {
    PJRT_RuntimeAbiVersion => Version;
    PJRT_ExecutableAbiVersion => Version;
}

extension! {
    /// The ABI version extension. A plugin offers it if the backend implements the feature `AbiVersions`.
    AbiVersions = PJRT_AbiVersion_Extension if P::Backend::FEATURES.abi_versions.is_some();
    client_runtime_abi_version: PJRT_Client_RuntimeAbiVersion,
    executable_get_abi_version: PJRT_Executable_GetAbiVersion,
    runtime_abi_version_destroy: PJRT_RuntimeAbiVersion_Destroy,
    runtime_abi_version_is_compatible_with_runtime: PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime,
    runtime_abi_version_is_compatible_with_executable: PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable,
    runtime_abi_version_to_proto: PJRT_RuntimeAbiVersion_ToProto,
    runtime_abi_version_platform_id: PJRT_RuntimeAbiVersion_PlatformId,
    executable_abi_version_destroy: PJRT_ExecutableAbiVersion_Destroy,
    executable_abi_version_to_proto: PJRT_ExecutableAbiVersion_ToProto,
    executable_abi_version_platform_id: PJRT_ExecutableAbiVersion_PlatformId,
    runtime_abi_version_from_proto: PJRT_RuntimeAbiVersion_FromProto,
    executable_abi_version_from_proto: PJRT_ExecutableAbiVersion_FromProto,
}

fn versions<B: Backend>() -> Result<functions::AbiVersions<B>> {
    // A plugin offers the extension only if the backend has the feature, so this error does not occur.
    B::FEATURES.abi_versions.ok_or_else(|| Error::unimplemented("the backend has no ABI versions"))
}

fn into_raw<T>(bytes: Vec<u8>) -> *mut T {
    Box::into_raw(Box::new(Version(bytes))).cast()
}

/// Copies a serialized version from the framework's memory, and returns the handle of the copy. Does not check the
/// bytes.
///
/// # Safety
///
/// V3 (arrays and text) holds for the bytes.
unsafe fn from_proto<T>(bytes: *const u8, size: usize) -> Result<*mut T> {
    // SAFETY: V3 (arrays and text), which the caller promises.
    let bytes = unsafe { ffi_read::slice(bytes, size, "serialized_proto") }?;
    Ok(into_raw(bytes.to_vec()))
}

/// # Safety
///
/// V2 (handles): `version` is null or came from [`into_raw`], and the caller does not use it again.
unsafe fn destroy<T>(version: *mut T) {
    if !version.is_null() {
        // SAFETY: V2 (handles), which the caller promises: `into_raw` boxed the version.
        drop(unsafe { Box::from_raw(version.cast::<Version>()) });
    }
}

#[entry(extension)]
unsafe fn PJRT_Client_RuntimeAbiVersion<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_RuntimeAbiVersion_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    args.abi_version = into_raw((versions::<P::Backend>()?.runtime_abi_version)(&client.backend)?);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Executable_GetAbiVersion<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Executable_GetAbiVersion_Args,
    executable: &Executable<P::Backend>,
) -> Result<()> {
    args.abi_version = into_raw((versions::<P::Backend>()?.executable_abi_version)(&executable.compiled)?);
    Ok(())
}

#[entry(extension, destroys)]
unsafe fn PJRT_RuntimeAbiVersion_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RuntimeAbiVersion_Destroy_Args,
) -> Result<()> {
    // SAFETY: V2 (handles): the framework no longer uses the version.
    unsafe { destroy(args.abi_version) };
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime_Args,
    abi_version: &Version,
) -> Result<()> {
    // SAFETY: V2 (handles).
    let other: &Version =
        unsafe { ffi_read::handle::<P, *const PJRT_RuntimeAbiVersion>(args.other_abi_version, "other_abi_version") }?;
    (versions::<P::Backend>()?.check_runtime)(&abi_version.0, &other.0)
}

#[entry(extension)]
unsafe fn PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable_Args,
    abi_version: &Version,
) -> Result<()> {
    // SAFETY: V2 (handles).
    let executable: &Version =
        unsafe { ffi_read::handle::<P, _>(args.executable_abi_version, "executable_abi_version") }?;
    (versions::<P::Backend>()?.check_executable)(&abi_version.0, &executable.0)
}

#[entry(extension)]
unsafe fn PJRT_RuntimeAbiVersion_ToProto<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RuntimeAbiVersion_ToProto_Args,
    abi_version: &Version,
) -> Result<()> {
    let blob = Blob::new(abi_version.0.clone());
    args.serialized_proto = blob.bytes;
    args.serialized_proto_size = blob.size;
    args.serialized_proto_holder = blob.owner.cast();
    args.serialized_proto_deleter = Some(delete_blob);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RuntimeAbiVersion_PlatformId<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RuntimeAbiVersion_PlatformId_Args,
    abi_version: &Version,
) -> Result<()> {
    let _: &Version = abi_version;
    args.platform_id = (versions::<P::Backend>()?.platform_id)();
    Ok(())
}

#[entry(extension, destroys)]
unsafe fn PJRT_ExecutableAbiVersion_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_ExecutableAbiVersion_Destroy_Args,
) -> Result<()> {
    // SAFETY: V2 (handles): the framework no longer uses the version.
    unsafe { destroy(args.abi_version) };
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_ExecutableAbiVersion_ToProto<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_ExecutableAbiVersion_ToProto_Args,
    abi_version: &Version,
) -> Result<()> {
    let blob = Blob::new(abi_version.0.clone());
    args.serialized_proto = blob.bytes;
    args.serialized_proto_size = blob.size;
    args.serialized_proto_holder = blob.owner.cast();
    args.serialized_proto_deleter = Some(delete_blob);
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_ExecutableAbiVersion_PlatformId<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_ExecutableAbiVersion_PlatformId_Args,
    abi_version: &Version,
) -> Result<()> {
    let _: &Version = abi_version;
    args.platform_id = (versions::<P::Backend>()?.platform_id)();
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_RuntimeAbiVersion_FromProto<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_RuntimeAbiVersion_FromProto_Args,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    args.abi_version = unsafe { from_proto(args.serialized_proto.cast(), args.serialized_proto_size) }?;
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_ExecutableAbiVersion_FromProto<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_ExecutableAbiVersion_FromProto_Args,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    args.abi_version = unsafe { from_proto(args.serialized_proto.cast(), args.serialized_proto_size) }?;
    Ok(())
}
