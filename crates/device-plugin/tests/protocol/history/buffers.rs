//! Cases for the functions of buffers, except for transfers.

use std::ptr::{null, null_mut};

use pjrt_sys::*;

use super::fixture::{DATA, DIMS, S32};
use crate::framework::{slice, toy};

super::table! { CASES:
    PJRT_Buffer_Destroy(w, c) {
        let buffer = w.ints();
        if c.call::<S>(|args| args.buffer = buffer).is_none() {
            toy().destroy(&[buffer]);
        }
    }
    PJRT_Buffer_ElementType(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(args.type_.0, S32.0);
        }
    }
    PJRT_Buffer_Dimensions(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(unsafe { slice(args.dims, args.num_dims) }, DIMS);
        }
    }
    PJRT_Buffer_UnpaddedDimensions(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(unsafe { slice(args.unpadded_dims, args.num_dims) }, DIMS);
        }
    }
    PJRT_Buffer_DynamicDimensionIndices(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(args.num_dynamic_dims, 0);
        }
    }
    PJRT_Buffer_GetMemoryLayout(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(args.layout.type_.0, 0);
            let tiled = unsafe { args.layout.__bindgen_anon_1.tiled };
            assert_eq!(unsafe { slice(tiled.minor_to_major, tiled.minor_to_major_size) }, [0]);
            assert_eq!(tiled.num_tiles, 0);
        }
    }
    PJRT_Buffer_OnDeviceSizeInBytes(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(args.on_device_size_in_bytes, 8);
        }
    }
    PJRT_Buffer_Device(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(args.device, w.devices[0]);
        }
    }
    PJRT_Buffer_Memory(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_eq!(args.memory, w.memories[0]);
        }
    }
    PJRT_Buffer_Delete(w, c) {
        let buffer = w.ints();
        let called = c.call::<S>(|args| args.buffer = buffer);
        assert_eq!(toy().is_deleted(buffer), called.is_some());
        toy().destroy(&[buffer]);
    }
    PJRT_Buffer_IsDeleted(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert!(!args.is_deleted.get());
        }
    }
    PJRT_Buffer_IsOnCpu(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert!(!args.is_on_cpu.get());
        }
    }
    PJRT_Buffer_ReadyEvent(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            toy().wait(args.event).unwrap();
        }
    }
    PJRT_Buffer_UnsafePointer(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert_ne!(args.buffer_pointer, 0);
        }
    }
    PJRT_Buffer_IncreaseExternalReferenceCount(w, c) {
        if c.call::<S>(|args| args.buffer = w.buffer).is_some() {
            let decrease =
                toy().ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|args| args.buffer = w.buffer);
            decrease.map(drop).unwrap();
        }
    }
    PJRT_Buffer_DecreaseExternalReferenceCount(w, c) {
        toy().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = w.buffer).unwrap();
        if c.call::<S>(|args| args.buffer = w.buffer).is_none() {
            toy().ask::<S>(|args| args.buffer = w.buffer).unwrap();
        }
    }
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer(w, c) {
        if let Some(args) = c.call::<S>(|args| args.buffer = w.buffer) {
            assert!(!args.device_memory_ptr.is_null());
        }
    }
    PJRT_Buffer_Bitcast(w, c) {
        let dims = [8i64];
        let called = c.call::<S>(|args| {
            (args.buffer, args.element_type) = (w.buffer, PJRT_Buffer_Type::PJRT_Buffer_Type_U8);
            (args.dims, args.num_dims, args.device_layout) = (dims.as_ptr(), 1, null_mut());
        });
        if let Some(args) = called {
            assert_eq!(toy().read(args.out_buffer).unwrap(), [1, 0, 0, 0, 2, 0, 0, 0]);
            toy().destroy(&[args.out_buffer]);
        }
    }
    PJRT_Buffer_DonateWithControlDependency(w, c) {
        let buffer = w.ints();
        if let Some(args) = c.call::<S>(|args| args.buffer = buffer) {
            assert!(toy().is_deleted(buffer));
            let mut ready = crate::framework::garbage::<PJRT_Buffer_DonateWithControlDependency_Callback_Args>();
            (ready.callback_data, ready.error_code) = (args.callback_data, PJRT_Error_Code(0));
            unsafe { args.dependency_ready_callback.unwrap()(&raw mut ready) };
            assert_eq!(toy().read_ints(args.out_buffer).unwrap(), DATA);
            toy().destroy(&[args.out_buffer]);
        }
        toy().destroy(&[buffer]);
    }
    PJRT_Client_CreateViewOfDeviceBuffer(_, c) {
        // In struct versions without a memory field, the view is in the default memory of the device.
        let client = toy().client(&[device_plugin::NamedValue::new("panic_in", "viewing anywhere")]).unwrap();
        let (device, memory) = (toy().devices(client)[0], toy().memories(client)[2]);
        let called = c.call::<S>(|args| {
            (args.client, args.device, args.memory) = (client, device, memory);
            args.device_buffer_ptr = DATA.as_ptr().cast_mut().cast();
            (args.dims, args.num_dims, args.element_type) = (DIMS.as_ptr(), 1, S32);
            (args.layout, args.on_delete_callback, args.stream) = (null_mut(), None, 0);
        });
        if let Some(args) = called {
            let at = toy().ask::<slot::PJRT_Buffer_Memory>(|memory| memory.buffer = args.buffer).unwrap().memory;
            let named = args.struct_size >= PJRT_Client_CreateViewOfDeviceBuffer_Args::STRUCT_SIZE;
            assert_eq!(at, if named { memory } else { toy().memories(client)[0] });
            toy().destroy(&[args.buffer]);
        }
        toy().destroy_client(client);
    }
    PJRT_Client_CreateUninitializedBuffer(w, c) {
        let called = c.call::<S>(|args| {
            (args.client, args.device, args.memory) = (w.client, null_mut(), w.memories[0]);
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (DIMS.as_ptr(), 1, S32);
            args.shape_layout = null_mut();
        });
        if let Some(args) = called {
            assert_eq!(toy().read(args.buffer).unwrap().len(), 8);
            toy().destroy(&[args.buffer]);
        }
    }
    PJRT_Client_CreateErrorBuffer(w, c) {
        let called = c.call::<S>(|args| {
            (args.client, args.memory, args.error_code) = (w.client, w.memories[0], PJRT_Error_Code(8));
            (args.error_message, args.error_message_size) = (c"no".as_ptr(), 2);
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (DIMS.as_ptr(), 1, S32);
            (args.shape_layout, args.device_layout) = (null_mut(), null_mut());
            (args.payload, args.num_payload) = (null(), 0);
        });
        if let Some(args) = called {
            assert_eq!(toy().read_ints(args.buffer).unwrap_err().message, "no");
            toy().destroy(&[args.buffer]);
        }
    }
    PJRT_Client_CreateAliasBuffer(w, c) {
        let called = c.call::<S>(|args| {
            (args.client, args.memory) = (w.client, w.memories[0]);
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (DIMS.as_ptr(), 1, S32);
            args.shape_layout = null_mut();
        });
        if let Some(args) = called {
            fulfill(w.client, args.fulfill_alias_buffer_cb, w.buffer);
            assert_eq!(toy().read_ints(args.alias_buffer).unwrap(), DATA);
            toy().destroy(&[args.alias_buffer]);
        }
    }
    PJRT_Client_FulfillAliasBuffer(w, c) {
        let alias = toy().ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
            (args.client, args.memory) = (w.client, w.memories[0]);
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (DIMS.as_ptr(), 1, S32);
            args.shape_layout = null_mut();
        });
        let alias = alias.unwrap();
        let called = c.call::<S>(|args| {
            (args.client, args.buffer) = (w.client, w.buffer);
            (args.status_code, args.fulfill_alias_buffer_cb) = (PJRT_Error_Code(0), alias.fulfill_alias_buffer_cb);
        });
        if called.is_none() {
            fulfill(w.client, alias.fulfill_alias_buffer_cb, w.buffer);
        }
        assert_eq!(toy().read_ints(alias.alias_buffer).unwrap(), DATA);
        toy().destroy(&[alias.alias_buffer]);
    }
}

fn fulfill(client: *mut PJRT_Client, token: *mut PJRT_FulfillAliasBufferCallback, buffer: *mut PJRT_Buffer) {
    let fulfilled = toy().ask::<slot::PJRT_Client_FulfillAliasBuffer>(|args| {
        (args.client, args.buffer, args.fulfill_alias_buffer_cb) = (client, buffer, token);
        args.status_code = PJRT_Error_Code(0);
    });
    fulfilled.map(drop).unwrap();
}
