//! Tests transfers: strides, lent host memory, layouts and raw copies.

use std::ptr::null_mut;

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape};
use pjrt_sys::*;

use crate::framework::{Answer, Client, Event, garbage, toy};
use crate::toy::KEPT;

fn shape(dims: &[i64]) -> Shape {
    Shape::new(ElementType::S32, dims)
}

/// Uploads an array from host memory that contains the integers 0, 1, 2, … and reads it back. The array has the given
/// strides in bytes, and its first element is the integer `first`.
fn round_trip(client: Client, dims: &[i64], strides: Option<&[i64]>, first: usize) -> Answer<Vec<i32>> {
    let data: Vec<i32> = (0..24).collect();
    let start = data[first..].as_ptr().cast();
    let (buffer, done) = toy().put_as(client, &shape(dims), start, strides, 0, 0)?;
    toy().wait(done).unwrap();
    drop(data);
    let values = toy().read_ints(buffer);
    toy().destroy(&[buffer]);
    values
}

#[test]
fn host_data_may_have_any_strides() {
    let client = toy().client(&[]).unwrap();
    let good = |dims: &[i64], strides: &[i64], first| round_trip(client, dims, Some(strides), first).unwrap();
    assert_eq!(round_trip(client, &[2, 2], None, 1).unwrap(), [1, 2, 3, 4]);
    assert_eq!(good(&[2, 2], &[8, 4], 0), [0, 1, 2, 3]);
    assert_eq!(good(&[2, 3], &[4, 8], 0), [0, 2, 4, 1, 3, 5]);
    assert_eq!(good(&[2, 3], &[-16, 4], 4), [4, 5, 6, 0, 1, 2]);
    assert_eq!(good(&[3], &[-4], 2), [2, 1, 0]);
    assert_eq!(good(&[2, 2], &[0, 4], 5), [5, 6, 5, 6]);
    assert_eq!(good(&[2, 2], &[40, 8], 0), [0, 2, 10, 12]);
    assert_eq!(good(&[0, 3], &[0, 0], 0), [0i32; 0]);
    assert_eq!(round_trip(client, &[], None, 3).unwrap(), [3]);
    let bad = |dims: &[i64], strides: &[i64]| round_trip(client, dims, Some(strides), 0).unwrap_err().code;
    assert_eq!(bad(&[2, 2], &[4]), ErrorCode::INVALID_ARGUMENT);
    assert_eq!(bad(&[2, 2], &[i64::MAX, 4]), ErrorCode::INVALID_ARGUMENT);
    assert_eq!(bad(&[-2], &[4]), ErrorCode::INVALID_ARGUMENT);
    // A stride of 0 repeats one element more often than fits into memory.
    assert_eq!(bad(&[1 << 60], &[0]), ErrorCode::RESOURCE_EXHAUSTED);
    assert_eq!(bad(&[i64::MAX, i64::MAX], &[4, 4]), ErrorCode::INVALID_ARGUMENT);
    toy().destroy_client(client);
}

#[test]
fn lent_memory_returns_with_buffer() {
    let client = toy().client(&[]).unwrap();
    let data: Vec<i32> = vec![1, 2, 3];
    let put = |semantics, memory| {
        toy().put_as(client, &shape(&[3]), data.as_ptr().cast(), Some(&[4]), semantics, memory).unwrap()
    };
    let pointer =
        |buffer| toy().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = buffer).unwrap().buffer_pointer;
    for (semantics, lent) in [(0, false), (1, false), (2, true), (3, true)] {
        // The toy device uses lent memory in place only for buffers in its host memory.
        let (copied, done) = put(semantics, 0);
        assert_ne!(pointer(copied), data.as_ptr().addr());
        assert_eq!(toy().wait(done), Ok(()));
        let (buffer, done) = put(semantics, 2);
        assert_eq!(pointer(buffer) == data.as_ptr().addr(), lent);
        assert_eq!(toy().is_ready(done), !lent);
        let on_cpu = |buffer| toy().ask::<slot::PJRT_Buffer_IsOnCpu>(|args| args.buffer = buffer).unwrap().is_on_cpu;
        assert!(on_cpu(buffer).get() && !on_cpu(copied).get());
        assert_eq!(toy().read_ints(buffer).unwrap(), [1, 2, 3]);
        toy().delete(buffer);
        assert_eq!(toy().wait(done), Ok(()));
        toy().destroy(&[buffer, copied]);
    }
    let fault = toy().put_as(client, &shape(&[3]), data.as_ptr().cast(), None, 9, 0).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    let fault = toy().put_as(client, &shape(&[3]), std::ptr::null(), None, 0, 0).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    toy().destroy_client(client);
}

#[test]
fn checks_type_and_placement() {
    let client = toy().client(&[]).unwrap();
    let other = toy().client(&[]).unwrap();
    let data = [0u8; 16];
    let put = |element: u32, device: *mut PJRT_Device, memory: *mut PJRT_Memory| {
        toy()
            .ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                args.client = client;
                args.data = data.as_ptr().cast();
                args.type_ = PJRT_Buffer_Type(element);
                (args.dims, args.num_dims) = ([1i64].as_ptr(), 1);
                (args.byte_strides, args.num_byte_strides) = (std::ptr::null(), 0);
                args.host_buffer_semantics = PJRT_HostBufferSemantics(0);
                (args.device, args.memory, args.device_layout) = (device, memory, null_mut());
            })
            .map(|args| {
                toy().wait(args.done_with_host_buffer).unwrap();
                args.buffer
            })
    };
    let (device, memory) = (toy().devices(client)[1], toy().memories(client)[2]);
    for element in [0, 34, u32::MAX] {
        assert_eq!(put(element, device, null_mut()).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    for (device, memory) in [
        (null_mut(), null_mut()),
        (toy().devices(other)[0], null_mut()),
        (null_mut(), toy().memories(other)[0]),
        (device, toy().memories(client)[0]),
    ] {
        assert_eq!(put(4, device, memory).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    // If the caller passes only a device, its default memory is used. If the caller passes a device and a memory, this
    // memory is used, because the device can address it.
    for (asked, memory, expected) in [(device, null_mut(), toy().memories(client)[1]), (device, memory, memory)] {
        let buffer = put(4, asked, memory).unwrap();
        assert_eq!(toy().ask::<slot::PJRT_Buffer_Memory>(|args| args.buffer = buffer).unwrap().memory, expected);
        assert_eq!(toy().ask::<slot::PJRT_Buffer_Device>(|args| args.buffer = buffer).unwrap().device, device);
        toy().destroy(&[buffer]);
    }
    toy().destroy_client(client);
    toy().destroy_client(other);
}

/// Reads with a layout whose struct size may be garbage, because frameworks do not set it.
fn read_as(buffer: crate::framework::Buffer, layout: &PJRT_Buffer_MemoryLayout, size: usize) -> Answer<Vec<i32>> {
    let mut out = vec![-1i32; size / 4];
    let args = toy().ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
        args.src = buffer;
        args.host_layout = std::ptr::from_ref(layout).cast_mut();
        (args.dst, args.dst_size) = (out.as_mut_ptr().cast(), size);
    })?;
    toy().wait(args.event)?;
    Ok(out)
}

pub fn tiled(order: &[i64]) -> PJRT_Buffer_MemoryLayout {
    let mut layout = garbage::<PJRT_Buffer_MemoryLayout>();
    let mut tiled = garbage::<PJRT_Buffer_MemoryLayout_Tiled>();
    tiled.struct_size = 0;
    (tiled.minor_to_major, tiled.minor_to_major_size) = (order.as_ptr(), order.len());
    tiled.num_tiles = 0;
    layout.struct_size = 0xAAAA_AAAA;
    layout.__bindgen_anon_1.tiled = tiled;
    layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout
}

pub fn strided(strides: &[i64]) -> PJRT_Buffer_MemoryLayout {
    let mut layout = garbage::<PJRT_Buffer_MemoryLayout>();
    let mut new = garbage::<PJRT_Buffer_MemoryLayout_Strides>();
    (new.byte_strides, new.num_byte_strides) = (strides.as_ptr(), strides.len());
    layout.__bindgen_anon_1.strides = new;
    layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Strides;
    layout
}

#[test]
fn reads_requested_layout() {
    let client = toy().client(&[]).unwrap();
    let bytes: Vec<u8> = (0..6i32).flat_map(i32::to_le_bytes).collect();
    let buffer = toy().put(client, &shape(&[2, 3]), &bytes, 0).unwrap();
    assert_eq!(read_as(buffer, &tiled(&[1, 0]), 24).unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(read_as(buffer, &tiled(&[0, 1]), 24).unwrap(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(read_as(buffer, &strided(&[16, 4]), 28).unwrap(), [0, 1, 2, -1, 3, 4, 5]);
    assert_eq!(read_as(buffer, &strided(&[16, 4]), 32).unwrap(), [0, 1, 2, -1, 3, 4, 5, -1]);
    let fault = |layout: &PJRT_Buffer_MemoryLayout| read_as(buffer, layout, 24).unwrap_err();
    assert_eq!(fault(&strided(&[16, 4])).code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(fault(&strided(&[-12, 4])).code, ErrorCode::UNIMPLEMENTED);
    assert_eq!(fault(&tiled(&[0, 0])).code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(fault(&tiled(&[0])).code, ErrorCode::INVALID_ARGUMENT);
    let order = [1i64, 0];
    let mut tiles = tiled(&order);
    tiles.__bindgen_anon_1.tiled.num_tiles = 1;
    assert_eq!(fault(&tiles).code, ErrorCode::UNIMPLEMENTED);
    let mut unknown = tiled(&order);
    unknown.type_ = PJRT_Buffer_MemoryLayout_Type(7);
    assert_eq!(fault(&unknown).code, ErrorCode::INVALID_ARGUMENT);
    // A null destination only requests the size.
    let (event, size) = toy().read_into(buffer, null_mut(), 0).unwrap();
    assert_eq!((event, size), (null_mut(), 24));
    let small = toy().read_into(buffer, [0u8; 24].as_mut_ptr(), 23).unwrap_err();
    assert_eq!(small.code, ErrorCode::INVALID_ARGUMENT, "{small:?}");
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

#[test]
fn raw_copies_take_any_range() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[0x0403_0201, 0x0807_0605]);
    let copy = |offset: i64, size: i64| -> Answer<Vec<u8>> {
        let mut out = vec![0u8; usize::try_from(size.min(64)).unwrap_or(0)];
        let args = toy().ask::<slot::PJRT_Buffer_CopyRawToHost>(|args| {
            args.buffer = buffer;
            args.dst = out.as_mut_ptr().cast();
            (args.offset, args.transfer_size) = (offset, size);
        })?;
        toy().wait(args.event)?;
        Ok(out)
    };
    assert_eq!(copy(0, 8).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(copy(3, 2).unwrap(), [4, 5]);
    assert_eq!(copy(8, 0).unwrap(), [0u8; 0]);
    for (offset, size) in [(0, 9), (8, 1), (-1, 2), (0, -1), (i64::MAX, i64::MAX)] {
        assert_eq!(copy(offset, size).unwrap_err().code, ErrorCode::INVALID_ARGUMENT, "{offset} {size}");
    }
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

#[test]
fn buffers_move_between_devices_and_memories() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[3, 4]);
    let (devices, memories) = (toy().devices(client), toy().memories(client));
    let there = toy()
        .ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (buffer, devices[1]))
        .unwrap()
        .dst_buffer;
    let host = toy()
        .ask::<slot::PJRT_Buffer_CopyToMemory>(|args| (args.buffer, args.dst_memory) = (there, memories[2]))
        .unwrap()
        .dst_buffer;
    for (copy, memory) in [(there, memories[1]), (host, memories[2])] {
        assert_eq!(toy().read_ints(copy).unwrap(), [3, 4]);
        assert_eq!(toy().ask::<slot::PJRT_Buffer_Memory>(|args| args.buffer = copy).unwrap().memory, memory);
    }
    let fault =
        toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (buffer, null_mut()));
    assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy(&[buffer, there, host]);
    toy().destroy_client(client);
}

#[test]
fn destroys_unread_transfer_events() {
    let client = toy().client(&[]).unwrap();
    let data = [5i32];
    let (buffer, done): (_, Event) = toy().put_as(client, &shape(&[]), data.as_ptr().cast(), None, 2, 2).unwrap();
    toy().destroy_event(done);
    toy().destroy_event(null_mut());
    assert_eq!(toy().read_ints(buffer).unwrap(), [5]);
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

type Manager = *mut PJRT_AsyncHostToDeviceTransferManager;

fn manager(client: Client, dims: &[&[i64]]) -> Answer<Manager> {
    let specs: Vec<PJRT_ShapeSpec> = dims
        .iter()
        .map(|dims| {
            let mut spec = garbage::<PJRT_ShapeSpec>();
            (spec.dims, spec.num_dims) = (dims.as_ptr(), dims.len());
            spec.element_type = PJRT_Buffer_Type(ElementType::S32.as_raw());
            spec
        })
        .collect();
    let memory = toy().memories(client)[1];
    toy()
        .ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            args.client = client;
            (args.shape_specs, args.num_shape_specs) = (specs.as_ptr().cast_mut(), specs.len());
            (args.device_layouts, args.num_device_layouts) = (null_mut(), 0);
            args.memory = memory;
        })
        .map(|args| args.transfer_manager)
}

fn transfer(manager: Manager, index: i32, offset: i64, data: &[i32], last: bool) -> Answer {
    let args = toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, index);
        (args.data, args.offset, args.transfer_size) = (data.as_ptr().cast(), offset, size_of_val(data) as i64);
        args.is_last_transfer = last.into();
    })?;
    toy().wait(args.done_with_h2d_transfer)
}

fn retrieve(manager: Manager, index: i32) -> Answer<crate::framework::Buffer> {
    toy()
        .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, index);
        })
        .map(|args| args.buffer_out)
}

#[test]
fn pieces_arrive_for_used_buffers() {
    let client = toy().client(&[]).unwrap();
    let manager = manager(client, &[&[2, 2], &[2, 2], &[1], &[3]]).unwrap();
    let of = |index| {
        let args = toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferSize>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, index);
        });
        args.map(|args| args.buffer_size)
    };
    assert_eq!((of(0).unwrap(), of(3).unwrap()), (16, 12));
    for index in [4, -1] {
        assert_eq!(of(index).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    let count =
        toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferCount>(|args| args.transfer_manager = manager);
    assert_eq!(count.unwrap().buffer_count, 4);
    let device =
        toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Device>(|args| args.transfer_manager = manager);
    assert_eq!(device.unwrap().device_out, toy().devices(client)[1]);

    // Read the buffer before the data arrives.
    let buffer = retrieve(manager, 0).unwrap();
    assert_eq!(retrieve(manager, 0).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    let ready = toy().ready_event(buffer);
    assert!(!toy().is_ready(ready));
    toy().destroy_event(ready);
    let mut early = [0i32; 4];
    let (read, _) = toy().read_into(buffer, early.as_mut_ptr().cast(), 16).unwrap();
    transfer(manager, 0, 8, &[3, 4], false).unwrap();
    assert_eq!(transfer(manager, 0, 12, &[3, 4], false).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(transfer(manager, 0, -4, &[3], false).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    assert!(!toy().is_ready(read));
    transfer(manager, 0, 0, &[1, 2], true).unwrap();
    toy().wait(read).unwrap();
    assert_eq!(early, [1, 2, 3, 4]);
    assert_eq!(toy().read_ints(buffer).unwrap(), [1, 2, 3, 4]);
    assert_eq!(transfer(manager, 0, 0, &[1], true).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);

    // Transfer a literal in another layout.
    let literal = |dims: &[i64]| {
        let (order, data) = ([0i64, 1], [1i32, 2, 3, 4]);
        let layout = tiled(&order);
        toy()
            .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral>(|args| {
                (args.transfer_manager, args.buffer_index) = (manager, 1);
                args.data = data.as_ptr().cast();
                (args.shape_dims, args.shape_num_dims) = (dims.as_ptr(), dims.len());
                args.shape_element_type = PJRT_Buffer_Type(ElementType::S32.as_raw());
                args.shape_layout = (&raw const layout).cast_mut();
            })
            .and_then(|args| toy().wait(args.done_with_h2d_transfer))
    };
    assert_eq!(literal(&[4]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    literal(&[2, 2]).unwrap();
    let turned = retrieve(manager, 1).unwrap();
    assert_eq!(toy().read_ints(turned).unwrap(), [1, 3, 2, 4]);

    // One buffer gets an error instead of data, one never gets data, and one is never retrieved.
    let failed = retrieve(manager, 2).unwrap();
    let message = "the file ended";
    toy()
        .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, 2);
            args.error_code = PJRT_Error_Code(11);
            (args.error_message, args.error_message_size) = (message.as_ptr().cast(), message.len());
        })
        .unwrap();
    let fault = toy().read(failed).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::OUT_OF_RANGE, message));
    toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(|args| args.transfer_manager = manager).unwrap();
    assert_eq!(toy().read_ints(buffer).unwrap(), [1, 2, 3, 4]);
    toy().destroy(&[buffer, turned, failed]);

    let manager = self::manager(client, &[&[1]]).unwrap();
    let empty = retrieve(manager, 0).unwrap();
    toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(|args| args.transfer_manager = manager).unwrap();
    assert_eq!(toy().read(empty).unwrap_err().code, ErrorCode::CANCELLED);
    toy().destroy(&[empty]);
    assert_eq!(self::manager(client, &[&[-1]]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy_client(client);
}

#[test]
fn failed_transfer_keeps_alias() {
    let client = toy().client(&[NamedValue::new("panic_in", "after lending")]).unwrap();
    let data = [1i32, 2, 3];
    let start = data.as_ptr().cast();
    let (buffer, done) = toy().put_as(client, &shape(&[3]), start, None, 2, 0).unwrap();
    let fault = toy().wait(toy().ready_event(buffer)).unwrap_err();
    assert!(fault.message.contains("kept the alias"), "{fault:?}");
    assert!(toy().read_ints(buffer).unwrap_err().message.contains("kept the alias"));
    assert!(!toy().is_ready(done));
    KEPT.lock().unwrap().clear();
    toy().wait(done).unwrap();
    toy().destroy(&[buffer]);
    // If the plugin only copies the data, it must not keep the alias after the call.
    let fault = toy().put_as(client, &shape(&[3]), start, None, 0, 0).unwrap_err();
    assert!(fault.message.contains("kept the alias"), "{fault:?}");
    toy().destroy_client(client);
}
