//! The ABI version extension: reports whether a stored executable runs on a given runtime.

use pjrt_sys::PJRT_RuntimeAbiVersion;

use crate::abi::extensions::link::extension;
use crate::abi::objects::executable::state::Executable;
use crate::abi::objects::owned_arrays::{Blob, delete_blob};
use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read::{self, handles};
use crate::features::functions;
use crate::{Backend, Error, Result};

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

entries! {
    in extension_slot;

    PJRT_Client_RuntimeAbiVersion(args, client) {
        args.abi_version = into_raw((versions::<P::Backend>()?.runtime_abi_version)(&client.backend)?);
        Ok(())
    }

    PJRT_Executable_GetAbiVersion(args, executable) {
        let executable: &Executable<P::Backend> = executable;
        args.abi_version = into_raw((versions::<P::Backend>()?.executable_abi_version)(&executable.compiled)?);
        Ok(())
    }

    #[destroys]
    PJRT_RuntimeAbiVersion_Destroy(args) {
        // SAFETY: V2 (handles): the framework no longer uses the version.
        unsafe { destroy(args.abi_version) };
        Ok(())
    }

    PJRT_RuntimeAbiVersion_IsCompatibleWithRuntime(args, abi_version) {
        let abi_version: &Version = abi_version;
        // SAFETY: V2 (handles).
        let other: &Version = unsafe {
            ffi_read::handle::<P, *const PJRT_RuntimeAbiVersion>(args.other_abi_version, "other_abi_version")
        }?;
        (versions::<P::Backend>()?.check_runtime)(&abi_version.0, &other.0)
    }

    PJRT_RuntimeAbiVersion_IsCompatibleWithExecutable(args, abi_version) {
        let abi_version: &Version = abi_version;
        // SAFETY: V2 (handles).
        let executable: &Version =
            unsafe { ffi_read::handle::<P, _>(args.executable_abi_version, "executable_abi_version") }?;
        (versions::<P::Backend>()?.check_executable)(&abi_version.0, &executable.0)
    }

    PJRT_RuntimeAbiVersion_ToProto(args, abi_version) {
        let blob = Blob::new(abi_version.0.clone());
        args.serialized_proto = blob.bytes;
        args.serialized_proto_size = blob.size;
        args.serialized_proto_holder = blob.owner.cast();
        args.serialized_proto_deleter = Some(delete_blob);
        Ok(())
    }

    PJRT_RuntimeAbiVersion_PlatformId(args, abi_version) {
        let _: &Version = abi_version;
        args.platform_id = (versions::<P::Backend>()?.platform_id)();
        Ok(())
    }

    #[destroys]
    PJRT_ExecutableAbiVersion_Destroy(args) {
        // SAFETY: V2 (handles): the framework no longer uses the version.
        unsafe { destroy(args.abi_version) };
        Ok(())
    }

    PJRT_ExecutableAbiVersion_ToProto(args, abi_version) {
        let blob = Blob::new(abi_version.0.clone());
        args.serialized_proto = blob.bytes;
        args.serialized_proto_size = blob.size;
        args.serialized_proto_holder = blob.owner.cast();
        args.serialized_proto_deleter = Some(delete_blob);
        Ok(())
    }

    PJRT_ExecutableAbiVersion_PlatformId(args, abi_version) {
        let _: &Version = abi_version;
        args.platform_id = (versions::<P::Backend>()?.platform_id)();
        Ok(())
    }

    PJRT_RuntimeAbiVersion_FromProto(args) {
        // SAFETY: V3 (arrays and text).
        args.abi_version = unsafe { from_proto(args.serialized_proto.cast(), args.serialized_proto_size) }?;
        Ok(())
    }

    PJRT_ExecutableAbiVersion_FromProto(args) {
        // SAFETY: V3 (arrays and text).
        args.abi_version = unsafe { from_proto(args.serialized_proto.cast(), args.serialized_proto_size) }?;
        Ok(())
    }
}
