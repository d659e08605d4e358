//! Faults of deletion, host-buffer semantics, references, aliases and raw copies.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pjrt_sys::{PJRT_Buffer, PJRT_Client_BufferFromHostBuffer_Args, PJRT_HostBufferSemantics, PJRT_ShapeSpec, slot};

use crate::device::{Answer, Call, Shared, ask, error, leaked, list, pattern, ready_event, set, settable_event, write};
use crate::mutant::Mutant;

const ONLY_DURING_CALL: PJRT_HostBufferSemantics =
    PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
const ZERO_COPY: PJRT_HostBufferSemantics = PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableZeroCopy;

fn is_deleted(buffer: *mut PJRT_Buffer) -> bool {
    ask::<slot::PJRT_Buffer_IsDeleted>(|args| args.buffer = buffer).is_some_and(|found| found.is_deleted.get())
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("buffers.delete_has_no_effect", "PJRT_Buffer_Delete: the buffer cannot be used afterwards", |device| {
        device.skip::<slot::PJRT_Buffer_Delete>();
    }),
    Mutant::new("buffers.deletion_not_reported", "PJRT_Buffer_IsDeleted: whether the buffer was deleted", |device| {
        device.after::<slot::PJRT_Buffer_IsDeleted>(|args| args.is_deleted = false.into());
    }),
    Mutant::new("buffers.new_buffer_is_deleted", "PJRT_Buffer_IsDeleted: whether the buffer was deleted", |device| {
        device.after::<slot::PJRT_Buffer_IsDeleted>(|args| args.is_deleted = true.into());
    }),
    Mutant::new(
        "buffers.deleted_buffer_is_read",
        "PJRT_Buffer_ToHostBuffer: reading a deleted buffer is an error",
        |device| {
            device.replace::<slot::PJRT_Buffer_ToHostBuffer>(|call| {
                let answer = call.pass();
                if answer.is_success() || !is_deleted(call.args.src) {
                    return answer;
                }
                if call.args.dst.is_null() {
                    call.args.dst_size = 64;
                } else {
                    write(call.args.dst, &vec![0; call.args.dst_size]);
                    call.args.event = ready_event();
                }
                Answer::SUCCESS
            });
        },
    ),
    Mutant::new("leaks.buffers", "PJRT_Buffer_Destroy: frees the buffer", |device| {
        device.skip::<slot::PJRT_Buffer_Destroy>();
    }),
    Mutant::new("buffers.destroy_ends_pending_read", "PJRT_Buffer_Destroy: pending copies keep the memory", |device| {
        // A download of a large array contains zeros if the buffer is destroyed before the download's event.
        let reads: Mutex<Vec<(usize, Shared<std::ffi::c_void>, usize)>> = Mutex::default();
        let reads: &'static Mutex<_> = Box::leak(Box::new(reads));
        device.after::<slot::PJRT_Buffer_ToHostBuffer>(move |args| {
            if !args.dst.is_null() && args.dst_size >= 100_000 {
                let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
                reads.push((args.src.addr(), Shared(args.dst), args.dst_size));
            }
        });
        device.before::<slot::PJRT_Buffer_Destroy>(move |args| {
            let mut reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, dst, size) in reads.extract_if(.., |(src, ..)| *src == args.buffer.addr()) {
                std::thread::sleep(Duration::from_millis(1));
                write(dst.get(), &vec![0; size]);
            }
        });
        device.before::<slot::PJRT_Event_Destroy>(move |_| {
            reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
    }),
    Mutant::new(
        "buffers.done_event_never_ready",
        "PJRT_Client_BufferFromHostBuffer: done_with_host_buffer becomes ready",
        |device| {
            device
                .after::<slot::PJRT_Client_BufferFromHostBuffer>(|args| args.done_with_host_buffer = settable_event());
        },
    ),
    Mutant::new(
        "buffers.done_event_null",
        "PJRT_Client_BufferFromHostBuffer: returns done_with_host_buffer",
        |device| {
            device.after::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                args.done_with_host_buffer = std::ptr::null_mut();
            });
        },
    ),
    Mutant::new(
        "buffers.memory_read_after_call",
        "kImmutableOnlyDuringCall: the data is read only during the call",
        |device| {
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                if args.host_buffer_semantics == ONLY_DURING_CALL {
                    args.host_buffer_semantics = ZERO_COPY;
                }
            });
        },
    ),
    Mutant::new(
        "buffers.done_event_is_early",
        "done_with_host_buffer: the data is not read after it is ready",
        |device| {
            device.replace::<slot::PJRT_Client_BufferFromHostBuffer>(|call| {
                let semantics = call.args.host_buffer_semantics;
                let plain = call.args.byte_strides.is_null() && call.args.device_layout.is_null();
                if semantics == ONLY_DURING_CALL || !plain || call.args.data.is_null() {
                    return call.pass();
                }
                upload_late(call)
            });
        },
    ),
    Mutant::new(
        "buffers.zero_copy_memory_kept",
        "kImmutableZeroCopy: done_with_host_buffer is ready when the buffer is freed",
        |device| {
            device.after::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                if args.host_buffer_semantics == ZERO_COPY {
                    args.done_with_host_buffer = settable_event();
                }
            });
        },
    ),
    Mutant::new(
        "buffers.reference_not_counted",
        "PJRT_Buffer_IncreaseExternalReferenceCount: the memory stays",
        |device| {
            device.skip::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>();
            device.skip::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>();
        },
    ),
    Mutant::new("leaks.references", "PJRT_Buffer_DecreaseExternalReferenceCount: the memory may be freed", |device| {
        device.skip::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>();
    }),
    Mutant::new(
        "buffers.address_of_other_memory",
        "PJRT_Buffer_OpaqueDeviceMemoryDataPointer: the buffer's memory",
        |device| {
            device.after::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(|args| {
                args.device_memory_ptr = pattern(4096);
            });
        },
    ),
    Mutant::new("buffers.address_changes", "PJRT_Buffer_UnsafePointer: the address of the memory", |device| {
        let calls = AtomicUsize::new(0);
        device.after::<slot::PJRT_Buffer_UnsafePointer>(move |args| {
            args.buffer_pointer += calls.fetch_add(64, Ordering::Relaxed);
        });
    }),
    Mutant::new("buffers.raw_copy_from_start", "PJRT_Buffer_CopyRawToHost: copies from offset", |device| {
        device.before::<slot::PJRT_Buffer_CopyRawToHost>(|args| args.offset = 0);
    }),
    Mutant::new("buffers.raw_copy_in_whole_words", "PJRT_Buffer_CopyRawToHost: copies transfer_size bytes", |device| {
        device.before::<slot::PJRT_Buffer_CopyRawToHost>(|args| args.transfer_size &= !3);
    }),
    Mutant::new("buffers.raw_copy_beyond_end", "PJRT_Buffer_CopyRawToHost: the range is within the buffer", |device| {
        device.replace::<slot::PJRT_Buffer_CopyRawToHost>(|call| {
            let answer = call.pass();
            if answer.is_success() {
                return answer;
            }
            (call.args.offset, call.args.transfer_size) = (0, 4);
            call.pass()
        });
    }),
    Mutant::new(
        "buffers.release_always_succeeds",
        "PJRT_Buffer_DecreaseExternalReferenceCount: a count of 0 is an error",
        |device| {
            device.replace::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|call| {
                // The mutant leaks the error of a failed call.
                let _ = call.pass();
                Answer::SUCCESS
            });
        },
    ),
    Mutant::new("buffers.later_raw_copy_from_start", "PJRT_Buffer_CopyRawToHostFuture: copies from offset", |device| {
        device.before::<slot::PJRT_Buffer_CopyRawToHostFuture>(|args| args.offset = 0);
    }),
    Mutant::new("buffers.bitcast_keeps_type", "PJRT_Buffer_Bitcast: the view has element_type", |device| {
        device.before::<slot::PJRT_Buffer_Bitcast>(|args| {
            let own = ask::<slot::PJRT_Buffer_ElementType>(|new| new.buffer = args.buffer);
            args.element_type = own.map_or(args.element_type, |own| own.type_);
        });
    }),
    Mutant::new("buffers.alias_not_fulfilled", "PJRT_Client_FulfillAliasBuffer: makes the alias ready", |device| {
        device.skip::<slot::PJRT_Client_FulfillAliasBuffer>();
    }),
    Mutant::new(
        "buffers.alias_error_lost",
        "PJRT_Client_FulfillAliasBuffer: the alias fails with the error",
        |device| {
            device.before::<slot::PJRT_Client_FulfillAliasBuffer>(|args| args.error_message_size = 0);
        },
    ),
    Mutant::new(
        "buffers.uninitialized_shape",
        "PJRT_Client_CreateUninitializedBuffer: the buffer has the shape",
        |device| {
            device.before::<slot::PJRT_Client_CreateUninitializedBuffer>(|args| {
                let mut dims = list(args.shape_dims, args.shape_num_dims);
                dims.push(1);
                (args.shape_num_dims, args.shape_dims) = (dims.len(), leaked(dims));
            });
        },
    ),
    Mutant::new("limits.buffers_10000", "PJRT: only memory limits the number of buffers", |device| {
        let live = AtomicUsize::new(0);
        let live: &'static AtomicUsize = Box::leak(Box::new(live));
        device.replace::<slot::PJRT_Client_BufferFromHostBuffer>(move |call| {
            if live.fetch_add(1, Ordering::Relaxed) > 10_000 {
                let code = pjrt_sys::PJRT_Error_Code::PJRT_Error_Code_RESOURCE_EXHAUSTED;
                return error(code, "too many buffers");
            }
            call.pass()
        });
        device.before::<slot::PJRT_Buffer_Destroy>(move |_| {
            let _ = live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |live| live.checked_sub(1));
        });
    }),
    Mutant::new(
        "limits.large_buffer_aborts",
        "PJRT: exhausted memory is an error, and does not end the process",
        |device| {
            device.before::<slot::PJRT_Client_CreateUninitializedBuffer>(|args| {
                if list(args.shape_dims, args.shape_num_dims).iter().any(|dim| *dim > 1 << 50) {
                    std::process::abort();
                }
            });
        },
    ),
    Mutant::new(
        "threads.uploads_share_staging_memory",
        "PJRT: several threads may call functions at the same time",
        |device| {
            let staging: Mutex<Vec<u8>> = Mutex::default();
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(move |args| {
                let count: i64 = list(args.dims, args.num_dims).iter().product();
                let size = usize::try_from(count * 4).unwrap_or(0);
                let is_float = args.type_ == pjrt_sys::PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
                if !is_float || !args.byte_strides.is_null() || args.data.is_null() {
                    return;
                }
                let lock = || staging.lock().unwrap_or_else(PoisonError::into_inner);
                *lock() = crate::device::bytes(args.data, size);
                std::thread::yield_now();
                let mut data = lock().clone();
                data.resize(size, 0);
                args.data = leaked(data).cast();
            });
        },
    ),
];

/// Uploads in the background. The event that permits the caller to free its memory is ready before the upload reads the
/// memory.
fn upload_late(call: &mut Call<slot::PJRT_Client_BufferFromHostBuffer>) -> *mut pjrt_sys::PJRT_Error {
    let args: PJRT_Client_BufferFromHostBuffer_Args = call.args;
    let spec = PJRT_ShapeSpec {
        dims: args.dims,
        num_dims: args.num_dims,
        element_type: args.type_,
        ..pjrt_sys::AbiStruct::new()
    };
    let memory = if args.memory.is_null() { super::devices::default_memory(args.device) } else { args.memory };
    let manager = ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|new| {
        (new.client, new.memory) = (args.client, memory);
        (new.shape_specs, new.num_shape_specs) = (leaked([spec]), 1);
    });
    let Some(manager) = manager.map(|new| Shared(new.transfer_manager)) else { return call.pass() };
    let buffer = ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|new| {
        new.transfer_manager = manager.get();
    });
    let Some(buffer) = buffer else { return call.pass() };
    let count: i64 = list(args.dims, args.num_dims).iter().product();
    let width = pjrt::ElementType::from_raw(args.type_.0).map_or(0, pjrt::ElementType::host_size);
    let (size, data) = (count * i64::try_from(width).unwrap_or(0), Shared(args.data.cast_mut()));
    let done = Shared(settable_event());
    std::thread::spawn(move || {
        set(done.get(), pjrt_sys::PJRT_Error_Code(0), "");
        std::thread::sleep(Duration::from_millis(5));
        ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|new| {
            new.transfer_manager = manager.get();
            (new.data, new.transfer_size) = (data.get(), size);
            new.is_last_transfer = true.into();
        });
    });
    (call.args.buffer, call.args.done_with_host_buffer) = (buffer.buffer_out, done.get());
    Answer::SUCCESS
}
