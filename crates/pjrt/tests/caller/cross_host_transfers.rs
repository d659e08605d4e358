//! Tests transfers between the devices of two processes. Two clients of this process simulate the processes. The tests
//! implement the plugin's extension with a mailbox.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::Mutex;

use crate::plain::Plain;
use crate::real::refused;
use device_plugin_testing::Exclusive;
use expect_test::expect;
use pjrt::extensions::{CrossHostTransfers, Receive, Send, TaskIncarnation};
use pjrt::{Client, ClientOptions, ElementType, ErrorCode, ErrorKind, Plugin, Shape};
use pjrt_sys::*;

/// Bytes that were sent but not received yet, by receiving device and transfer key.
static MAILBOX: Mutex<BTreeMap<(i32, i64), Vec<u8>>> = Mutex::new(BTreeMap::new());
/// The task ids and incarnations of the live processes that each call received.
static ALIVE: Mutex<Vec<Vec<(i32, i64)>>> = Mutex::new(Vec::new());

/// Key of a transfer that the plugin rejects with an error.
const LOST: i64 = -1;
/// Key of a transfer for which the plugin creates no buffer.
const FORGOTTEN: i64 = -2;

unsafe fn list<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, len) } }
}

/// Serializes the tests, because they share the mailbox.
static EXCLUSIVE: Exclusive = Exclusive::new();

fn table() -> &'static PJRT_Api {
    unsafe { &*Plain::api().as_raw() }
}

unsafe fn note(tasks: *const i32, incarnations: *const i64, len: usize) {
    let (tasks, incarnations) = unsafe { (list(tasks, len), list(incarnations, len)) };
    ALIVE.lock().unwrap().push(tasks.iter().copied().zip(incarnations.iter().copied()).collect());
}

fn done(error: *mut PJRT_Error) {
    assert!(error.is_null(), "the device failed");
}

fn await_and_destroy(event: *mut PJRT_Event) {
    let mut wait = PJRT_Event_Await_Args::new();
    wait.event = event;
    done(unsafe { table().PJRT_Event_Await.unwrap()(&raw mut wait) });
    let mut destroy = PJRT_Event_Destroy_Args::new();
    destroy.event = event;
    done(unsafe { table().PJRT_Event_Destroy.unwrap()(&raw mut destroy) });
}

unsafe extern "C" fn send(args: *mut PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    unsafe { note(args.task_ids, args.incarnation_ids, args.num_tasks) };
    let (buffers, receivers, keys) = unsafe {
        (
            list(args.buffers, args.num_buffers),
            list(args.dst_global_device_ids, args.num_buffers),
            list(args.transfer_keys, args.num_buffers),
        )
    };
    for (index, buffer) in buffers.iter().enumerate() {
        let mut read = PJRT_Buffer_ToHostBuffer_Args::new();
        read.src = *buffer;
        done(unsafe { table().PJRT_Buffer_ToHostBuffer.unwrap()(&raw mut read) });
        let mut bytes = vec![0u8; read.dst_size];
        read.dst = bytes.as_mut_ptr().cast();
        done(unsafe { table().PJRT_Buffer_ToHostBuffer.unwrap()(&raw mut read) });
        await_and_destroy(read.event);
        MAILBOX.lock().unwrap().insert((receivers[index], keys[index]), bytes);
        let mut ready = PJRT_Buffer_ReadyEvent_Args::new();
        ready.buffer = *buffer;
        done(unsafe { table().PJRT_Buffer_ReadyEvent.unwrap()(&raw mut ready) });
        unsafe { *args.send_events.add(index) = ready.event };
    }
    null_mut()
}

unsafe extern "C" fn receive(args: *mut PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    unsafe { note(args.task_ids, args.incarnation_ids, args.num_tasks) };
    let (senders, keys) =
        unsafe { (list(args.src_global_device_ids, args.num_shapes), list(args.transfer_keys, args.num_shapes)) };
    if keys.contains(&LOST) {
        // Let the plugin `Plain` create an error by passing it a null client.
        let mut name = PJRT_Client_PlatformName_Args::new();
        return unsafe { table().PJRT_Client_PlatformName.unwrap()(&raw mut name) };
    }
    for index in 0..args.num_shapes {
        if keys[index] == FORGOTTEN {
            continue;
        }
        // There are two devices, 0 and 1, and each sends to the other device. The receiver is therefore 1 minus the
        // sender.
        let bytes = MAILBOX.lock().unwrap().remove(&(1 - senders[index], keys[index])).unwrap();
        let mut upload = PJRT_Client_BufferFromHostBuffer_Args::new();
        upload.client = args.client;
        upload.data = bytes.as_ptr().cast();
        upload.type_ = unsafe { *args.element_types.add(index) };
        upload.dims = unsafe { *args.num_dims.add(index) };
        upload.num_dims = unsafe { *args.shape_num_dims.add(index) };
        upload.device = args.device;
        assert!(unsafe { *args.layouts.add(index) }.is_null(), "the default layout");
        upload.host_buffer_semantics = PJRT_HostBufferSemantics::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        done(unsafe { table().PJRT_Client_BufferFromHostBuffer.unwrap()(&raw mut upload) });
        await_and_destroy(upload.done_with_host_buffer);
        unsafe { *args.buffers.add(index) = upload.buffer };
    }
    null_mut()
}

fn plugin() -> Plugin {
    let mut transfers = PJRT_CrossHostTransfers_Extension::new();
    transfers.base.type_ = PJRT_CrossHostTransfers_Extension::TYPE;
    transfers.PJRT_Transfers_PJRT_Client_CrossHostSendBuffers = Some(send);
    transfers.PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers = Some(receive);
    let mut table = *table();
    table.extension_start = (&raw mut *Box::leak(Box::new(transfers))).cast();
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap()
}

fn client(plugin: &Plugin) -> Client {
    plugin.client(&ClientOptions::new()).unwrap()
}

#[test]
fn buffers_arrive_by_their_keys() {
    let _turn = EXCLUSIVE.turn();
    ALIVE.lock().unwrap().clear();
    let plugin = plugin();
    let (here, there) = (client(&plugin), client(&plugin));
    let transfers = plugin.extension::<CrossHostTransfers>().unwrap();
    let x = here.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let y = here.buffer_from_host(&[5i32], &[]).unwrap();
    let alive = [TaskIncarnation { task: 0, incarnation: 7 }, TaskIncarnation { task: 1, incarnation: -8 }];
    let sends = [Send { buffer: &x, to: 1, key: 40 }, Send { buffer: &y, to: 1, key: 41 }];
    let sent = transfers.send(&here, &sends, &alive).unwrap();
    drop(x);
    sent.iter().for_each(|event| event.wait().unwrap());
    assert_eq!(sent.len(), 2);

    let device = there.default_device().unwrap();
    let receives = [
        Receive { shape: Shape::new(ElementType::S32, []), from: 0, key: 41 },
        Receive { shape: Shape::new(ElementType::F32, [2, 2]), from: 0, key: 40 },
    ];
    let received = transfers.receive(&device, &receives, &[]).unwrap();
    assert_eq!(received[0].to_host::<i32>().unwrap(), [5]);
    assert_eq!(received[1].to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(received[1].device().unwrap(), device);
    assert_eq!(*ALIVE.lock().unwrap(), [vec![(0, 7), (1, -8)], vec![]]);
    assert!(transfers.send(&here, &[], &[]).unwrap().is_empty());

    refused(
        transfers.send(&there, &[Send { buffer: &y, to: 0, key: 1 }], &[]),
        expect!["a buffer to send belongs to another client"],
    );
    y.delete().unwrap();
    refused(transfers.send(&here, &[Send { buffer: &y, to: 1, key: 1 }], &[]), expect!["the buffer has been deleted"]);
    let negative = Receive { shape: Shape::new(ElementType::F32, [-1]), from: 0, key: 1 };
    refused(transfers.receive(&device, &[negative], &[]), expect!["the shape f32[-1] has a negative extent"]);
    let other = client(&self::plugin());
    refused(transfers.send(&other, &[], &[]), expect!["the extension and the object belong to different plugins"]);
    let device = other.default_device().unwrap();
    refused(transfers.receive(&device, &[], &[]), expect!["the extension and the object belong to different plugins"]);
    assert!(MAILBOX.lock().unwrap().is_empty(), "refused transfers never reach the plugin");
}

#[test]
fn failed_receives_are_errors() {
    let _turn = EXCLUSIVE.turn();
    let plugin = plugin();
    let client = client(&plugin);
    let transfers = plugin.extension::<CrossHostTransfers>().unwrap();
    let device = client.default_device().unwrap();
    let shape = Shape::new(ElementType::S32, []);
    let receive = |key| Receive { shape: shape.clone(), from: 0, key };
    let error = transfers.receive(&device, &[receive(LOST)], &[]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Plugin, ErrorCode::INVALID_ARGUMENT), "{error}");
    // The call fails, so `pjrt` destroys the buffer that was received.
    MAILBOX.lock().unwrap().insert((1, 50), 3i32.to_ne_bytes().to_vec());
    let error = transfers.receive(&device, &[receive(50), receive(FORGOTTEN)], &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    MAILBOX.lock().unwrap().insert((1, 51), 4i32.to_ne_bytes().to_vec());
    assert_eq!(transfers.receive(&device, &[receive(51)], &[]).unwrap()[0].to_host::<i32>().unwrap(), [4]);
}
