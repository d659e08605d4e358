//! Tests of the layer `validate`, which reports calls that break a rule, and reports nothing for a correct program.

mod framework;
mod real_plugins;

use std::fs;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use expect_test::expect;
use pjrt::{ClientOptions, CompileOptions, Plugin, Program};
use pjrt_layers::validate::{RULES, Reports, Validate};
use pjrt_layers::{Layer, Stack, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Buffer_CopyToDevice_Args, PJRT_Buffer_Delete_Args, PJRT_Buffer_Destroy_Args,
    PJRT_Buffer_IsDeleted_Args, PJRT_Buffer_IsOnCpu_Args, PJRT_Buffer_MemoryLayout, PJRT_Buffer_ReadyEvent_Args,
    PJRT_Buffer_Type, PJRT_Client_BufferFromHostBuffer_Args, PJRT_Client_Compile_Args, PJRT_Client_Destroy_Args,
    PJRT_Error, PJRT_Event, PJRT_Event_Await_Args, PJRT_Event_Destroy_Args, PJRT_Event_Error_Args,
    PJRT_Event_IsReady_Args, PJRT_Event_OnReady_Args, PJRT_ExecuteOptions, PJRT_LoadedExecutable_Execute_Args,
    PJRT_Program,
};

use crate::setup::embedded;

use self::framework::{
    BYTES, DELETING, F32, Framework, GATE, HELD, ONE_DEVICE, S32, SLOW, STARTED, call, next, program,
};

/// Declares tests, each with the rule ids of the expected reports. Each test has its own framework.
macro_rules! tests {
    ($($name:ident($framework:ident) $expected:expr, $body:block)*) => {
        $(#[test]
        fn $name() {
            instance!(Own);
            let $framework = Framework::new::<Own>();
            $body
            assert_eq!($framework.ids(), $expected);
        })*
    };
}

mod objects {
    use super::*;

    tests! {
        use_after_destroy(f) ["object.use-after-destroy"], {
            let buffer = f.buffer(f.client());
            call!(f, PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args { buffer: buffer });
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args { buffer: buffer });
            let report = f.reports.all().remove(0);
            assert_eq!(report.last_calls, ["PJRT_Client_BufferFromHostBuffer", "PJRT_Buffer_Destroy"]);
        }
        handle_returned_twice_is_destroyed_twice(f) [""; 0], {
            for _ in 0..2 {
                call!(f, PJRT_Buffer_ReadyEvent, PJRT_Buffer_ReadyEvent_Args { buffer: next() });
            }
            for _ in 0..2 {
                let event = std::ptr::without_provenance_mut(0x10);
                call!(f, PJRT_Event_Destroy, PJRT_Event_Destroy_Args { event: event });
            }
        }
        double_destroy(f) ["object.double-destroy"], {
            let buffer = f.buffer(f.client());
            call!(f, PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args { buffer: buffer });
            call!(f, PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args { buffer: buffer });
        }
        wrong_type(f) ["object.wrong-type"], {
            let buffer = f.executable(f.client()).cast();
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args { buffer: buffer });
        }
        null(f) ["object.null"], {
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args {});
        }
        unknown_handle_is_accepted(f) [""; 0], {
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args { buffer: next() });
        }
        client_destroyed_first(f) ["client.destroyed-before-object"], {
            let client = f.client();
            let buffer = f.buffer(client);
            call!(f, PJRT_Client_Destroy, PJRT_Client_Destroy_Args { client: client });
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args { buffer: buffer });
        }
    }
}

mod runs {
    use super::*;

    tests! {
        deleted_argument(f) ["buffer.use-after-delete"], {
            let client = f.client();
            let buffer = f.buffer(client);
            call!(f, PJRT_Buffer_Delete, PJRT_Buffer_Delete_Args { buffer: buffer });
            f.execute(f.executable(client), buffer);
        }
        argument_of_other_client(f) ["client.mixed"], {
            let buffer = f.buffer(f.client());
            f.execute(f.executable(f.client()), buffer);
        }
        null_argument(f) ["object.null"], {
            f.execute(f.executable(f.client()), null_mut());
        }
        no_devices(f) ["execute.no-devices"], {
            let executable = f.executable(f.client());
            let mut options = PJRT_ExecuteOptions::new();
            call!(f, PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable_Execute_Args {
                executable: executable,
                options: &raw mut options
            });
        }
        argument_on_other_device(f) ["device.wrong"], {
            let client = f.client();
            let executable = f.executable(client);
            f.execute(executable, f.buffer_on(client, std::ptr::without_provenance_mut(ONE_DEVICE.0[0])));
            f.execute(executable, f.buffer_on(client, f.devices(client)[0]));
        }
        wrong_number_of_devices(f) ["execute.wrong-device-count"], {
            let executable = f.executable(f.client());
            let mut options = PJRT_ExecuteOptions::new();
            let (lists, outputs) = ([std::ptr::null(); 2], [null_mut(); 2]);
            call!(f, PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable_Execute_Args {
                executable: executable,
                options: &raw mut options,
                argument_lists: lists.as_ptr(),
                num_devices: 2,
                output_lists: outputs.as_ptr()
            });
        }
        arguments_like_the_parameters(f) [""; 0], {
            let client = f.client();
            let dynamic = f.typed(client, S32, &[4]);
            f.run(f.with_parameters(client), &[f.typed(client, F32, &[2, 3]), dynamic]);
        }
        argument_of_other_shape(f) ["execute.wrong-shape"; 3], {
            let client = f.client();
            let executable = f.with_parameters(client);
            let dynamic = f.typed(client, S32, &[4]);
            for dims in [&[3_i64, 2] as &[i64], &[6], &[]] {
                f.run(executable, &[f.typed(client, F32, dims), dynamic]);
            }
            let what = &f.reports.all()[0].what;
            assert!(what.contains("f32[3,2]") && what.contains("f32[2,3]"), "{what}");
        }
        argument_of_other_type(f) ["execute.wrong-shape"], {
            let client = f.client();
            let dynamic = f.typed(client, S32, &[4]);
            f.run(f.with_parameters(client), &[f.typed(client, S32, &[2, 3]), dynamic]);
        }
        wrong_number_of_arguments(f) ["execute.wrong-argument-count"], {
            let client = f.client();
            f.run(f.with_parameters(client), &[f.typed(client, F32, &[6])]);
        }
        copy_to_device_of_other_client(f) ["client.mixed"], {
            let (client, other) = (f.client(), f.client());
            let buffer = f.buffer(client);
            for dst_device in [f.devices(client)[1], f.devices(other)[0]] {
                call!(f, PJRT_Buffer_CopyToDevice, PJRT_Buffer_CopyToDevice_Args { buffer: buffer, dst_device: dst_device });
            }
        }
        no_output_lists(f) ["execute.no-output-lists"], {
            let executable = f.executable(f.client());
            let mut options = PJRT_ExecuteOptions::new();
            call!(f, PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable_Execute_Args {
                executable: executable,
                options: &raw mut options,
                num_devices: 1
            });
        }
    }
}

mod arguments {
    use super::*;

    tests! {
        null_pointer_with_a_length(f) ["argument.null"], {
            call!(f, PJRT_Client_Compile, PJRT_Client_Compile_Args {
                client: f.client(),
                program: program(),
                compile_options_size: 3
            });
        }
        null_data(f) ["argument.null"], {
            let client = f.client();
            call!(f, PJRT_Client_BufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args { client: client });
            // An array without elements needs no data.
            let dims = [0_i64, 3];
            call!(f, PJRT_Client_BufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args {
                client: client,
                dims: dims.as_ptr(),
                num_dims: 2
            });
        }
        null_program(f) ["argument.null"], {
            call!(f, PJRT_Client_Compile, PJRT_Client_Compile_Args { client: f.client() });
        }
        unknown_element_type(f) ["argument.unknown-value"], {
            call!(f, PJRT_Client_BufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args {
                client: f.client(),
                data: (&raw const BYTES).cast(),
                type_: PJRT_Buffer_Type(1000)
            });
        }
    }
}

mod events {
    use super::*;

    unsafe extern "C" fn ignore(_: *mut PJRT_Error, _: *mut std::ffi::c_void) {}

    /// Waits for the event in `argument`, in a callback of another event.
    unsafe extern "C" fn wait_for(_: *mut PJRT_Error, argument: *mut std::ffi::c_void) {
        // SAFETY: C6: the test registers this argument.
        let (f, event) = unsafe { &*argument.cast::<(&Framework, *mut PJRT_Event)>() };
        call!(f, PJRT_Event_Await, PJRT_Event_Await_Args { event: *event });
    }

    tests! {
        error_before_ready(f) ["event.error-before-ready"], {
            call!(f, PJRT_Event_Error, PJRT_Event_Error_Args { event: f.event() });
            call!(f, PJRT_Buffer_ReadyEvent, PJRT_Buffer_ReadyEvent_Args { buffer: next() });
            let ready = std::ptr::without_provenance_mut(0x10);
            call!(f, PJRT_Event_Error, PJRT_Event_Error_Args { event: ready });
        }
        wait_in_callback(f) ["thread.wait-in-callback"], {
            let (first, second) = (f.event(), f.event());
            call!(f, PJRT_Event_Await, PJRT_Event_Await_Args { event: second });
            let mut argument = (&f, second);
            call!(f, PJRT_Event_OnReady, PJRT_Event_OnReady_Args {
                event: first,
                callback: Some(wait_for),
                user_arg: (&raw mut argument).cast()
            });
        }
        destroyed_or_used_events_are_fine(f) [""; 0], {
            call!(f, PJRT_Event_Destroy, PJRT_Event_Destroy_Args { event: f.event() });
            call!(f, PJRT_Event_OnReady, PJRT_Event_OnReady_Args { event: f.event(), callback: Some(ignore) });
            call!(f, PJRT_Event_IsReady, PJRT_Event_IsReady_Args { event: f.event() });
            f.exit();
        }
        unused_event(f) ["event.unused"], {
            f.event();
            f.event();
            f.exit();
            expect!["2 of its events were neither destroyed nor used until the process ended"]
                .assert_eq(&f.reports.all()[0].what);
        }
    }

    /// A thread waits for an event that is not ready, while the test reads the graph of waiting threads.
    #[test]
    fn waiting_threads_are_in_the_graph() {
        instance!(Waiting);
        let f = Framework::new::<Waiting>();
        let event = f.event().expose_provenance();
        GATE.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let event = std::ptr::with_exposed_provenance_mut(event);
                call!(f, PJRT_Event_Await, PJRT_Event_Await_Args { event: event });
            });
            while f.validate.waits().is_empty() {
                std::thread::yield_now();
            }
            let text = f.validate.waits();
            let event = format!("{event:#x} of PJRT_LoadedExecutable_Execute");
            assert!(text.contains(&event) && text.contains("run 1 of "), "{text}");
            GATE.store(false, Ordering::Release);
            thread.join().unwrap();
        });
        assert_eq!(f.validate.waits(), "");
    }
}

mod threads {
    use super::*;

    /// The buffer is destroyed while a call of another thread uses it.
    #[test]
    fn destroyed_in_use() {
        instance!(InUse);
        let f = Framework::new::<InUse>();
        let buffer = f.buffer(f.client()).expose_provenance();
        SLOW.store(true, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let buffer = std::ptr::with_exposed_provenance_mut(buffer);
                call!(f, PJRT_Buffer_IsOnCpu, PJRT_Buffer_IsOnCpu_Args { buffer: buffer });
            });
            while !STARTED.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let buffer = std::ptr::with_exposed_provenance_mut(buffer);
            call!(f, PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args { buffer: buffer });
            SLOW.store(false, Ordering::Release);
        });
        assert_eq!(f.ids(), ["thread.destroyed-in-use"]);
    }

    /// A run that begins while another thread deletes its argument may succeed, but not a run that begins later.
    #[test]
    fn run_during_deletion() {
        instance!(DuringDeletion);
        let f = Framework::new::<DuringDeletion>();
        let client = f.client();
        let (executable, buffer) = (f.executable(client), f.buffer(client));
        let address = buffer.expose_provenance();
        HELD.store(address, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let buffer = std::ptr::with_exposed_provenance_mut(address);
                call!(f, PJRT_Buffer_Delete, PJRT_Buffer_Delete_Args { buffer: buffer });
            });
            while !DELETING.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            f.execute(executable, buffer);
            HELD.store(0, Ordering::Release);
        });
        assert_eq!(f.ids(), [""; 0]);
        f.execute(executable, buffer);
        assert_eq!(f.ids(), ["buffer.use-after-delete"]);
    }
}

mod structs {
    use super::*;

    tests! {
        too_short(f) ["struct.too-short", "object.null"], {
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args { struct_size: 16 });
        }
        struct_in_arguments_too_short(f) ["struct.too-short"], {
            let mut short = PJRT_Program::new();
            short.struct_size = 16;
            call!(f, PJRT_Client_Compile, PJRT_Client_Compile_Args { client: f.client(), program: &raw const short });
        }
        layout_without_size_is_fine(f) [""; 0], {
            let mut layout = PJRT_Buffer_MemoryLayout::new();
            layout.struct_size = 8;
            call!(f, PJRT_Client_BufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args {
                client: f.client(),
                data: (&raw const BYTES).cast(),
                device_layout: &raw mut layout
            });
        }
    }
}

#[test]
fn report_names_rule_and_remedy() {
    instance!(Named);
    let f = Framework::new::<Named>();
    call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args {});
    let text = f.reports.all()[0].to_string();
    expect![[r#"
        [object.null] PJRT_Buffer_IsDeleted: `buffer` is null
          rule: a function's object must not be null, except for some functions such as `PJRT_Client_Destroy` (https://github.com/openxla/xla/blob/main/xla/pjrt/c/pjrt_c_api.h; docs/layers.md#object-null in the SDK)
          remedy: pass a live object"#]]
    .assert_eq(text.trim_end());
}

#[test]
fn correct_program_has_no_reports() {
    instance!(Correct);
    let reports = Reports::collected();
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Validate::new(reports.clone()))];
    let plugin = embedded();
    let api = Stack::start::<Correct>(plugin, layers);
    let client = Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap();
    let program = Program::mlir(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %x, %x : tensor<2xf32>
            return %0 : tensor<2xf32>
        }",
    );
    let executable = client.compile(&program, &CompileOptions::default()).unwrap();
    let input = client.buffer_from_host(&[1_f32, 2.0], &[2]).unwrap();
    let outputs = executable.execute(&[&input]).unwrap();
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.0, 4.0]);
    drop((outputs, input, executable, client));
    let texts: Vec<String> = reports.all().iter().map(ToString::to_string).collect();
    assert_eq!(texts, [""; 0]);
}

/// A report contains a link to the rule's row in `docs/layers.md`, so the page needs a row for each rule.
#[test]
fn page_has_every_rule() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/layers.md");
    let text = fs::read_to_string(page).unwrap();
    for rule in RULES {
        let anchor = rule.anchor();
        let (page, id) = anchor.split_once('#').unwrap();
        assert_eq!(page, "docs/layers.md");
        assert!(text.contains(&format!("| <a id=\"{id}\"></a>`{}` |", rule.id)), "{}", rule.id);
    }
}
