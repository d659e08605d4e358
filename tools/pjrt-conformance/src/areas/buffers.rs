//! Cases for buffers: deletion, donation, aliasing, host buffer semantics, external references and raw copies.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use pjrt::{ElementType, ErrorCode, ExecuteOptions, Function, HostBufferSemantics, Input, Upload};

use crate::case::Profiles;
use crate::context::{Context, floats, shape};
use crate::raw::{
    self, GUARD, copy_raw_guarded, copy_raw_unchecked, execute_keeping, execute_unchecked, fail_copy, read_destroyed,
    release_reference, upload_reports_end, with_reference,
};
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    deletion(suite);
    donation(suite);
    semantics(suite);
    aliases(suite);
    pointers(suite);
}

fn deletion(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Buffer_Delete: drops the buffer's reference to its memory; the object remains";
    suite.case("buffers.delete.is_deleted", clause, "jax.Array.delete relies on it").profiles(Profiles::MINIMAL).check(
        |cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            ensure!(!raw::is_deleted(&buffer)?, "a new buffer reports that it is deleted");
            raw::delete(&buffer)?;
            ensure!(raw::is_deleted(&buffer)?, "a deleted buffer reports that it is not deleted");
            Ok(())
        },
    );
    suite
        .case("buffers.delete.twice", clause, "frameworks delete arrays that a program already consumed")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            raw::delete(&buffer)?;
            // The header does not specify whether a second deletion is an error.
            let _ = raw::delete(&buffer);
            ensure!(raw::is_deleted(&buffer)?, "a deleted buffer reports that it is not deleted");
            Ok(())
        });
    suite
        .case("buffers.delete.read_fails", clause, "the read must fail, not return stale data")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            buffer.wait()?;
            raw::delete(&buffer)?;
            ensure!(raw::read(&buffer, 8)?.is_err(), "a deleted buffer was read");
            Ok(())
        });
    suite
        .case("buffers.delete.ready_event", clause, "XLA's own tests wait for the ready event of a deleted buffer")
        .profiles(Profiles::FULL)
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            buffer.delete()?;
            // The plugin may return an error, or an event that becomes ready. It must not crash.
            if let Ok(event) = buffer.ready_event() {
                let _ = event.wait();
            }
            Ok(())
        });
    suite
        .case(
            "buffers.delete.while_in_use",
            clause,
            "frameworks delete an argument directly after they have started the run",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(100_000)?;
            for at in 0..10u8 {
                let data = vec![f32::from(at); 100_000];
                let buffer = cx.floats(&data)?;
                let outputs = executable.execute(&[&buffer])?;
                buffer.delete()?;
                ensure!(
                    floats(&outputs[0])?.iter().all(|value| *value == f32::from(at) + 1.0),
                    "the run read freed memory"
                );
            }
            Ok(())
        });
    suite
        .case(
            "buffers.delete.drop_while_in_use",
            "pjrt_c_api.h, PJRT_Buffer_Destroy: frees the object; pending runs and copies keep the memory",
            "Python frees temporary arrays directly after the call that uses them",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let executable = cx.add_one(100_000)?;
            for at in 0..10u8 {
                let buffer = cx.floats(&vec![f32::from(at); 100_000])?;
                let outputs = executable.execute(&[&buffer])?;
                drop(buffer);
                ensure!(
                    floats(&outputs[0])?.iter().all(|value| *value == f32::from(at) + 1.0),
                    "the run read freed memory"
                );
            }
            Ok(())
        });
    suite
        .case("buffers.delete.pending_read", clause, "frameworks free an array while a copy to the host is pending")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffer = cx.floats(&vec![3.0; 1_000_000])?;
            let read = buffer.download().start::<f32>()?;
            drop(buffer);
            ensure!(read.wait()?.iter().all(|value| *value == 3.0), "the copy read freed memory");
            Ok(())
        });
    suite
        .case(
            "buffers.delete.destroyed_pending_read",
            "pjrt_c_api.h, PJRT_Buffer_Destroy: frees the object; pending runs and copies keep the memory",
            "Python frees an array while a copy to the host is pending",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            static DATA: [f32; 1 << 18] = [3.0; 1 << 18];
            let expected = 3.0f32.to_ne_bytes();
            for _ in 0..5 {
                let found = read_destroyed(cx.client()?, &DATA)?;
                ensure!(found.as_chunks().0.iter().all(|bytes| *bytes == expected), "the copy read freed memory");
            }
            Ok(())
        });
    suite
        .case(
            "buffers.delete.executable",
            "pjrt_c_api.h, PJRT_LoadedExecutable_Delete: the executable cannot run afterwards",
            "caches delete executables that they no longer need",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let buffer = cx.floats(&[1.0, 2.0])?;
            ensure!(!raw::is_executable_deleted(&executable)?, "a new executable reports that it is deleted");
            raw::delete_executable(&executable)?;
            ensure!(raw::is_executable_deleted(&executable)?, "a deleted executable reports that it is not deleted");
            let failed = match execute_unchecked(&executable, &[&buffer], 1)? {
                Err(_) => true,
                Ok(outputs) => outputs.iter().all(|output| output.wait().is_err()),
            };
            ensure!(failed, "a deleted executable ran");
            Ok(())
        });
    suite
        .case(
            "buffers.delete.executable_while_running",
            "pjrt_c_api.h, PJRT_LoadedExecutable_Destroy: pending runs continue",
            "caches destroy executables that are still running",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(100_000)?;
            let buffer = cx.floats(&vec![1.0; 100_000])?;
            let outputs = executable.execute(&[&buffer])?;
            drop(executable);
            ensure!(floats(&outputs[0])?.iter().all(|value| *value == 2.0), "the result is wrong");
            Ok(())
        });
}

/// Returns a program that adds 1 to its argument. `attribute` allows the program to reuse the argument's memory.
fn donating(len: usize, attribute: &str) -> String {
    crate::program::main(
        &format!("%x: tensor<{len}xf32> {{{attribute}}}"),
        &format!("tensor<{len}xf32>"),
        &format!(
            "  %one = stablehlo.constant dense<1.0> : tensor<{len}xf32>\n  %y = stablehlo.add %x, %one : tensor<{len}xf32>\n  return %y : tensor<{len}xf32>"
        ),
    )
}

fn donation(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: arguments that the program donates are consumed, unless \
                  non_donatable_input_indices lists them";
    let why =
        "training steps donate their weights; an ignored donation doubles the memory, and a wrong one corrupts weights";
    let attribute = "tf.aliasing_output = 0 : i32";
    suite.case("buffers.donation.consumes", clause, why).profiles(Profiles::FRAMEWORKS).check(move |cx| {
        let executable = cx.compile(&donating(1000, attribute))?;
        let buffer = cx.floats(&[1.0; 1000])?;
        let run = executable.execute_with([Input::Donate(buffer)], &ExecuteOptions::new())?;
        ensure!(floats(&run.outputs[0])? == [2.0; 1000], "the result is wrong");
        Ok(())
    });
    suite.case("buffers.donation.argument_is_deleted", clause, why).profiles(Profiles::FRAMEWORKS).check(move |cx| {
        let executable = cx.compile(&donating(1000, attribute))?;
        let buffer = cx.floats(&[1.0; 1000])?;
        let outputs = execute_keeping(&executable, &[&buffer], 1, &[])??;
        ensure!(floats(&outputs[0])? == [2.0; 1000], "the result is wrong");
        ensure!(raw::is_deleted(&buffer)?, "the donated argument was not deleted");
        Ok(())
    });
    suite.case("buffers.donation.every_listed_argument_is_kept", clause, why).profiles(Profiles::FRAMEWORKS).check(
        |cx| {
            let executable = cx.compile(&crate::program::main(
                "%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<8xf32> {tf.aliasing_output = 1 : i32}",
                "(tensor<8xf32>, tensor<8xf32>)",
                "  %a = stablehlo.add %x, %x : tensor<8xf32>\n  %b = stablehlo.add %y, %y : tensor<8xf32>\n  \
             return %a, %b : tensor<8xf32>, tensor<8xf32>",
            ))?;
            let (x, y) = (cx.floats(&[1.0; 8])?, cx.floats(&[2.0; 8])?);
            let outputs = executable.execute(&[&x, &y])?;
            ensure!(floats(&outputs[0])? == [2.0; 8] && floats(&outputs[1])? == [4.0; 8], "a result is wrong");
            for (at, buffer, value) in [(0, &x, 1.0), (1, &y, 2.0)] {
                ensure!(!raw::is_deleted(buffer)?, "argument {at} in non_donatable_input_indices was deleted");
                ensure!(floats(buffer)? == [value; 8], "argument {at} in non_donatable_input_indices changed");
            }
            Ok(())
        },
    );
    suite.case("buffers.donation.listed_argument_is_kept", clause, why).profiles(Profiles::FRAMEWORKS).check(
        move |cx| {
            let executable = cx.compile(&donating(1000, attribute))?;
            let buffer = cx.floats(&[1.0; 1000])?;
            let outputs = executable.execute(&[&buffer])?;
            ensure!(floats(&outputs[0])? == [2.0; 1000], "the result is wrong");
            ensure!(!raw::is_deleted(&buffer)?, "an argument in non_donatable_input_indices was deleted");
            ensure!(floats(&buffer)? == [1.0; 1000], "an argument in non_donatable_input_indices changed");
            Ok(())
        },
    );
    suite.case("buffers.donation.without_alias", clause, why).profiles(Profiles::FRAMEWORKS).check(|cx| {
        let executable = cx.add_one(100)?;
        let buffer = cx.floats(&[1.0; 100])?;
        let outputs = executable.execute(&[&buffer])?;
        ensure!(
            floats(&outputs[0])? == [2.0; 100] && floats(&buffer)? == [1.0; 100],
            "a program without donation changed its argument"
        );
        Ok(())
    });
    suite.case("buffers.donation.chain", clause, why).profiles(Profiles::FRAMEWORKS).check(move |cx| {
        let executable = cx.compile(&donating(1000, attribute))?;
        let mut buffer = cx.floats(&[0.0; 1000])?;
        for _ in 0..100 {
            let run = executable.execute_with([Input::Donate(buffer)], &ExecuteOptions::new())?;
            buffer = run.outputs.into_iter().next().ok_or_else(|| Stop::Fail("the run has no output".to_owned()))?;
        }
        ensure!(floats(&buffer)? == [100.0; 1000], "100 donating steps computed {:?}", floats(&buffer)?.first());
        Ok(())
    });
    suite
        .case(
            "buffers.donation.donor",
            clause,
            "jax.jit(donate_argnums) marks arguments whose memory the compiler may use for any output",
        )
        .profiles(Profiles::JAX)
        .check(|cx| {
            let executable = cx.compile(&donating(1000, "jax.buffer_donor = true"))?;
            let buffer = cx.floats(&[1.0; 1000])?;
            let run = executable.execute_with([Input::Donate(buffer)], &ExecuteOptions::new())?;
            ensure!(floats(&run.outputs[0])? == [2.0; 1000], "the result is wrong");
            Ok(())
        });
    suite
        .case("buffers.donation.while_read", clause, "frameworks donate an array while a copy to the host is pending")
        .profiles(Profiles::FRAMEWORKS)
        .check(move |cx| {
            let executable = cx.compile(&donating(100_000, attribute))?;
            for _ in 0..10 {
                let buffer = cx.floats(&vec![1.0; 100_000])?;
                let read = buffer.download().start::<f32>()?;
                let run = executable.execute_with([Input::Donate(buffer)], &ExecuteOptions::new())?;
                ensure!(read.wait()?.iter().all(|value| *value == 1.0), "the pending copy read the result");
                ensure!(floats(&run.outputs[0])?.iter().all(|value| *value == 2.0), "the result is wrong");
            }
            Ok(())
        });
    suite
        .case(
            "buffers.donation.also_another_argument",
            clause,
            "a caller may pass one array as two arguments, and donate one of them",
        )
        .check(|cx| {
            let executable = cx.compile(&crate::program::main(
                "%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<8xf32>",
                "tensor<8xf32>",
                "  %z = stablehlo.add %x, %y : tensor<8xf32>\n  return %z : tensor<8xf32>",
            ))?;
            let (x, y) = (cx.floats(&[1.0; 8])?, cx.floats(&[2.0; 8])?);
            let run = executable.execute_with([Input::Donate(x), Input::Borrow(&y)], &ExecuteOptions::new())?;
            ensure!(
                floats(&run.outputs[0])? == [3.0; 8] && floats(&y)? == [2.0; 8],
                "the result or the other argument is wrong"
            );
            Ok(())
        });
}

/// Host memory that sends a message when it is released.
struct Watched {
    data: Vec<f32>,
    released: Sender<()>,
}

impl AsRef<[f32]> for Watched {
    fn as_ref(&self) -> &[f32] {
        &self.data
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Overwrite the memory before it is freed, so that a later read by the plugin returns wrong elements.
        self.data.fill(-1.0);
        let _ = self.released.send(());
    }
}

fn semantics(suite: &mut Suite) {
    use HostBufferSemantics::{ImmutableOnlyDuringCall, ImmutableUntilTransferCompletes, ImmutableZeroCopy};
    let clause = "pjrt_c_api.h, PJRT_HostBufferSemantics: how long the plugin may use the host's memory; \
                  done_with_host_buffer reports its end";
    for (name, semantics) in [
        ("only_during_call", ImmutableOnlyDuringCall),
        ("until_transfer_completes", ImmutableUntilTransferCompletes),
        ("zero_copy", ImmutableZeroCopy),
    ] {
        suite
            .case(
                format!("buffers.semantics.done_event[semantics={name}]"),
                "pjrt_c_api.h, PJRT_Client_BufferFromHostBuffer: done_with_host_buffer is an event that the caller destroys",
                "JAX waits for the event without a check for null",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                ensure!(upload_reports_end(cx.client()?, semantics)?, "done_with_host_buffer is null");
                Ok(())
            });
        suite
            .case(
                format!("buffers.semantics.contents[semantics={name}]"),
                clause,
                "if the plugin reads memory after the caller freed it, the array has wrong contents",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let (released, _receive) = channel();
                let data = Watched { data: (0..10_000u16).map(f32::from).collect(), released };
                let buffer = cx.client()?.upload(Upload::owned(data).dims(&[10_000]).semantics(semantics))?;
                let expected: Vec<f32> = (0..10_000u16).map(f32::from).collect();
                ensure!(floats(&buffer)? == expected, "the array differs from the host's data");
                Ok(())
            });
        suite
            .case(
                format!("buffers.semantics.released[semantics={name}]"),
                clause,
                "if the done event never becomes ready, the framework leaks the memory of every uploaded array",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let (released, receive) = channel();
                let data = Watched { data: vec![1.0; 1000], released };
                let buffer = cx.client()?.upload(Upload::owned(data).dims(&[1000]).semantics(semantics))?;
                buffer.wait()?;
                if semantics == ImmutableZeroCopy {
                    drop(buffer);
                }
                ensure!(receive.recv().is_ok(), "the host's memory was not released");
                Ok(())
            });
        suite
            .case(
                format!("buffers.semantics.freed_after_done[semantics={name}]"),
                clause,
                "if the done event is ready too early, the caller overwrites data that the plugin still reads",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                for at in 0..20u8 {
                    let (released, receive) = channel();
                    let data = Watched { data: vec![f32::from(at); 100_000], released };
                    let buffer = cx.client()?.upload(Upload::owned(data).dims(&[100_000]).semantics(semantics))?;
                    if semantics != ImmutableZeroCopy {
                        // `Watched` has overwritten the memory when this message arrives.
                        ensure!(receive.recv().is_ok(), "the host's memory was not released");
                    }
                    ensure!(
                        floats(&buffer)?.iter().all(|value| *value == f32::from(at)),
                        "the plugin read the memory after its done event"
                    );
                }
                Ok(())
            });
    }
    suite
        .case("buffers.semantics.buffer_dropped_first", clause, "frameworks free an array while its upload is pending")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            for _ in 0..10 {
                let (released, receive) = channel();
                let data = Watched { data: vec![1.0; 100_000], released };
                drop(
                    cx.client()?
                        .upload(Upload::owned(data).dims(&[100_000]).semantics(ImmutableUntilTransferCompletes))?,
                );
                ensure!(receive.recv().is_ok(), "the host's memory was not released");
            }
            Ok(())
        });
}

fn aliases(suite: &mut Suite) {
    let functions = [Function::PJRT_Client_CreateAliasBuffer, Function::PJRT_Client_FulfillAliasBuffer];
    let clause = "pjrt_c_api.h, PJRT_Client_CreateAliasBuffer: a buffer that becomes ready when another one fulfils it";
    let why = "JAX starts runs on arrays that another thread still computes";
    let vector = || shape(ElementType::F32, &[4]);
    suite.case("buffers.alias.fulfilled", clause, why).functions(&functions).check(move |cx| {
        let (alias, fulfillment) = cx.memory()?.buffer(&vector()).alias()?;
        let source = cx.floats(&[1.0, 2.0, 3.0, 4.0])?;
        fulfillment.fulfill(&source)?;
        ensure_eq!(floats(&alias)?, vec![1.0, 2.0, 3.0, 4.0], "contents");
        Ok(())
    });
    suite.case("buffers.alias.used_before", clause, why).functions(&functions).check(move |cx| {
        let (alias, fulfillment) = cx.memory()?.buffer(&vector()).alias()?;
        let outputs = cx.add_one(4)?.execute(&[&alias])?;
        let source = cx.floats(&[1.0, 2.0, 3.0, 4.0])?;
        fulfillment.fulfill(&source)?;
        ensure_eq!(floats(&outputs[0])?, vec![2.0, 3.0, 4.0, 5.0], "result of a run that began before");
        Ok(())
    });
    suite
        .case("buffers.alias.failed", clause, "the error reaches everything that depends on the buffer")
        .functions(&functions)
        .check(move |cx| {
            let (alias, fulfillment) = cx.memory()?.buffer(&vector()).alias()?;
            fulfillment.fail(ErrorCode::ABORTED, "the reason")?;
            let Err(error) = alias.wait() else { fail!("the error was lost") };
            ensure!(error.message().contains("the reason"), "the message is {:?}", error.message());
            Ok(())
        });
    suite
        .case(
            "buffers.alias.uninitialized",
            "pjrt_c_api.h, PJRT_Client_CreateUninitializedBuffer: memory without contents",
            "custom kernels write their outputs to such memory",
        )
        .functions(&[Function::PJRT_Client_CreateUninitializedBuffer])
        .check(move |cx| {
            let buffer = cx.memory()?.buffer(&vector()).uninitialized()?;
            ensure_eq!(buffer.shape()?, &vector(), "shape");
            buffer.wait()?;
            Ok(())
        });
    suite
        .case(
            "buffers.alias.bitcast",
            "pjrt_c_api.h, PJRT_Buffer_Bitcast: the same memory with another type or shape",
            "frameworks create views of arrays with it",
        )
        .functions(&[Function::PJRT_Buffer_Bitcast])
        .check(|cx| {
            let buffer = cx.floats(&[1.0, -2.0])?;
            let view = buffer.bitcast(&shape(ElementType::S32, &[2]), None)?;
            ensure_eq!(view.download().start::<i32>()?.wait()?, vec![0x3f80_0000, -0x4000_0000], "bits");
            Ok(())
        });
}

fn pointers(suite: &mut Suite) {
    let counts = [
        Function::PJRT_Buffer_IncreaseExternalReferenceCount,
        Function::PJRT_Buffer_DecreaseExternalReferenceCount,
        Function::PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
    ];
    suite
        .case(
            "buffers.pointer.external_reference",
            "pjrt_c_api.h, PJRT_Buffer_IncreaseExternalReferenceCount: the memory stays until the count is decreased",
            "DLPack and NumPy views keep the array's memory with it",
        )
        .profiles(Profiles::JAX_TORCH)
        .functions(&counts)
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 100])?;
            buffer.wait()?;
            let reference = buffer.external_reference()?;
            ensure!(!reference.address()?.is_null(), "the memory's address is null");
            drop(reference);
            Ok(())
        });
    let clause =
        "pjrt_c_api.h, PJRT_Buffer_IncreaseExternalReferenceCount: the memory stays until the count is decreased";
    let why = "a NumPy view reads the memory after the array was deleted or donated";
    let hosted = |cx: &Context| -> Result<pjrt::Buffer, Stop> {
        let buffer = cx.floats(&[1.0; 1000])?;
        buffer.wait()?;
        if buffer.is_on_cpu()? {
            return Ok(buffer);
        }
        Err(Stop::Skip("the buffer is not in the host's memory".to_owned()))
    };
    let ones = || [1.0f32; 1000].iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    suite
        .case("buffers.pointer.reference_after_delete", clause, why)
        .profiles(Profiles::JAX_TORCH)
        .functions(&counts)
        .check(move |cx| {
            let buffer = hosted(cx)?;
            with_reference(&buffer, 4000, |read| {
                raw::delete(&buffer)?;
                let others: Vec<_> = (0..8).map(|_| cx.floats(&[3.0; 1000])).collect::<Result<_, _>>()?;
                ensure!(read() == ones(), "the memory changed after the buffer was deleted");
                drop(others);
                Ok(())
            })
        });
    suite
        .case("buffers.pointer.reference_during_donation", clause, why)
        .profiles(Profiles::JAX_TORCH)
        .functions(&counts)
        .check(move |cx| {
            let buffer = hosted(cx)?;
            let executable = cx.compile(&donating(1000, "tf.aliasing_output = 0 : i32"))?;
            with_reference(&buffer, 4000, |read| {
                // The plugin may refuse the donation, or use other memory for the output.
                if let Ok(outputs) = execute_keeping(&executable, &[&buffer], 1, &[])? {
                    let _ = outputs[0].wait();
                }
                ensure!(read() == ones(), "a run wrote memory with an external reference");
                Ok(())
            })
        });
    suite
        .case(
            "buffers.pointer.unsafe_pointer",
            "pjrt_c_api.h, PJRT_Buffer_UnsafePointer: the address of the buffer's memory",
            "jax.Array.unsafe_buffer_pointer",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Buffer_UnsafePointer])
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 100])?;
            buffer.wait()?;
            ensure!(buffer.unsafe_pointer()? != 0, "the memory's address is 0");
            ensure_eq!(buffer.unsafe_pointer()?, buffer.unsafe_pointer()?, "the address of the second call");
            Ok(())
        });
    suite
        .case(
            "buffers.pointer.host_memory_is_readable",
            "pjrt_c_api.h, PJRT_Buffer_IsOnCpu: whether the buffer is in the host's memory",
            "JAX reads such memory without a copy",
        )
        .profiles(Profiles::JAX)
        .functions(&counts)
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0, 3.0])?;
            if !buffer.is_on_cpu()? {
                return Err(Stop::Skip("the buffer is not in the host's memory".to_owned()));
            }
            ensure_eq!(&*buffer.host_view::<f32>()?, &[1.0, 2.0, 3.0][..], "the memory at the buffer's address");
            Ok(())
        });
    for (offset, len) in [(0usize, 40usize), (4, 8), (36, 4), (0, 0), (3, 5)] {
        suite
            .case(
                format!("buffers.raw_copy.range[offset={offset},bytes={len}]"),
                "pjrt_c_api.h, PJRT_Buffer_CopyRawToHost: copies transfer_size bytes from offset",
                "PyTorch/XLA and Pathways copy parts of arrays",
            )
            .functions(&[Function::PJRT_Buffer_CopyRawToHost])
            .check(move |cx| {
                let data: Vec<f32> = (0..10u8).map(f32::from).collect();
                let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_ne_bytes()).collect();
                let buffer = cx.floats(&data)?;
                let found = buffer.download().raw(offset, len).start()?.wait()?;
                ensure_eq!(found, bytes[offset..offset + len].to_vec(), "bytes");
                Ok(())
            });
    }
    for (name, offset, bytes) in [("offset_beyond_end", 41i64, 4i64), ("end_beyond_end", 36, 8), ("negative", -4, 4)] {
        suite
            .case(
                format!("buffers.raw_copy.refused[range={name}]"),
                "pjrt_c_api.h, PJRT_Buffer_CopyRawToHost: copies transfer_size bytes from offset, which are within the \
                 buffer; XLA returns INVALID_ARGUMENT otherwise",
                "a copy from behind the buffer reads other data of the process, or ends it",
            )
            .functions(&[Function::PJRT_Buffer_CopyRawToHost])
            .isolated()
            .check(move |cx| {
                let buffer = cx.floats(&[1.0; 10])?;
                buffer.wait()?;
                // A device may pad the array. Add the padding to the offset, so that the range ends beyond the buffer.
                let padding = i64::try_from(buffer.on_device_size()?).unwrap_or(40) - 40;
                match copy_raw_unchecked(&buffer, if offset < 0 { offset } else { offset + padding }, bytes)? {
                    Err(failure) => {
                        ensure!(!failure.message().0.is_empty(), "the error has no message");
                        Ok(())
                    }
                    Ok(()) => fail!("the plugin copied {bytes} bytes from {offset} of an array of 40 bytes"),
                }
            });
    }
    suite
        .case(
            "buffers.raw_copy.failed_future",
            "pjrt_c_api.h, PJRT_Buffer_CopyRawToHostFuture: the copy ends with the error that the caller reports in place \
             of a destination",
            "an allocation that fails ends the copies that wait for it",
        )
        .functions(&[Function::PJRT_Buffer_CopyRawToHostFuture])
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            let code = ErrorCode::RESOURCE_EXHAUSTED.as_raw();
            let Err(failure) = fail_copy(&buffer, 8, code, "the reason")? else { fail!("the error was lost") };
            ensure_eq!(failure.code(), Some(code), "code");
            ensure!(failure.message().0.contains("the reason"), "the message is {:?}", failure.message().0);
            Ok(())
        });
    suite
        .case(
            "buffers.pointer.release_without_reference",
            "pjrt_c_api.h, PJRT_Buffer_DecreaseExternalReferenceCount: returns an error if the count is 0",
            "a count below 0 frees memory that a view still reads",
        )
        .functions(&counts)
        .isolated()
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 100])?;
            buffer.wait()?;
            ensure!(release_reference(&buffer)?.is_err(), "the plugin released a reference that no caller held");
            ensure!(floats(&buffer)? == [1.0; 100], "the contents changed");
            Ok(())
        });
    suite
        .case(
            "buffers.raw_copy.writes_within",
            "pjrt_c_api.h, PJRT_Buffer_CopyRawToHost: writes transfer_size bytes",
            "a copy in whole vectors that writes beyond the caller's memory corrupts the heap",
        )
        .functions(&[Function::PJRT_Buffer_CopyRawToHost])
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 100])?;
            for size in [1usize, 7, 36] {
                let behind = copy_raw_guarded(&buffer, 4, size)?;
                ensure!(behind.iter().all(|byte| *byte == GUARD), "the copy of {size} bytes wrote more");
            }
            Ok(())
        });
    suite
        .case(
            "buffers.raw_copy.future",
            "pjrt_c_api.h, PJRT_Buffer_CopyRawToHostFuture: the caller provides the destination later",
            "frameworks allocate the destination while the device computes",
        )
        .functions(&[Function::PJRT_Buffer_CopyRawToHostFuture])
        .check(|cx| {
            let buffer = cx.floats(&[1.0, 2.0])?;
            let copy = buffer.download().raw(4, 4).defer()?;
            ensure_eq!(copy.start(vec![0; 4])?.wait()?, 2.0f32.to_ne_bytes().to_vec(), "bytes");
            Ok(())
        });
    suite
        .case(
            "buffers.pointer.concurrent_queries",
            "C API: several threads may use one object at the same time",
            "a framework's threads share arrays",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(concurrent_queries);
}

fn concurrent_queries(cx: &Context) -> Result<(), Stop> {
    let buffer = Arc::new(cx.floats(&[1.0; 64])?);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let buffer = buffer.clone();
            std::thread::spawn(move || {
                (0..200).all(|_| {
                    buffer.on_device_size().is_ok_and(|size| size >= 256)
                        && buffer.is_deleted().is_ok_and(|deleted| !deleted)
                })
            })
        })
        .collect();
    ensure!(threads.into_iter().all(|thread| thread.join().unwrap_or(false)), "a query failed");
    Ok(())
}
