//! Tests the options of an execution, in structs of every size that a framework may pass.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::mpsc;

use device_plugin::{ErrorCode, ExecuteOptions, NamedValue};
use expect_test::expect;
use pjrt_sys::*;

use crate::extensions::{put, rich};
use crate::framework::{Answer, Buffer, Event, Loaded, execute_options, garbage_pointer, raw_values, slice};
use crate::rich::{GATE, LATE, OPTIONS};

pub fn execute(
    executable: Loaded,
    arguments: &[Buffer],
    options: &mut PJRT_ExecuteOptions,
) -> Answer<(Vec<Buffer>, Event)> {
    let (mut output, mut event) = (garbage_pointer(), garbage_pointer());
    let lists = [arguments.as_ptr()];
    let outputs = [&raw mut output];
    rich().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
        args.executable = executable;
        args.options = options;
        args.argument_lists = lists.as_ptr();
        (args.num_devices, args.num_args) = (1, arguments.len());
        args.output_lists = outputs.as_ptr();
        args.device_complete_events = &raw mut event;
        args.execute_device = null_mut();
    })?;
    Ok((vec![output], event))
}

/// Runs a program with these options, and returns the options that the backend received. `name` is the program's code,
/// which must differ from the code of all other tests.
fn seen(name: &str, options: &mut PJRT_ExecuteOptions) -> Answer<ExecuteOptions> {
    let client = rich().client(&[]).unwrap();
    let program = rich().compile(client, name).unwrap();
    let input = put(client, [1, 2]);
    let answer = execute(program, &[input], options).map(|(outputs, event)| {
        rich().wait(event).unwrap();
        assert_eq!(rich().read_ints(outputs[0]), Ok(vec![1, 2]));
        rich().destroy(&outputs);
    });
    rich().destroy(&[input]);
    rich().destroy_loaded(program);
    rich().destroy_client(client);
    answer?;
    let mut all = OPTIONS.lock().unwrap();
    let at = all.iter().rposition(|(program, _)| program == name).unwrap();
    Ok(all.remove(at).1)
}

#[test]
fn every_option_reaches_the_backend() {
    let (mut tasks, mut incarnations) = ([4, 5], [40i64, -50]);
    let mut options = execute_options(&[]);
    options.call_location = c"train.py:12".as_ptr();
    options.num_tasks = 2;
    options.task_ids = tasks.as_mut_ptr();
    options.incarnation_ids = incarnations.as_mut_ptr();
    options.use_major_to_minor_data_layout_for_callbacks = true.into();
    let seen = seen("every option", &mut options).unwrap();
    assert_eq!(seen.launch_id, 7);
    assert_eq!(seen.call_location(), Some("train.py:12"));
    assert_eq!(seen.incarnations().iter().map(|i| (i.task_id, i.incarnation)).collect::<Vec<_>>(), [(4, 40), (5, -50)]);
    assert!(seen.major_to_minor_callbacks());
    assert!(seen.context().is_none() && seen.output_callbacks().is_empty());
}

#[test]
fn custom_options_reach_the_backend() {
    let values = [NamedValue::new("priority", 3i64), NamedValue::new("lane", "fast")];
    let raw = raw_values(&values);
    let mut options = execute_options(&[]);
    (options.custom_options, options.num_custom_options) = (raw.as_ptr(), raw.len());
    assert_eq!(seen("custom", &mut options).unwrap().custom_options(), values);
    // A framework for PJRT 0.115 passes a shorter struct. The memory after the struct is not part of the options.
    options.struct_size = PJRT_ExecuteOptions::size_at(115);
    options.num_custom_options = usize::MAX;
    assert!(seen("older", &mut options).unwrap().custom_options().is_empty());
    options.struct_size = PJRT_ExecuteOptions::STRUCT_SIZE;
    (options.custom_options, options.num_custom_options) = (null(), 1);
    let fault = seen("null", &mut options).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
}

#[test]
fn omitted_options_stay_unset() {
    let mut options = execute_options(&[]);
    options.call_location = c"".as_ptr();
    let seen = seen("nothing", &mut options).unwrap();
    assert_eq!((seen.launch_id, seen.call_location(), seen.incarnations().len()), (7, None, 0));
    assert!(!seen.major_to_minor_callbacks() && seen.context().is_none() && seen.output_callbacks().is_empty());
}

#[test]
fn short_struct_is_read_within_bounds() {
    let history = PJRT_ExecuteOptions::HISTORY.iter().map(|(_, size)| *size);
    let mut lengths = 0;
    for size in history.chain([PJRT_ExecuteOptions::STRUCT_SIZE]) {
        let mut options = execute_options(&[]);
        options.call_location = c"here".as_ptr();
        options.struct_size = size;
        // The memory after the shorter struct of an older framework is garbage and must not be read.
        let bytes = (&raw mut options).cast::<u8>();
        unsafe { bytes.add(size).write_bytes(0xAA, size_of::<PJRT_ExecuteOptions>() - size) };
        let seen = seen("shorter", &mut options).unwrap();
        let knows = size > std::mem::offset_of!(PJRT_ExecuteOptions, call_location);
        assert_eq!(seen.call_location(), knows.then_some("here"), "{size} bytes");
        lengths += 1;
    }
    assert!(lengths >= 3, "the header changed this struct at least twice");
}

#[test]
fn rejects_objects_of_absent_extensions() {
    let mut options = execute_options(&[]);
    options.multi_slice_config = garbage_pointer();
    let fault = seen("slices", &mut options).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::UNIMPLEMENTED);

    let mut options = execute_options(&[]);
    options.num_tasks = 2;
    (options.task_ids, options.incarnation_ids) = (null_mut(), null_mut());
    let fault = seen("tasks", &mut options).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");

    let mut info = PJRT_HloOutputCallbackInfo { user_arg: null_mut(), callback: None, callback_id: 5, num_operands: 2 };
    let mut options = execute_options(&[]);
    (options.hlo_output_callbacks, options.num_hlo_output_callbacks) = (&raw mut info, 1);
    assert_eq!(seen("callback", &mut options).map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
}

type Came = Mutex<Vec<(i64, i64, Vec<u8>, Vec<i64>, u32, i64)>>;

unsafe extern "C" fn take(
    replica: i64,
    partition: i64,
    data: *const c_void,
    dims: *const i64,
    num_dims: usize,
    ty: PJRT_Buffer_Type,
    operand: i64,
    user: *mut c_void,
) {
    let dims = unsafe { slice(dims, num_dims) }.to_vec();
    let data = unsafe { slice(data.cast::<u8>(), 8) }.to_vec();
    unsafe { &*user.cast::<Came>() }.lock().unwrap().push((replica, partition, data, dims, ty.0, operand));
}

fn callback(came: &Came) -> PJRT_HloOutputCallbackInfo {
    let user_arg = std::ptr::from_ref(came).cast_mut().cast();
    PJRT_HloOutputCallbackInfo { user_arg, callback: Some(take), callback_id: 5, num_operands: 2 }
}

#[test]
fn output_callbacks_during_program() {
    let came = Came::default();
    let mut infos = [callback(&came)];
    let mut options = execute_options(&[]);
    (options.hlo_output_callbacks, options.num_hlo_output_callbacks) = (infos.as_mut_ptr(), 1);
    let options = seen("puts", &mut options).unwrap();
    let came = came.into_inner().unwrap();
    let data: Vec<u8> = [1i32, 2].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(came, [(0, 1, data.clone(), vec![2], device_plugin::ElementType::S32.as_raw(), 1)]);
    // The backend has kept a clone of the callbacks, but the execution has ended.
    let callbacks = options.output_callbacks();
    assert_eq!(callbacks.ids().collect::<Vec<_>>(), [(5, 2)]);
    let shape = crate::rich::shape();
    let value = || device_plugin::HostArray::new(&shape, data.clone()).unwrap();
    assert_eq!(callbacks.call(5, (0, 0), 0, &value()).unwrap_err().code(), ErrorCode::FAILED_PRECONDITION);
    let error = callbacks.call(6, (0, 0), 0, &value()).unwrap_err();
    expect!["the framework passed no output callback for operand 0 of callback 6"].assert_eq(error.message());
    assert!(callbacks.call(5, (0, 0), 2, &value()).is_err());
}

#[test]
fn output_callbacks_end_before_event() {
    let came = Came::default();
    let mut infos = [callback(&came)];
    let mut options = execute_options(&[]);
    (options.hlo_output_callbacks, options.num_hlo_output_callbacks) = (infos.as_mut_ptr(), 1);
    let (open, gate) = mpsc::channel();
    *GATE.lock().unwrap() = Some(gate);
    let client = rich().client(&[]).unwrap();
    let program = rich().compile(client, "waits").unwrap();
    let input = put(client, [1, 2]);
    let (outputs, event) = execute(program, &[input], &mut options).unwrap();
    assert!(!rich().is_ready(event));
    open.send(()).unwrap();
    assert_eq!(rich().wait(event), Ok(()));
    assert_eq!(came.lock().unwrap().len(), 1);
    // The device also calls the callback after the execution has ended. Wait for this call.
    while LATE.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(LATE.lock().unwrap()[0].as_ref().unwrap_err().code(), ErrorCode::FAILED_PRECONDITION);
    assert_eq!(came.lock().unwrap().len(), 1);
    rich().destroy(&outputs);
    rich().destroy(&[input]);
    rich().destroy_loaded(program);
    rich().destroy_client(client);
}
