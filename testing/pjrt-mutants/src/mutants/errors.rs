//! Faults of errors, and of the rejection of invalid requests.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pjrt_sys::{
    PJRT_Buffer_Type, PJRT_Client, PJRT_Client_Compile_Args, PJRT_Error_Code, PJRT_LoadedExecutable, PJRT_Program, slot,
};

use crate::device::{Answer, Call, ask, bytes, error, leaked, list, write_at};
use crate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("errors.message_empty", "PJRT_Error_Message: returns the message of the error", |device| {
        device.after::<slot::PJRT_Error_Message>(|args| args.message_size = 0);
    }),
    Mutant::new("errors.message_truncated", "PJRT_Error_Message: returns the whole message", |device| {
        device.after::<slot::PJRT_Error_Message>(|args| args.message_size = args.message_size.min(8));
    }),
    Mutant::new("errors.message_moves", "PJRT_Error_Message: the message lives as long as the error", |device| {
        device.after::<slot::PJRT_Error_Message>(|args| {
            args.message = leaked(list(args.message, args.message_size));
        });
    }),
    Mutant::new("errors.one_message_for_all", "PJRT_Error_Message: each error has its own message", |device| {
        let first: OnceLock<Vec<u8>> = OnceLock::new();
        device.after::<slot::PJRT_Error_Message>(move |args| {
            let text = first.get_or_init(|| bytes(args.message, args.message_size));
            (args.message, args.message_size) = (text.as_ptr().cast(), text.len());
        });
    }),
    Mutant::new("errors.code_out_of_range", "PJRT_Error_GetCode: returns a code of PJRT_Error_Code", |device| {
        device.after::<slot::PJRT_Error_GetCode>(|args| args.code = PJRT_Error_Code(99));
    }),
    Mutant::new("errors.code_is_always_unknown", "PJRT_Error_GetCode: returns the code of the error", |device| {
        device.after::<slot::PJRT_Error_GetCode>(|args| args.code = PJRT_Error_Code::PJRT_Error_Code_UNKNOWN);
    }),
    Mutant::new("errors.payloads_lost", "PJRT_Error_ForEachPayload: calls the visitor for each payload", |device| {
        device.skip::<slot::PJRT_Error_ForEachPayload>();
    }),
    Mutant::new("leaks.errors", "PJRT_Error_Destroy: frees the error", |device| {
        device.skip::<slot::PJRT_Error_Destroy>();
    }),
    Mutant::new("errors.garbage_compiles", "PJRT_Client_Compile: a program that is not valid is an error", |device| {
        device.replace::<slot::PJRT_Client_Compile>(|call| {
            let answer = call.pass();
            if answer.is_success() { answer } else { compile_empty(&mut call.args) }
        });
    }),
    Mutant::new("errors.first_error_remains", "PJRT_Client_Compile: an error has no effect on later calls", |device| {
        let failed = AtomicBool::new(false);
        device.replace::<slot::PJRT_Client_Compile>(move |call| {
            if failed.load(Ordering::Relaxed) {
                return error(PJRT_Error_Code::PJRT_Error_Code_INTERNAL, "the compiler failed before");
            }
            let answer = call.pass();
            failed.fetch_or(!answer.is_success(), Ordering::Relaxed);
            answer
        });
    }),
    Mutant::new("errors.garbage_aborts", "PJRT_Client_Compile: a program that is not valid is an error", |device| {
        device.replace::<slot::PJRT_Client_Compile>(|call| {
            let answer = call.pass();
            if answer.is_success() { answer } else { std::process::abort() }
        });
    }),
    Mutant::new("errors.options_ignored", "PJRT_Client_Compile: compile_options apply to the program", |device| {
        device.before::<slot::PJRT_Client_Compile>(|args| args.compile_options_size = 0);
    }),
    Mutant::new(
        "errors.failed_run_succeeds",
        "PJRT_LoadedExecutable_Execute: returns the error of the run",
        |device| {
            super::devices::remember_client(device);
            device.replace::<slot::PJRT_LoadedExecutable_Execute>(|call| {
                let answer = call.pass();
                if answer.is_success() { answer } else { fill_outputs(call) }
            });
        },
    ),
    Mutant::new("errors.buffer_has_no_error", "PJRT_Client_CreateErrorBuffer: uses of the buffer fail", |device| {
        device.replace::<slot::PJRT_Client_CreateErrorBuffer>(|call| {
            let args = call.args;
            let created = ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|new| {
                new.client = args.client;
                new.shape_dims = args.shape_dims;
                new.shape_num_dims = args.shape_num_dims;
                new.shape_element_type = args.shape_element_type;
                new.memory = args.memory;
            });
            match created {
                Some(created) => call.args.buffer = created.buffer,
                None => return call.pass(),
            }
            Answer::SUCCESS
        });
    }),
    Mutant::new("errors.buffer_message_lost", "PJRT_Client_CreateErrorBuffer: uses return the message", |device| {
        device.before::<slot::PJRT_Client_CreateErrorBuffer>(|args| args.error_message_size = 0);
    }),
    Mutant::new("errors.buffer_code_changed", "PJRT_Client_CreateErrorBuffer: uses return the code", |device| {
        device.before::<slot::PJRT_Client_CreateErrorBuffer>(|args| {
            args.error_code = PJRT_Error_Code::PJRT_Error_Code_INTERNAL;
        });
    }),
    Mutant::new("errors.buffer_payload_lost", "PJRT_Client_CreateErrorBuffer: uses return the payload", |device| {
        device.before::<slot::PJRT_Client_CreateErrorBuffer>(|args| args.num_payload = 0);
    }),
    Mutant::new(
        "errors.buffer_shape_lost",
        "PJRT_Client_CreateErrorBuffer: the buffer has the given shape",
        |device| {
            device.before::<slot::PJRT_Client_CreateErrorBuffer>(|args| args.shape_num_dims = 0);
        },
    ),
    Mutant::new("errors.unknown_device_found", "PJRT_Client_LookupDevice: an unknown id is an error", |device| {
        device.replace::<slot::PJRT_Client_LookupDevice>(|call| {
            if call.args.id > 1000 {
                call.args.id = 0;
            }
            call.pass()
        });
    }),
    Mutant::new(
        "errors.negative_local_id_found",
        "PJRT_Client_LookupAddressableDevice: an unknown id is an error",
        |device| {
            device.replace::<slot::PJRT_Client_LookupAddressableDevice>(|call| {
                call.args.local_hardware_id = call.args.local_hardware_id.max(0);
                call.pass()
            });
        },
    ),
    Mutant::new(
        "errors.too_many_replicas",
        "PJRT_Client_DefaultDeviceAssignment: too few devices are an error",
        |device| {
            device.replace::<slot::PJRT_Client_DefaultDeviceAssignment>(|call| {
                let answer = call.pass();
                if answer.is_success() {
                    return answer;
                }
                for at in 0..call.args.default_assignment_size {
                    write_at(call.args.default_assignment, at, 0);
                }
                Answer::SUCCESS
            });
        },
    ),
    Mutant::new(
        "errors.small_assignment_accepted",
        "PJRT_Client_DefaultDeviceAssignment: too little room is an error",
        |device| {
            device.replace::<slot::PJRT_Client_DefaultDeviceAssignment>(|call| {
                let product = i64::from(call.args.num_replicas) * i64::from(call.args.num_partitions);
                let room = i64::try_from(call.args.default_assignment_size).unwrap_or(i64::MAX);
                if product > room { Answer::SUCCESS } else { call.pass() }
            });
        },
    ),
    Mutant::new(
        "errors.negative_replicas_accepted",
        "PJRT_Client_DefaultDeviceAssignment: a negative number is an error",
        |device| {
            device.before::<slot::PJRT_Client_DefaultDeviceAssignment>(|args| {
                args.num_replicas = args.num_replicas.saturating_abs();
            });
        },
    ),
    Mutant::new("leaks.error_messages", "PJRT_Error_Destroy: frees the error's message", |device| {
        let kept = AtomicUsize::new(0);
        device.before::<slot::PJRT_Error_Destroy>(move |_| {
            let message = vec![1_u8; 1000].leak();
            kept.fetch_add(message.len(), Ordering::Relaxed);
        });
    }),
];

/// Compiles an empty program in place of a program whose compilation failed.
fn compile_empty(args: &mut PJRT_Client_Compile_Args) -> *mut pjrt_sys::PJRT_Error {
    args.executable = empty_program(args.client);
    Answer::SUCCESS
}

/// Compiles a program without operations.
pub(super) fn empty_program(client: *mut PJRT_Client) -> *mut PJRT_LoadedExecutable {
    let (code, format) = (b"func.func public @main() { return }", b"mlir");
    let program = PJRT_Program {
        code: leaked(*code).cast(),
        code_size: code.len(),
        format: leaked(*format).cast(),
        format_size: format.len(),
        ..pjrt_sys::AbiStruct::new()
    };
    let compiled = ask::<slot::PJRT_Client_Compile>(|new| {
        new.client = client;
        new.program = leaked([program]);
    });
    compiled.map_or(std::ptr::null_mut(), |compiled| compiled.executable)
}

/// Makes a failed run succeed, with an array of two elements as the first output on each device.
fn fill_outputs(call: &mut Call<slot::PJRT_LoadedExecutable_Execute>) -> *mut pjrt_sys::PJRT_Error {
    let args = &call.args;
    let devices = ask::<slot::PJRT_LoadedExecutable_AddressableDevices>(|new| new.executable = args.executable);
    let Some(devices) = devices else { return call.pass() };
    let devices = list(devices.addressable_devices, devices.num_addressable_devices);
    let Some(client) = super::devices::client() else { return call.pass() };
    for (places, device) in list(args.output_lists, args.num_devices).into_iter().zip(devices) {
        let new = ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|new| {
            new.client = client;
            new.shape_dims = leaked([2_i64]);
            new.shape_num_dims = 1;
            new.shape_element_type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
            new.device = device;
        });
        write_at(places, 0, new.map_or(std::ptr::null_mut(), |new| new.buffer));
    }
    Answer::SUCCESS
}
