//! Objects of transfers and runs: transfer managers, streams to a device and execute contexts.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pjrt::raw::AsRaw;
use pjrt::{CopyToDeviceStream, ExecuteContext, ExecuteOptions, Execution, Function, Input};
use pjrt_sys::{
    PJRT_AsyncHostToDeviceTransferManager, PJRT_Buffer_MemoryLayout, PJRT_Buffer_MemoryLayout_Tiled,
    PJRT_Buffer_MemoryLayout_Type, PJRT_Buffer_Type, PJRT_Error_Code, PJRT_FFI_Type_Info, PJRT_FFI_UserData,
    PJRT_NamedValue, PJRT_ShapeSpec, extension_slot, slot,
};

use super::kind::{
    Answer, DIMENSIONS, End, Kind, LEN, Operation, Owned, SIZE, With, ask, ask_extension, checksum, contents,
    destroy_buffer, drop_all, execute, nothing, operation, query, sized, wait,
};
use crate::case::Profiles;
use crate::program;
use crate::raw::handlers::{count, platform};
use crate::stop::Stop;

/// Buffers of a manager. The functions that end the transfer of a buffer use each buffer once.
const BUFFERS: i32 = 64;

/// Maximum time for the plugin to request the value of a run.
const PATIENCE: Duration = Duration::from_secs(10);

/// A transfer manager, and the next buffer of which no function has ended the transfer.
pub(crate) struct Manager {
    raw: Owned<PJRT_AsyncHostToDeviceTransferManager>,
    next: AtomicI64,
}

/// The elements that every transfer writes.
static DATA: [f32; LEN as usize] = [2.5; LEN as usize];

pub(crate) const TRANSFER_MANAGER: Kind<Manager> = Kind {
    name: "shared.transfer_manager",
    why: "JAX sends pieces of large arrays from several threads",
    profiles: Profiles::JAX,
    compiles: false,
    operations: &[
        query!(
            PJRT_AsyncHostToDeviceTransferManager_Device,
            |on, args| args.transfer_manager = on.extra.raw.as_raw(),
            args.device_out
        ),
        query!(
            PJRT_AsyncHostToDeviceTransferManager_BufferCount,
            |on, args| args.transfer_manager = on.extra.raw.as_raw(),
            args.buffer_count
        ),
        query!(
            PJRT_AsyncHostToDeviceTransferManager_BufferSize,
            |on, args| args.transfer_manager = on.extra.raw.as_raw(),
            args.buffer_size
        ),
        operation!([PJRT_AsyncHostToDeviceTransferManager_TransferData], |on| transfer(on, 0, false)),
        operation!(
            [
                PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
                PJRT_AsyncHostToDeviceTransferManager_TransferData,
                PJRT_Buffer_ToHostBuffer,
                PJRT_Buffer_Destroy
            ],
            |on| complete_next(on, |at| transfer(on, at, true))
        ),
    ],
    make: |_, objects| {
        let mut spec = sized::<PJRT_ShapeSpec>(&objects.plugin);
        (spec.dims, spec.num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
        spec.element_type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
        let mut specs = vec![spec; BUFFERS as usize];
        let args = ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(&objects.plugin, |args| {
            (args.client, args.memory) = (objects.client.as_raw(), objects.memory.as_raw());
            (args.shape_specs, args.num_shape_specs) = (specs.as_mut_ptr(), specs.len());
        })?;
        let raw = Owned::new(&objects.plugin, args.transfer_manager, |plugin, manager| {
            ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(plugin, |args| args.transfer_manager = manager)
                .map(drop)
        })?;
        Ok(Manager { raw, next: AtomicI64::new(1) })
    },
    end: End::Never,
    finish: |on| {
        complete(&on, 0, |at| transfer(&on, at, true))?;
        // XLA's plugins do not destroy a manager whose buffers lack data.
        while let Some(at) = next(&on) {
            complete(&on, at, |at| transfer(&on, at, true))?;
        }
        drop_all(on)
    },
};

fn bytes() -> Vec<u8> {
    DATA.iter().flat_map(|element| element.to_ne_bytes()).collect()
}

/// Returns the index of a buffer that no other call of this function returns, if one is left.
fn next(on: &With<Manager>) -> Option<i32> {
    i32::try_from(on.extra.next.fetch_add(1, Relaxed)).ok().filter(|at| *at < BUFFERS)
}

/// Sends all data of a buffer. If `last` is set, the transfer of the buffer ends.
fn transfer(on: &With<Manager>, at: i32, last: bool) -> Answer {
    let args = ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(on.plugin(), |args| {
        (args.transfer_manager, args.buffer_index) = (on.extra.raw.as_raw(), at);
        (args.data, args.transfer_size) = (DATA.as_ptr().cast(), SIZE as i64);
        args.is_last_transfer = last.into();
    })?;
    wait(on.plugin(), args.done_with_h2d_transfer, "TransferData").map(|()| String::new())
}

/// Retrieves a buffer, lets `send` send its data, and checks the contents.
fn complete(on: &With<Manager>, at: i32, send: impl Fn(i32) -> Answer) -> Answer {
    let args = ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(on.plugin(), |args| {
        (args.transfer_manager, args.buffer_index) = (on.extra.raw.as_raw(), at);
    })?;
    let buffer = Owned::new(on.plugin(), args.buffer_out, destroy_buffer)?;
    send(at)?;
    ensure_eq!(contents(on.plugin(), buffer.as_raw())?, checksum(&bytes()), "contents of buffer {at}");
    Ok(String::new())
}

/// Completes the next buffer that no other thread uses.
fn complete_next(on: &With<Manager>, send: impl Fn(i32) -> Answer) -> Answer {
    next(on).map_or_else(|| Ok(String::new()), |at| complete(on, at, send))
}

pub(crate) const LITERAL: Kind<Manager> = Kind {
    name: "shared.transfer_literal",
    operations: &[operation!(
        [
            PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
            PJRT_AsyncHostToDeviceTransferManager_TransferLiteral,
            PJRT_Buffer_ToHostBuffer,
            PJRT_Buffer_Destroy
        ],
        |on| complete_next(on, |at| {
            let order = [0i64];
            let mut tiled = sized::<PJRT_Buffer_MemoryLayout_Tiled>(on.plugin());
            (tiled.minor_to_major, tiled.minor_to_major_size) = (order.as_ptr(), order.len());
            let mut layout = sized::<PJRT_Buffer_MemoryLayout>(on.plugin());
            layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
            layout.__bindgen_anon_1.tiled = tiled;
            let args = ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral>(on.plugin(), |args| {
                (args.transfer_manager, args.buffer_index) = (on.extra.raw.as_raw(), at);
                args.data = DATA.as_ptr().cast();
                (args.shape_dims, args.shape_num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
                args.shape_element_type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
                args.shape_layout = &raw mut layout;
            })?;
            wait(on.plugin(), args.done_with_h2d_transfer, "TransferLiteral").map(|()| String::new())
        })
    )],
    ..TRANSFER_MANAGER
};

pub(crate) const BUFFER_ERROR: Kind<Manager> = Kind {
    name: "shared.transfer_error",
    operations: &[operation!([PJRT_AsyncHostToDeviceTransferManager_SetBufferError], |on| {
        let Some(at) = next(on) else { return Ok(String::new()) };
        let message = "failed";
        ask::<slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError>(on.plugin(), |args| {
            (args.transfer_manager, args.buffer_index) = (on.extra.raw.as_raw(), at);
            args.error_code = PJRT_Error_Code::PJRT_Error_Code_INTERNAL;
            (args.error_message, args.error_message_size) = (message.as_ptr().cast(), message.len());
        })?;
        Ok(String::new())
    })],
    ..TRANSFER_MANAGER
};

/// Metadata is separate, because XLA's plugins throw an exception in `transfers.metadata.accepted`.
pub(crate) const METADATA: Kind<Manager> = Kind {
    name: "shared.transfer_metadata",
    operations: &[operation!([PJRT_AsyncHostToDeviceTransferManager_AddMetadata], |on| {
        let (name, value) = ("name", "value");
        let mut metadata = [sized::<PJRT_NamedValue>(on.plugin())];
        (metadata[0].name, metadata[0].name_size) = (name.as_ptr().cast(), name.len());
        (metadata[0].__bindgen_anon_1.string_value, metadata[0].value_size) = (value.as_ptr().cast(), value.len());
        ask::<slot::PJRT_AsyncHostToDeviceTransferManager_AddMetadata>(on.plugin(), |args| {
            args.transfer_manager = on.extra.raw.as_raw();
            (args.transfer_metadata, args.num_metadata) = (metadata.as_ptr(), metadata.len());
        })?;
        Ok(String::new())
    })],
    ..TRANSFER_MANAGER
};

/// A run that waits for a value, and the stream for the value.
pub(crate) struct Receiving {
    stream: CopyToDeviceStream,
    run: JoinHandle<Result<Execution, pjrt::Error>>,
}

pub(crate) const STREAM: Kind<Receiving> = Kind {
    name: "shared.copy_to_device_stream",
    why: "a framework shows the progress of several streams in a thread of its own",
    profiles: Profiles::FULL,
    compiles: false,
    operations: &[
        query!(PJRT_CopyToDeviceStream_TotalBytes, |on, args| args.stream = on.extra.stream.as_raw(), args.total_bytes),
        query!(
            PJRT_CopyToDeviceStream_GranuleSize,
            |on, args| args.stream = on.extra.stream.as_raw(),
            args.granule_size_in_bytes
        ),
        query!(
            PJRT_CopyToDeviceStream_CurrentBytes,
            |on, args| args.stream = on.extra.stream.as_raw(),
            args.current_bytes
        ),
    ],
    make: |cx, _| {
        let executable = cx.compile(&program::receiver())?;
        let (send, streams) = channel();
        let send = Mutex::new(send);
        let options = ExecuteOptions::new().with_recv_callback(program::FROM_HOST, move |_, stream| {
            // Ignore the error. The receiver waits for the first stream only.
            let _ = send.lock().unwrap_or_else(PoisonError::into_inner).send(stream);
        });
        // The plugin may execute the program within the call.
        let run = std::thread::spawn(move || executable.execute_with(Vec::<Input<'_>>::new(), &options));
        match streams.recv_timeout(PATIENCE) {
            Ok(stream) => Ok(Receiving { stream, run }),
            Err(_) => Err(Stop::Fail("the plugin did not request the value".to_owned())),
        }
    },
    end: End::Never,
    finish: |on| {
        let Receiving { mut stream, run } = on.extra;
        stream.add_chunk(bytes()[..4 * program::VALUES].to_vec())?.wait()?;
        let run = run.join().map_err(|_| Stop::Fail("the thread of the run panicked".to_owned()))??;
        Ok(run.done.wait()?)
    },
};

pub(crate) const CONTEXT: Kind<ExecuteContext> = Kind {
    name: "shared.execute_context",
    why: "JAX passes one context to the executions of all threads",
    profiles: Profiles::JAX,
    compiles: false,
    operations: &[operation!([PJRT_LoadedExecutable_Execute], |on| execute(on, on.extra.as_raw()))],
    make: |cx, _| Ok(ExecuteContext::new(cx.plugin())?),
    end: End::Never,
    finish: drop_all,
};

/// User data is separate, because XLA's plugins keep it in a map without a lock.
pub(crate) const USER_DATA: Kind<ExecuteContext> = Kind {
    name: "shared.user_data",
    why: "two libraries may add the data of their custom calls to one context",
    operations: &[operation!([PJRT_FFI_Type_Register, PJRT_FFI_UserData_Add], |on| {
        let name = unique_name();
        let mut info = PJRT_FFI_Type_Info { deleter: None, serialize: None, deserialize: None };
        let type_id = ask_extension::<extension_slot::PJRT_FFI_Type_Register>(on.plugin(), |args| {
            (args.type_name, args.type_name_size) = (name.as_ptr().cast(), name.len());
            args.type_info = &raw mut info;
        })?
        .type_id;
        ask_extension::<extension_slot::PJRT_FFI_UserData_Add>(on.plugin(), |args| {
            args.context = on.extra.as_raw();
            args.user_data = PJRT_FFI_UserData { type_id, data: DATA.as_ptr().cast_mut().cast() };
        })?;
        Ok(String::new())
    })],
    ..CONTEXT
};

pub(crate) const REGISTRY: Kind<()> = Kind {
    name: "shared.registry",
    why: "libraries register custom calls when Python imports them, on any thread",
    profiles: Profiles::JAX,
    compiles: false,
    operations: &[operation!([PJRT_FFI_Register_Handler], |on| {
        let (name, platform) = (unique_name(), platform(&on.client)?);
        ask_extension::<extension_slot::PJRT_FFI_Register_Handler>(on.plugin(), |args| {
            (args.target_name, args.target_name_size) = (name.as_ptr().cast(), name.len());
            (args.platform_name, args.platform_name_size) = (platform.as_ptr().cast(), platform.len());
            args.handler = count as *mut c_void;
        })?;
        Ok(String::new())
    })],
    make: nothing,
    end: End::Never,
    finish: drop_all,
};

/// Returns a name that this process has not registered yet.
fn unique_name() -> String {
    static NEXT: AtomicI64 = AtomicI64::new(0);
    format!("threads_{}", NEXT.fetch_add(1, Relaxed))
}
