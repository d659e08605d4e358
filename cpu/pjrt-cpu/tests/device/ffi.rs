//! Tests of handlers that an embedding program or a framework registers for custom calls.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use device_plugin::Error;
use device_plugin::ffi::{Attribute, Handler, Registry};
use pjrt::extensions::{Ffi, HandlerTraits};
use pjrt::{Client, CompileOptions, ErrorCode, ErrorKind, ExecuteContext, ExecuteOptions, Input, Program};
use pjrt_cpu::{CpuBackend, ffi};

use crate::{client, compile, plugin};

fn call(target: &str, config: &str) -> String {
    format!(
        "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
           %y = stablehlo.custom_call @{target}(%x) {config} : (tensor<3xf32>) -> tensor<3xf32>
           return %y : tensor<3xf32>
         }}"
    )
}

fn run(client: &Client, target: &str, config: &str) -> Result<Vec<f32>, pjrt::Error> {
    let program = compile(client, &call(target, config));
    let x = client.buffer_from_host(&[1.0f32, 2.0, 4.0], &[3])?;
    program.execute(&[&x])?[0].to_host()
}

#[test]
fn handler_receives_attributes_of_every_kind() {
    static SEEN: Mutex<Vec<device_plugin::ffi::Attributes>> = Mutex::new(Vec::new());
    ffi::register("attributes", |call| {
        SEEN.lock().unwrap().push(call.attributes.clone());
        call.results[0].write(&call.operands[0].elements::<f32>()?)
    })
    .unwrap();
    let client = client(1);
    let config = "{api_version = 4 : i32, backend_config = {
        b = true, f = 2.5 : f64, fs = array<f32: 0.5, 1.5>, g = dense<2.0> : tensor<3xf64>, i = 7 : i32,
        is = array<i64: 3, 4>, n = {deep = 1 : i64}, s = \"text\"}}";
    assert_eq!(run(&client, "attributes", config).unwrap(), [1.0, 2.0, 4.0]);
    let seen = SEEN.lock().unwrap().pop().unwrap();
    let expected = [
        ("b", Attribute::Bool(true)),
        ("f", Attribute::Float(2.5)),
        ("fs", Attribute::FloatList(vec![0.5, 1.5])),
        ("g", Attribute::FloatList(vec![2.0; 3])),
        ("i", Attribute::Int(7)),
        ("is", Attribute::IntList(vec![3, 4])),
        ("n", Attribute::Dictionary(vec![("deep".to_owned(), Attribute::Int(1))])),
        ("s", Attribute::String("text".to_owned())),
    ];
    assert_eq!(seen.values, expected.map(|(name, value)| (name.to_owned(), value)));
    run(&client, "attributes", "{backend_config = \"plain\"}").unwrap();
    assert_eq!(SEEN.lock().unwrap().pop().unwrap().text.as_deref(), Some("plain"));
}

#[test]
fn handler_errors_and_panics_fail_run() {
    ffi::register("refuses", |_| Err(Error::invalid_argument("not today"))).unwrap();
    ffi::register("panics", |_| panic!("not ever")).unwrap();
    ffi::register("works", |call| call.results[0].write(&[9.0f32; 3])).unwrap();
    // Results that a handler does not write are zero, rather than the memory's previous contents.
    ffi::register("idle", |_| Ok(())).unwrap();
    let client = client(1);
    for (target, text) in [("refuses", "custom_call @refuses: not today"), ("panics", "not ever")] {
        let error = run(&client, target, "").unwrap_err();
        assert!(error.message().contains(text), "{error}");
        assert_eq!(run(&client, "works", "").unwrap(), [9.0; 3]);
        assert_eq!(run(&client, "idle", "").unwrap(), [0.0; 3]);
    }
    let again = ffi::register("works", |_| Ok(())).unwrap_err();
    assert_eq!(again.code(), ErrorCode::ALREADY_EXISTS);
}

/// A handler in C that returns no error and writes nothing. Its results stay zero.
extern "C" fn silent(_: *mut c_void) -> *mut c_void {
    std::ptr::null_mut()
}

#[test]
fn calls_c_handler() {
    let ffi = plugin().extension::<Ffi>().expect("the device offers custom calls");
    let client = client(1);
    let compile = |target: &str| client.compile(&Program::mlir(call(target, "")), &CompileOptions::default());
    let handler = NonNull::new(silent as *mut c_void).unwrap();
    // SAFETY: the handler does not use its arguments.
    let registered = unsafe { ffi.register_handler("in_c", "cpu", handler, HandlerTraits::default()) };
    registered.unwrap();
    assert_eq!(run(&client, "in_c", "").unwrap(), [0.0; 3]);
    assert_eq!(compile("nobodys").unwrap_err().kind(), ErrorKind::Unsupported);
    // A handler in Rust may be registered under another name of this platform.
    let works = Handler::rust(|call| call.results[0].write(&[7.0f32; 3]));
    Registry::of::<CpuBackend>().register("in_both", "HOST", works).unwrap();
    assert_eq!(run(&client, "in_both", "").unwrap(), [7.0; 3]);
    let nobodys = client.compile(&Program::mlir(call("nobodys", "")), &CompileOptions::default()).unwrap_err();
    assert_eq!(nobodys.kind(), ErrorKind::Unsupported);
}

/// A program that runs on a thread of the client, with a custom call at the end.
const LATE: &str = "
func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.while(%i = %zero) : tensor<i32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         stablehlo.return %j : tensor<i32> }
  %y = stablehlo.custom_call @reads_data(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y, %r : tensor<3xf32>, tensor<i32>
}";

#[test]
fn handler_receives_execution_data_on_any_thread() {
    let table = plugin().extension::<Ffi>().unwrap();
    let id = table.register_type("tests.rank", None).unwrap();
    assert_eq!(table.register_type("tests.rank", Some(id)).unwrap(), id);
    assert_eq!(table.register_type("tests.rank", Some(0)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    ffi::register("reads_data", move |call| {
        // The address itself is the data. It is never dereferenced.
        let data = call.context.get(id).map_or(0, |data| data.address);
        call.results[0].write(&[f32::from(u16::try_from(data).unwrap()); 3])
    })
    .unwrap();
    let context = |data: usize| {
        let context = ExecuteContext::new(&plugin()).unwrap();
        let data = std::ptr::without_provenance_mut::<c_void>(data);
        // SAFETY: the handler does not dereference the pointer.
        unsafe { table.add_user_data(&context, id, NonNull::new(data).unwrap()) }.unwrap();
        // SAFETY: the handler does not dereference the pointer.
        let again = unsafe { table.add_user_data(&context, id, NonNull::dangling()) };
        assert_eq!(again.unwrap_err().code(), ErrorCode::ALREADY_EXISTS);
        ExecuteOptions::new().with_context(context)
    };
    let client = client(1);
    // The handler runs a program itself. This inner program has no data, and afterwards the handler still has its own
    // data.
    let inner = Mutex::new(compile(&client, &call("reads_data", "")));
    ffi::register("runs_another", move |call| {
        let inner = inner.lock().unwrap();
        let x = inner.client().buffer_from_host(&[0.0f32; 3], &[3]).unwrap();
        let without: Vec<f32> = inner.execute(&[&x]).unwrap()[0].to_host().unwrap();
        let own = call.context.get(id).map_or(0, |data| data.address);
        call.results[0].write(&[without[0], f32::from(u16::try_from(own).unwrap()), 1.0])
    })
    .unwrap();
    let x = client.buffer_from_host(&[0.0f32; 3], &[3]).unwrap();
    let outer = compile(&client, &call("runs_another", "")).execute_with([Input::from(&x)], &context(6)).unwrap();
    assert_eq!(outer.outputs[0].to_host::<f32>().unwrap(), [0.0, 6.0, 1.0]);
    let (quick, late) = (compile(&client, &call("reads_data", "")), compile(&client, LATE));
    let turns = client.buffer_from_host(&[20_000i32], &[]).unwrap();
    let mut runs = Vec::new();
    for data in [3u16, 5, 8] {
        let options = context(data.into());
        runs.push((data, late.execute_with([Input::from(&x), Input::from(&turns)], &options).unwrap()));
        runs.push((data, quick.execute_with([Input::from(&x)], &options).unwrap()));
    }
    runs.push((0, quick.execute_with([Input::from(&x)], &ExecuteOptions::default()).unwrap()));
    for (data, run) in runs {
        run.done.wait().unwrap();
        assert_eq!(run.outputs[0].to_host::<f32>().unwrap(), [f32::from(data); 3]);
    }
}

#[test]
fn handler_runs_on_client_thread() {
    static THREADS: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());
    ffi::register("notes_its_thread", |call| {
        THREADS.lock().unwrap().push(thread::current().id());
        call.results[0].write(&[0.0f32; 3])
    })
    .unwrap();
    run(&client(1), "notes_its_thread", "").unwrap();
    let threads = THREADS.lock().unwrap();
    assert_eq!(threads.len(), 1);
    assert_ne!(threads[0], thread::current().id(), "it would see the thread-local data of the caller");
}
