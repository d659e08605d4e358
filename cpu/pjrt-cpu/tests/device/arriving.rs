//! Tests launches of programs on data that has not arrived yet. The tests call the function table of the C API
//! directly, as a C++ framework does.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    reason = "a raw caller"
)]

use std::ptr::{from_ref, null_mut};

use device_plugin::{CompileOptions, ElementType};
use pjrt_cpu::Cpu;
use pjrt_sys::*;

use crate::INCREMENT;

/// Calls a function of the table with the arguments that `set` fills in. Returns the arguments, which then contain the
/// outputs.
fn ask<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>>(set: impl FnOnce(&mut S::Args)) -> Result<S::Args, String>
where
    S::Args: AbiStruct,
{
    let api = device_plugin::raw::api::<Cpu>();
    let mut args = S::Args::new();
    set(&mut args);
    let error = unsafe { S::get(api).unwrap()(&raw mut args) };
    if error.is_null() {
        return Ok(args);
    }
    let mut message = PJRT_Error_Message_Args::new();
    message.error = error;
    unsafe { api.PJRT_Error_Message.unwrap()(&raw mut message) };
    let text = std::ptr::slice_from_raw_parts(message.message.cast::<u8>(), message.message_size);
    let text = String::from_utf8_lossy(unsafe { &*text }).into_owned();
    let mut destroy = PJRT_Error_Destroy_Args::new();
    destroy.error = error;
    unsafe { api.PJRT_Error_Destroy.unwrap()(&raw mut destroy) };
    Err(text)
}

fn wait(event: *mut PJRT_Event) -> Result<(), String> {
    let result = ask::<slot::PJRT_Event_Await>(|args| args.event = event).map(drop);
    ask::<slot::PJRT_Event_Destroy>(|args| args.event = event).unwrap();
    result
}

fn read(buffer: *mut PJRT_Buffer) -> Result<[f32; 4], String> {
    let mut to = [0f32; 4];
    let read = ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
        (args.src, args.dst, args.dst_size) = (buffer, to.as_mut_ptr().cast(), size_of_val(&to));
    });
    wait(read?.event).map(|()| to)
}

/// A program on one or two devices. Each device has a buffer whose data has not arrived yet.
struct Fixture {
    client: *mut PJRT_Client,
    program: *mut PJRT_LoadedExecutable,
    arriving: Vec<(*mut PJRT_AsyncHostToDeviceTransferManager, *mut PJRT_Buffer)>,
}

impl Fixture {
    fn new(text: &str, devices: usize) -> Self {
        let count = PJRT_NamedValue {
            name: c"device_count".as_ptr(),
            name_size: 12,
            type_: PJRT_NamedValue_Type::PJRT_NamedValue_kInt64,
            __bindgen_anon_1: PJRT_NamedValue__bindgen_ty_1 { int64_value: devices as i64 },
            value_size: 1,
            ..PJRT_NamedValue::new()
        };
        let client = ask::<slot::PJRT_Client_Create>(|args| {
            (args.create_options, args.num_options) = (&raw const count, 1);
        });
        let client = client.unwrap().client;
        let mut program = PJRT_Program::new();
        (program.code, program.code_size) = (text.as_ptr().cast_mut().cast(), text.len());
        (program.format, program.format_size) = (c"mlir".as_ptr(), 4);
        let options = CompileOptions::default().with_num_replicas(devices as i64).encode();
        let compiled = ask::<slot::PJRT_Client_Compile>(|args| {
            (args.client, args.program) = (client, &raw const program);
            (args.compile_options, args.compile_options_size) = (options.as_ptr().cast(), options.len());
        });
        let known = ask::<slot::PJRT_Client_AddressableDevices>(|args| args.client = client).unwrap();
        let arriving = |at: usize| {
            let dims = [4i64];
            let mut spec = PJRT_ShapeSpec::new();
            (spec.dims, spec.num_dims) = (dims.as_ptr(), 1);
            spec.element_type = PJRT_Buffer_Type(ElementType::F32.as_raw());
            let device = unsafe { *known.addressable_devices.add(at) };
            let memory = ask::<slot::PJRT_Device_DefaultMemory>(|args| args.device = device).unwrap().memory;
            let made = ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
                (args.client, args.memory) = (client, memory);
                (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
            });
            let manager = made.unwrap().transfer_manager;
            let retrieved = ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
                (args.transfer_manager, args.buffer_index) = (manager, 0);
            });
            (manager, retrieved.unwrap().buffer_out)
        };
        Self { client, program: compiled.unwrap().executable, arriving: (0..devices).map(arriving).collect() }
    }

    fn run(&self) -> (Vec<*mut PJRT_Buffer>, Vec<*mut PJRT_Event>) {
        let count = self.arriving.len();
        let (mut outputs, mut events) = (vec![null_mut(); count], vec![null_mut(); count]);
        let lists: Vec<_> = self.arriving.iter().map(|(_, buffer)| from_ref(buffer)).collect();
        let places: Vec<_> = outputs.iter_mut().map(|output| &raw mut *output).collect();
        let mut options = PJRT_ExecuteOptions::new();
        let run = ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options) = (self.program, &raw mut options);
            (args.argument_lists, args.num_devices, args.num_args) = (lists.as_ptr(), count, 1);
            (args.output_lists, args.device_complete_events) = (places.as_ptr(), events.as_mut_ptr());
        });
        run.map(drop).unwrap();
        (outputs, events)
    }

    fn send(&self, at: usize, data: [f32; 4]) {
        let sent = ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
            (args.transfer_manager, args.data) = (self.arriving[at].0, data.as_ptr().cast());
            (args.transfer_size, args.is_last_transfer) = (16, true.into());
        });
        wait(sent.unwrap().done_with_h2d_transfer).unwrap();
    }

    fn end(self, outputs: &[*mut PJRT_Buffer]) {
        for (manager, buffer) in &self.arriving {
            let destroy = |args: &mut PJRT_AsyncHostToDeviceTransferManager_Destroy_Args| {
                args.transfer_manager = *manager;
            };
            ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(destroy).unwrap();
            ask::<slot::PJRT_Buffer_Destroy>(|args| args.buffer = *buffer).unwrap();
        }
        for output in outputs {
            ask::<slot::PJRT_Buffer_Destroy>(|args| args.buffer = *output).unwrap();
        }
        ask::<slot::PJRT_LoadedExecutable_Destroy>(|args| args.executable = self.program).unwrap();
        ask::<slot::PJRT_Client_Destroy>(|args| args.client = self.client).unwrap();
    }
}

#[test]
fn launch_precedes_data() {
    let fixture = Fixture::new(INCREMENT, 1);
    let (outputs, events) = fixture.run();
    let ready = ask::<slot::PJRT_Event_IsReady>(|args| args.event = events[0]).unwrap().is_ready.get();
    assert!(!ready);
    fixture.send(0, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(read(outputs[0]), Ok([2.0, 3.0, 4.0, 5.0]));
    assert_eq!(wait(events[0]), Ok(()));
    fixture.end(&outputs);
}

#[test]
fn collective_awaits_data_of_all_devices() {
    let text = crate::launches::ALL_REDUCE.replace("[0, 1, 2, 3, 4, 5, 6, 7]", "[0, 1]").replace("1x8xi64", "1x2xi64");
    let fixture = Fixture::new(&text, 2);
    let (outputs, events) = fixture.run();
    fixture.send(1, [1.0; 4]);
    fixture.send(0, [10.0, 20.0, 30.0, 40.0]);
    for (event, output) in events.into_iter().zip(&outputs) {
        assert_eq!(wait(event), Ok(()));
        assert_eq!(read(*output), Ok([11.0, 21.0, 31.0, 41.0]));
    }
    fixture.end(&outputs);
}

#[test]
fn missing_data_fails_output() {
    let mut fixture = Fixture::new(INCREMENT, 1);
    let (outputs, events) = fixture.run();
    let manager = fixture.arriving[0].0;
    let destroy = |args: &mut PJRT_AsyncHostToDeviceTransferManager_Destroy_Args| args.transfer_manager = manager;
    ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(destroy).unwrap();
    fixture.arriving[0].0 = null_mut();
    let error = wait(events[0]).unwrap_err();
    assert_eq!(read(outputs[0]), Err(error));
    fixture.end(&outputs);
}
