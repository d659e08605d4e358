//! Tests functions of the optional extensions, with every struct size that frameworks passed, and with some invalid
//! sizes.

use pjrt_sys::*;

use super::{Age, Caller, ages};
use crate::extensions::{alias, ask, put, register_type, rich};
use crate::framework::{Buffer, Client, garbage_pointer};

struct Optional {
    client: Client,
    device: *mut PJRT_Device,
    buffer: Buffer,
    raw: *mut PJRT_RawBuffer,
    context: *mut PJRT_ExecuteContext,
}

type Case = fn(&Optional, &mut Caller);

macro_rules! optional {
    ($($slot:ident($w:pat_param, $c:ident) $body:block)*) => {
        const CASES: &[(&str, Case)] = &[$((stringify!($slot), {
            fn case($w: &Optional, $c: &mut Caller) {
                #[allow(clippy::unsafe_removed_from_name, reason = "cases name their slot S")]
                use pjrt_sys::extension_slot::$slot as S;
                $body
            }
            case
        })),*];
    };
}

fn destroy(raw: *mut PJRT_RawBuffer) {
    ask::<extension_slot::PJRT_RawBuffer_Destroy>(|args| args.buffer = raw).unwrap();
}

optional! {
    PJRT_Get_Stream_For_External_Ready_Events(w, c) {
        if let Some(args) = c.extension_of::<S>(rich(), |args| args.device = w.device) {
            assert_eq!(args.stream, -100);
        }
    }
    PJRT_Wait_Until_Buffer_Ready_On_Stream(w, c) {
        c.extension_of::<S>(rich(), |args| (args.stream, args.buffer) = (-1, w.buffer));
    }
    PJRT_FFI_Type_Register(_, c) {
        let called = c.extension_of::<S>(rich(), |args| {
            (args.type_name, args.type_name_size, args.type_id) = (b"history".as_ptr().cast(), 7, 0);
        });
        if let Some(args) = called {
            assert_eq!(Ok(args.type_id), register_type("history", 0));
        }
    }
    PJRT_FFI_UserData_Add(_, c) {
        // Use a new context each time, because a context accepts only one value of each type.
        let context = rich().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context;
        c.extension_of::<S>(rich(), |args| {
            args.context = context;
            args.user_data = PJRT_FFI_UserData { type_id: 5, data: garbage_pointer() };
        });
        rich().ask::<slot::PJRT_ExecuteContext_Destroy>(|args| args.context = context).unwrap();
    }
    PJRT_FFI_Register_Handler(w, c) {
        c.extension_of::<S>(rich(), |args| {
            (args.target_name, args.target_name_size) = (b"history".as_ptr().cast(), 7);
            (args.platform_name, args.platform_name_size) = (b"rich".as_ptr().cast(), 4);
            (args.handler, args.traits) = (w.context.cast(), PJRT_FFI_Handler_TraitsBits(0));
        });
    }
    PJRT_RawBuffer_CreateRawAliasOfBuffer(w, c) {
        if let Some(args) = c.extension_of::<S>(rich(), |args| args.buffer = w.buffer) {
            destroy(args.raw_buffer);
        }
    }
    PJRT_RawBuffer_Destroy(w, c) {
        let raw = alias(w.buffer);
        if c.extension_of::<S>(rich(), |args| args.buffer = raw).is_none() {
            destroy(raw);
        }
    }
    PJRT_RawBuffer_GetOnDeviceSizeInBytes(w, c) {
        if let Some(args) = c.extension_of::<S>(rich(), |args| args.buffer = w.raw) {
            assert_eq!(args.on_device_size_in_bytes, 8);
        }
    }
    PJRT_RawBuffer_GetMemorySpace(w, c) {
        if let Some(args) = c.extension_of::<S>(rich(), |args| args.buffer = w.raw) {
            assert_eq!(args.memory_space, rich().memories(w.client)[0]);
        }
    }
    PJRT_RawBuffer_CopyRawHostToDevice(w, c) {
        let bytes = 4i32.to_le_bytes();
        let called = c.extension_of::<S>(rich(), |args| {
            (args.buffer, args.src) = (w.raw, bytes.as_ptr().cast());
            (args.offset, args.transfer_size) = (4, 4);
        });
        if let Some(args) = called {
            rich().wait(args.event).unwrap();
        }
    }
    PJRT_RawBuffer_CopyRawDeviceToHost(w, c) {
        let mut bytes = [0u8; 4];
        let called = c.extension_of::<S>(rich(), |args| {
            (args.buffer, args.dst) = (w.raw, bytes.as_mut_ptr().cast());
            (args.offset, args.transfer_size) = (0, 4);
        });
        if let Some(args) = called {
            rich().wait(args.event).unwrap();
            assert_eq!(bytes, 3i32.to_le_bytes());
        }
    }
    PJRT_RawBuffer_GetHostPointer(w, c) {
        if let Some(args) = c.extension_of::<S>(rich(), |args| args.buffer = w.raw) {
            assert_eq!(unsafe { *args.host_pointer.cast::<i32>() }, 3);
        }
    }
}

#[test]
fn extensions_serve_every_version() {
    let sizes =
        [PJRT_Stream_Extension::STRUCT_SIZE, PJRT_FFI_Extension::STRUCT_SIZE, PJRT_RawBuffer_Extension::STRUCT_SIZE];
    let functions: usize =
        sizes.iter().map(|size| (size - PJRT_Extension_Base::STRUCT_SIZE) / size_of::<usize>()).sum();
    assert_eq!(CASES.len(), functions, "write cases in history/optional.rs");
    let client = rich().client(&[]).unwrap();
    let buffer = put(client, [3, 4]);
    let context = rich().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context;
    let fixture = Optional { client, device: rich().devices(client)[0], buffer, raw: alias(buffer), context };
    let mut calls = 0;
    for (name, case) in CASES {
        for age in ages() {
            let mut caller = Caller { age, called: Vec::new(), more: false };
            case(&fixture, &mut caller);
            assert_eq!(caller.called, [*name], "{age:?}");
            calls += usize::from(caller.more);
        }
        // Calls with invalid sizes had no effect, so a valid call still succeeds.
        let mut caller = Caller { age: Age::Future(0), called: Vec::new(), more: false };
        case(&fixture, &mut caller);
    }
    assert!(calls > CASES.len() * 13, "{calls}");
    destroy(fixture.raw);
    rich().ask::<slot::PJRT_ExecuteContext_Destroy>(|args| args.context = context).unwrap();
    rich().destroy(&[buffer]);
    rich().destroy_client(client);
}
