//! Tests raw pointers and adopted objects. A simulated framework owns a client and calls the plugin's C functions,
//! while other code uses the same client through `pjrt`. The tests run on the embedded CPU device and on real plugins.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C program, in Rust")]

use std::ptr::{null, null_mut};
use std::time::Duration;

use crate::real::{compile, each_plugin};
use pjrt::raw::{AsRaw, adopt_buffer, adopt_client, adopt_plugin, into_raw_buffer, own_buffer};
use pjrt::{ClientOptions, ErrorKind, ExecuteOptions, Input, SettableEvent};
use pjrt_sys::*;

const ADD: &str = "func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
    %z = stablehlo.add %x, %y : tensor<2xf32>
    return %z : tensor<2xf32>
}";

/// A simulated framework that calls the plugin's C functions.
struct Framework(&'static PJRT_Api);

impl Framework {
    fn call<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>>(&self, set: impl FnOnce(&mut S::Args)) -> S::Args {
        let mut args = S::Args::new();
        set(&mut args);
        let error = unsafe { S::get(self.0).unwrap()(&raw mut args) };
        assert!(error.is_null(), "{}", S::NAME);
        args
    }

    fn client(&self) -> *mut PJRT_Client {
        self.call::<slot::PJRT_Client_Create>(|args| (args.create_options, args.num_options) = (null(), 0)).client
    }

    fn buffer(&self, client: *mut PJRT_Client, data: [f32; 2]) -> *mut PJRT_Buffer {
        let devices = self.call::<slot::PJRT_Client_AddressableDevices>(|args| args.client = client);
        let args = self.call::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            (args.client, args.device) = (client, unsafe { *devices.addressable_devices });
            (args.data, args.type_) = (data.as_ptr().cast(), PJRT_Buffer_Type::PJRT_Buffer_Type_F32);
            (args.dims, args.num_dims) = ((&raw const DIMS).cast(), 1);
        });
        self.call::<slot::PJRT_Event_Await>(|wait| wait.event = args.done_with_host_buffer);
        self.call::<slot::PJRT_Event_Destroy>(|destroy| destroy.event = args.done_with_host_buffer);
        args.buffer
    }

    fn read(&self, buffer: *mut PJRT_Buffer) -> [f32; 2] {
        let mut data = [0.0f32; 2];
        let args = self.call::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
            (args.src, args.host_layout) = (buffer, null_mut());
            (args.dst, args.dst_size) = (data.as_mut_ptr().cast(), 8);
        });
        self.call::<slot::PJRT_Event_Await>(|wait| wait.event = args.event);
        self.call::<slot::PJRT_Event_Destroy>(|destroy| destroy.event = args.event);
        data
    }

    fn destroy(&self, buffer: *mut PJRT_Buffer) {
        self.call::<slot::PJRT_Buffer_Destroy>(|args| args.buffer = buffer);
    }
}

static DIMS: [i64; 1] = [2];

fn two_users(table: *const PJRT_Api) {
    let framework = Framework(unsafe { &*table });
    let owned = framework.client();
    let theirs = framework.buffer(owned, [1.0, 2.0]);
    let given = framework.buffer(owned, [10.0, 20.0]);

    let plugin = unsafe { adopt_plugin(table) }.unwrap();
    let client = unsafe { adopt_client(&plugin, owned) }.unwrap();
    assert_eq!(client.as_raw(), owned);
    assert_eq!(unsafe { adopt_client(&plugin, owned) }.unwrap(), client, "another adoption");
    let mine = client.buffer_from_host(&[0.5f32, 0.5], &[2]).unwrap();
    let add = compile(&client, ADD);
    let borrowed = unsafe { adopt_buffer(&client, theirs) }.unwrap();
    assert_eq!(borrowed.as_raw(), theirs);
    let sum = add.execute(&[&borrowed, &mine]).unwrap().remove(0);
    assert_eq!(sum.to_host::<f32>().unwrap(), [1.5, 2.5]);
    // The framework can use its buffer while the buffer is adopted, and afterwards.
    assert_eq!(framework.read(theirs), [1.0, 2.0]);
    drop(borrowed);
    assert_eq!(framework.read(theirs), [1.0, 2.0]);
    // Unlike an adopted buffer, a buffer that `own_buffer` takes over can be donated.
    let given = unsafe { own_buffer(&client, given) }.unwrap();
    let run = add.execute_with([Input::Borrow(&mine), Input::Donate(given)], &ExecuteOptions::new()).unwrap();
    run.done.wait().unwrap();
    // `into_raw_buffer` transfers ownership of a buffer to the framework. The buffer outlives the adopted client.
    let result = into_raw_buffer({ run.outputs }.remove(0));
    client.synchronize(Duration::from_secs(600)).unwrap();
    drop((mine, sum, add, run.done));
    client.shutdown(Duration::from_secs(600)).unwrap();
    assert_eq!(framework.read(result), [10.5, 20.5]);
    framework.destroy(result);
    framework.destroy(theirs);
    // The client still exists, so it can be adopted again.
    drop(unsafe { adopt_client(&plugin, owned) }.unwrap().devices().unwrap());
    framework.call::<slot::PJRT_Client_Destroy>(|args| args.client = owned);
}

#[test]
fn framework_and_adopter_share_the_embedded_device() {
    let own = plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap();
    two_users(own.plugin().api().as_raw());
}

#[test]
fn framework_and_adopter_share_a_real_plugin() {
    each_plugin("framework_and_adopter_share_a_real_plugin", |plugin| two_users(plugin.api().as_raw()));
}

#[test]
fn adopted_table_is_not_initialized_again() {
    let own = plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap();
    let mut table = unsafe { *own.plugin().api().as_raw() };
    unsafe extern "C" fn again(_: *mut PJRT_Plugin_Initialize_Args) -> *mut PJRT_Error {
        panic!("initialized again")
    }
    table.PJRT_Plugin_Initialize = Some(again);
    let table: &'static PJRT_Api = Box::leak(Box::new(table));
    let plugin = unsafe { adopt_plugin(table) }.unwrap();
    assert!(plugin.client(&ClientOptions::new()).is_ok());
}

#[test]
fn null_pointers_are_errors() {
    let client = plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap();
    unsafe {
        assert!(adopt_plugin(null()).is_err());
        let error = adopt_client(&client.plugin(), null_mut()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(adopt_buffer(&client, null_mut()).is_err());
        assert!(own_buffer(&client, null_mut()).is_err());
    }
}

#[test]
fn every_object_has_a_raw_pointer() {
    let client = plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap();
    let device = client.default_device().unwrap();
    let add = compile(&client, ADD);
    let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
    let event = SettableEvent::new(&client).unwrap();
    assert!(!device.as_raw().is_null() && !device.description().unwrap().as_raw().is_null());
    assert!(!device.default_memory().unwrap().as_raw().is_null());
    assert!(!add.as_raw().is_null() && !add.executable().as_raw().is_null());
    assert!(!client.topology().unwrap().as_raw().is_null() && !x.ready_event().unwrap().as_raw().is_null());
    assert_eq!(event.as_raw(), event.event().as_raw());
    // A C function that is called through `Plugin::api` must return the same value as the function of `pjrt` that wraps
    // it.
    let mut args = PJRT_Buffer_OnDeviceSizeInBytes_Args::new();
    args.buffer = x.as_raw();
    unsafe { client.plugin().api().call::<slot::PJRT_Buffer_OnDeviceSizeInBytes>(&mut args) }.unwrap();
    assert_eq!(args.on_device_size_in_bytes, x.on_device_size().unwrap());
}
