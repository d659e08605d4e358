//! Faults of transfers whose data arrives in several chunks, and of DMA mappings.

use std::time::Duration;

use pjrt_sys::slot;

use crate::device::{Shared, ask, ready_event};
use crate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "transfers.layouts_ignored",
        "PJRT_Client_CreateBuffersForAsyncHostToDevice: device_layouts are the layouts",
        |device| {
            device.before::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| args.num_device_layouts = 0);
        },
    ),
    Mutant::new(
        "transfers.metadata_refused",
        "PJRT_AsyncHostToDeviceTransferManager_AddMetadata: attaches named values",
        |device| {
            device.replace::<slot::PJRT_AsyncHostToDeviceTransferManager_AddMetadata>(|_| {
                crate::device::error(pjrt_sys::PJRT_Error_Code::PJRT_Error_Code_INTERNAL, "unknown metadata")
            });
        },
    ),
    Mutant::new(
        "transfers.offset_ignored",
        "AsyncHostToDeviceTransferManager_TransferData: copies to offset",
        |device| {
            device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| args.offset = 0);
        },
    ),
    Mutant::new("transfers.first_piece_is_last", "TransferData: is_last_transfer marks the last piece", |device| {
        device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
            args.is_last_transfer = true.into();
        });
    }),
    Mutant::new("transfers.last_piece_ignored", "TransferData: the buffer is ready after its last piece", |device| {
        device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
            args.is_last_transfer = false.into();
        });
    }),
    Mutant::new("transfers.piece_is_short", "TransferData: copies transfer_size bytes", |device| {
        device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
            args.transfer_size -= args.transfer_size.min(1);
        });
    }),
    Mutant::new(
        "transfers.piece_read_after_event",
        "TransferData: data is not read after done_with_h2d_transfer",
        |device| {
            device.replace::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|call| {
                let args = call.args;
                let (manager, data) = (Shared(args.transfer_manager), Shared(args.data.cast_mut()));
                let (at, offset, size, last) =
                    (args.buffer_index, args.offset, args.transfer_size, args.is_last_transfer);
                call.args.done_with_h2d_transfer = ready_event();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(3));
                    ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|new| {
                        new.transfer_manager = manager.get();
                        (new.buffer_index, new.data) = (at, data.get());
                        (new.offset, new.transfer_size, new.is_last_transfer) = (offset, size, last);
                    });
                });
                std::ptr::null_mut()
            });
        },
    ),
    Mutant::new(
        "transfers.buffer_index_ignored",
        "TransferManager_RetrieveBuffer: returns the buffer of buffer_index",
        |device| {
            device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| args.buffer_index = 0);
        },
    ),
    Mutant::new("transfers.buffer_size_in_elements", "TransferManager_BufferSize: the size in bytes", |device| {
        device.after::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferSize>(|args| args.buffer_size /= 4);
    }),
    Mutant::new("transfers.buffer_count", "TransferManager_BufferCount: the number of buffers", |device| {
        device.after::<slot::PJRT_AsyncHostToDeviceTransferManager_BufferCount>(|args| args.buffer_count = 1);
    }),
    Mutant::new("transfers.device_of_manager", "TransferManager_Device: the device of the buffers", |device| {
        super::devices::remember_client(device);
        device.after::<slot::PJRT_AsyncHostToDeviceTransferManager_Device>(|args| {
            if let Some(last) = super::devices::client().and_then(|client| super::devices::devices(client).pop()) {
                args.device_out = last;
            }
        });
    }),
    Mutant::new("transfers.error_has_no_effect", "TransferManager_SetBufferError: the buffer fails", |device| {
        device.skip::<slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError>();
    }),
    Mutant::new(
        "transfers.error_message_lost",
        "TransferManager_SetBufferError: the buffer fails with the message",
        |device| {
            device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError>(|args| {
                args.error_message_size = 0;
            });
        },
    ),
    Mutant::new("transfers.literal_ignored", "TransferManager_TransferLiteral: copies the literal", |device| {
        device.before::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral>(|args| {
            args.data = crate::device::pattern(4096);
        });
    }),
    Mutant::new("leaks.transfer_managers", "TransferManager_Destroy: frees the manager", |device| {
        device.skip::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>();
    }),
    Mutant::new("transfers.mapping_remains", "PJRT_Client_DmaUnmap: ends the mapping", |device| {
        device.skip::<slot::PJRT_Client_DmaUnmap>();
    }),
];
