//! The layer `validate`: calls that break a rule are reported, and a correct program is not.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::raw;
use pjrt::{ClientOptions, CompileOptions, Plugin, Program};
use pjrt_cpu::Cpu;
use pjrt_layers::validate::{Reports, Validate};
use pjrt_layers::{Instance, Layer, State, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Buffer, PJRT_Buffer_Delete_Args, PJRT_Buffer_Destroy_Args, PJRT_Buffer_IsDeleted_Args,
    PJRT_Buffer_ReadyEvent_Args, PJRT_Client, PJRT_Client_BufferFromHostBuffer_Args, PJRT_Client_Compile_Args,
    PJRT_Client_Create_Args, PJRT_Client_Destroy_Args, PJRT_Error, PJRT_Event_Destroy_Args, PJRT_ExecuteOptions,
    PJRT_LoadedExecutable, PJRT_LoadedExecutable_Execute_Args, StaticApi,
};

/// A handle that no object is behind.
fn next<T>() -> *mut T {
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    std::ptr::without_provenance_mut(NEXT.fetch_add(0x40, Ordering::Relaxed))
}

/// Functions of a plugin that never reads through a handle, so that tests may pass any.
macro_rules! fakes {
    ($($name:ident($args:ident: $type:ident) $body:block)*) => {
        $(unsafe extern "C" fn $name(args: *mut $type) -> *mut PJRT_Error {
            // SAFETY: V1: the test passes arguments of this size, which only this call uses.
            let $args = unsafe { &mut *args };
            $body
            null_mut()
        })*
    };
}

fakes! {
    create(args: PJRT_Client_Create_Args) { args.client = next(); }
    destroy_client(_args: PJRT_Client_Destroy_Args){}
    compile(args: PJRT_Client_Compile_Args) { args.executable = next(); }
    upload(args: PJRT_Client_BufferFromHostBuffer_Args) { args.buffer = next(); }
    ready_event(args: PJRT_Buffer_ReadyEvent_Args) { args.event = std::ptr::without_provenance_mut(0x10); }
    destroy_event(_args: PJRT_Event_Destroy_Args) {}
    is_deleted(_args: PJRT_Buffer_IsDeleted_Args){}
    delete(_args: PJRT_Buffer_Delete_Args){}
    destroy(_args: PJRT_Buffer_Destroy_Args){}
    execute(_args: PJRT_LoadedExecutable_Execute_Args){}
}

/// A framework on the fake plugin.
struct Framework {
    table: &'static PJRT_Api,
    reports: Reports,
}

/// Calls a function of the table.
macro_rules! call {
    ($framework:expr, $function:ident, $args:ident { $($field:ident: $value:expr),* }) => {{
        let mut args = $args::new();
        $(args.$field = $value;)*
        // SAFETY: C2: the struct has its size, and the fake plugin reads no handle.
        let error = unsafe { $framework.table.$function.unwrap()(&raw mut args) };
        assert!(error.is_null());
        args
    }};
}

impl Framework {
    fn new<I: Instance>() -> Self {
        let mut table = PJRT_Api::new();
        table.pjrt_api_version.minor_version = 117;
        table.PJRT_Client_Create = Some(create);
        table.PJRT_Client_Destroy = Some(destroy_client);
        table.PJRT_Client_Compile = Some(compile);
        table.PJRT_Client_BufferFromHostBuffer = Some(upload);
        table.PJRT_Buffer_IsDeleted = Some(is_deleted);
        table.PJRT_Buffer_ReadyEvent = Some(ready_event);
        table.PJRT_Event_Destroy = Some(destroy_event);
        table.PJRT_Buffer_Delete = Some(delete);
        table.PJRT_Buffer_Destroy = Some(destroy);
        table.PJRT_LoadedExecutable_Execute = Some(execute);
        // SAFETY: C1 to C9: the table lives as long as the process, and its functions keep the contract for the calls of
        // the tests.
        let plugin = unsafe { StaticApi::new(Box::leak(Box::new(table))) };
        let reports = Reports::collected();
        let api = State::start::<I>(plugin, vec![Box::new(Validate::new(reports.clone()))]);
        // SAFETY: the table lives as long as the process.
        Self { table: unsafe { &*api.as_raw() }, reports }
    }

    fn client(&self) -> *mut PJRT_Client {
        call!(self, PJRT_Client_Create, PJRT_Client_Create_Args {}).client
    }

    fn buffer(&self, client: *mut PJRT_Client) -> *mut PJRT_Buffer {
        call!(self, PJRT_Client_BufferFromHostBuffer, PJRT_Client_BufferFromHostBuffer_Args { client: client }).buffer
    }

    fn executable(&self, client: *mut PJRT_Client) -> *mut PJRT_LoadedExecutable {
        call!(self, PJRT_Client_Compile, PJRT_Client_Compile_Args { client: client }).executable
    }

    fn execute(&self, executable: *mut PJRT_LoadedExecutable, buffer: *mut PJRT_Buffer) {
        let mut options = PJRT_ExecuteOptions::new();
        let arguments = [buffer];
        let lists = [arguments.as_ptr()];
        let outputs = [null_mut()];
        call!(
            self,
            PJRT_LoadedExecutable_Execute,
            PJRT_LoadedExecutable_Execute_Args {
                executable: executable,
                options: &raw mut options,
                argument_lists: lists.as_ptr(),
                num_devices: 1,
                num_args: 1,
                output_lists: outputs.as_ptr()
            }
        );
    }

    fn ids(&self) -> Vec<&'static str> {
        self.reports.all().iter().map(|report| report.rule.id).collect()
    }
}

/// Declares a test with a framework of its own.
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
            call!(f, PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable_Execute_Args { executable: executable });
        }
        no_output_lists(f) ["execute.no-output-lists"], {
            let executable = f.executable(f.client());
            call!(f, PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable_Execute_Args {
                executable: executable,
                num_devices: 1
            });
        }
    }
}

mod structs {
    use super::*;

    tests! {
        too_short(f) ["struct.too-short", "object.null"], {
            call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args { struct_size: 16 });
        }
    }
}

#[test]
fn report_names_rule_and_remedy() {
    instance!(Named);
    let f = Framework::new::<Named>();
    call!(f, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args {});
    let text = f.reports.all()[0].to_string();
    assert!(text.starts_with("[object.null] PJRT_Buffer_IsDeleted: `buffer` is null\n"), "{text}");
    assert!(text.contains("pjrt_c_api.h") && text.contains("remedy: pass a live object"), "{text}");
}

#[test]
fn correct_program_has_no_reports() {
    instance!(Correct);
    let reports = Reports::collected();
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Validate::new(reports.clone()))];
    // SAFETY: `device-plugin` keeps C1 to C9 for its tables.
    let plugin = unsafe { StaticApi::new(raw::api::<Cpu>()) };
    let api = State::start::<Correct>(plugin, layers);
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
