//! The functions of `PJRT_LoadedExecutable`, except `PJRT_LoadedExecutable_Execute`.

use std::sync::Arc;

use crate::abi::objects::executable::state::LoadedExecutable;
use crate::abi::objects::owned_arrays::{Blob, delete_blob};
use crate::abi::table::entry::entries;

entries! {
    #[destroys]
    PJRT_LoadedExecutable_Destroy(args) {
        if !args.executable.is_null() {
            // SAFETY: V2 (handles): the handle came from `Executable::load`, and the framework no longer uses it.
            drop(unsafe { Arc::from_raw(args.executable.cast_const().cast::<LoadedExecutable<P::Backend>>()) });
        }
        Ok(())
    }

    PJRT_LoadedExecutable_GetExecutable(args, loaded_executable) {
        args.executable = Arc::clone(&loaded_executable.executable).into_raw();
        Ok(())
    }

    PJRT_LoadedExecutable_AddressableDevices(args, executable) {
        args.addressable_devices = executable.device_handles.as_slice().as_ptr();
        args.num_addressable_devices = executable.device_handles.as_slice().len();
        Ok(())
    }

    PJRT_LoadedExecutable_AddressableDeviceLogicalIds(args, executable) {
        args.addressable_device_logical_ids = executable.logical_ids.as_ptr().cast_mut();
        args.num_addressable_device_logical_ids = executable.logical_ids.len();
        Ok(())
    }

    PJRT_LoadedExecutable_GetDeviceAssignment(args, executable) {
        let blob = Blob::new(executable.assignment.encode());
        args.serialized_bytes = blob.bytes;
        args.serialized_bytes_size = blob.size;
        args.serialized_device_assignment = blob.owner.cast();
        args.serialized_device_assignment_deleter = Some(delete_blob);
        Ok(())
    }

    PJRT_LoadedExecutable_Delete(args, executable) {
        executable.delete();
        Ok(())
    }

    PJRT_LoadedExecutable_IsDeleted(args, executable) {
        args.is_deleted = executable.is_deleted().into();
        Ok(())
    }

    PJRT_LoadedExecutable_Fingerprint(args, executable) {
        args.executable_fingerprint = executable.executable.fingerprint.as_ptr().cast();
        args.executable_fingerprint_size = executable.executable.fingerprint.len();
        Ok(())
    }
}
