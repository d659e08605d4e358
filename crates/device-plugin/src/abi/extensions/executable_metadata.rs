//! The executable metadata extension: returns the compiler's serialized description of an executable.
//!
//! The argument structs of this extension have no `struct_size` field, so its functions cannot use the shared entry
//! point.

use std::ffi::c_char;
use std::marker::PhantomData;
use std::ptr::null_mut;

use pjrt_sys::{
    PJRT_Error, PJRT_Executable, PJRT_ExecutableMetadata, PJRT_ExecutableMetadata_DestroySerializedMetadata_Args,
    PJRT_ExecutableMetadata_Extension, PJRT_ExecutableMetadata_GetExecutableMetadata_Args, PJRT_Extension_Base,
};

use crate::abi::extensions::link::{Link, base};
use crate::abi::objects::executable::handles::Executable;
use crate::abi::table::{error_handle, ffi_read};
use crate::contain::contain_in;
use crate::{Backend, DevicePlugin, Error};

/// The executable metadata extension. A plugin offers it if the backend implements the feature `ExecutableMetadata`.
pub(crate) struct ExecutableMetadata<P, Next>(PhantomData<(P, Next)>);

impl<P: DevicePlugin, Next: Link> ExecutableMetadata<P, Next> {
    const EXTENSION: &'static PJRT_ExecutableMetadata_Extension = &PJRT_ExecutableMetadata_Extension {
        base: base::<PJRT_ExecutableMetadata_Extension>(Next::POINTER),
        get_executable_metadata: Some(get::<P>),
        destroy_serialized_metadata: Some(destroy),
    };
}

impl<P: DevicePlugin, Next: Link> Link for ExecutableMetadata<P, Next> {
    const POINTER: *mut PJRT_Extension_Base = if P::Backend::FEATURES.executable_metadata.is_some() {
        (&raw const *Self::EXTENSION).cast_mut().cast()
    } else {
        Next::POINTER
    };
}

/// The object behind a `PJRT_ExecutableMetadata*`.
#[repr(C)]
struct Metadata {
    base: PJRT_ExecutableMetadata,
    /// The bytes to which `base.serialized_metadata` points.
    bytes: Box<[u8]>,
}

const GET: &str = "PJRT_ExecutableMetadata_GetExecutableMetadata";

/// # Safety
///
/// V1 (argument structs) and V2 (handles) hold for `args`.
unsafe extern "C" fn get<P: DevicePlugin>(
    args: *mut PJRT_ExecutableMetadata_GetExecutableMetadata_Args,
) -> *mut PJRT_Error {
    let call = || {
        if args.is_null() || !args.is_aligned() {
            return Err(Error::argument("args is null or not aligned"));
        }
        // SAFETY: V1 (argument structs): the struct has the same size in all versions.
        let handle = unsafe { (*args).executable };
        // SAFETY: V2 (handles).
        let executable: &Executable<P::Backend> =
            unsafe { ffi_read::handle::<P, *mut PJRT_Executable>(handle, "executable") }?;
        let feature = P::Backend::FEATURES.executable_metadata;
        let feature = feature.ok_or_else(|| Error::unimplemented("the backend does not describe its executables"))?;
        let bytes = (feature.executable_metadata)(&executable.compiled)?.into_boxed_slice();
        let base = PJRT_ExecutableMetadata {
            serialized_metadata: bytes.as_ptr().cast::<c_char>(),
            serialized_metadata_size: bytes.len(),
        };
        Ok(Box::into_raw(Box::new(Metadata { base, bytes })))
    };
    match contain_in(GET, call) {
        Ok(metadata) => {
            // SAFETY: V1 (argument structs): the output is writable.
            unsafe { (*args).metadata = metadata.cast() };
            null_mut()
        }
        Err(error) => error_handle::into_raw(error.named(GET)),
    }
}

/// # Safety
///
/// V1 (argument structs) and V2 (handles) hold for `args`.
unsafe extern "C" fn destroy(args: *mut PJRT_ExecutableMetadata_DestroySerializedMetadata_Args) {
    // SAFETY: V1 (argument structs): the struct has the same size in all versions.
    let metadata = unsafe { args.as_ref() }.map_or(null_mut(), |args| args.metadata);
    if !metadata.is_null() {
        // SAFETY: V2 (handles): `get` boxed the metadata, and the framework no longer uses it.
        let metadata = unsafe { Box::from_raw(metadata.cast::<Metadata>()) };
        debug_assert_eq!(metadata.base.serialized_metadata_size, metadata.bytes.len());
    }
}
