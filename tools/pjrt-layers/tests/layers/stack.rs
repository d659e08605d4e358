//! Tests of stacks of layers in front of the embedded device.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pjrt::{Client, ClientOptions, CompileOptions, ErrorCode, Plugin, Program};
use pjrt_layers::{Call, Function, Layer, Outcome, Stack, Step, TablePlan, instance};
use pjrt_sys::{AbiStruct, PJRT_Api, StaticApi};

use crate::setup::{embedded, table};

/// A layer that records the functions that are called. Several layers can share a record.
#[derive(Clone, Debug, Default)]
struct Count {
    seen: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
    name: &'static str,
    only: Option<&'static str>,
    ready: Arc<Mutex<u32>>,
}

impl Layer for Count {
    fn name(&self) -> &'static str {
        self.name
    }

    fn wants(&self, function: &Function) -> bool {
        self.only.is_none_or(|only| function.name == only)
    }

    fn before(&self, call: &mut Call) -> Step {
        self.seen.lock().unwrap().push((self.name, call.function().name));
        Step::Continue(7)
    }

    fn after(&self, _: &mut Call, token: u64, _: Outcome) {
        assert_eq!(token, 7);
    }

    fn watches_events(&self) -> bool {
        true
    }

    fn ready(&self, _: usize, failed: bool) {
        assert!(!failed);
        *self.ready.lock().unwrap() += 1;
    }
}

/// Computes `x + x` on the client's device, and returns the result.
fn double(client: &Client) -> Vec<f32> {
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.add %x, %x : tensor<4xf32>
        return %0 : tensor<4xf32>
    }";
    let executable = client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap();
    let input = client.buffer_from_host(&[1_f32, 2.0, 3.0, 4.0], &[4]).unwrap();
    let outputs = executable.execute(&[&input]).unwrap();
    outputs[0].to_host::<f32>().unwrap()
}

mod calls {
    use super::*;

    #[test]
    fn every_layer_sees_them_in_order() {
        instance!(Ordered);
        let seen = Count { name: "first", ..Count::default() };
        let second = Count { name: "second", ..seen.clone() };
        let api = Stack::start::<Ordered>(embedded(), vec![Box::new(seen.clone()), Box::new(second)]);
        let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
        assert_eq!(double(&client), [2.0, 4.0, 6.0, 8.0]);
        let calls = seen.seen.lock().unwrap().clone();
        for name in ["PJRT_Client_Create", "PJRT_Client_Compile", "PJRT_LoadedExecutable_Execute"] {
            let of_name: Vec<_> = calls.iter().filter(|(_, function)| *function == name).map(|(l, _)| *l).collect();
            assert_eq!(of_name, ["first", "second"], "{name}");
        }
    }

    #[test]
    fn unwanted_functions_are_the_plugins_own() {
        instance!(Sparse);
        let one = Count { only: Some("PJRT_Client_Compile"), name: "one", ..Count::default() };
        let plugin = embedded();
        let api = Stack::start::<Sparse>(plugin, vec![Box::new(one)]);
        let (ours, theirs) = (table(api), table(plugin));
        assert_ne!(ours.PJRT_Client_Compile.map(|f| f as usize), theirs.PJRT_Client_Compile.map(|f| f as usize));
        assert_eq!(ours.PJRT_Buffer_Destroy.map(|f| f as usize), theirs.PJRT_Buffer_Destroy.map(|f| f as usize));
        assert_eq!(ours.extension_start, theirs.extension_start);
    }

    #[test]
    fn layer_that_is_off_is_not_called() {
        instance!(Switched);
        let layer = Count { name: "layer", ..Count::default() };
        let plugin = embedded();
        let api = Stack::start::<Switched>(plugin, vec![Box::new(layer.clone())]);
        let stack = <Switched as pjrt_layers::Instance>::cell().get().unwrap();
        let forwarder = table(api).PJRT_Client_Compile.map(|f| f as usize);
        stack.set_active("layer", false);
        let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
        assert_eq!(double(&client), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(*layer.seen.lock().unwrap(), []);
        let own = table(plugin).PJRT_Client_Compile.map(|f| f as usize);
        assert_eq!(table(api).PJRT_Client_Compile.map(|f| f as usize), own);
        stack.set_active("layer", true);
        assert_eq!(table(api).PJRT_Client_Compile.map(|f| f as usize), forwarder);
    }

    #[test]
    fn extension_functions_are_seen() {
        instance!(Extended);
        let layer = Count { name: "layer", ..Count::default() };
        let api = Stack::start::<Extended>(embedded(), vec![Box::new(layer.clone())]);
        let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
        double(&client);
        let calls = layer.seen.lock().unwrap();
        assert!(calls.iter().any(|(_, name)| name.starts_with("PJRT_Layouts_")), "{calls:?}");
    }

    #[test]
    fn ready_events_are_seen() {
        instance!(Watched);
        let layer = Count { name: "layer", only: Some("PJRT_Event_OnReady"), ..Count::default() };
        let api = Stack::start::<Watched>(embedded(), vec![Box::new(layer.clone())]);
        let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
        let buffer = client.buffer_from_host(&[1_f32], &[1]).unwrap();
        let event = buffer.ready_event().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        event.on_ready(move |result| sender.send(result.is_ok()).unwrap()).unwrap();
        assert_eq!(receiver.recv(), Ok(true));
        assert_eq!(*layer.ready.lock().unwrap(), 1);
    }
}

mod answers {
    use super::*;

    /// A layer that makes one function fail.
    #[derive(Debug)]
    struct Fail;

    impl Layer for Fail {
        fn name(&self) -> &'static str {
            "fail"
        }

        fn wants(&self, function: &Function) -> bool {
            function.name == "PJRT_Client_Compile"
        }

        fn before(&self, _: &mut Call) -> Step {
            Step::answer(ErrorCode::RESOURCE_EXHAUSTED, "no memory, by request")
        }
    }

    #[test]
    fn layer_error_reaches_the_caller() {
        instance!(Failing);
        let count = Count { name: "above", ..Count::default() };
        let api = Stack::start::<Failing>(embedded(), vec![Box::new(count), Box::new(Fail)]);
        let plugin = Plugin::from_static(api).unwrap();
        let client = plugin.client(&ClientOptions::default()).unwrap();
        let program = Program::mlir("func.func @main() { return }");
        let error = client.compile(&program, &CompileOptions::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert!(error.to_string().contains("no memory, by request"), "{error}");
        // The plugin's own errors keep their messages.
        let unknown = ClientOptions::new().with("no_such_option", "x");
        let error = plugin.client(&unknown).unwrap_err();
        assert!(error.to_string().contains("no_such_option"), "{error}");
    }
}

mod tables {
    use super::*;

    /// A layer that changes the table that the framework receives.
    #[derive(Debug)]
    struct Shape(fn(&mut TablePlan));

    impl Layer for Shape {
        fn name(&self) -> &'static str {
            "shape"
        }

        fn wants(&self, _: &Function) -> bool {
            false
        }

        fn plan(&self, plan: &mut TablePlan) {
            self.0(plan);
        }
    }

    /// Creates a plugin that announces the API version 0.`minor`. Its table ends after `slots` functions.
    fn older(slots: usize, minor: i32) -> StaticApi {
        let mut old = Box::new(*table(embedded()));
        old.struct_size = std::mem::offset_of!(PJRT_Api, PJRT_Error_Destroy) + slots * size_of::<usize>();
        old.pjrt_api_version.minor_version = minor;
        // SAFETY: C1 to C9: the table is a shorter copy of a table that keeps these contracts.
        unsafe { StaticApi::new(Box::leak(old)) }
    }

    #[test]
    fn short_table_stays_short() {
        instance!(Short);
        let plugin = older(118, 81);
        let api = Stack::start::<Short>(plugin, vec![Box::new(Count { name: "c", ..Count::default() })]);
        // SAFETY: each table begins with its size, so this field is readable.
        assert_eq!(unsafe { (*api.as_raw()).struct_size }, 40 + 118 * 8);
        let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
        assert_eq!(double(&client), [2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test reads the text as a framework does")]
    fn missing_functions_answer() {
        instance!(Answering);
        let whole = |plan: &mut TablePlan| (plan.size, plan.answers_missing) = (PJRT_Api::STRUCT_SIZE, true);
        let api = Stack::start::<Answering>(older(118, 81), vec![Box::new(Shape(whole))]);
        let create = table(api).PJRT_Device_GetAttributes.unwrap();
        let mut args = pjrt_sys::PJRT_Device_GetAttributes_Args::new();
        // SAFETY: C2: `new` has set the struct's size, and no plugin reads the struct.
        let error = unsafe { create(&raw mut args) };
        assert!(!error.is_null());
        let mut text = pjrt_sys::PJRT_Error_Message_Args::new();
        text.error = error;
        // SAFETY: C2: the error is live.
        unsafe { table(api).PJRT_Error_Message.unwrap()(&raw mut text) };
        // SAFETY: the message is readable for its length.
        let bytes = unsafe { std::slice::from_raw_parts(text.message.cast::<u8>(), text.message_size) };
        assert_eq!(bytes, b"the plugin of API 0.81 does not have PJRT_Device_GetAttributes");
        let mut destroy = pjrt_sys::PJRT_Error_Destroy_Args::new();
        destroy.error = error;
        // SAFETY: C2: the error is live, and this is its last use.
        unsafe { table(api).PJRT_Error_Destroy.unwrap()(&raw mut destroy) };
    }

    #[test]
    fn extensions_can_be_hidden() {
        instance!(Cut);
        let cut = |plan: &mut TablePlan| plan.hidden.extend(0..1000);
        let api = Stack::start::<Cut>(embedded(), vec![Box::new(Shape(cut))]);
        assert!(table(api).extension_start.is_null());
        assert!(!table(embedded()).extension_start.is_null());
    }

    #[test]
    fn minor_can_be_changed() {
        instance!(Aged);
        let api = Stack::start::<Aged>(embedded(), vec![Box::new(Shape(|plan| plan.minor = 99))]);
        let version = table(api).pjrt_api_version;
        assert_eq!((version.major_version, version.minor_version), (0, 99));
    }
}

#[test]
fn counts_are_complete() {
    instance!(Counted);
    let layer = Count { name: "layer", ..Count::default() };
    let api = Stack::start::<Counted>(embedded(), vec![Box::new(layer.clone())]);
    let plugin = Plugin::from_static(api).unwrap();
    double(&plugin.client(&ClientOptions::default()).unwrap());
    let mut counts = BTreeMap::new();
    for (_, name) in layer.seen.lock().unwrap().iter() {
        *counts.entry(*name).or_insert(0) += 1;
    }
    assert_eq!(counts.get("PJRT_Client_Create"), counts.get("PJRT_Client_Destroy"), "{counts:?}");
    assert_eq!(counts.get("PJRT_LoadedExecutable_Execute"), Some(&1), "{counts:?}");
}
