//! Faults of uploads, downloads and queries of arrays.

use std::time::Duration;

use pjrt::ElementType;
use pjrt_sys::{PJRT_Buffer, PJRT_Buffer_ToHostBuffer_Args, PJRT_Buffer_Type, PJRT_Error_Code, slot};

use crate::device::{Answer, Device, Shared, ask, bytes, error, leaked, list, pattern, ready_event, wait, write};
use crate::mutant::Mutant;

const INVALID: PJRT_Error_Code = PJRT_Error_Code::PJRT_Error_Code_INVALID_ARGUMENT;

/// Returns the size in bytes of a dense array on the host.
fn host_size(ty: PJRT_Buffer_Type, dims: *const i64, num_dims: usize) -> usize {
    let count: i64 = list(dims, num_dims).iter().product();
    let size = ElementType::from_raw(ty.0).map_or(0, ElementType::host_size);
    usize::try_from(count).unwrap_or(0) * size
}

/// Makes each upload read a changed copy of its data. Does not affect uploads with byte strides.
fn change_uploads(device: &mut Device, change: impl Fn(PJRT_Buffer_Type, &mut [u8]) + Send + Sync + 'static) {
    device.before::<slot::PJRT_Client_BufferFromHostBuffer>(move |args| {
        let size = host_size(args.type_, args.dims, args.num_dims);
        if size > 0 && args.byte_strides.is_null() {
            let mut data = bytes(args.data, size);
            change(args.type_, &mut data);
            args.data = leaked(data).cast();
        }
    });
}

fn type_of(buffer: *mut PJRT_Buffer) -> PJRT_Buffer_Type {
    ask::<slot::PJRT_Buffer_ElementType>(|args| args.buffer = buffer).map_or(PJRT_Buffer_Type(0), |found| found.type_)
}

/// Changes the data of downloads after the downloads have ended.
fn change_downloads(device: &mut Device, change: impl Fn(PJRT_Buffer_Type, &mut [u8]) + Send + Sync + 'static) {
    device.after::<slot::PJRT_Buffer_ToHostBuffer>(move |args| {
        if args.dst.is_null() || args.event.is_null() {
            return;
        }
        wait(args.event);
        let mut data = bytes(args.dst, needed(args).min(args.dst_size));
        change(type_of(args.src), &mut data);
        write(args.dst, &data);
    });
}

/// Returns the size in bytes of the destination that a download needs.
fn needed(args: &PJRT_Buffer_ToHostBuffer_Args) -> usize {
    let size = ask::<slot::PJRT_Buffer_ToHostBuffer>(|new| {
        (new.src, new.host_layout) = (args.src, args.host_layout);
    });
    size.map_or(0, |size| size.dst_size)
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("data.upload_flips_last_bit", "PJRT_Client_BufferFromHostBuffer: copies the host's data", |device| {
        change_uploads(device, |_, data| {
            if let Some(last) = data.last_mut() {
                *last ^= 1;
            }
        });
    }),
    Mutant::new("data.upload_of_whole_vectors_only", "PJRT_Client_BufferFromHostBuffer: copies all data", |device| {
        change_uploads(device, |_, data| {
            let whole = data.len() / 64 * 64;
            if whole > 0 {
                data[whole..].fill(0);
            }
        });
    }),
    Mutant::new("data.upload_above_1_mib_is_cut", "PJRT_Client_BufferFromHostBuffer: copies all data", |device| {
        change_uploads(device, |_, data| {
            if let Some(rest) = data.get_mut(1 << 20..) {
                rest.fill(0);
            }
        });
    }),
    Mutant::new(
        "data.upload_swaps_bytes_of_c128",
        "PJRT_Client_BufferFromHostBuffer: copies each type's bytes",
        |device| {
            change_uploads(device, |ty, data| {
                if ty == PJRT_Buffer_Type::PJRT_Buffer_Type_C128 {
                    data.as_chunks_mut::<16>().0.iter_mut().for_each(|element| element.rotate_left(8));
                }
            });
        },
    ),
    Mutant::new(
        "data.upload_ignores_strides",
        "PJRT_Client_BufferFromHostBuffer: byte_strides of the data",
        |device| {
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                (args.byte_strides, args.num_byte_strides) = (std::ptr::null(), 0);
            });
        },
    ),
    Mutant::new("data.upload_ignores_zero_strides", "PJRT_Client_BufferFromHostBuffer: a stride may be 0", |device| {
        device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            let strides = list(args.byte_strides, args.num_byte_strides);
            if strides.contains(&0) {
                (args.byte_strides, args.num_byte_strides) = (std::ptr::null(), 0);
            }
        });
    }),
    Mutant::new(
        "data.upload_ignores_layout",
        "PJRT_Client_BufferFromHostBuffer: device_layout of the buffer",
        |device| {
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| args.device_layout = std::ptr::null_mut());
        },
    ),
    Mutant::new("data.upload_aligns_address", "PJRT_Client_BufferFromHostBuffer: data need not be aligned", |device| {
        device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            args.data = args.data.map_addr(|address| address & !3);
        });
    }),
    Mutant::new(
        "data.upload_refuses_empty_arrays",
        "PJRT_Client_BufferFromHostBuffer: a dimension may be 0",
        |device| {
            device.replace::<slot::PJRT_Client_BufferFromHostBuffer>(|call| {
                if list(call.args.dims, call.args.num_dims).contains(&0) {
                    return error(INVALID, "the array has no elements");
                }
                call.pass()
            });
        },
    ),
    Mutant::new("data.upload_refuses_rank_6", "PJRT_Client_BufferFromHostBuffer: any number of dimensions", |device| {
        device.replace::<slot::PJRT_Client_BufferFromHostBuffer>(|call| {
            if call.args.num_dims > 5 {
                return error(INVALID, "the array has too many dimensions");
            }
            call.pass()
        });
    }),
    Mutant::new(
        "data.scalar_becomes_vector",
        "PJRT_Client_BufferFromHostBuffer: an array without dimensions is a scalar",
        |device| {
            device.before::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
                if args.num_dims == 0 {
                    (args.dims, args.num_dims) = (leaked([1_i64]), 1);
                }
            });
        },
    ),
    Mutant::new("data.element_type_of_bf16", "PJRT_Buffer_ElementType: the type of the elements", |device| {
        device.after::<slot::PJRT_Buffer_ElementType>(|args| {
            if args.type_ == PJRT_Buffer_Type::PJRT_Buffer_Type_BF16 {
                args.type_ = PJRT_Buffer_Type::PJRT_Buffer_Type_F16;
            }
        });
    }),
    Mutant::new("data.dimensions_reversed", "PJRT_Buffer_Dimensions: the dimensions in their order", |device| {
        device.after::<slot::PJRT_Buffer_Dimensions>(|args| {
            let mut dims = list(args.dims, args.num_dims);
            dims.reverse();
            args.dims = leaked(dims);
        });
    }),
    Mutant::new("data.dimensions_of_size_1_dropped", "PJRT_Buffer_Dimensions: all dimensions", |device| {
        device.after::<slot::PJRT_Buffer_Dimensions>(|args| {
            let mut dims = list(args.dims, args.num_dims);
            dims.retain(|dim| *dim != 1);
            (args.num_dims, args.dims) = (dims.len(), leaked(dims));
        });
    }),
    Mutant::new(
        "data.unpadded_dimensions",
        "PJRT_Buffer_UnpaddedDimensions: the dimensions without padding",
        |device| {
            device.after::<slot::PJRT_Buffer_UnpaddedDimensions>(|args| {
                let dims: Vec<i64> =
                    list(args.unpadded_dims, args.num_dims).iter().map(|dim| (dim + 7) / 8 * 8).collect();
                args.unpadded_dims = leaked(dims);
            });
        },
    ),
    Mutant::new(
        "data.dynamic_dimensions",
        "PJRT_Buffer_DynamicDimensionIndices: the dimensions that are dynamic",
        |device| {
            device.after::<slot::PJRT_Buffer_DynamicDimensionIndices>(|args| {
                (args.dynamic_dim_indices, args.num_dynamic_dims) = (leaked([0_usize]), 1);
            });
        },
    ),
    Mutant::new(
        "data.dynamic_dimensions_lost",
        "PJRT_Buffer_DynamicDimensionIndices: the dimensions of bounded size",
        |device| {
            device.after::<slot::PJRT_Buffer_DynamicDimensionIndices>(|args| args.num_dynamic_dims = 0);
        },
    ),
    Mutant::new("data.device_size_halved", "PJRT_Buffer_OnDeviceSizeInBytes: the bytes on the device", |device| {
        device.after::<slot::PJRT_Buffer_OnDeviceSizeInBytes>(|args| args.on_device_size_in_bytes /= 2);
    }),
    Mutant::new("data.layout_is_always_row_major", "PJRT_Buffer_GetMemoryLayout: the layout of the buffer", |device| {
        device.after::<slot::PJRT_Buffer_GetMemoryLayout>(|args| {
            let shape = ask::<slot::PJRT_Buffer_Dimensions>(|new| new.buffer = args.buffer);
            let rank = shape.map_or(0, |shape| i64::try_from(shape.num_dims).unwrap_or(0));
            args.layout.type_ = pjrt_sys::PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
            args.layout.__bindgen_anon_1.tiled = pjrt_sys::PJRT_Buffer_MemoryLayout_Tiled {
                minor_to_major: leaked((0..rank).rev().collect::<Vec<_>>()),
                minor_to_major_size: usize::try_from(rank).unwrap_or(0),
                ..pjrt_sys::AbiStruct::new()
            };
        });
    }),
    Mutant::new("data.download_is_short", "PJRT_Buffer_ToHostBuffer: copies the whole buffer", |device| {
        change_downloads(device, |_, data| {
            let kept = data.len() - data.len().min(2);
            data[kept..].fill(0x5a);
        });
    }),
    Mutant::new("data.download_writes_too_much", "PJRT_Buffer_ToHostBuffer: writes dst_size bytes at most", |device| {
        device.after::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
            if !args.dst.is_null() && args.dst_size < 4096 {
                write(args.dst.wrapping_byte_add(args.dst_size), &[0x5a]);
            }
        });
    }),
    Mutant::new("data.download_event_is_early", "PJRT_Buffer_ToHostBuffer: event is ready after the copy", |device| {
        device.replace::<slot::PJRT_Buffer_ToHostBuffer>(|call| {
            let (dst, size) = (call.args.dst, call.args.dst_size);
            if dst.is_null() {
                return call.pass();
            }
            let staging = pattern(size);
            call.args.dst = staging;
            let answer = call.pass();
            call.args.dst = dst;
            if answer.is_success() {
                let (event, dst, staging) = (Shared(call.args.event), Shared(dst), Shared(staging));
                call.args.event = ready_event();
                std::thread::spawn(move || {
                    wait(event.get());
                    std::thread::sleep(Duration::from_millis(2));
                    write(dst.get(), &bytes(staging.get(), size));
                });
            }
            answer
        });
    }),
    Mutant::new(
        "data.download_ignores_size",
        "PJRT_Buffer_ToHostBuffer: a dst_size that is too small is an error",
        |device| {
            device.before::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
                if !args.dst.is_null() {
                    args.dst_size = args.dst_size.max(needed(args));
                }
            });
        },
    ),
    Mutant::new(
        "data.download_size_without_last_row",
        "PJRT_Buffer_ToHostBuffer: dst_size is the required size",
        |device| {
            device.after::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
                if args.dst.is_null() {
                    args.dst_size -= args.dst_size / 3;
                }
            });
        },
    ),
    Mutant::new("data.download_ignores_layout", "PJRT_Buffer_ToHostBuffer: host_layout of dst", |device| {
        device.before::<slot::PJRT_Buffer_ToHostBuffer>(|args| args.host_layout = std::ptr::null_mut());
    }),
    Mutant::new("data.true_is_255", "PJRT_Buffer_ToHostBuffer: an element of type PRED is 0 or 1", |device| {
        change_downloads(device, |ty, data| {
            if ty == PJRT_Buffer_Type::PJRT_Buffer_Type_PRED {
                data.iter_mut().for_each(|byte| *byte = if *byte == 0 { 0 } else { 0xff });
            }
        });
    }),
    Mutant::new(
        "data.sign_of_s4_lost",
        "PJRT_Buffer_ToHostBuffer: an element of type S4 fills a byte with its sign",
        |device| {
            change_downloads(device, |ty, data| {
                if ty == PJRT_Buffer_Type::PJRT_Buffer_Type_S4 {
                    data.iter_mut().for_each(|byte| *byte &= 0x0f);
                }
            });
        },
    ),
    Mutant::new(
        "numerics.subnormals_and_nan_dropped",
        "PJRT_Buffer_ToHostBuffer: copies special numbers, too",
        |device| {
            change_downloads(device, |ty, data| {
                if ty == PJRT_Buffer_Type::PJRT_Buffer_Type_F32 {
                    for bytes in data.as_chunks_mut::<4>().0 {
                        if !f32::from_ne_bytes(*bytes).is_normal() {
                            *bytes = [0; 4];
                        }
                    }
                }
            });
        },
    ),
    Mutant::new("data.negative_zero_loses_sign", "PJRT_Buffer_ToHostBuffer: copies the bits of -0.0", |device| {
        change_downloads(device, |ty, data| {
            if ty == PJRT_Buffer_Type::PJRT_Buffer_Type_F32 {
                for bytes in data.as_chunks_mut::<4>().0 {
                    if f32::from_ne_bytes(*bytes) == 0.0 {
                        *bytes = [0; 4];
                    }
                }
            }
        });
    }),
];
