//! Cases for programs that send values to the host, or receive values from the host, while they run.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pjrt::{CopyToDeviceStream, ErrorCode, ExecuteOptions, Input, LoadedExecutable};

use crate::context::{Context, floats};
use crate::program::{FROM_HOST, main, receive};
use crate::stop::Stop;
use crate::suite::Suite;

/// Id of the channel on which programs send values to the host.
const TO_HOST: i64 = 5;
/// Type of the transferred values.
const VALUE: &str = "tensor<4xf32>";
/// Maximum time that a case waits for the plugin's callback.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the text of the operation that sends a value to the host. As in the programs of frameworks, an attribute of
/// the operation contains the name of the transfer.
fn send(value: &str, token: &str) -> String {
    format!(
        "\"stablehlo.send\"({value}, {token}) {{channel_handle = #stablehlo.channel_handle<handle = {TO_HOST}, type = 2>, \
         is_host_transfer = true, mhlo.frontend_attributes = {{_xla_host_transfer_rendezvous = \"to_host\"}}}} : \
         ({VALUE}, !stablehlo.token) -> !stablehlo.token"
    )
}

/// Compiles a program that sends its argument to the host, and returns the argument.
fn sender(cx: &Context) -> Result<LoadedExecutable, Stop> {
    let body =
        format!("  %t = stablehlo.create_token : !stablehlo.token\n  %s = {}\n  return %x : {VALUE}", send("%x", "%t"));
    cx.compile(&main(&format!("%x: {VALUE}"), VALUE, &body))
}

/// Compiles a program that receives a value from the host, and returns the value.
fn receiver(cx: &Context) -> Result<LoadedExecutable, Stop> {
    cx.compile(&crate::program::receiver())
}

/// Compiles a program that receives a value from the host, sends the value back, and returns it.
fn echo(cx: &Context) -> Result<LoadedExecutable, Stop> {
    let body = format!(
        "  %t = stablehlo.create_token : !stablehlo.token\n  %r:2 = {}\n  %s = {}\n  return %r#0 : {VALUE}",
        receive("%t"),
        send("%r#0", "%r#1")
    );
    cx.compile(&main("", VALUE, &body))
}

fn bytes(data: &[f32]) -> Vec<u8> {
    data.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// A chunk of a value: its bytes, the size of the whole value in bytes, and whether the chunk is the last one.
type Piece = (Vec<u8>, usize, bool);

/// Adds a callback to `options`, and returns the vector in which the callback stores the chunks that the program sends.
fn keeping(options: ExecuteOptions) -> (ExecuteOptions, Arc<Mutex<Vec<Piece>>>) {
    let pieces: Arc<Mutex<Vec<Piece>>> = Arc::default();
    let kept = pieces.clone();
    let options = options.with_send_callback(TO_HOST, move |chunk| {
        let piece = (chunk.bytes.to_vec(), chunk.total_size, chunk.is_last);
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
        Ok(())
    });
    (options, pieces)
}

/// Checks that the stored chunks form the expected value, that each chunk has the correct total size, and that only the
/// last chunk is marked as the last one.
fn whole(pieces: &Mutex<Vec<Piece>>, expected: &[f32]) -> Result<(), Stop> {
    let pieces = std::mem::take(&mut *pieces.lock().unwrap_or_else(PoisonError::into_inner));
    let all: Vec<u8> = pieces.iter().flat_map(|(bytes, ..)| bytes.iter().copied()).collect();
    ensure_eq!(all, bytes(expected), "bytes that the host received");
    ensure!(pieces.iter().all(|(_, total, _)| *total == all.len()), "total_size_in_bytes differs from {}", all.len());
    let last: Vec<bool> = pieces.iter().map(|(.., last)| *last).collect();
    ensure!(
        last.last() == Some(&true) && !last[..last.len() - 1].contains(&true),
        "the pieces that were marked as the last one are {last:?}"
    );
    Ok(())
}

/// Adds a chunk to the stream, without waiting for the transfer of the chunk.
fn add(stream: &mut CopyToDeviceStream, chunk: Vec<u8>) -> Result<(), pjrt::Error> {
    stream.add_chunk(chunk).map(drop)
}

/// Returns options with a callback that passes the stream of each requested value to the returned receiver.
fn streaming() -> (ExecuteOptions, Receiver<CopyToDeviceStream>) {
    let (send, streams) = channel();
    let send = Mutex::new(send);
    let options = ExecuteOptions::new().with_recv_callback(FROM_HOST, move |_, stream| {
        // Ignore the error. The receiver is dropped when the case ends.
        let _ = send.lock().unwrap_or_else(PoisonError::into_inner).send(stream);
    });
    (options, streams)
}

/// Returns options with a callback that answers each request of the program with `data`, in `pieces` chunks.
fn answering(data: &[f32], pieces: usize) -> ExecuteOptions {
    let data = bytes(data);
    ExecuteOptions::new().with_recv_callback(FROM_HOST, move |_, mut stream| {
        for piece in data.chunks(data.len() / pieces) {
            if add(&mut stream, piece.to_vec()).is_err() {
                return;
            }
        }
    })
}

pub(crate) fn declare(suite: &mut Suite) {
    sends(suite);
    receives(suite);
    both(suite);
}

fn sends(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_SendCallbackInfo: the callback receives the chunks of a value that the program sends, \
                  the size of the value, and whether it ends with the chunk";
    suite
        .case("transfers.send.value", clause, "a program reports its progress, or streams its results, while it runs")
        .isolated()
        .check(|cx| {
            let executable = sender(cx)?;
            for at in 0..10u8 {
                let data = [f32::from(at), 1.5, -2.5, 1e30];
                let input = cx.floats(&data)?;
                let (options, pieces) = keeping(ExecuteOptions::new());
                let run = executable.execute_with([Input::Borrow(&input)], &options)?;
                run.done.wait()?;
                whole(&pieces, &data)?;
                ensure_eq!(floats(&run.outputs[0])?, data.to_vec(), "result");
            }
            Ok(())
        });
    suite
        .case(
            "transfers.send.error",
            "pjrt_c_api.h, PJRT_SendCallbackInfo: an error of the callback ends the run",
            "if the error is lost, the program continues with a host that has failed",
        )
        .isolated()
        .check(|cx| {
            let executable = sender(cx)?;
            let input = cx.floats(&[1.0, 2.0, 3.0, 4.0])?;
            let options = ExecuteOptions::new()
                .with_send_callback(TO_HOST, |_| Err((ErrorCode::RESOURCE_EXHAUSTED, "the reason".to_owned())));
            let run = executable.execute_with([Input::Borrow(&input)], &options);
            match run.and_then(|run| run.done.wait()) {
                Ok(()) => fail!("the error of the callback was lost"),
                Err(error) => {
                    ensure!(error.message().contains("the reason"), "the message is {:?}", error.message());
                    Ok(())
                }
            }
        });
    suite
        .case(
            "transfers.send.unused_callbacks",
            "pjrt_c_api.h, PJRT_ExecuteOptions: send_callbacks and recv_callbacks have an entry for each channel that the \
             program may use",
            "frameworks pass the same callbacks to all of their programs",
        )
        .isolated()
        .check(|cx| {
            let executable = cx.add_one(4)?;
            let input = cx.floats(&[1.0, 2.0, 3.0, 4.0])?;
            let (options, pieces) = keeping(answering(&[0.0; 4], 1));
            let run = executable.execute_with([Input::Borrow(&input)], &options)?;
            run.done.wait()?;
            ensure_eq!(floats(&run.outputs[0])?, vec![2.0, 3.0, 4.0, 5.0], "result");
            let calls = pieces.lock().unwrap_or_else(PoisonError::into_inner).len();
            ensure_eq!(calls, 0, "calls of the callback of a channel that the program does not use");
            Ok(())
        });
}

fn receives(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_RecvCallbackInfo: the callback receives a stream, to which the host adds the chunks of \
                  the value";
    for pieces in [1usize, 2, 4] {
        suite
            .case(
                format!("transfers.recv.value[pieces={pieces}]"),
                clause,
                "a program reads its input from a source that the host controls",
            )
            .isolated()
            .check(move |cx| {
                let executable = receiver(cx)?;
                for at in 0..10u8 {
                    let data = [f32::from(at), 1.5, -2.5, 1e30];
                    let run = executable.execute_with(Vec::<Input<'_>>::new(), &answering(&data, pieces))?;
                    ensure_eq!(floats(&run.outputs[0])?, data.to_vec(), "result");
                    run.done.wait()?;
                }
                Ok(())
            });
    }
    suite
        .case(
            "transfers.recv.later",
            "pjrt_c_api.h, PJRT_CopyToDeviceStream: the callback owns the stream, and may add chunks after it has returned",
            "the host reads the value from a disk while the program waits",
        )
        .isolated()
        .check(|cx| {
            let executable = receiver(cx)?;
            let (options, streams) = streaming();
            let data = [4.0, 3.0, 2.0, 1.0];
            // Add the chunks on another thread, because the plugin may run the program within the call.
            let host = std::thread::spawn(move || {
                let mut stream = streams.recv_timeout(PATIENCE).ok()?;
                std::thread::sleep(Duration::from_millis(50));
                let sizes = (stream.total_bytes(), stream.granule_size(), stream.current_bytes());
                let added = bytes(&data).chunks(8).try_for_each(|chunk| add(&mut stream, chunk.to_vec()));
                Some((sizes, added, stream.current_bytes()))
            });
            let run = executable.execute_with(Vec::<Input<'_>>::new(), &options)?;
            let told = host.join().map_err(|_| Stop::Fail("the host's thread panicked".to_owned()))?;
            let Some(((total, granule, before), added, after)) = told else { fail!("the callback was not called") };
            added?;
            ensure_eq!((total?, before?, after?), (16, 0, 16), "size, and sent bytes before and after the transfer");
            let granule = granule?;
            ensure!(granule > 0 && 8 % granule == 0, "the granule has {granule} bytes");
            ensure_eq!(floats(&run.outputs[0])?, data.to_vec(), "result");
            Ok(())
        });
}

fn both(suite: &mut Suite) {
    suite
        .case(
            "transfers.send.received_value",
            "StableHLO, send and recv: transfers happen in the order of their tokens",
            "a program asks the host for a value, and reports a result that depends on it",
        )
        .isolated()
        .check(|cx| {
            let executable = echo(cx)?;
            for at in 0..10u8 {
                let data = [f32::from(at), 2.0, 3.0, 4.0];
                let (options, pieces) = keeping(answering(&data, 2));
                let run = executable.execute_with(Vec::<Input<'_>>::new(), &options)?;
                run.done.wait()?;
                whole(&pieces, &data)?;
                ensure_eq!(floats(&run.outputs[0])?, data.to_vec(), "result");
            }
            Ok(())
        });
}
