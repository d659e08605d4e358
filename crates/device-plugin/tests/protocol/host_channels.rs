//! Tests programs that exchange data with the host while they run.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

use device_plugin::ErrorCode;
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Client, Event, execute_options, garbage, toy};
use crate::toy::{CHANNELS, open_gate};

/// The host's side of one execution: the data to send to the program, and the observations of the callbacks.
#[derive(Default)]
struct Host {
    /// The chunks to send.
    pieces: Vec<Vec<u8>>,
    /// The result of sending each chunk.
    answers: Mutex<Vec<Answer>>,
    deleted: Mutex<usize>,
    /// The received chunks: total size, data, and whether the chunk is the last one.
    came: Mutex<Vec<(usize, Vec<u8>, bool)>>,
    refuses: bool,
    /// Events of the sent chunks. Each event becomes ready when the program has read the chunk.
    events: Mutex<Vec<Event>>,
}

// Only the thread of the test uses the events.
unsafe impl Sync for Host {}

unsafe extern "C" fn take(
    chunk: *mut PJRT_Chunk,
    make_error: *mut PJRT_CallbackError,
    total: usize,
    done: Bool,
    host: *mut c_void,
) -> *mut PJRT_Error {
    unsafe {
        let host = &*host.cast::<Host>();
        let chunk = &*chunk;
        let data = crate::framework::slice(chunk.data.cast::<u8>(), chunk.size).to_vec();
        chunk.deleter.unwrap()(chunk.data, chunk.deleter_arg);
        host.came.lock().unwrap().push((total, data, done.get()));
        if host.refuses {
            return (*make_error).unwrap()(PJRT_Error_Code(8), c"full".as_ptr(), 4);
        }
        null_mut()
    }
}

unsafe extern "C" fn delete(_: *mut c_void, host: *mut c_void) {
    *unsafe { &*host.cast::<Host>() }.deleted.lock().unwrap() += 1;
}

unsafe extern "C" fn bring(stream: *mut PJRT_CopyToDeviceStream, user: *mut c_void) {
    let host = unsafe { &*user.cast::<Host>() };
    let total = toy().ask::<slot::PJRT_CopyToDeviceStream_TotalBytes>(|args| args.stream = stream).unwrap();
    let granule = toy().ask::<slot::PJRT_CopyToDeviceStream_GranuleSize>(|args| args.stream = stream).unwrap();
    assert_eq!((total.total_bytes, granule.granule_size_in_bytes), (8, 4));
    for piece in &host.pieces {
        let mut chunk = PJRT_Chunk {
            data: piece.as_ptr().cast_mut().cast(),
            size: piece.len(),
            deleter: Some(delete),
            deleter_arg: user,
        };
        let add = toy().ask::<slot::PJRT_CopyToDeviceStream_AddChunk>(|args| {
            (args.stream, args.chunk) = (stream, &raw mut chunk);
        });
        let event = add.unwrap().transfer_complete;
        if toy().is_ready(event) {
            host.answers.lock().unwrap().push(toy().wait(event));
        } else {
            host.answers.lock().unwrap().push(Ok(()));
            host.events.lock().unwrap().push(event);
        }
    }
    let come = toy().ask::<slot::PJRT_CopyToDeviceStream_CurrentBytes>(|args| args.stream = stream).unwrap();
    assert!(come.current_bytes <= 8);
    toy().ask::<slot::PJRT_CopyToDeviceStream_Destroy>(|args| args.stream = stream).unwrap();
}

fn run(client: Client, code: &str, host: &Host) -> Answer<Event> {
    let executable = toy().compile(client, code).unwrap();
    let user_arg = std::ptr::from_ref(host).cast_mut().cast::<c_void>();
    let mut send = PJRT_SendCallbackInfo { channel_id: 2, user_arg, send_callback: Some(take) };
    let mut receive = PJRT_RecvCallbackInfo { channel_id: 1, user_arg, recv_callback: Some(bring) };
    let (mut sends, mut receives) = ([&raw mut send], [&raw mut receive]);
    let mut options = execute_options(&[]);
    (options.send_callbacks, options.num_send_ops) = (sends.as_mut_ptr(), 1);
    (options.recv_callbacks, options.num_recv_ops) = (receives.as_mut_ptr(), 1);
    let mut event = null_mut();
    let (lists, outputs) = ([std::ptr::null()], [null_mut()]);
    let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
        args.executable = executable;
        args.options = &raw mut options;
        args.argument_lists = lists.as_ptr();
        (args.num_devices, args.num_args) = (1, 0);
        args.output_lists = outputs.as_ptr();
        args.device_complete_events = &raw mut event;
        args.execute_device = null_mut();
    });
    toy().destroy_loaded(executable);
    // The caller frees the lists of callbacks after this call, but the callbacks remain valid.
    answer.map(|_| event)
}

fn pieces(pieces: &[&[u8]]) -> Host {
    Host { pieces: pieces.iter().map(|piece| piece.to_vec()).collect(), ..Host::default() }
}

fn taken(host: &Host) {
    for event in host.events.lock().unwrap().drain(..) {
        toy().wait(event).unwrap();
    }
    assert_eq!(*host.deleted.lock().unwrap(), host.pieces.len());
}

#[test]
fn transfers_data_during_execution() {
    let client = toy().client(&[]).unwrap();
    for (op, gate) in [("talk", None), ("talk_later", Some("talk-later"))] {
        let host = pieces(&[&[1, 2, 3, 4], &[5, 6, 7, 8]]);
        let code = gate.map_or(format!("op={op}"), |gate| format!("op={op}\ngate={gate}"));
        let event = run(client, &code, &host).unwrap();
        if let Some(gate) = gate {
            assert!(!toy().is_ready(event));
            open_gate(gate);
        }
        toy().wait(event).unwrap();
        assert_eq!(*host.came.lock().unwrap(), [(8, vec![2, 3, 4], false), (8, vec![5, 6, 7, 8, 9], true)]);
        taken(&host);
    }
    // The framework's callbacks are invalid after their execution has ended.
    let all = CHANNELS.lock().unwrap().clone();
    let (_, ended) = all.iter().find(|(gate, _)| gate == "talk-later").unwrap();
    assert_eq!(ended.send(2, Vec::new(), 0, true).unwrap_err().code(), ErrorCode::FAILED_PRECONDITION);
    assert_eq!(ended.recv(1, 8, 4).unwrap_err().code(), ErrorCode::FAILED_PRECONDITION);
    assert_eq!(ended.send_ids().chain(ended.recv_ids()).collect::<Vec<_>>(), [2, 1]);
    toy().destroy_client(client);
}

#[test]
fn rejects_and_deletes_misfit_chunks() {
    let client = toy().client(&[]).unwrap();
    let host = pieces(&[&[1, 2, 3], &[1, 2, 3, 4], &[0; 12], &[5, 6, 7, 8], &[9, 9, 9, 9]]);
    toy().wait(run(client, "op=talk", &host).unwrap()).unwrap();
    let answers = host.answers.lock().unwrap().clone();
    let [three, first, twelve, second, four] = &answers[..] else { panic!("{answers:?}") };
    assert!(first.is_ok() && second.is_ok(), "{answers:?}");
    let mut messages = String::new();
    for (case, answer) in [("3 bytes", three), ("12 bytes", twelve), ("4 bytes after the end", four)] {
        messages += &format!("{case}: {}\n", answer.as_ref().unwrap_err().message);
    }
    expect![[r#"
        3 bytes: the chunk has 3 bytes; send a multiple of 4
        12 bytes: the chunk has 12 bytes, but the stream takes only 4 more
        4 bytes after the end: the chunk has 4 bytes, but the stream takes only 0 more
    "#]]
    .assert_eq(&messages);
    taken(&host);
    toy().destroy_client(client);
}

#[test]
fn channel_error_fails_program() {
    let client = toy().client(&[]).unwrap();
    let early = pieces(&[&[1, 2, 3, 4]]);
    let fault = run(client, "op=talk", &early).unwrap_err();
    assert_eq!(fault.code, ErrorCode::CANCELLED);
    taken(&early);
    let refuses = Host { refuses: true, ..pieces(&[&[0; 8]]) };
    let fault = run(client, "op=talk", &refuses).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::RESOURCE_EXHAUSTED, "full"));
    assert_eq!(refuses.came.lock().unwrap().len(), 1);
    taken(&refuses);
    // If an execution fails within its call, its channels are closed when the call returns, even if threads of the
    // backend still use them.
    let host = pieces(&[&[0; 8]]);
    assert_eq!(run(client, "op=talk_badly\ngate=talk-badly", &host).unwrap_err().message, "talked badly");
    open_gate("talk-badly");
    drop(host);
    // An execution without callbacks has no channels.
    let executable = toy().compile(client, "op=talk").unwrap();
    let fault = toy().execute(executable, &[], 0).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    toy().destroy_loaded(executable);
    let mut args = garbage::<PJRT_CopyToDeviceStream_Destroy_Args>();
    args.stream = null_mut();
    toy().call::<slot::PJRT_CopyToDeviceStream_Destroy>(&mut args).unwrap();
    toy().destroy_client(client);
}
