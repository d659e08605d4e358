//! Buffers, and their external references.

use pjrt::Function;
use pjrt::raw::AsRaw;
use pjrt_sys::{
    PJRT_Buffer_CopyRawToHostFuture_Callback_Args, PJRT_Buffer_MemoryLayout, PJRT_Buffer_MemoryLayout_Type,
    extension_slot, slot,
};

use super::kind::{
    Answer, End, Kind, Objects, Operation, SIZE, With, ask, ask_extension, checksum, contents, drop_all, execute, list,
    nothing, operation, query, take, wait,
};
use crate::case::Profiles;
use crate::raw::{delete, is_deleted, release_reference};
use crate::stop::Stop;

pub(crate) const BUFFER: Kind<()> = Kind {
    name: "shared.buffer",
    why: "JAX reads, copies and executes with one array from several Python threads",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: OPERATIONS,
    make: nothing,
    end: End::Never,
    finish: deleted,
};

pub(crate) const DELETED_BUFFER: Kind<()> = Kind {
    name: "deleted.buffer",
    why: "one thread of a framework deletes an array that another thread still reads",
    end: End::Deleted(Function::PJRT_Buffer_Delete, |on| delete(&on.buffer)),
    finish: |on| {
        ensure!(is_deleted(&on.buffer)?, "the buffer is not deleted after PJRT_Buffer_Delete");
        drop_all(on)
    },
    ..BUFFER
};

/// External references are separate, because XLA's plugins keep a list of them without a lock.
pub(crate) const REFERENCES: Kind<()> = Kind {
    name: "shared.external_references",
    why: "each NumPy view and each DLPack tensor of an array holds a reference, and several threads create views",
    operations: &[
        operation!(
            [
                PJRT_Buffer_IncreaseExternalReferenceCount,
                PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
                PJRT_Buffer_DecreaseExternalReferenceCount
            ],
            reference
        ),
        operation!([PJRT_Buffer_ToHostBuffer], |on| contents(on.plugin(), on.buffer.as_raw())),
    ],
    finish: |on| {
        ensure!(release_reference(&on.buffer)?.is_err(), "a reference is left after each thread released its own");
        deleted(on)
    },
    ..BUFFER
};

const OPERATIONS: &[Operation<()>] = &[
    query!(PJRT_Buffer_ElementType, |on, args| args.buffer = on.buffer.as_raw(), args.type_.0),
    query!(PJRT_Buffer_Dimensions, |on, args| args.buffer = on.buffer.as_raw(), list(args.dims, args.num_dims)),
    query!(
        PJRT_Buffer_UnpaddedDimensions,
        |on, args| args.buffer = on.buffer.as_raw(),
        list(args.unpadded_dims, args.num_dims)
    ),
    query!(
        PJRT_Buffer_DynamicDimensionIndices,
        |on, args| args.buffer = on.buffer.as_raw(),
        list(args.dynamic_dim_indices, args.num_dynamic_dims)
    ),
    query!(PJRT_Buffer_GetMemoryLayout, |on, args| args.buffer = on.buffer.as_raw(), layout(&args.layout)),
    query!(PJRT_Buffer_OnDeviceSizeInBytes, |on, args| args.buffer = on.buffer.as_raw(), args.on_device_size_in_bytes),
    query!(PJRT_Buffer_Device, |on, args| args.buffer = on.buffer.as_raw(), args.device),
    query!(PJRT_Buffer_Memory, |on, args| args.buffer = on.buffer.as_raw(), args.memory),
    query!(PJRT_Buffer_IsOnCpu, |on, args| args.buffer = on.buffer.as_raw(), args.is_on_cpu),
    query!(PJRT_Buffer_UnsafePointer, |on, args| args.buffer = on.buffer.as_raw(), args.buffer_pointer),
    operation!([PJRT_Buffer_IsDeleted], |on| {
        // A deletion by another thread has the same effect as an error of the other functions.
        if is_deleted(&on.buffer)? {
            Err(Stop::Fail("the buffer is deleted".to_owned()))
        } else {
            Ok("live".to_owned())
        }
    }),
    operation!([PJRT_Buffer_ReadyEvent], |on| {
        let args = ask::<slot::PJRT_Buffer_ReadyEvent>(on.plugin(), |args| args.buffer = on.buffer.as_raw())?;
        wait(on.plugin(), args.event, "PJRT_Buffer_ReadyEvent").map(|()| "ready".to_owned())
    }),
    operation!([PJRT_Buffer_ToHostBuffer], |on| contents(on.plugin(), on.buffer.as_raw())),
    operation!([PJRT_Buffer_CopyRawToHost], |on| {
        let mut memory = vec![0u8; SIZE];
        let args = ask::<slot::PJRT_Buffer_CopyRawToHost>(on.plugin(), |args| {
            args.buffer = on.buffer.as_raw();
            args.dst = memory.as_mut_ptr().cast();
            args.transfer_size = SIZE as i64;
        })?;
        wait(on.plugin(), args.event, "PJRT_Buffer_CopyRawToHost")?;
        Ok(checksum(&memory))
    }),
    operation!([PJRT_Buffer_CopyRawToHostFuture], copy_to_later_memory),
    operation!([PJRT_Buffer_CopyToDevice], |on| {
        let args = ask::<slot::PJRT_Buffer_CopyToDevice>(on.plugin(), |args| {
            (args.buffer, args.dst_device) = (on.buffer.as_raw(), on.device.as_raw());
        })?;
        take(on.plugin(), args.dst_buffer)
    }),
    operation!([PJRT_Buffer_CopyToMemory], |on| {
        let args = ask::<slot::PJRT_Buffer_CopyToMemory>(on.plugin(), |args| {
            (args.buffer, args.dst_memory) = (on.buffer.as_raw(), on.memory.as_raw());
        })?;
        take(on.plugin(), args.dst_buffer)
    }),
    operation!([PJRT_LoadedExecutable_Execute], |on| execute(on, std::ptr::null_mut())),
    operation!([PJRT_Get_Stream_For_External_Ready_Events, PJRT_Wait_Until_Buffer_Ready_On_Stream], |on| {
        let stream = ask_extension::<extension_slot::PJRT_Get_Stream_For_External_Ready_Events>(on.plugin(), |args| {
            args.device = on.device.as_raw();
        })?
        .stream;
        ask_extension::<extension_slot::PJRT_Wait_Until_Buffer_Ready_On_Stream>(on.plugin(), |args| {
            (args.stream, args.buffer) = (stream, on.buffer.as_raw());
        })?;
        Ok(format!("waits on the stream {stream}"))
    }),
];

/// Formats a layout.
fn layout(layout: &PJRT_Buffer_MemoryLayout) -> String {
    if layout.type_ != PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled {
        // SAFETY: C3 (objects): the layout has the type that it announces.
        let strides = unsafe { layout.__bindgen_anon_1.strides };
        return format!("strides {:?}", list(strides.byte_strides, strides.num_byte_strides));
    }
    // SAFETY: C3 (objects): the layout has the type that it announces.
    let tiled = unsafe { layout.__bindgen_anon_1.tiled };
    format!(
        "order {:?}, tiles {:?}",
        list(tiled.minor_to_major, tiled.minor_to_major_size),
        list(tiled.tile_dim_sizes, tiled.num_tiles)
    )
}

/// Begins a copy to the host, and provides the destination afterwards.
fn copy_to_later_memory(on: &With<()>) -> Answer {
    let mut memory = vec![0u8; SIZE];
    let args = ask::<slot::PJRT_Buffer_CopyRawToHostFuture>(on.plugin(), |args| {
        args.buffer = on.buffer.as_raw();
        args.transfer_size = SIZE as i64;
    })?;
    let Some(callback) = args.future_ready_callback else { fail!("future_ready_callback is null") };
    let mut ready: PJRT_Buffer_CopyRawToHostFuture_Callback_Args = super::kind::sized(on.plugin());
    ready.callback_data = args.callback_data;
    ready.dst = memory.as_mut_ptr().cast();
    // SAFETY: C2 (calls), C5 (host memory): the callback is called once, with the `callback_data` of this copy. The
    // destination lives until the copy's event is ready.
    unsafe { callback(&raw mut ready) };
    wait(on.plugin(), args.event, "PJRT_Buffer_CopyRawToHostFuture")?;
    Ok(checksum(&memory))
}

/// Holds an external reference while it reads the address of the memory and, if the host can read it, the memory.
fn reference(on: &With<()>) -> Answer {
    let plugin = on.plugin();
    let buffer = on.buffer.as_raw();
    let on_cpu = ask::<slot::PJRT_Buffer_IsOnCpu>(plugin, |args| args.buffer = buffer)?.is_on_cpu.get();
    ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(plugin, |args| args.buffer = buffer)?;
    let address = ask::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(plugin, |args| args.buffer = buffer);
    let answer = address.map(|args| {
        let bytes = list(args.device_memory_ptr.cast_const().cast::<u8>(), if on_cpu { SIZE } else { 0 });
        format!("{:?}, {}", args.device_memory_ptr, checksum(&bytes))
    });
    ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(plugin, |args| args.buffer = buffer)?;
    answer
}

/// Deletes the buffer, and checks that it is deleted.
fn deleted(on: With<()>) -> Result<(), Stop> {
    let Objects { buffer, .. } = &on.objects;
    delete(buffer)?;
    ensure!(is_deleted(buffer)?, "the buffer is not deleted after PJRT_Buffer_Delete");
    drop_all(on)
}
