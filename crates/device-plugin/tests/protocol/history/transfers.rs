//! Cases for the functions that transfer data between host and device, and between devices.

use std::ptr::{null, null_mut};

use pjrt_sys::*;

use super::fixture::{DATA, DIMS, S32, destroy_manager, destroy_stream, retrieve, shape_spec};
use crate::framework::toy;

/// The bytes of [`DATA`].
const BYTES: [u8; 8] = [1, 0, 0, 0, 2, 0, 0, 0];

super::table! { CASES:
    PJRT_Client_BufferFromHostBuffer(w, c) {
        let called = c.call::<S>(|args| {
            (args.client, args.data, args.type_) = (w.client, DATA.as_ptr().cast(), S32);
            (args.dims, args.num_dims) = (DIMS.as_ptr(), 1);
            (args.byte_strides, args.num_byte_strides) = (null(), 0);
            args.host_buffer_semantics = PJRT_HostBufferSemantics(0);
            (args.device, args.memory, args.device_layout) = (w.devices[0], null_mut(), null_mut());
        });
        if let Some(args) = called {
            toy().wait(args.done_with_host_buffer).unwrap();
            assert_eq!(toy().read_ints(args.buffer).unwrap(), DATA);
            toy().destroy(&[args.buffer]);
        }
    }
    PJRT_Buffer_ToHostBuffer(w, c) {
        let mut to = [0xAAu8; 8];
        let called = c.call::<S>(|args| {
            (args.src, args.host_layout) = (w.buffer, null_mut());
            (args.dst, args.dst_size) = (to.as_mut_ptr().cast(), 8);
        });
        if let Some(args) = called {
            toy().wait(args.event).unwrap();
            assert_eq!(to, BYTES);
        }
    }
    PJRT_Buffer_CopyToDevice(w, c) {
        if let Some(args) = c.call::<S>(|args| (args.buffer, args.dst_device) = (w.buffer, w.devices[1])) {
            assert_eq!(toy().read_ints(args.dst_buffer).unwrap(), DATA);
            toy().destroy(&[args.dst_buffer]);
        }
    }
    PJRT_Buffer_CopyToMemory(w, c) {
        if let Some(args) = c.call::<S>(|args| (args.buffer, args.dst_memory) = (w.buffer, w.memories[2])) {
            assert_eq!(toy().read_ints(args.dst_buffer).unwrap(), DATA);
            toy().destroy(&[args.dst_buffer]);
        }
    }
    PJRT_Buffer_CopyRawToHost(w, c) {
        let mut to = [0xAAu8; 8];
        let called = c.call::<S>(|args| {
            (args.buffer, args.dst) = (w.buffer, to.as_mut_ptr().cast());
            (args.offset, args.transfer_size) = (0, 8);
        });
        if let Some(args) = called {
            toy().wait(args.event).unwrap();
            assert_eq!(to, BYTES);
        }
    }
    PJRT_Buffer_CopyRawToHostFuture(w, c) {
        let mut to = [0xAAu8; 8];
        let called = c.call::<S>(|args| (args.buffer, args.offset, args.transfer_size) = (w.buffer, 0, 8));
        if let Some(args) = called {
            let mut known = crate::framework::garbage::<PJRT_Buffer_CopyRawToHostFuture_Callback_Args>();
            (known.callback_data, known.dst) = (args.callback_data, to.as_mut_ptr().cast());
            known.error_code = PJRT_Error_Code(0);
            unsafe { args.future_ready_callback.unwrap()(&raw mut known) };
            toy().wait(args.event).unwrap();
            assert_eq!(to, BYTES);
        }
    }
    PJRT_CopyToDeviceStream_Destroy(w, c) {
        let called = &mut *c;
        w.with_stream(|stream| {
            if called.call::<S>(|args| args.stream = stream).is_none() {
                destroy_stream(stream);
            }
        });
    }
    PJRT_CopyToDeviceStream_AddChunk(w, c) {
        unsafe extern "C" fn keep(_: *mut std::ffi::c_void, _: *mut std::ffi::c_void) {}
        let mut chunk =
            PJRT_Chunk { data: DATA.as_ptr().cast_mut().cast(), size: 8, deleter: Some(keep), deleter_arg: null_mut() };
        let mut event = null_mut();
        let called = &mut *c;
        w.with_stream(|stream| {
            if let Some(args) = called.call::<S>(|args| (args.stream, args.chunk) = (stream, &raw mut chunk)) {
                event = args.transfer_complete;
            }
            destroy_stream(stream);
        });
        if !event.is_null() {
            toy().wait(event).unwrap();
        }
    }
    PJRT_CopyToDeviceStream_TotalBytes(w, c) {
        let called = &mut *c;
        w.with_stream(|stream| {
            if let Some(args) = called.call::<S>(|args| args.stream = stream) {
                assert_eq!(args.total_bytes, 8);
            }
            destroy_stream(stream);
        });
    }
    PJRT_CopyToDeviceStream_GranuleSize(w, c) {
        let called = &mut *c;
        w.with_stream(|stream| {
            if let Some(args) = called.call::<S>(|args| args.stream = stream) {
                assert_eq!(args.granule_size_in_bytes, 4);
            }
            destroy_stream(stream);
        });
    }
    PJRT_CopyToDeviceStream_CurrentBytes(w, c) {
        let called = &mut *c;
        w.with_stream(|stream| {
            if let Some(args) = called.call::<S>(|args| args.stream = stream) {
                assert_eq!(args.current_bytes, 0);
            }
            destroy_stream(stream);
        });
    }
    PJRT_Client_CreateBuffersForAsyncHostToDevice(w, c) {
        let mut spec = shape_spec();
        let called = c.call::<S>(|args| {
            (args.client, args.memory) = (w.client, w.memories[0]);
            (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
            (args.device_layouts, args.num_device_layouts) = (null_mut(), 0);
        });
        if let Some(args) = called {
            destroy_manager(args.transfer_manager);
        }
    }
    PJRT_AsyncHostToDeviceTransferManager_Destroy(w, c) {
        let manager = w.manager();
        if c.call::<S>(|args| args.transfer_manager = manager).is_none() {
            destroy_manager(manager);
        }
    }
    PJRT_AsyncHostToDeviceTransferManager_TransferData(w, c) {
        let manager = w.manager();
        let buffer = retrieve(manager);
        let called = c.call::<S>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, 0);
            (args.data, args.offset, args.transfer_size) = (DATA.as_ptr().cast(), 0, 8);
            args.is_last_transfer = true.into();
        });
        if let Some(args) = called {
            toy().wait(args.done_with_h2d_transfer).unwrap();
            assert_eq!(toy().read_ints(buffer).unwrap(), DATA);
        }
        destroy_manager(manager);
        toy().destroy(&[buffer]);
    }
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral(w, c) {
        let manager = w.manager();
        let buffer = retrieve(manager);
        let called = c.call::<S>(|args| {
            (args.transfer_manager, args.buffer_index, args.data) = (manager, 0, DATA.as_ptr().cast());
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (DIMS.as_ptr(), 1, S32);
            args.shape_layout = null_mut();
        });
        if let Some(args) = called {
            toy().wait(args.done_with_h2d_transfer).unwrap();
            assert_eq!(toy().read_ints(buffer).unwrap(), DATA);
        }
        destroy_manager(manager);
        toy().destroy(&[buffer]);
    }
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(w, c) {
        let manager = w.manager();
        if let Some(args) = c.call::<S>(|args| (args.transfer_manager, args.buffer_index) = (manager, 0)) {
            toy().destroy(&[args.buffer_out]);
        }
        destroy_manager(manager);
    }
    PJRT_AsyncHostToDeviceTransferManager_Device(w, c) {
        let manager = w.manager();
        if let Some(args) = c.call::<S>(|args| args.transfer_manager = manager) {
            assert_eq!(args.device_out, w.devices[0]);
        }
        destroy_manager(manager);
    }
    PJRT_AsyncHostToDeviceTransferManager_BufferCount(w, c) {
        let manager = w.manager();
        if let Some(args) = c.call::<S>(|args| args.transfer_manager = manager) {
            assert_eq!(args.buffer_count, 1);
        }
        destroy_manager(manager);
    }
    PJRT_AsyncHostToDeviceTransferManager_BufferSize(w, c) {
        let manager = w.manager();
        if let Some(args) = c.call::<S>(|args| (args.transfer_manager, args.buffer_index) = (manager, 0)) {
            assert_eq!(args.buffer_size, 8);
        }
        destroy_manager(manager);
    }
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError(w, c) {
        let manager = w.manager();
        let buffer = retrieve(manager);
        let called = c.call::<S>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, 0);
            args.error_code = PJRT_Error_Code(11);
            (args.error_message, args.error_message_size) = (c"ended".as_ptr(), 5);
        });
        if called.is_some() {
            assert_eq!(toy().read(buffer).unwrap_err().message, "ended");
        }
        destroy_manager(manager);
        toy().destroy(&[buffer]);
    }
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata(w, c) {
        let manager = w.manager();
        c.call::<S>(|args| (args.transfer_manager, args.transfer_metadata, args.num_metadata) = (manager, null(), 0));
        destroy_manager(manager);
    }
}
