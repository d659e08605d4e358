//! Tests of the tables of objects. The first words of errors, memories, raw buffers, device events and promises refer
//! to these tables.

use std::ffi::{c_char, c_void};
use std::ptr::{from_mut, from_ref, null, null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::{Arc, Mutex};

use pjrt_layers::fault::{Fault, Rules};
use pjrt_layers::validate::{Reports, Validate};
use pjrt_layers::{Call, Function, Instance, Layer, Outcome, Stack, Step, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Client_AddressableMemories_Args, PJRT_Client_Compile_Args, PJRT_DeviceEvent,
    PJRT_DeviceEventVector, PJRT_Error, PJRT_Error_Code, PJRT_Error_Destroy_Args, PJRT_Error_Message_Args, PJRT_Memory,
    PJRT_RawBuffer, PJRT_RawBuffer_CreateRawAliasOfBuffer_Args, PJRT_RawBuffer_Extension,
};

use crate::object_plugin::{
    CODE, ERROR, EVENT, FAILS, MEMORY, NEXT_ALIAS, PARENT, PROMISE, RAW_BUFFER, TEXT, memories, new_promise,
    new_raw_buffer, plugin, raw_inc_ref, read, table_name, take_reached, write,
};
use crate::setup;

/// A layer that records the calls through tables of objects.
#[derive(Clone, Debug, Default)]
struct Notes {
    seen: Arc<Mutex<Vec<String>>>,
    only: Option<&'static str>,
}

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Layer for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn wants(&self, function: &Function) -> bool {
        self.only.is_none_or(|only| function.name.starts_with(only))
    }

    fn before(&self, _: &mut Call) -> Step {
        Step::Continue(0)
    }

    fn after(&self, call: &mut Call, _: u64, outcome: Outcome) {
        if let Some(object) = call.function().object {
            let prefix = format!("{object}_FunctionTable.");
            let name = call.function().name.strip_prefix(&prefix).unwrap();
            let failed = if outcome.failed() { " failed" } else { "" };
            let words = call.function().fields.iter().filter(|field| ["offset", "result"].contains(&field.name));
            let words: String = words.map(|field| format!(" {}", call.word(field))).collect();
            self.seen.lock().unwrap().push(format!("{name}{words}{failed}"));
        }
    }
}

fn start<I: Instance>(layers: Vec<Box<dyn Layer>>) -> &'static PJRT_Api {
    setup::table(Stack::start::<I>(plugin(), layers))
}

/// Starts a layer that records the calls through tables of objects.
fn noted<I: Instance>() -> (&'static PJRT_Api, Notes) {
    let notes = Notes::default();
    (start::<I>(vec![Box::new(notes.clone())]), notes)
}

/// Calls a function in the table of an object.
macro_rules! through {
    ($object:expr, $function:ident $(, $argument:expr)*) => {{
        let object = $object;
        let table = read(read(object).vtable);
        // SAFETY: C2: the object and the arguments are valid.
        unsafe { table.$function.unwrap()(object $(, $argument)*) }
    }};
}

fn compile_error(api: &PJRT_Api) -> *mut PJRT_Error {
    FAILS.set(true);
    let mut args = PJRT_Client_Compile_Args::new();
    // SAFETY: C2: the arguments are valid, and the fake plugin reads no handle.
    let error = unsafe { api.PJRT_Client_Compile.unwrap()(&raw mut args) };
    FAILS.set(false);
    assert!(!error.is_null());
    error
}

fn query_memories(api: &PJRT_Api) -> [*mut PJRT_Memory; 2] {
    let mut args = PJRT_Client_AddressableMemories_Args::new();
    // SAFETY: C2: the arguments are valid, and the fake plugin reads no handle.
    let error = unsafe { api.PJRT_Client_AddressableMemories.unwrap()(&raw mut args) };
    assert!(error.is_null());
    read(args.addressable_memories.cast())
}

fn alias(api: &PJRT_Api) -> *mut PJRT_RawBuffer {
    let extension: PJRT_RawBuffer_Extension = read(api.extension_start.cast());
    let mut args = PJRT_RawBuffer_CreateRawAliasOfBuffer_Args::new();
    // SAFETY: C2: the arguments are valid, and the fake plugin reads no handle.
    let error = unsafe { extension.PJRT_RawBuffer_CreateRawAliasOfBuffer.unwrap()(&raw mut args) };
    assert!(error.is_null());
    args.raw_buffer
}

fn no_event() -> PJRT_DeviceEvent {
    PJRT_DeviceEvent { vtable: null(), device_event: null_mut() }
}

/// Returns a vector with one event.
fn vector(event: PJRT_DeviceEvent) -> *mut PJRT_DeviceEventVector {
    let data = from_mut(Box::leak(Box::new(event)));
    from_mut(Box::leak(Box::new(PJRT_DeviceEventVector { data, size: 1, capacity: 1, destroy: None })))
}

unsafe extern "C" fn count(argument: *mut c_void) {
    let place = argument.cast::<u32>();
    write(place, read(place) + 1);
}

unsafe extern "C" fn count_allocation(_: *mut PJRT_Error, argument: *mut c_void) {
    // SAFETY: C6: the argument is a counter.
    unsafe { count(argument) };
}

unsafe extern "C" fn visit(_: *const c_char, _: usize, _: *const c_char, _: usize, argument: *mut c_void) {
    // SAFETY: C6: the argument is a counter.
    unsafe { count(argument) };
}

#[test]
fn layers_see_functions_of_errors() {
    instance!(Errors);
    let (api, notes) = noted::<Errors>();
    let error = compile_error(api);
    assert_ne!(read(error).vtable, ERROR.at());
    let (mut text, mut size, mut payloads) = (null(), 0, 0_u32);
    through!(error, message, &raw mut text, &raw mut size);
    assert_eq!((text, size), (TEXT.as_ptr().cast(), TEXT.len()));
    assert_eq!(through!(error, get_code).0, CODE.0);
    through!(error, for_each_payload, Some(visit), (&raw mut payloads).cast());
    assert_eq!(payloads, 1);
    through!(error, destroy);
    assert_eq!(notes.take(), ["message", &format!("get_code {}", CODE.0), "for_each_payload", "destroy"]);
}

#[test]
fn inner_calls_of_the_plugin_are_not_seen() {
    instance!(Once);
    let (api, notes) = noted::<Once>();
    let error = compile_error(api);
    let mut args = PJRT_Error_Message_Args { error, ..PJRT_Error_Message_Args::new() };
    // SAFETY: C4: the error is live.
    unsafe { api.PJRT_Error_Message.unwrap()(&raw mut args) };
    assert_eq!(args.message_size, TEXT.len());
    let mut args = PJRT_Error_Destroy_Args { error, ..PJRT_Error_Destroy_Args::new() };
    // SAFETY: C4: this is the last use of the error.
    unsafe { api.PJRT_Error_Destroy.unwrap()(&raw mut args) };
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn layers_see_functions_of_memories() {
    instance!(Memories);
    let (api, notes) = noted::<Memories>();
    for memory in query_memories(api) {
        assert_ne!(read(memory).vtable, MEMORY.at());
        let mut destroyed = 0_u32;
        let key = with_exposed_provenance::<c_void>(0x70);
        assert_eq!(through!(memory, get_user_data, key).addr(), 0x70);
        through!(memory, set_user_data, key, (&raw mut destroyed).cast(), Some(count));
        assert_eq!(destroyed, 1);
        assert_eq!(notes.take(), ["get_user_data 112", "set_user_data"]);
    }
}

#[test]
fn layers_see_functions_of_raw_buffers() {
    instance!(RawBuffers);
    let (api, notes) = noted::<RawBuffers>();
    let buffer = alias(api);
    let (mut out, mut events) = (null_mut(), [no_event(); 4]);
    through!(buffer, inc_ref);
    assert_eq!(through!(buffer, get_on_device_size_in_bytes), 64);
    let memory = through!(buffer, get_memory_space);
    assert_ne!(read(memory).vtable, MEMORY.at());
    assert_eq!(through!(buffer, get_host_pointer).addr(), 0x80);
    assert_eq!(through!(buffer, opaque_device_memory_data_pointer).addr(), 0x90);
    assert!(through!(buffer, is_mutable).get());
    assert!(through!(buffer, slice, 8, 16, &raw mut out).is_null());
    assert_ne!(read(out).vtable, RAW_BUFFER.at());
    assert!(through!(buffer, make_allocation_ready_event, &raw mut events[0]).is_null());
    assert!(through!(buffer, get_raw_buffer_async_value, &raw mut events[1]).is_null());
    take_reached();
    // The plugin must receive the event with the plugin's own table, and not with the copy.
    let dependencies = vector(events[0]);
    let upload =
        through!(buffer, copy_raw_host_to_device_and_return_event, null(), 4, 12, dependencies, &raw mut events[2]);
    assert!(upload.is_null());
    assert_eq!(take_reached(), ["raw_upload", "4 12 own"]);
    let download =
        through!(buffer, copy_raw_device_to_host_and_return_event, null_mut(), 5, 13, null_mut(), &raw mut events[3]);
    assert!(download.is_null());
    assert_eq!(take_reached(), ["raw_download", "5 13"]);
    assert!(events.iter().all(|event| table_name(event) == "other" && event.device_event.addr() == EVENT));
    through!(buffer, dec_ref);
    let seen = notes.take();
    let address = memory.addr();
    assert_eq!(
        seen,
        [
            "inc_ref",
            "get_on_device_size_in_bytes 64",
            &format!("get_memory_space {address}"),
            "get_host_pointer 128",
            "opaque_device_memory_data_pointer 144",
            "is_mutable 1",
            "slice 8",
            "make_allocation_ready_event",
            "get_raw_buffer_async_value",
            "copy_raw_host_to_device_and_return_event 4",
            "copy_raw_device_to_host_and_return_event 5",
            "dec_ref",
        ]
    );
    // A slice of a buffer has the same table as the buffer, so the layer also observes calls through the slice.
    through!(out, inc_ref);
    assert_eq!(notes.take(), ["inc_ref"]);
}

#[test]
fn layers_see_functions_of_device_events() {
    instance!(DeviceEvents);
    let (api, notes) = noted::<DeviceEvents>();
    let mut event = no_event();
    assert!(through!(alias(api), make_allocation_ready_event, &raw mut event).is_null());
    notes.take();
    let table = read(event.vtable);
    let object = event.device_event;
    let mut ready = 0_u32;
    let (mut code, mut text, mut size, mut number) = (PJRT_Error_Code(0), null(), 0, 0);
    // SAFETY: C2: the event and the arguments are valid.
    unsafe { table.inc_ref.unwrap()(object) };
    // SAFETY: C2: the event and the arguments are valid.
    unsafe { table.and_then.unwrap()(object, Some(count), (&raw mut ready).cast()) };
    // SAFETY: C2: the event and the arguments are valid.
    let failed = unsafe { table.get_error_if_present.unwrap()(object, &raw mut code, &raw mut text, &raw mut size) };
    // SAFETY: C2: the event is valid.
    let state = unsafe { table.get_state.unwrap()(object) };
    // SAFETY: C2: the event and the argument are valid.
    let stream = unsafe { table.get_definition_stream.unwrap()(object, &raw mut number) };
    // SAFETY: C2: the event is valid.
    unsafe { table.dec_ref.unwrap()(object) };
    assert_eq!((ready, failed, code.0, size, state.0, stream, number), (1, 1, CODE.0, TEXT.len(), 1, -3, 7));
    let stream = u64::MAX - 2;
    assert_eq!(
        notes.take(),
        [
            "inc_ref",
            "and_then",
            "get_error_if_present 1",
            "get_state 1",
            &format!("get_definition_stream {stream}"),
            "dec_ref"
        ]
    );
    // A framework may use the event through the parent table, so the parent table also refers to the layers.
    assert!(!table.parent.is_null());
    assert_ne!(table.parent, PARENT.at());
    // SAFETY: C2: the event is valid.
    unsafe { read(table.parent).inc_ref.unwrap()(object) };
    assert_eq!(notes.take(), ["inc_ref"]);
}

#[test]
fn layers_see_what_the_plugin_does_with_promises() {
    instance!(Promises);
    let (api, notes) = noted::<Promises>();
    let (source, destination) = (alias(api), new_raw_buffer());
    let (definition, usage) = (new_promise(), new_promise());
    let mut called = 0_u32;
    take_reached();
    through!(
        source,
        schedule_copy_to,
        null_mut(),
        destination,
        definition,
        usage,
        Some(count_allocation),
        (&raw mut called).cast()
    );
    assert_eq!(called, 1);
    for promise in [definition, usage] {
        assert_ne!(read(promise).vtable, PROMISE.at());
    }
    // The framework's promise receives the event and the error with the layers' tables.
    assert_eq!(
        take_reached(),
        [
            "raw_copy",
            "promise_inc_ref",
            "promise_event",
            "promised 0x66",
            "promise_set",
            "other 0x55",
            "promise_dec_ref",
            "promise_set_ready",
            "promise_set_error",
            "error_code",
            &format!("code {}", CODE.0),
            "error_destroy",
        ]
    );
    assert_eq!(
        notes.take(),
        [
            "inc_ref",
            "event 0",
            "set",
            "dec_ref",
            "set_ready",
            &format!("get_code {}", CODE.0),
            "destroy",
            "set_error",
            "schedule_copy_to",
        ]
    );
}

#[test]
fn layer_can_fail_a_call() {
    instance!(Failing);
    let rules: Rules = "PJRT_RawBuffer_FunctionTable.slice call=2 error=INTERNAL".parse().unwrap();
    let api = start::<Failing>(vec![Box::new(Fault::new(rules, 0))]);
    let buffer = alias(api);
    let mut out = null_mut();
    assert!(through!(buffer, slice, 0, 1, &raw mut out).is_null());
    take_reached();
    let error = through!(buffer, slice, 0, 1, &raw mut out);
    assert!(!error.is_null());
    assert!(through!(error, get_code) == PJRT_Error_Code::PJRT_Error_Code_INTERNAL);
    through!(error, destroy);
    assert_eq!(take_reached(), [""; 0]);
}

#[test]
fn error_of_such_a_call_shows_the_layers() {
    instance!(Failed);
    let (api, notes) = noted::<Failed>();
    let buffer = alias(api);
    let mut event = no_event();
    FAILS.set(true);
    let error = through!(buffer, get_raw_buffer_async_value, &raw mut event);
    FAILS.set(false);
    assert_ne!(read(error).vtable, ERROR.at());
    // The outputs of a failed call are undefined, so the layers do not replace the table in the event.
    assert_eq!(table_name(&event), "own");
    through!(error, destroy);
    assert_eq!(notes.take(), ["get_raw_buffer_async_value failed", "destroy"]);
}

#[test]
fn validate_accepts_them() {
    instance!(Validated);
    let reports = Reports::collected();
    let api = start::<Validated>(vec![Box::new(Validate::new(reports.clone()))]);
    let buffer = alias(api);
    let mut out = null_mut();
    through!(buffer, inc_ref);
    assert!(through!(buffer, slice, 0, 1, &raw mut out).is_null());
    through!(buffer, dec_ref);
    through!(buffer, dec_ref);
    let texts: Vec<String> = reports.all().iter().map(ToString::to_string).collect();
    assert_eq!(texts, [""; 0]);
}

mod words {
    use super::*;

    #[test]
    fn stay_if_no_layer_asks() {
        instance!(Unasked);
        let notes = Notes { only: Some("PJRT_RawBuffer_FunctionTable."), ..Notes::default() };
        let api = start::<Unasked>(vec![Box::new(notes)]);
        let [memory, _] = query_memories(api);
        assert_eq!(read(memory).vtable, MEMORY.at());
        let error = compile_error(api);
        assert_eq!(read(error).vtable, ERROR.at());
        through!(error, destroy);
        assert_ne!(read(alias(api)).vtable, RAW_BUFFER.at());
    }

    #[test]
    fn stay_if_they_are_not_a_table() {
        instance!(Other);
        let (api, _) = noted::<Other>();
        // The first case is a null table, as in raw buffers of the embedded device. The words of the other cases are
        // not the address of a table.
        let words: &'static [usize; 4] = Box::leak(Box::new([1, 2, 3, 4]));
        for word in [null(), with_exposed_provenance(0x10), from_ref(words).cast()] {
            NEXT_ALIAS.set(from_mut(Box::leak(Box::new(PJRT_RawBuffer { vtable: word }))));
            assert_eq!(read(alias(api)).vtable, word);
        }
        NEXT_ALIAS.set(with_exposed_provenance_mut(1));
        assert_eq!(alias(api).addr(), 1);
    }

    #[test]
    fn stay_in_plugins_before_the_tables() {
        instance!(Old);
        let old = setup::fake(104, |table| table.PJRT_Client_AddressableMemories = Some(memories));
        let api = setup::table(Stack::start::<Old>(old, vec![Box::new(Notes::default())]));
        let [memory, _] = query_memories(api);
        assert_eq!(read(memory).vtable, MEMORY.at());
    }

    #[test]
    fn layers_of_two_libraries_stack() {
        instance!(Inner);
        instance!(Outer);
        let (inner, outer) = (Notes::default(), Notes::default());
        let api = Stack::start::<Inner>(plugin(), vec![Box::new(inner.clone())]);
        let api = setup::table(Stack::start::<Outer>(api, vec![Box::new(outer.clone())]));
        let shown: Vec<_> = (0..3).map(|_| read(query_memories(api)[0]).vtable).collect();
        assert_ne!(shown[0], MEMORY.at());
        assert!(shown.iter().all(|table| *table == shown[0]), "{shown:?}");
        let [memory, _] = query_memories(api);
        take_reached();
        through!(memory, get_user_data, null());
        assert_eq!((inner.take().len(), outer.take().len(), take_reached()), (1, 1, vec!["memory_get".to_owned()]));
    }

    #[test]
    fn layer_that_is_off_is_not_in_the_table() {
        instance!(Switched);
        let (api, notes) = noted::<Switched>();
        let buffer = alias(api);
        let slot = || read(read(buffer).vtable).inc_ref.map(|function| function as usize);
        let forwarder = slot();
        let stack = <Switched as Instance>::cell().get().unwrap();
        stack.set_active("notes", false);
        assert_eq!(slot(), Some(raw_inc_ref as *const () as usize));
        through!(buffer, inc_ref);
        assert_eq!(notes.take(), [""; 0]);
        stack.set_active("notes", true);
        assert_eq!(slot(), forwarder);
    }

    #[test]
    fn embedded_device_shows_the_layers() {
        instance!(Embedded);
        let notes = Notes::default();
        let api = setup::table(Stack::start::<Embedded>(setup::embedded(), vec![Box::new(notes.clone())]));
        let mut args = PJRT_Client_Compile_Args::new();
        // SAFETY: C2: the arguments are valid.
        let error = unsafe { api.PJRT_Client_Compile.unwrap()(&raw mut args) };
        assert_ne!(through!(error, get_code).0, 0);
        through!(error, destroy);
        let seen = notes.take();
        assert_eq!((seen.len(), seen.last().map(String::as_str)), (2, Some("destroy")), "{seen:?}");
    }
}
