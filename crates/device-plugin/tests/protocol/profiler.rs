//! Tests profiles that are recorded through the profiler's C table and read by an independent decoder.

use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use device_plugin::{ErrorCode, profiler};
use device_plugin_testing::Exclusive;
use expect_test::expect;
use pjrt_sys::*;
use prost::Message;

use crate::extensions::{extension, put, rich};
use crate::framework::{Answer, Client, Fault, Framework, Loaded, execute_options, slice, text, toy};
use crate::rich::PROFILES;
use crate::xspace::Space;

fn table() -> &'static PLUGIN_Profiler_Api {
    table_of(rich())
}

fn table_of(framework: Framework) -> &'static PLUGIN_Profiler_Api {
    unsafe { &*extension::<PJRT_Profiler_Extension>(framework).profiler_api }
}

/// Creates arguments as frameworks pass them. The size is 0, and all other fields are garbage.
fn garbage<T: AbiStruct>() -> T {
    let mut args = crate::framework::garbage::<T>();
    unsafe { (&raw mut args).cast::<usize>().write(0) };
    args
}

fn check(error: *mut PLUGIN_Profiler_Error) -> Answer {
    check_in(table(), error)
}

fn check_in(table: &PLUGIN_Profiler_Api, error: *mut PLUGIN_Profiler_Error) -> Answer {
    if error.is_null() {
        return Ok(());
    }
    unsafe {
        let mut message = garbage::<PLUGIN_Profiler_Error_Message_Args>();
        message.error = error;
        table.error_message.unwrap()(&mut message);
        let mut code = garbage::<PLUGIN_Profiler_Error_GetCode_Args>();
        code.error = error;
        assert!(table.error_get_code.unwrap()(&mut code).is_null());
        let message = text(message.message, message.message_size);
        let mut destroy = garbage::<PLUGIN_Profiler_Error_Destroy_Args>();
        destroy.error = error;
        table.error_destroy.unwrap()(&mut destroy);
        Err(Fault { code: ErrorCode::from_raw(code.code as u32), message })
    }
}

type Profiler = *mut PLUGIN_Profiler;

fn create(options: &[u8]) -> Profiler {
    let mut args = garbage::<PLUGIN_Profiler_Create_Args>();
    (args.options, args.options_size) = (options.as_ptr().cast(), options.len());
    check(unsafe { table().create.unwrap()(&mut args) }).unwrap();
    args.profiler
}

fn start(profiler: Profiler) -> Answer {
    let mut args = garbage::<PLUGIN_Profiler_Start_Args>();
    args.profiler = profiler;
    check(unsafe { table().start.unwrap()(&mut args) })
}

fn stop(profiler: Profiler) -> Answer {
    let mut args = garbage::<PLUGIN_Profiler_Stop_Args>();
    args.profiler = profiler;
    check(unsafe { table().stop.unwrap()(&mut args) })
}

fn destroy(profiler: Profiler) {
    let mut args = garbage::<PLUGIN_Profiler_Destroy_Args>();
    args.profiler = profiler;
    check(unsafe { table().destroy.unwrap()(&mut args) }).unwrap();
}

fn collect(profiler: Profiler) -> Answer<Space> {
    let mut args = garbage::<PLUGIN_Profiler_CollectData_Args>();
    (args.profiler, args.buffer) = (profiler, null_mut());
    check(unsafe { table().collect_data.unwrap()(&mut args) })?;
    // JAX reads the data in the plugin's memory, and does not pass memory of its own for a copy.
    let theirs = unsafe { slice(args.buffer.cast_const(), args.buffer_size_in_bytes) };
    let mut bytes = vec![0; args.buffer_size_in_bytes];
    args.buffer = bytes.as_mut_ptr();
    check(unsafe { table().collect_data.unwrap()(&mut args) })?;
    assert_eq!((args.buffer_size_in_bytes, theirs), (bytes.len(), &*bytes));
    Ok(Space::decode(&*bytes).expect("an XSpace"))
}

/// A profiler session of any plugin.
pub struct Profile {
    table: &'static PLUGIN_Profiler_Api,
    raw: Profiler,
}

impl Profile {
    pub fn of(framework: Framework) -> Self {
        let table = table_of(framework);
        let mut args = garbage::<PLUGIN_Profiler_Create_Args>();
        args.options_size = 0;
        check_in(table, unsafe { table.create.unwrap()(&mut args) }).unwrap();
        Self { table, raw: args.profiler }
    }

    pub fn start(&self) -> Answer {
        let mut args = garbage::<PLUGIN_Profiler_Start_Args>();
        args.profiler = self.raw;
        check_in(self.table, unsafe { self.table.start.unwrap()(&mut args) })
    }

    pub fn stop(&self) -> Answer {
        let mut args = garbage::<PLUGIN_Profiler_Stop_Args>();
        args.profiler = self.raw;
        check_in(self.table, unsafe { self.table.stop.unwrap()(&mut args) })
    }

    pub fn destroy(self) {
        let mut args = garbage::<PLUGIN_Profiler_Destroy_Args>();
        args.profiler = self.raw;
        // Frameworks end the process if this call fails.
        check_in(self.table, unsafe { self.table.destroy.unwrap()(&mut args) }).unwrap();
    }
}

/// A lock that each test holds, because only one profile can run at a time.
pub static EXCLUSIVE: Exclusive = Exclusive::new();

/// Compiles and runs a program. Its execution passes a trace context id, as frameworks do.
fn work(name: &str) {
    let client = rich().client(&[]).unwrap();
    let program = rich().compile(client, name).unwrap();
    run(client, program);
    rich().destroy_loaded(program);
    rich().destroy_client(client);
}

fn run(client: Client, program: Loaded) {
    let input = put(client, [1, 2]);
    let mut context = PJRT_Profiler_Extension::new();
    context.base.type_ = PJRT_Profiler_Extension::TYPE;
    context.traceme_context_id = 4242;
    let mut options = execute_options(&[]);
    let (mut output, mut event) = (null_mut(), null_mut());
    let (arguments, outputs) = ([&raw const input], [&raw mut output]);
    rich()
        .ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            args.extension_start = (&raw mut context).cast();
            (args.executable, args.options) = (program, &raw mut options);
            (args.argument_lists, args.output_lists) = (arguments.as_ptr().cast(), outputs.as_ptr());
            (args.num_devices, args.num_args) = (1, 1);
            args.device_complete_events = &raw mut event;
            args.execute_device = null_mut();
        })
        .unwrap();
    rich().wait(event).unwrap();
    assert_eq!(rich().read_ints(output), Ok(vec![1, 2]));
    rich().destroy(&[input, output]);
}

/// Encodes a protobuf message with one length-delimited field. The field number must be less than 16, and the content
/// shorter than 128 bytes.
fn message(field: u8, content: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
}

#[test]
fn profile_contains_programs_that_ran() {
    const NAMED: &str = "module @named {
        func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
            %y = stablehlo.negate %x {mhlo.sharding = \"{replicated}\"} : tensor<2xi32> loc(\"region/negate\")
            return %y : tensor<2xi32>
        }
    }";
    let _turn = EXCLUSIVE.turn();
    let client = rich().client(&[]).unwrap();
    let compile = |format: &str, code: &[u8]| rich().compile_as(client, format, code, &[]).unwrap();
    let module = message(1, b"module");
    let (bare, with_config) = (compile("hlo", &module), compile("hlo_with_config", &message(1, b"configured")));
    let stablehlo = compile("mlir", NAMED.as_bytes());
    let (not_run, unknown) = (compile("hlo", &message(1, b"not run")), compile("toy", b"unknown"));
    run(client, with_config);
    let profile = || {
        let profiler = create(&[]);
        start(profiler).unwrap();
        for program in [bare, stablehlo, unknown, bare] {
            run(client, program);
        }
        // The profile contains programs that no longer exist when it ends.
        let temporary = compile("hlo", &message(1, b"temporary"));
        run(client, temporary);
        rich().destroy_loaded(temporary);
        stop(profiler).unwrap();
        let space = collect(profiler).unwrap();
        destroy(profiler);
        space
    };
    for space in [profile(), profile()] {
        let [warning] = &*space.warnings else { panic!("{:?}", space.warnings) };
        expect![[
            r#"rich: the profile lacks the program "unknown": programs of format "toy" are not converted to HLO"#
        ]]
        .assert_eq(warning);
        let mut programs = space.programs();
        let hlo = |name: &str| message(1, &message(1, name.as_bytes()));
        assert_eq!(programs.remove("\n\u{6}module(1)"), Some(hlo("module")), "{:?}", programs.keys());
        let converted = programs.remove(&format!("{NAMED}(2)")).expect("the StableHLO program");
        let contains = |text: &[u8]| converted.windows(text.len()).any(|part| part == text);
        assert!(contains(b"region/negate") && contains(b"named"));
        assert_eq!(programs.remove("\n\ttemporary(3)"), Some(hlo("temporary")));
        assert!(programs.is_empty(), "{:?}", programs.keys());
    }
    let profiler = create(&[]);
    start(profiler).unwrap();
    run(client, with_config);
    stop(profiler).unwrap();
    assert_eq!(
        collect(profiler).unwrap().programs().into_values().collect::<Vec<_>>(),
        [message(1, b"configured")],
        "the module without the config"
    );
    destroy(profiler);
    for program in [bare, with_config, stablehlo, not_run, unknown] {
        rich().destroy_loaded(program);
    }
    rich().destroy_client(client);
}

#[test]
fn profile_shows_all_activities() {
    let _turn = EXCLUSIVE.turn();
    let profiler = create(b"options");
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    start(profiler).unwrap();
    work("profiled");
    // Calls of another plugin do not appear in this profile.
    let client = toy().client(&[]).unwrap();
    toy().destroy_client(client);
    stop(profiler).unwrap();
    let space = collect(profiler).unwrap();
    assert_eq!(collect(profiler).unwrap(), space, "what was collected stays");
    // The program is in a format that the SDK cannot convert to HLO.
    assert_eq!(space.warnings.len(), 1, "{:?}", space.warnings);

    let device = space.plane("/device:CUSTOM:rich:0").expect("a plane of the device");
    assert!(device.find(Some("executions"), "profiled").is_some(), "{device:?}");
    assert_eq!(device.stats(Some("transfers"), "host to device").unwrap()["bytes"], "8");
    assert_eq!(device.stats(Some("transfers"), "device to host").unwrap()["bytes"], "8");
    let kernel = device.stats(Some("kernels"), "matmul").unwrap();
    assert_eq!((kernel["flops"].as_str(), kernel["kind"].as_str()), ("12", "fast"));
    let (line, event) = device.find(None, "matmul").unwrap();
    assert_eq!(event.duration_ps, 3_000_000);
    assert!((begun..begun + 60_000_000_000).contains(&line.timestamp_ns), "{} after {begun}", line.timestamp_ns);
    assert!(event.offset_ps > 0 && event.offset_ps <= line.duration_ps);

    let host = space.plane("/device:CUSTOM:rich:host").expect("a plane of the threads");
    assert_ne!(host.id, device.id);
    for call in ["PJRT_Client_Create", "PJRT_Client_BufferFromHostBuffer", "PJRT_Buffer_ToHostBuffer"] {
        assert!(host.find(None, call).is_some(), "{call}");
    }
    // The span of the backend is within the span of the framework's call.
    let (line, compile) = host.find(None, "PJRT_Client_Compile").unwrap();
    let (in_line, lowering) = host.find(None, "lowering").unwrap();
    assert_eq!(line.id, in_line.id);
    assert!(compile.offset_ps <= lowering.offset_ps);
    assert!(lowering.offset_ps + lowering.duration_ps <= compile.offset_ps + compile.duration_ps);
    let stats = host.stats(None, "lowering").unwrap();
    assert_eq!((stats["code"].as_str(), stats["bytes"].as_str()), ("profiled", "8"));
    assert_eq!(host.stats(None, "kernel").unwrap()["step"], "7");
    assert!(host.find(None, "halfway").is_some());
    let call = host.stats(None, "PJRT_LoadedExecutable_Execute").unwrap();
    assert_eq!((call["program"].as_str(), call["context_id"].as_str()), ("profiled", "4242"));
    // Each of these calls appears once.
    let count = |name: &str| {
        let events = host.lines.iter().flat_map(|line| &line.events);
        events.filter(|event| host.events[&event.metadata_id].name == name).count()
    };
    assert_eq!((count("PJRT_Client_Compile"), count("PJRT_LoadedExecutable_Execute")), (1, 1));
    assert!(PROFILES.lock().unwrap().0.contains(&b"options".to_vec()));
    assert!(PROFILES.lock().unwrap().1 > 0);
    destroy(profiler);
}

#[test]
fn nothing_is_recorded_without_a_profile() {
    let _turn = EXCLUSIVE.turn();
    assert!(!profiler::is_recording());
    work("before");
    let profiler = create(b"");
    start(profiler).unwrap();
    assert!(profiler::is_recording());
    stop(profiler).unwrap();
    assert!(!profiler::is_recording());
    work("after");
    let space = collect(profiler).unwrap();
    for plane in &space.planes {
        assert!(plane.find(None, "before").is_none() && plane.find(None, "after").is_none(), "{plane:?}");
    }
    destroy(profiler);
}

#[test]
fn profile_phases_in_order() {
    let _turn = EXCLUSIVE.turn();
    let (one, two) = (create(b""), create(b""));
    assert_eq!(stop(one).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    assert_eq!(collect(one).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    start(one).unwrap();
    let fault = start(one).unwrap_err();
    assert_eq!(fault.code, ErrorCode::FAILED_PRECONDITION);
    expect!["a profile is already running; stop it first"].assert_eq(&fault.message);
    assert_eq!(start(two).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    assert_eq!(collect(one).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    stop(one).unwrap();
    // The records of a destroyed profile are lost, and the next profile may start.
    start(two).unwrap();
    destroy(two);
    assert!(!profiler::is_recording());
    start(one).unwrap();
    stop(one).unwrap();
    destroy(one);
    let mut messages = String::new();
    for options in ["refuse", "panic"] {
        let shy = create(options.as_bytes());
        messages += &format!("{options}: {}\n", start(shy).unwrap_err().message);
        assert!(!profiler::is_recording());
        destroy(shy);
    }
    expect![[r#"
        refuse: this device is shy
        panic: the plugin panicked: asked to panic
    "#]]
    .assert_eq(&messages);
    let mut args = garbage::<PLUGIN_Profiler_Start_Args>();
    args.profiler = null_mut();
    let fault = check(unsafe { table().start.unwrap()(&mut args) }).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PLUGIN_Profiler_Start: profiler is null"].assert_eq(&fault.message);
}

#[test]
fn profile_may_be_consumed() {
    let _turn = EXCLUSIVE.turn();
    let profiler = create(b"");
    start(profiler).unwrap();
    work("consumed");
    stop(profiler).unwrap();
    let mut consume = garbage::<PLUGIN_Profiler_Consume_Args>();
    consume.profiler = profiler;
    check(unsafe { table().consume.unwrap()(&mut consume) }).unwrap();
    let mut serialize = garbage::<PLUGIN_Profiler_Serialize_Args>();
    (serialize.profiler, serialize.consume_result) = (profiler, consume.result);
    check(unsafe { table().serialize.unwrap()(&mut serialize) }).unwrap();
    let space = Space::decode(unsafe { slice(serialize.serialized_bytes, serialize.serialized_size) }).unwrap();
    assert!(space.plane("/device:CUSTOM:rich:0").is_some());
    let mut gone = garbage::<PLUGIN_Profiler_ConsumeResult_Destroy_Args>();
    gone.consume_result = consume.result;
    unsafe { table().consume_result_destroy.unwrap()(&mut gone) };
    assert!(collect(profiler).unwrap().planes.is_empty());
    destroy(profiler);
}

/// A `tracing` subscriber of the application. It records the names of spans and the levels of events.
#[derive(Clone, Default)]
struct Application(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Application {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("protocol")
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut notes = self.0.lock().unwrap();
        notes.push(format!("new {}", span.metadata().name()));
        tracing::span::Id::from_u64(notes.len() as u64)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {
        self.0.lock().unwrap().push("record".to_owned());
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().unwrap().push(format!("event {}", event.metadata().level()));
    }
    fn enter(&self, id: &tracing::span::Id) {
        self.0.lock().unwrap().push(format!("enter {}", id.into_u64()));
    }
    fn exit(&self, id: &tracing::span::Id) {
        self.0.lock().unwrap().push(format!("exit {}", id.into_u64()));
    }
    fn try_close(&self, id: tracing::span::Id) -> bool {
        self.0.lock().unwrap().push(format!("close {}", id.into_u64()));
        true
    }
}

#[test]
fn keeps_subscriber_of_application() {
    let _turn = EXCLUSIVE.turn();
    let notes = |profiled: bool| {
        let application = Application::default();
        let profiler = create(b"");
        if profiled {
            start(profiler).unwrap();
        }
        tracing::subscriber::with_default(application.clone(), || work("for an application"));
        if profiled {
            stop(profiler).unwrap();
            let space = collect(profiler).unwrap();
            assert!(space.plane("/device:CUSTOM:rich:host").unwrap().find(None, "kernel").is_some());
        }
        destroy(profiler);
        std::mem::take(&mut *application.0.lock().unwrap())
    };
    let (with, without) = (notes(true), notes(false));
    assert_eq!(with, without);
    let expected = ["new lowering", "enter 1", "exit 1", "close 1", "new kernel", "enter 5", "record", "event INFO"];
    assert_eq!(with[..8], expected);
}

#[test]
fn device_threads_are_recorded_in_scope() {
    let _turn = EXCLUSIVE.turn();
    let profiler = create(b"");
    start(profiler).unwrap();
    let worker = std::thread::Builder::new().name("worker 7".to_owned());
    let worker = worker.spawn(|| {
        let _outside = tracing::info_span!("outside").entered();
        let _scope = profiler::scope();
        let _inside = tracing::info_span!("inside").entered();
        let mut span = profiler::span("spanned").with("bytes", 16i64);
        span.note("kind", "late");
        drop(profiler::span("placed").on(1, "queue"));
    });
    worker.unwrap().join().unwrap();
    stop(profiler).unwrap();
    let space = collect(profiler).unwrap();
    let host = space.plane("/device:CUSTOM:rich:host").unwrap();
    let line = Some("worker 7");
    assert!(host.find(line, "inside").is_some() && host.find(line, "outside").is_none());
    let stats = host.stats(line, "spanned").unwrap();
    assert_eq!((stats["bytes"].as_str(), stats["kind"].as_str()), ("16", "late"));
    assert!(space.plane("/device:CUSTOM:rich:1").unwrap().find(Some("queue"), "placed").is_some());
    destroy(profiler);
}
