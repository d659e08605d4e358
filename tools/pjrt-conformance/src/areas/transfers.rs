//! Cases for transfers whose data arrives in chunks, and for executions whose arguments arrive later.

use pjrt::{
    AsyncHostToDeviceTransferManager, ElementType, ErrorCode, ExecuteOptions, Function, Input, Layout, NamedValue,
    Shape, Value,
};

use crate::case::Profiles;
use crate::context::{Context, floats, shape};
use crate::stop::Stop;
use crate::suite::Suite;

const NEEDED: &[Function] = &[
    Function::PJRT_Client_CreateBuffersForAsyncHostToDevice,
    Function::PJRT_AsyncHostToDeviceTransferManager_TransferData,
    Function::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer,
];

fn vector(len: i64) -> Shape {
    shape(ElementType::F32, &[len])
}

fn manager(cx: &Context, shapes: &[Shape]) -> Result<AsyncHostToDeviceTransferManager, Stop> {
    Ok(AsyncHostToDeviceTransferManager::new(&cx.memory()?, shapes)?)
}

fn bytes(data: &[f32]) -> Vec<u8> {
    data.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn declare(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_TransferData: copies transfer_size bytes to \
                  offset; is_last_transfer marks the buffer's last piece";
    let why = "JAX uploads large arrays in pieces while the device computes";
    for pieces in [1usize, 2, 5, 20] {
        suite
            .case(format!("transfers.pieces.in_order[pieces={pieces}]"), clause, why)
            .profiles(Profiles::JAX)
            .functions(NEEDED)
            .check(move |cx| {
                let data: Vec<f32> = (0..100u8).map(f32::from).collect();
                let manager = manager(cx, &[vector(100)])?;
                let buffer = manager.retrieve_buffer(0)?;
                let size = 400 / pieces;
                for at in 0..pieces {
                    let piece = bytes(&data)[at * size..(at + 1) * size].to_vec();
                    let sent = if at + 1 == pieces {
                        manager.transfer_last_data(0, at * size, piece)?
                    } else {
                        manager.transfer_data(0, at * size, piece)?
                    };
                    sent.wait()?;
                }
                ensure_eq!(floats(&buffer)?, data, "contents");
                Ok(())
            });
    }
    suite.case("transfers.pieces.in_any_order", clause, why).profiles(Profiles::JAX).functions(NEEDED).check(|cx| {
        let data: Vec<f32> = (0..4u8).map(f32::from).collect();
        let manager = manager(cx, &[vector(4)])?;
        let buffer = manager.retrieve_buffer(0)?;
        for at in [2usize, 0, 3] {
            manager.transfer_data(0, at * 4, bytes(&data[at..=at]))?.wait()?;
        }
        manager.transfer_last_data(0, 4, bytes(&data[1..2]))?.wait()?;
        ensure_eq!(floats(&buffer)?, data, "contents");
        Ok(())
    });
    suite
        .case(
            "transfers.pieces.not_ready_before_last",
            clause,
            "a framework that reads a buffer before its last piece gets wrong contents",
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let buffer = manager.retrieve_buffer(0)?;
            manager.transfer_data(0, 0, bytes(&[1.0]))?.wait()?;
            ensure!(!buffer.ready_event()?.is_ready()?, "the buffer is ready before its last piece");
            manager.transfer_last_data(0, 4, bytes(&[2.0]))?.wait()?;
            ensure_eq!(floats(&buffer)?, vec![1.0, 2.0], "contents");
            Ok(())
        });
    suite
        .case(
            "transfers.buffers.several",
            "pjrt_c_api.h, PJRT_Client_CreateBuffersForAsyncHostToDevice: creates a buffer for each shape",
            why,
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(1), vector(2), vector(3)])?;
            ensure_eq!(manager.buffer_count(), 3, "number of buffers");
            for at in [2usize, 0, 1] {
                let data = vec![f32::from(u8::try_from(at).unwrap_or(0)); at + 1];
                let buffer = manager.retrieve_buffer(at)?;
                manager.transfer_last_data(at, 0, bytes(&data))?.wait()?;
                ensure_eq!(floats(&buffer)?, data, "contents of buffer {at}");
            }
            Ok(())
        });
    suite
        .case(
            "transfers.buffers.size",
            "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_BufferSize: returns the size of the buffer on the \
             device, in bytes",
            why,
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(10)])?;
            ensure!(manager.buffer_size(0)? >= 40, "the buffer has {} bytes", manager.buffer_size(0)?);
            ensure_eq!(manager.device()?.id()?, cx.device()?.id()?, "device");
            Ok(())
        });
    suite
        .case("transfers.buffers.empty", clause, "frameworks upload empty arrays in the same way")
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(0)])?;
            let buffer = manager.retrieve_buffer(0)?;
            manager.transfer_last_data(0, 0, Vec::new())?.wait()?;
            ensure_eq!(floats(&buffer)?, Vec::<f32>::new(), "contents");
            Ok(())
        });
    suite
        .case(
            "transfers.literal.whole",
            "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral: copies the contents of the whole \
             buffer",
            why,
        )
        .functions(NEEDED)
        .functions(&[Function::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral])
        .check(|cx| {
            let manager = manager(cx, &[vector(3)])?;
            let buffer = manager.retrieve_buffer(0)?;
            manager.transfer_literal(0, vec![1.0f32, 2.0, 3.0])?.wait()?;
            ensure_eq!(floats(&buffer)?, vec![1.0, 2.0, 3.0], "contents");
            Ok(())
        });
    let pending = "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: an argument need not be ready; the run waits for it";
    suite
        .case("transfers.execute.before_data", pending, "frameworks enqueue runs before their inputs have arrived")
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let input = manager.retrieve_buffer(0)?;
            let outputs = cx.add_one(2)?.execute(&[&input])?;
            manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0]))?.wait()?;
            ensure_eq!(floats(&outputs[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "transfers.execute.chain_before_data",
            pending,
            "frameworks enqueue runs before their inputs have arrived",
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let manager = manager(cx, &[vector(2)])?;
            let mut buffer = manager.retrieve_buffer(0)?;
            for _ in 0..10 {
                buffer = executable
                    .execute(&[&buffer])?
                    .into_iter()
                    .next()
                    .ok_or_else(|| Stop::Fail("the run has no output".to_owned()))?;
            }
            ensure!(!buffer.ready_event()?.is_ready()?, "a result is ready before the data of its argument arrived");
            manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0]))?.wait()?;
            ensure_eq!(floats(&buffer)?, vec![11.0, 12.0], "result");
            Ok(())
        });
    suite
        .case(
            "transfers.execute.done_event",
            "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: device_complete_events become ready when the run has ended",
            "frameworks free temporary memory when the event is ready",
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let input = manager.retrieve_buffer(0)?;
            let executable = cx.add_one(2)?;
            let run = executable.execute_with([Input::Borrow(&input)], &ExecuteOptions::new())?;
            ensure!(!run.done.is_ready()?, "the run has ended before the data of its argument arrived");
            manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0]))?.wait()?;
            run.done.wait()?;
            ensure_eq!(floats(&run.outputs[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "transfers.execute.read_before_data",
            "pjrt_c_api.h, PJRT_Buffer_ToHostBuffer: the event becomes ready when the data has been copied",
            "frameworks enqueue copies before the data has arrived",
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let buffer = manager.retrieve_buffer(0)?;
            let read = buffer.download().start::<f32>()?;
            manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0]))?.wait()?;
            ensure_eq!(read.wait()?, vec![1.0, 2.0], "contents");
            Ok(())
        });
    let failed = "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_SetBufferError: the buffer fails with the error";
    suite
        .case("transfers.error.reaches_buffer", failed, "after a lost connection, the framework must not wait forever")
        .functions(NEEDED)
        .functions(&[Function::PJRT_AsyncHostToDeviceTransferManager_SetBufferError])
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let buffer = manager.retrieve_buffer(0)?;
            manager.set_buffer_error(0, ErrorCode::UNAVAILABLE, "the reason")?;
            let Err(error) = buffer.wait() else { fail!("the error was lost") };
            ensure!(error.message().contains("the reason"), "the message is {:?}", error.message());
            Ok(())
        });
    suite
        .case("transfers.error.reaches_run", failed, "a run with a failed argument must fail")
        .functions(NEEDED)
        .functions(&[Function::PJRT_AsyncHostToDeviceTransferManager_SetBufferError])
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let buffer = manager.retrieve_buffer(0)?;
            let outputs = cx.add_one(2)?.execute(&[&buffer])?;
            manager.set_buffer_error(0, ErrorCode::UNAVAILABLE, "the reason")?;
            ensure!(floats(&outputs[0]).is_err(), "a run on a failed argument succeeded");
            Ok(())
        });
    suite
        .case(
            "transfers.destroy.after_last_piece",
            "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_Destroy: frees the manager; retrieved buffers remain",
            why,
        )
        .profiles(Profiles::JAX)
        .functions(NEEDED)
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            let buffer = manager.retrieve_buffer(0)?;
            let sent = manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0]))?;
            drop(manager);
            sent.wait()?;
            ensure_eq!(floats(&buffer)?, vec![1.0, 2.0], "contents");
            Ok(())
        });
    suite
        .case(
            "transfers.metadata.accepted",
            "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_AddMetadata: attaches named values to the transfers",
            "JAX attaches the name of an array for profiles",
        )
        .functions(NEEDED)
        .functions(&[Function::PJRT_AsyncHostToDeviceTransferManager_AddMetadata])
        .check(|cx| {
            let manager = manager(cx, &[vector(2)])?;
            manager.add_metadata(&[
                NamedValue::new("pjrt_conformance_name", Value::String("weights".to_owned())),
                NamedValue::new("pjrt_conformance_number", Value::Int64(3)),
            ])?;
            let buffer = manager.retrieve_buffer(0)?;
            manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0]))?.wait()?;
            ensure_eq!(floats(&buffer)?, vec![1.0, 2.0], "contents");
            Ok(())
        });
    suite
        .case(
            "transfers.buffers.layout",
            "pjrt_c_api.h, PJRT_Client_CreateBuffersForAsyncHostToDevice: device_layouts are the layouts of the buffers",
            why,
        )
        .functions(NEEDED)
        .check(|cx| {
            let cube = shape(ElementType::F32, &[2, 2, 2]);
            let order = Layout::new(vec![1, 0, 2]);
            let created = AsyncHostToDeviceTransferManager::with_layouts(&cx.memory()?, &[(cube, order)]);
            let manager = created.map_err(|error| match error.code() {
                ErrorCode::INVALID_ARGUMENT => {
                    Stop::Unsupported(format!("the plugin creates only buffers of its own layout: {error}"))
                }
                _ => Stop::from(error),
            })?;
            let buffer = manager.retrieve_buffer(0)?;
            if let Some(layout) = buffer.memory_layout()? {
                ensure_eq!(layout.minor_to_major, vec![1, 0, 2], "order of the dimensions");
            }
            // `transfer_last_data` expects bytes in the layout of the buffer.
            manager.transfer_last_data(0, 0, bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]))?.wait()?;
            ensure_eq!(floats(&buffer)?, vec![0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0], "row-major contents");
            Ok(())
        });
    suite
        .case(
            "transfers.dma.map",
            "pjrt_c_api.h, PJRT_Client_DmaMap and PJRT_Client_DmaUnmap: registers host memory for direct access",
            "frameworks upload faster from pinned memory",
        )
        .functions(&[Function::PJRT_Client_DmaMap, Function::PJRT_Client_DmaUnmap])
        .check(|cx| {
            let mapping = cx.client()?.dma_map(vec![0u8; 1 << 16])?;
            drop(mapping);
            // An allocator usually returns the same memory for the same size. Mapping it again fails if the first
            // mapping still exists.
            drop(cx.client()?.dma_map(vec![0u8; 1 << 16])?);
            Ok(())
        });
}
