//! Tests the extension for transfers between processes. Each client has two devices. One of them belongs to another
//! process.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use device_plugin::features::{CrossHostTransfer, CrossHostTransfers, Features};
use device_plugin::*;
use device_plugin_testing::Exclusive;
use pjrt_sys::*;

use crate::extensions::{ask_of, extension};
use crate::framework::{Answer, Buffer, Client, Framework, garbage, garbage_pointer};

struct Post;

impl DevicePlugin for Post {
    const NAME: &'static str = "post";
    type Backend = Office;
}

struct Office;

/// A recorded transfer: the array or error to send, the receiving device, the key, and the live processes with their
/// incarnations.
type Sent = (Result<Vec<u8>, ErrorCode>, i32, i64, Vec<(i32, i64)>);

static SENT: Mutex<Vec<Sent>> = Mutex::new(Vec::new());
/// Completes the execution of the program. The execution continues after the call that starts it.
static RUNNING: Mutex<Option<Completer>> = Mutex::new(None);
/// Completes the transfer that receives an array with the key 1.
static ARRIVING: Mutex<Option<Completer>> = Mutex::new(None);
/// A lock that each test holds, because the tests share the statics above.
static EXCLUSIVE: Exclusive = Exclusive::new();

impl Backend for Office {
    const FEATURES: Features<Self> = Features::none().cross_host_transfers();

    device_plugin_testing::unit_backend!();
    device_plugin_testing::host_memory!();
    device_plugin_testing::one_program!("runs on", shape());

    fn devices(&self) -> Vec<DeviceInfo> {
        let mut far = DeviceInfo::new(1, "Office");
        (far.process_index, far.addressable) = (1, false);
        vec![DeviceInfo::new(0, "Office"), far]
    }

    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let output = launch.inputs[0].clone();
        launch.outputs.push(output)?;
        let (event, completer) = Event::pending();
        *RUNNING.lock().unwrap() = Some(completer);
        Ok(event)
    }
}

fn note(array: Result<Vec<u8>, ErrorCode>, transfer: &CrossHostTransfer<'_>) {
    assert_eq!((&transfer.shape, transfer.here.device), (&shape(), 0));
    let alive = transfer.alive.iter().map(|task| (task.task_id, task.incarnation)).collect();
    SENT.lock().unwrap().push((array, transfer.peer, transfer.key, alive));
}

impl CrossHostTransfers for Office {
    fn send_buffer(&self, buffer: &Self::Buffer, transfer: &CrossHostTransfer<'_>) -> Result<Event> {
        match transfer.key {
            13 => return Err(Error::new(ErrorCode::DATA_LOSS, "an unlucky key")),
            14 => panic!("a very unlucky key"),
            _ => note(Ok(buffer.to_vec()), transfer),
        }
        Ok(Event::ready())
    }

    fn send_error(&self, error: &Error, transfer: &CrossHostTransfer<'_>) {
        note(Err(error.code()), transfer);
    }

    /// Returns one array of two bytes for each transfer, except for the key 12. Both bytes are the key of the transfer.
    fn receive_buffers(&self, transfers: &[CrossHostTransfer<'_>]) -> Result<Vec<(Self::Buffer, Event)>> {
        let receive = |transfer: &CrossHostTransfer<'_>| {
            assert_eq!((&transfer.shape, transfer.here.device, transfer.peer), (&shape(), 0, 1));
            let key = u8::try_from(transfer.key).map_err(|_| Error::invalid_argument("the key is negative"))?;
            let array: Self::Buffer = vec![key; 2].into();
            if key == 1 {
                let (event, completer) = Event::pending();
                *ARRIVING.lock().unwrap() = Some(completer);
                return Ok((array, event));
            }
            Ok((array, Event::ready()))
        };
        transfers.iter().filter(|transfer| transfer.key != 12).map(receive).collect()
    }
}

fn post() -> Framework {
    Framework(raw::api::<Post>())
}

fn shape() -> Shape {
    Shape::new(ElementType::U8, [2])
}

fn put(client: Client, bytes: [u8; 2]) -> Buffer {
    post().put(client, &shape(), &bytes, 0).unwrap()
}

/// Sends buffers with the given transfer keys to device 1. Returns the event of each transfer.
fn send(client: Client, buffers: &[Buffer], keys: &[i64]) -> Answer<Vec<*mut PJRT_Event>> {
    let mut buffers = buffers.to_vec();
    let mut events = vec![garbage_pointer(); keys.len()];
    let (peers, tasks, incarnations) = (vec![1; keys.len()], [0, 1, 1], [4, 5, 6]);
    ask_of::<extension_slot::PJRT_Transfers_PJRT_Client_CrossHostSendBuffers>(post(), |args| {
        (args.client, args.num_buffers, args.buffers) = (client, buffers.len(), buffers.as_mut_ptr());
        (args.dst_global_device_ids, args.transfer_keys) = (peers.as_ptr(), keys.as_ptr());
        (args.num_tasks, args.task_ids, args.incarnation_ids) = (3, tasks.as_ptr(), incarnations.as_ptr());
        args.send_events = events.as_mut_ptr();
    })?;
    Ok(events)
}

fn receive(client: Client, device: i32, keys: &[i64]) -> Answer<Vec<Buffer>> {
    let count = keys.len();
    let found = post().ask::<slot::PJRT_Client_LookupDevice>(|args| (args.client, args.id) = (client, device));
    let device = found.unwrap().device;
    let (mut ranks, dims) = (vec![1; count], [2]);
    let mut extents = vec![dims.as_ptr(); count];
    let mut types = vec![PJRT_Buffer_Type(ElementType::U8.as_raw()); count];
    let (mut layouts, peers) = (vec![null_mut(); count], vec![1; count]);
    let mut buffers = vec![garbage_pointer(); count];
    ask_of::<extension_slot::PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers>(post(), |args| {
        (args.client, args.device, args.num_shapes) = (client, device, count);
        (args.shape_num_dims, args.num_dims) = (ranks.as_mut_ptr(), extents.as_mut_ptr());
        (args.element_types, args.layouts) = (types.as_mut_ptr(), layouts.as_mut_ptr());
        (args.src_global_device_ids, args.transfer_keys) = (peers.as_ptr(), keys.as_ptr());
        (args.num_tasks, args.buffers) = (0, buffers.as_mut_ptr());
    })?;
    Ok(buffers)
}

fn sent() -> Vec<Sent> {
    std::mem::take(&mut *SENT.lock().unwrap())
}

const ALIVE: [(i32, i64); 2] = [(0, 4), (1, 5)];

#[test]
fn buffers_are_sent_when_they_are_ready() {
    let _turn = EXCLUSIVE.turn();
    let client = post().client(&[]).unwrap();
    let (ready, program) = (put(client, [7, 8]), post().compile(client, "").unwrap());
    for (outcome, wanted) in [(Ok(()), Ok(vec![7, 8])), (Err(Error::internal("broken")), Err(ErrorCode::INTERNAL))] {
        let (outputs, done) = post().execute(program, &[ready], 1).unwrap();
        let events = send(client, &[ready, outputs[0]], &[2, 3]).unwrap();
        // Destroy the output before it is ready. The transfer must still take place.
        post().destroy(&outputs);
        assert_eq!(sent(), [(Ok(vec![7, 8]), 1, 2, ALIVE.to_vec())]);
        let failed = outcome.is_err();
        RUNNING.lock().unwrap().take().unwrap().complete(outcome);
        assert_eq!(post().wait(events[0]), Ok(()));
        assert_eq!(post().wait(events[1]).is_err(), failed);
        assert_eq!(post().wait(done).is_err(), failed);
        assert_eq!(sent(), [(wanted, 1, 3, ALIVE.to_vec())]);
    }
    post().destroy(&[ready]);
    post().destroy_loaded(program);
    post().destroy_client(client);
}

#[test]
fn errors_of_sends_are_those_of_their_events() {
    let _turn = EXCLUSIVE.turn();
    let client = post().client(&[]).unwrap();
    let buffer = put(client, [1, 2]);
    let events = send(client, &[buffer; 3], &[13, 14, 15]).unwrap();
    let codes: Vec<_> = events.iter().map(|event| post().wait(*event).map_err(|fault| fault.code)).collect();
    assert_eq!(codes, [Err(ErrorCode::DATA_LOSS), Err(ErrorCode::INTERNAL), Ok(())]);
    assert_eq!(sent().len(), 1);
    // If the plugin rejects one transfer of a call, it begins no transfer of this call.
    let deleted = put(client, [3, 4]);
    post().delete(deleted);
    let other = post().client(&[]).unwrap();
    let foreign = put(other, [5, 6]);
    for wrong in [deleted, foreign] {
        assert_eq!(send(client, &[buffer, wrong], &[1, 2]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    assert!(sent().is_empty());
    post().destroy(&[buffer, deleted, foreign]);
    post().destroy_client(other);
    post().destroy_client(client);
}

#[test]
fn arrays_are_received() {
    let _turn = EXCLUSIVE.turn();
    let client = post().client(&[]).unwrap();
    let buffers = receive(client, 0, &[1, 2]).unwrap();
    assert_eq!(post().read(buffers[1]).unwrap(), [2, 2]);
    let ready = post().ready_event(buffers[0]);
    assert!(!post().is_ready(ready));
    ARRIVING.lock().unwrap().take().unwrap().complete(Ok(()));
    assert_eq!(post().wait(ready), Ok(()));
    assert_eq!(post().read(buffers[0]).unwrap(), [1, 1]);
    post().destroy(&buffers);
    let code = |device, key| receive(client, device, &[2, key]).unwrap_err().code;
    assert_eq!(code(0, -1), ErrorCode::INVALID_ARGUMENT);
    assert_eq!(code(1, 3), ErrorCode::INVALID_ARGUMENT, "a device of the other process");
    assert_eq!(code(0, 12), ErrorCode::INTERNAL, "the backend returns one buffer less");
    post().destroy_client(client);
}

#[test]
fn descriptors_are_not_supported() {
    let _turn = EXCLUSIVE.turn();
    let client = post().client(&[]).unwrap();
    let make = ask_of::<extension_slot::PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers>(post(), |args| {
        (args.client, args.num_shapes) = (client, 0);
    });
    assert_eq!(make.map(drop).unwrap_err().code, ErrorCode::UNIMPLEMENTED);

    /// Stores the code of its argument `error` in the memory to which `user_arg` points.
    unsafe extern "C" fn done(error: *mut PJRT_Error, enqueued: Bool, user_arg: *mut c_void) {
        assert!(!enqueued.get());
        let code = post().check(error).unwrap_err().code;
        unsafe { *user_arg.cast::<Option<ErrorCode>>() = Some(code) };
    }
    unsafe extern "C" fn free(data: *mut *mut c_char, size: *mut usize) {
        drop(unsafe { (Box::from_raw(data), Box::from_raw(size)) });
    }
    let buffer = put(client, [1, 2]);
    let event = post().ask::<slot::PJRT_Event_Create>(|_| {}).unwrap().event;
    let mut code: Option<ErrorCode> = None;
    let mut args = garbage::<PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args>();
    (args.buffer, args.event) = (buffer, event);
    args.serialized_descriptor = Box::into_raw(Box::new(null_mut()));
    args.serialized_descriptor_size = Box::into_raw(Box::new(0));
    args.on_done.on_done = Some(done);
    args.on_done.user_arg = (&raw mut code).cast();
    args.descriptor_destructor = Some(free);
    let table = extension::<PJRT_CrossHostTransfers_Extension>(post());
    unsafe { table.PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice.unwrap()(&raw mut args) };
    assert_eq!(code, Some(ErrorCode::UNIMPLEMENTED));
    // The framework may write to the descriptor until it sets the event. Setting the event frees the descriptor and its
    // size.
    unsafe { *args.serialized_descriptor_size = 1 };
    let mut set = garbage::<PJRT_Event_Set_Args>();
    (set.event, set.error_code) = (event, PJRT_Error_Code(0));
    (set.error_message, set.error_message_size) = (garbage_pointer(), 0);
    post().call::<slot::PJRT_Event_Set>(&mut set).unwrap();
    post().destroy(&[buffer]);
    post().destroy_client(client);
}

#[test]
fn programs_may_have_no_device_of_this_process() {
    let _turn = EXCLUSIVE.turn();
    let client = post().client(&[]).unwrap();
    let assignment = DeviceAssignment::new(1, 1, vec![1]).unwrap();
    let options = CompileOptions::default().with_device_assignment(assignment).encode();
    let program = post().compile_with(client, "", &options).unwrap();
    let listed = post().ask::<slot::PJRT_LoadedExecutable_AddressableDevices>(|args| args.executable = program);
    assert_eq!(listed.unwrap().num_addressable_devices, 0);
    let execute = |devices| {
        let mut options = crate::framework::execute_options(&[]);
        let launched = post().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options) = (program, &raw mut options);
            (args.num_devices, args.num_args) = (devices, 0);
            (args.execute_device, args.device_complete_events) = (null_mut(), null_mut());
        });
        launched.map(drop)
    };
    assert_eq!(execute(0), Ok(()));
    assert_eq!(execute(1).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    assert!(RUNNING.lock().unwrap().is_none());
    post().destroy_loaded(program);
    post().destroy_client(client);
}
