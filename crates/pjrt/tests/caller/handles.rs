//! Tests the lifetimes of handles, and the rejection of deleted objects and of objects of other clients.

use expect_test::expect;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::fake::{Fake, plugin_of, table};
use pjrt::raw::{AsRaw, adopt_client};
use pjrt::{
    Buffer, Client, CompileOptions, Device, DeviceDescription, Error, ErrorKind, Event, Executable, ExecuteContext,
    ExecuteOptions, HostRead, Input, LoadedExecutable, Memory, Outputs, OutputsIntoIter, Plugin, Program,
    TopologyDescription,
};
use pjrt_sys::{
    PJRT_Client_AddressableDevices_Args, PJRT_Error, PJRT_ExecuteContext_Create_Args, PJRT_ExecuteContext_Destroy_Args,
};

fn compile(client: &Client) -> LoadedExecutable {
    client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap()
}

#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Plugin>();
    check::<Client>();
    check::<Device>();
    check::<DeviceDescription>();
    check::<Memory>();
    check::<Buffer>();
    check::<Outputs>();
    check::<OutputsIntoIter>();
    check::<Executable>();
    check::<LoadedExecutable>();
    check::<Event>();
    check::<HostRead<bool>>();
    check::<TopologyDescription>();
    check::<Error>();
}

#[test]
fn children_outlive_parent_handles() {
    let fake = Fake::new();
    let (executable, buffer, device, event) = {
        let client = fake.client();
        let buffer = client.buffer_from_host(&[4u8], &[1]).unwrap();
        let event = buffer.ready_event().unwrap();
        (compile(&client), buffer, client.default_device().unwrap(), event)
    };
    assert_eq!(executable.executable().name().unwrap(), "copy");
    let outputs = executable.execute(&[&buffer]).unwrap();
    assert_eq!(outputs[0].to_host::<u8>().unwrap(), [4]);
    assert_eq!(device.client().platform_name().unwrap(), "fake");
    event.wait().unwrap();
    drop((buffer, executable, outputs, event));
    assert!(!fake.destroyed.lock().unwrap().contains(&"client"), "the device handle holds it");
    drop(device);
    assert!(fake.all_gone(), "everything was destroyed once");
}

/// `pjrt` must not hold a lock while it calls the plugin to adopt a client. In this test, the plugin adopts another
/// client during that call.
#[test]
fn adoption_calls_the_plugin_without_a_lock() {
    static OTHER: Mutex<Option<(Plugin, usize)>> = Mutex::new(None);
    unsafe extern "C" fn devices(args: *mut PJRT_Client_AddressableDevices_Args) -> *mut PJRT_Error {
        let other = OTHER.lock().unwrap().take();
        if let Some((plugin, address)) = other {
            let address = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: A1: the test keeps the client alive until the adopted handle is dropped.
            assert!(unsafe { adopt_client(&plugin, address) }.is_ok());
        }
        // SAFETY: C2: the arguments are those of the caller, which are valid for this function.
        unsafe { table().PJRT_Client_AddressableDevices.unwrap()(args) }
    }
    let mut changed = table();
    changed.PJRT_Client_AddressableDevices = Some(devices);
    let plugin = plugin_of(changed).unwrap();
    let (first, second) = (Fake::new().client_of(&plugin), Fake::new().client_of(&plugin));
    *OTHER.lock().unwrap() = Some((plugin.clone(), second.as_raw().expose_provenance()));
    // SAFETY: A1: `first` is dropped after `adopted`, at the end of the test.
    let adopted = unsafe { adopt_client(&plugin, first.as_raw()) }.unwrap();
    assert!(OTHER.lock().unwrap().is_none(), "the plugin has adopted the other client");
    // SAFETY: A1: `first` is dropped after the new handle.
    assert_eq!(unsafe { adopt_client(&plugin, first.as_raw()) }.unwrap(), adopted);
}

#[test]
fn rejects_foreign_buffers() {
    let fake = Fake::new();
    let client = fake.client();
    let executable = compile(&client);
    let other = Fake::new().client();
    let elsewhere = Fake::new().client_of(&plugin_of(table()).unwrap());
    for stranger in [other, elsewhere] {
        let buffer = stranger.buffer_from_host(&[1u8], &[1]).unwrap();
        let error = executable.execute(&[&buffer]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        expect!["argument 0 belongs to another client than the program"].assert_eq(&error.to_string());
        assert!(executable.execute_with([Input::Donate(buffer)], &ExecuteOptions::default()).is_err());
        let options = ExecuteOptions::new().with_device(&stranger.default_device().unwrap());
        let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
        assert!(executable.execute_with([Input::Borrow(&buffer)], &options).is_err());
    }
    assert_eq!(fake.runs.load(SeqCst), 0, "the plugin was never asked");
}

#[test]
fn rejects_deleted_objects() {
    let fake = Fake::new();
    let client = fake.client();
    let executable = compile(&client);
    let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
    assert!(!buffer.is_deleted().unwrap());
    buffer.delete().unwrap();
    buffer.delete().unwrap();
    assert!(buffer.is_deleted().unwrap());
    let error = executable.execute(&[&buffer]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    expect!["argument 0: the buffer has been deleted"].assert_eq(&error.to_string());
    assert!(buffer.to_host::<u8>().is_err());
    assert!(buffer.ready_event().is_err());
    assert!(buffer.shape().is_err());
    assert_eq!(fake.runs.load(SeqCst), 0);
}

#[test]
fn checks_known_number_of_arguments() {
    let fake = Fake::new();
    fake.parameters.store(2, SeqCst);
    let client = fake.client();
    let executable = compile(&client);
    let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
    let error = executable.execute(&[&buffer]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    expect!["the program has 2 parameters, but 1 arguments were given"].assert_eq(&error.to_string());
    executable.execute(&[&buffer, &buffer]).unwrap();
    let error = executable.execute_sharded(vec![], &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    expect!["the program runs on 1 devices, but has inputs for 0"].assert_eq(&error.to_string());
}

#[test]
fn only_donated_inputs_are_taken() {
    let fake = Fake::new();
    fake.donate.store(true, SeqCst);
    let client = fake.client();
    let executable = compile(&client);
    let new = || client.buffer_from_host(&[1u8], &[1]).unwrap();
    let (a, b) = (new(), new());
    executable.execute(&[&a, &b]).unwrap();
    // Pass more arguments than `pjrt` stores on the stack, and more than its constant array of argument indices
    // contains.
    executable.execute(&[&a; 200]).unwrap();
    assert!(!a.is_deleted().unwrap() && !b.is_deleted().unwrap(), "inputs by reference stay");
    let run = executable.execute_with([Input::Borrow(&a), Input::Donate(b)], &ExecuteOptions::default()).unwrap();
    run.done.wait().unwrap();
    assert!(!a.is_deleted().unwrap());
    let sharded =
        executable.execute_sharded(vec![vec![(&a).into(), new().into()]], &ExecuteOptions::default()).unwrap();
    sharded.done[0].wait().unwrap();
    assert_eq!(sharded.outputs[0][0].to_host::<u8>().unwrap(), [1]);
    assert!(!a.is_deleted().unwrap());
    drop((a, run, sharded, executable));
    drop(client);
    assert!(fake.all_gone(), "donated buffers are destroyed too");
}

#[test]
fn null_output_is_error() {
    let fake = Fake::new();
    fake.null_outputs.store(true, SeqCst);
    let client = fake.client();
    let executable = compile(&client);
    let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
    assert_eq!(executable.execute(&[&buffer]).unwrap_err().kind(), ErrorKind::Malformed);
    let error = executable.execute_with([Input::Borrow(&buffer)], &ExecuteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    drop((buffer, executable, client));
    assert!(fake.all_gone(), "the event of the run does not leak");
}

#[test]
fn context_outlives_run_with_null_outputs() {
    static CONTEXT: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn create(args: *mut PJRT_ExecuteContext_Create_Args) -> *mut PJRT_Error {
        CONTEXT.fetch_add(1, SeqCst);
        // SAFETY: the caller passes valid arguments.
        unsafe { (*args).context = CONTEXT.as_ptr().cast() };
        null_mut()
    }
    unsafe extern "C" fn destroy(_: *mut PJRT_ExecuteContext_Destroy_Args) -> *mut PJRT_Error {
        CONTEXT.fetch_sub(1, SeqCst);
        null_mut()
    }
    let mut table = table();
    table.PJRT_ExecuteContext_Create = Some(create);
    table.PJRT_ExecuteContext_Destroy = Some(destroy);
    let plugin = plugin_of(table).unwrap();
    let fake = Fake::new();
    let client = fake.client_of(&plugin);
    let executable = compile(&client);
    let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
    for sharded in [false, true] {
        fake.null_outputs.store(true, SeqCst);
        fake.manual.store(true, SeqCst);
        let options = ExecuteOptions::new().with_context(ExecuteContext::new(&plugin).unwrap());
        let error = if sharded {
            executable.execute_sharded(vec![vec![Input::Borrow(&buffer)]], &options).unwrap_err()
        } else {
            executable.execute_with([Input::Borrow(&buffer)], &options).unwrap_err()
        };
        assert_eq!(error.kind(), ErrorKind::Malformed);
        drop(options);
        assert_eq!(CONTEXT.load(SeqCst), 1, "the run has not ended");
        fake.finish();
        assert_eq!(CONTEXT.load(SeqCst), 0);
        fake.manual.store(false, SeqCst);
    }
    drop((buffer, executable, client));
    assert!(fake.all_gone());
}
