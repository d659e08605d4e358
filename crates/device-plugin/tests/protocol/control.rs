//! Tests functions that control devices and clients: poisoning, tracking events, process states and memory mappings.

use std::ptr::{null, null_mut};

use device_plugin::{ErrorCode, NamedValue};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Client, garbage, raw_values, toy};
use crate::toy::{notes, open_gate};

#[test]
fn poisoned_execution_fails_outputs() {
    let client = toy().client(&[]).unwrap();
    let devices = toy().devices(client);
    let executable = toy().compile(client, "op=endless\nin=s32[1]").unwrap();
    let buffer = toy().ints(client, &[1]);
    let values = [NamedValue::new("reason", "tired")];
    let payload = raw_values(&values);
    let poison = |device: *mut PJRT_Device, launch_id: i32, code: u32| {
        toy()
            .ask::<slot::PJRT_Device_PoisonExecution>(|args| {
                (args.device, args.launch_id, args.error_code) = (device, launch_id, PJRT_Error_Code(code));
                (args.error_message, args.error_message_size) = (c"stop".as_ptr(), 4);
                (args.payload, args.num_payload) = (payload.as_ptr(), payload.len());
            })
            .map(|args| args.poisoned.get())
    };
    assert_eq!(poison(devices[0], 7, 10), Ok(false));
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    assert_eq!(poison(devices[0], 8, 10), Ok(false));
    assert_eq!(poison(devices[1], 7, 10), Ok(false));
    assert!(!toy().is_ready(event));
    let fault = poison(devices[0], 7, 0).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_Device_PoisonExecution: error_code is OK; pass the code of an error"].assert_eq(&fault.message);
    assert_eq!(poison(devices[0], 7, 10), Ok(true));
    let fault = toy().wait(event).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::ABORTED, "stop"));
    assert_eq!(toy().read_ints(outputs[0]).unwrap_err(), fault);
    assert_eq!(poison(devices[0], 7, 10), Ok(false));
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn tracking_ends_with_event() {
    let client = toy().client(&[]).unwrap();
    let device = toy().devices(client)[1];
    let name = "a tracked transfer";
    let create = || {
        toy().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
            args.device = device;
            (args.description, args.description_size) = (name.as_ptr().cast(), name.len());
        })
    };
    let event = create().unwrap().event;
    assert_eq!(notes(name), ["a tracked transfer on 1 begins"]);
    toy().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|args| args.event = event).unwrap();
    assert_eq!(notes(name), ["a tracked transfer on 1 begins", "a tracked transfer on 1 ends"]);
    toy().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|args| args.event = null_mut()).unwrap();
    toy().destroy_client(client);
}

#[test]
fn clears_memory_stats() {
    let client = toy().client(&[]).unwrap();
    let devices = toy().devices(client);
    let clear = |device| toy().ask::<slot::PJRT_Device_ClearMemoryStats>(|args| args.device = device).map(drop);
    clear(devices[0]).unwrap();
    assert_eq!(clear(devices[1]).unwrap_err().code, ErrorCode::UNIMPLEMENTED);
    toy().destroy_client(client);
}

fn process(task_id: i32, state: PJRT_ProcessState) -> PJRT_ProcessInfo {
    let mut info = garbage::<PJRT_ProcessInfo>();
    (info.task_id, info.incarnation_id, info.state, info.error_code) = (task_id, 77, state, 14);
    (info.error_message, info.error_message_size) = (c"lost".as_ptr(), 4);
    info
}

#[test]
fn backend_receives_process_updates() {
    let client = toy().client(&[]).unwrap();
    let update = |list: *mut PJRT_ProcessInfo, len: usize| {
        toy()
            .ask::<slot::PJRT_Client_UpdateGlobalProcessInfo>(|args| {
                (args.client, args.process_infos, args.num_process_infos) = (client, list, len);
            })
            .map(drop)
    };
    let mut list = [
        process(901, PJRT_ProcessState::PJRT_ProcessState_kConnected),
        process(902, PJRT_ProcessState::PJRT_ProcessState_kError),
        process(903, PJRT_ProcessState(99)),
    ];
    update(list.as_mut_ptr(), list.len()).unwrap();
    assert_eq!(
        notes("process 90"),
        ["process 901 77 Connected", "process 902 77 Failed(UNAVAILABLE: lost)", "process 903 77 Unspecified"]
    );
    // A newer framework's structs are longer.
    let mut longer = [(process(911, PJRT_ProcessState::PJRT_ProcessState_kConnected), [0xAAu8; 16]); 2];
    longer[1].0.task_id = 912;
    longer.iter_mut().for_each(|info| info.0.struct_size = size_of_val(info));
    update((&raw mut longer).cast(), 2).unwrap();
    assert_eq!(notes("process 91"), ["process 911 77 Connected", "process 912 77 Connected"]);
    // In the first versions of the API, these structs have no size field, so the plugin cannot read them. The call must
    // not fail, because the framework ends the process if it does.
    let mut first = [0u64; 10];
    first[5] = 1;
    update(first.as_mut_ptr().cast(), 2).unwrap();
    update(null_mut(), 0).unwrap();
    assert_eq!(update(null_mut(), 1).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy_client(client);
}

#[test]
fn execution_contexts_come_and_go() {
    let one = toy().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context;
    let two = toy().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context;
    assert!(!one.is_null() && one != two);
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=echo\nin=s32[1]").unwrap();
    let buffer = toy().ints(client, &[4]);
    let mut options = crate::framework::execute_options(&[]);
    options.context = one;
    let (mut output, mut event) = (null_mut(), null_mut());
    let (arguments, outputs) = ([(&raw const buffer)], [(&raw mut output)]);
    toy()
        .ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            args.executable = executable;
            args.options = &raw mut options;
            args.argument_lists = arguments.as_ptr();
            (args.num_devices, args.num_args) = (1, 1);
            args.output_lists = outputs.as_ptr();
            args.device_complete_events = &raw mut event;
            args.execute_device = null_mut();
        })
        .unwrap();
    toy().wait(event).unwrap();
    for context in [one, two, null_mut()] {
        toy().ask::<slot::PJRT_ExecuteContext_Destroy>(|args| args.context = context).unwrap();
    }
    toy().destroy(&[buffer, output]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn host_memory_is_mapped_once() {
    let client = toy().client(&[]).unwrap();
    let memory = [0u8; 64];
    let at = |offset: usize| memory.as_ptr().wrapping_add(offset).cast_mut().cast();
    let map = |data, size| {
        toy()
            .ask::<slot::PJRT_Client_DmaMap>(|args| (args.client, args.data, args.size) = (client, data, size))
            .map(drop)
    };
    let unmap =
        |data| toy().ask::<slot::PJRT_Client_DmaUnmap>(|args| (args.client, args.data) = (client, data)).map(drop);
    map(at(0), 32).unwrap();
    for (offset, size) in [(0, 32), (0, 1), (31, 2), (4, 4)] {
        assert_eq!(map(at(offset), size).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    }
    map(at(32), 32).unwrap();
    assert_eq!(unmap(at(1)).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    unmap(at(0)).unwrap();
    assert_eq!(unmap(at(0)).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    // If mapping the memory fails, the memory is not mapped, so the next call can map it.
    assert_eq!(map(at(0), 13).unwrap_err().code, ErrorCode::RESOURCE_EXHAUSTED);
    map(at(0), 12).unwrap();
    let address = memory.as_ptr().addr();
    assert_eq!(notes(&format!("map {address} ")), [format!("map {address} 32"), format!("map {address} 12")]);
    assert_eq!(notes(&format!("unmap {address}")).len(), 1);
    for (data, size) in [(null::<u8>().cast_mut().cast(), 8), (at(0), 0), (at(8), usize::MAX)] {
        assert_eq!(map(data, size).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    toy().destroy_client(client);
}

#[test]
fn unmaps_memory_once() {
    #[derive(Clone, Copy)]
    struct Shared(Client, *mut std::ffi::c_void);
    unsafe impl Send for Shared {}
    impl Shared {
        fn unmap(self) -> Answer {
            toy().ask::<slot::PJRT_Client_DmaUnmap>(|args| (args.client, args.data) = (self.0, self.1)).map(drop)
        }

        fn map(self) -> Answer {
            let size = 8;
            let map = toy().ask::<slot::PJRT_Client_DmaMap>(|args| {
                (args.client, args.data, args.size) = (self.0, self.1, size);
            });
            map.map(drop)
        }
    }
    // Use memory that no other test maps, because the notes of the backend identify it by its address.
    static MEMORY: [std::sync::atomic::AtomicU64; 2] = [const { std::sync::atomic::AtomicU64::new(0) }; 2];
    for (name, memory) in ["slow to unmap", "slow to unmap, and fails"].into_iter().zip(&MEMORY) {
        let client = toy().client(&[NamedValue::new("name", name)]).unwrap();
        let shared = Shared(client, memory.as_ptr().cast());
        shared.map().unwrap();
        let first = std::thread::spawn(move || shared.unmap());
        let unmapped = || notes(&format!("unmap {}", memory.as_ptr().addr())).len();
        while unmapped() == 0 {
            std::thread::yield_now();
        }
        // The backend is already unmapping the memory. Further calls that unmap or map this memory fail.
        let fault = shared.unmap().unwrap_err();
        assert_eq!(fault.code, ErrorCode::FAILED_PRECONDITION);
        assert_eq!(shared.map().unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
        assert_eq!(unmapped(), 1);
        open_gate(name);
        let answer = first.join().unwrap();
        if name == "slow to unmap" {
            answer.unwrap();
            assert_eq!(shared.unmap().unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
            shared.map().unwrap();
        } else {
            // If unmapping the memory fails, the memory remains mapped, so the caller can try again.
            assert_eq!(answer.unwrap_err().message, "the memory is stuck");
        }
        shared.unmap().unwrap();
        toy().destroy_client(client);
    }
}
