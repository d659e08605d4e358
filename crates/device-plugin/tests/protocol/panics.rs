//! Tests that a call fails if the backend panics, and that the client remains usable.

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Client, toy};

fn client_that_panics_in(method: &str) -> Answer<Client> {
    toy().client(&[NamedValue::new("panic_in", method)])
}

/// Returns the message of a call that failed because `method` panicked.
fn message(answer: Answer, method: &str) -> String {
    let fault = answer.expect_err(method);
    assert_eq!(fault.code, ErrorCode::INTERNAL);
    fault.message + "\n"
}

#[test]
fn creating_a_client_may_panic() {
    let messages =
        ["create", "devices", "memories"].map(|method| message(client_that_panics_in(method).map(drop), method));
    expect![[r#"
        PJRT_Client_Create: the plugin panicked: asked to panic in create
        PJRT_Client_Create: the plugin panicked: asked to panic in devices
        PJRT_Client_Create: the plugin panicked: asked to panic in memories
    "#]]
    .assert_eq(&messages.concat());
}

#[test]
fn every_other_method_may_panic() {
    let mut messages = String::new();
    let mut of = |method: &str, call: &dyn Fn(Client) -> Answer| {
        let client = client_that_panics_in(method).unwrap();
        let first = message(call(client), method);
        // The client still works.
        assert_eq!(toy().devices(client).len(), 2);
        assert_eq!(message(call(client), method), first);
        messages += &first;
        toy().destroy_client(client);
    };
    let put = |client: Client| toy().put(client, &Shape::new(ElementType::U8, [1]), &[1], 0);
    of("memory_stats", &|client| {
        let device = toy().devices(client)[0];
        toy().ask::<slot::PJRT_Device_MemoryStats>(|args| args.device = device).map(drop)
    });
    of("clear_memory_stats", &|client| {
        let device = toy().devices(client)[0];
        toy().ask::<slot::PJRT_Device_ClearMemoryStats>(|args| args.device = device).map(drop)
    });
    of("poison_execution", &|client| {
        let device = toy().devices(client)[0];
        let poison = toy().ask::<slot::PJRT_Device_PoisonExecution>(|args| {
            (args.device, args.error_code, args.error_message_size, args.num_payload) =
                (device, PJRT_Error_Code(1), 0, 0);
        });
        poison.map(drop)
    });
    of("track", &|client| {
        let device = toy().devices(client)[0];
        toy()
            .ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
                (args.device, args.description_size) = (device, 0);
            })
            .map(drop)
    });
    of("update_global_process_info", &|client| {
        let update = toy().ask::<slot::PJRT_Client_UpdateGlobalProcessInfo>(|args| {
            (args.client, args.num_process_infos) = (client, 0);
        });
        update.map(drop)
    });
    of("dma_map", &|client| {
        let map = toy().ask::<slot::PJRT_Client_DmaMap>(|args| {
            (args.client, args.data, args.size) = (client, std::ptr::without_provenance_mut(4096), 1);
        });
        map.map(drop)
    });
    of("buffer_from_host", &|client| put(client).map(drop));
    of("read", &|client| {
        let buffer = put(client).unwrap();
        let answer = toy().read(buffer).map(drop);
        assert!(!toy().is_deleted(buffer));
        toy().destroy(&[buffer]);
        answer
    });
    of("host_bytes", &|client| {
        let buffer = put(client).unwrap();
        let answer = toy().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = buffer).map(drop);
        toy().destroy(&[buffer]);
        answer
    });
    of("compile", &|client| toy().compile(client, "op=echo\nin=u8[1]").map(drop));
    of("execute", &|client| {
        let (executable, buffer) = (toy().compile(client, "op=echo\nin=u8[1]").unwrap(), put(client).unwrap());
        let answer = toy().execute(executable, &[buffer], 1).map(drop);
        assert_eq!(toy().read(buffer).unwrap(), [1]);
        toy().destroy(&[buffer]);
        toy().destroy_loaded(executable);
        answer
    });
    of("cost_analysis", &|client| {
        let loaded = toy().compile(client, "op=echo\nin=u8[1]").unwrap();
        let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
        let held = held.unwrap().executable;
        let answer = toy().ask::<slot::PJRT_Executable_GetCostAnalysis>(|args| args.executable = held).map(drop);
        toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = held).unwrap();
        toy().destroy_loaded(loaded);
        answer
    });
    expect![[r#"
        PJRT_Device_MemoryStats: the plugin panicked: asked to panic in memory_stats
        PJRT_Device_ClearMemoryStats: the plugin panicked: asked to panic in clear_memory_stats
        PJRT_Device_PoisonExecution: the plugin panicked: asked to panic in poison_execution
        PJRT_Device_CreateAsyncTrackingEvent: the plugin panicked: asked to panic in track
        PJRT_Client_UpdateGlobalProcessInfo: the plugin panicked: asked to panic in update_global_process_info
        PJRT_Client_DmaMap: the plugin panicked: asked to panic in dma_map
        PJRT_Client_BufferFromHostBuffer: the plugin panicked: asked to panic in buffer_from_host
        PJRT_Buffer_ToHostBuffer: the plugin panicked: asked to panic in read
        PJRT_Buffer_UnsafePointer: the plugin panicked: asked to panic in host_bytes
        PJRT_Client_Compile: the plugin panicked: asked to panic in compile
        PJRT_LoadedExecutable_Execute: the plugin panicked: asked to panic in execute
        PJRT_Executable_GetCostAnalysis: the plugin panicked: asked to panic in cost_analysis
    "#]]
    .assert_eq(&messages);
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
    expect!["the plugin panicked: asked to panic in read"].assert_eq(&fault.message);
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}
