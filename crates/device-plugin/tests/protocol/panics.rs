//! Tests that a call fails if the backend panics, and that the client remains usable.

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape};
use pjrt_sys::*;
use recorded_messages::assert_message;

use crate::framework::{Answer, Client, toy};

fn client_that_panics_in(method: &str) -> Answer<Client> {
    toy().client(&[NamedValue::new("panic_in", method)])
}

fn check(answer: Answer, function: &str, method: &str) {
    let fault = answer.expect_err(method);
    assert_eq!(fault.code, ErrorCode::INTERNAL);
    assert_message!("panics::methods", format_args!("{method} in {function}"), fault.message);
}

#[test]
fn creating_a_client_may_panic() {
    for method in ["create", "devices", "memories"] {
        check(client_that_panics_in(method).map(drop), "PJRT_Client_Create", method);
    }
}

#[test]
fn every_other_method_may_panic() {
    let of = |method: &str, function: &str, call: &dyn Fn(Client) -> Answer| {
        let client = client_that_panics_in(method).unwrap();
        check(call(client), function, method);
        // The client still works.
        assert_eq!(toy().devices(client).len(), 2);
        check(call(client), function, method);
        toy().destroy_client(client);
    };
    let put = |client: Client| toy().put(client, &Shape::new(ElementType::U8, [1]), &[1], 0);
    of("memory_stats", "PJRT_Device_MemoryStats", &|client| {
        let device = toy().devices(client)[0];
        toy().ask::<slot::PJRT_Device_MemoryStats>(|args| args.device = device).map(drop)
    });
    of("clear_memory_stats", "PJRT_Device_ClearMemoryStats", &|client| {
        let device = toy().devices(client)[0];
        toy().ask::<slot::PJRT_Device_ClearMemoryStats>(|args| args.device = device).map(drop)
    });
    of("poison_execution", "PJRT_Device_PoisonExecution", &|client| {
        let device = toy().devices(client)[0];
        let poison = toy().ask::<slot::PJRT_Device_PoisonExecution>(|args| {
            (args.device, args.error_code, args.error_message_size, args.num_payload) =
                (device, PJRT_Error_Code(1), 0, 0);
        });
        poison.map(drop)
    });
    of("track", "PJRT_Device_CreateAsyncTrackingEvent", &|client| {
        let device = toy().devices(client)[0];
        toy()
            .ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
                (args.device, args.description_size) = (device, 0);
            })
            .map(drop)
    });
    of("update_global_process_info", "PJRT_Client_UpdateGlobalProcessInfo", &|client| {
        let update = toy().ask::<slot::PJRT_Client_UpdateGlobalProcessInfo>(|args| {
            (args.client, args.num_process_infos) = (client, 0);
        });
        update.map(drop)
    });
    of("dma_map", "PJRT_Client_DmaMap", &|client| {
        let map = toy().ask::<slot::PJRT_Client_DmaMap>(|args| {
            (args.client, args.data, args.size) = (client, std::ptr::without_provenance_mut(4096), 1);
        });
        map.map(drop)
    });
    of("buffer_from_host", "PJRT_Client_BufferFromHostBuffer", &|client| put(client).map(drop));
    of("read", "PJRT_Buffer_ToHostBuffer", &|client| {
        let buffer = put(client).unwrap();
        let answer = toy().read(buffer).map(drop);
        assert!(!toy().is_deleted(buffer));
        toy().destroy(&[buffer]);
        answer
    });
    of("host_bytes", "PJRT_Buffer_UnsafePointer", &|client| {
        let buffer = put(client).unwrap();
        let answer = toy().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = buffer).map(drop);
        toy().destroy(&[buffer]);
        answer
    });
    of("compile", "PJRT_Client_Compile", &|client| toy().compile(client, "op=echo\nin=u8[1]").map(drop));
    of("execute", "PJRT_LoadedExecutable_Execute", &|client| {
        let (executable, buffer) = (toy().compile(client, "op=echo\nin=u8[1]").unwrap(), put(client).unwrap());
        let answer = toy().execute(executable, &[buffer], 1).map(drop);
        assert_eq!(toy().read(buffer).unwrap(), [1]);
        toy().destroy(&[buffer]);
        toy().destroy_loaded(executable);
        answer
    });
    of("cost_analysis", "PJRT_Executable_GetCostAnalysis", &|client| {
        let loaded = toy().compile(client, "op=echo\nin=u8[1]").unwrap();
        let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
        let held = held.unwrap().executable;
        let answer = toy().ask::<slot::PJRT_Executable_GetCostAnalysis>(|args| args.executable = held).map(drop);
        toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = held).unwrap();
        toy().destroy_loaded(loaded);
        answer
    });
}

#[test]
fn panic_on_completing_thread_fails_event() {
    let client = client_that_panics_in("read").unwrap();
    let executable = toy().compile(client, "op=later\nin=u8[1]\ngate=panics-later").unwrap();
    let buffer = toy().put(client, &Shape::new(ElementType::U8, [1]), &[1], 0).unwrap();
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    let mut byte = 0u8;
    let (read, _) = toy().read_into(outputs[0], &raw mut byte, 1).unwrap();
    crate::toy::open_gate("panics-later");
    toy().wait(event).unwrap();
    let fault = toy().wait(read).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INTERNAL);
    assert_message!("panics::reads", "later", fault.message);
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}
