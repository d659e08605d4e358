//! Safe code can neither call a handler of device memory nor add user data for handlers in C.

use device_plugin::ffi::{DeviceCall, ExecuteContext, Handler, UserData};

fn run(handler: &Handler, call: &DeviceCall<'_>) {
    if let Handler::RustOnDevice(function) = handler {
        let _ = function(call);
        let _ = function.call(call);
    }
}

fn forge(context: &ExecuteContext, mut data: UserData) {
    data.address = 8;
    let _ = context.add(data);
}

fn main() {}
