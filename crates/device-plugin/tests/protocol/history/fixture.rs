//! The objects that are passed to the functions.

use std::ptr::null_mut;

use pjrt_sys::*;

use crate::framework::{Buffer, Client, Event, Loaded, garbage, program, toy};

/// Objects that no case destroys.
pub struct Fixture {
    pub client: Client,
    pub devices: Vec<*mut PJRT_Device>,
    pub memories: Vec<*mut PJRT_Memory>,
    pub topology: *mut PJRT_TopologyDescription,
    pub description: *mut PJRT_DeviceDescription,
    /// A program that adds 1 to two integers. Its parameter is donated.
    pub loaded: Loaded,
    pub executable: *mut PJRT_Executable,
    /// A buffer with the integers 1 and 2.
    pub buffer: Buffer,
}

pub const CODE: &str = "op=add_one\nin=s32[2]\ndonate=0";
pub const DIMS: [i64; 1] = [2];
pub const DATA: [i32; 2] = [1, 2];
pub const S32: PJRT_Buffer_Type = PJRT_Buffer_Type::PJRT_Buffer_Type_S32;

impl Fixture {
    pub fn new() -> Self {
        let client = toy().client(&[]).unwrap();
        let devices = toy().devices(client);
        let description = toy().ask::<slot::PJRT_Device_GetDescription>(|args| args.device = devices[0]).unwrap();
        let loaded = toy().compile(client, CODE).unwrap();
        let executable = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
        Self {
            client,
            memories: toy().memories(client),
            devices,
            topology: topology("pair"),
            description: description.device_description,
            loaded,
            executable: executable.unwrap().executable,
            buffer: toy().ints(client, &DATA),
        }
    }

    pub fn end(self) {
        toy().destroy(&[self.buffer]);
        destroy_executable(self.executable);
        toy().destroy_loaded(self.loaded);
        destroy_topology(self.topology);
        toy().destroy_client(self.client);
    }

    pub fn ints(&self) -> Buffer {
        toy().ints(self.client, &DATA)
    }

    /// Creates a transfer manager with one buffer that waits for its data.
    pub fn manager(&self) -> *mut PJRT_AsyncHostToDeviceTransferManager {
        let mut spec = shape_spec();
        let args = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            (args.client, args.memory) = (self.client, self.memories[0]);
            (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
            args.num_device_layouts = 0;
        });
        args.unwrap().transfer_manager
    }

    /// Runs a program that receives 8 bytes from a stream. `with` may send some of the bytes.
    pub fn with_stream(&self, mut with: impl FnMut(*mut PJRT_CopyToDeviceStream)) {
        type With<'a> = &'a mut dyn FnMut(*mut PJRT_CopyToDeviceStream);
        unsafe extern "C" fn bring(stream: *mut PJRT_CopyToDeviceStream, with: *mut std::ffi::c_void) {
            unsafe { (*with.cast::<With<'_>>())(stream) };
        }
        unsafe extern "C" fn take(
            chunk: *mut PJRT_Chunk,
            _: *mut PJRT_CallbackError,
            _: usize,
            _: Bool,
            _: *mut std::ffi::c_void,
        ) -> *mut PJRT_Error {
            unsafe { (*chunk).deleter.unwrap()((*chunk).data, (*chunk).deleter_arg) };
            null_mut()
        }
        let mut with: With<'_> = &mut with;
        let user_arg = (&raw mut with).cast();
        let mut send = PJRT_SendCallbackInfo { channel_id: 2, user_arg: null_mut(), send_callback: Some(take) };
        let mut receive = PJRT_RecvCallbackInfo { channel_id: 1, user_arg, recv_callback: Some(bring) };
        let (mut sends, mut receives) = ([&raw mut send], [&raw mut receive]);
        let mut options = crate::framework::execute_options(&[]);
        (options.send_callbacks, options.num_send_ops) = (sends.as_mut_ptr(), 1);
        (options.recv_callbacks, options.num_recv_ops) = (receives.as_mut_ptr(), 1);
        let executable = toy().compile(self.client, "op=talk").unwrap();
        let (lists, outputs) = ([std::ptr::null()], [null_mut()]);
        let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options) = (executable, &raw mut options);
            args.argument_lists = lists.as_ptr();
            (args.num_devices, args.num_args) = (1, 0);
            args.output_lists = outputs.as_ptr();
            args.device_complete_events = null_mut();
            args.execute_device = null_mut();
        });
        // The execution fails if the host did not send all bytes.
        let _ = answer;
        toy().destroy_loaded(executable);
    }
}

pub fn destroy_stream(stream: *mut PJRT_CopyToDeviceStream) {
    toy().ask::<slot::PJRT_CopyToDeviceStream_Destroy>(|args| args.stream = stream).unwrap();
}

pub fn topology(name: &str) -> *mut PJRT_TopologyDescription {
    let args = toy().ask::<slot::PJRT_TopologyDescription_Create>(|args| {
        (args.topology_name, args.topology_name_size) = (name.as_ptr().cast(), name.len());
        args.num_options = 0;
    });
    args.unwrap().topology
}

pub fn destroy_topology(topology: *mut PJRT_TopologyDescription) {
    toy().ask::<slot::PJRT_TopologyDescription_Destroy>(|args| args.topology = topology).unwrap();
}

pub fn destroy_executable(executable: *mut PJRT_Executable) {
    toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = executable).unwrap();
}

pub fn destroy_manager(manager: *mut PJRT_AsyncHostToDeviceTransferManager) {
    let destroy = toy()
        .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(|args| args.transfer_manager = manager)
        .map(drop);
    destroy.unwrap();
}

/// Retrieves the only buffer of a transfer manager.
pub fn retrieve(manager: *mut PJRT_AsyncHostToDeviceTransferManager) -> Buffer {
    let args = toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, 0);
    });
    args.unwrap().buffer_out
}

pub fn shape_spec() -> PJRT_ShapeSpec {
    let mut spec = garbage::<PJRT_ShapeSpec>();
    (spec.dims, spec.num_dims, spec.element_type) = (DIMS.as_ptr(), 1, S32);
    spec
}

pub fn event() -> Event {
    toy().ask::<slot::PJRT_Event_Create>(|_| {}).unwrap().event
}

pub fn set(event: Event) {
    let set = toy().ask::<slot::PJRT_Event_Set>(|args| {
        (args.event, args.error_code) = (event, PJRT_Error_Code(0));
    });
    set.map(drop).unwrap();
}

/// Creates an event that is ready without an error.
pub fn ready() -> Event {
    let event = event();
    set(event);
    event
}

/// Creates an error with a payload.
pub fn error() -> *mut PJRT_Error {
    let options = [device_plugin::NamedValue::new("fail", "as asked")];
    let raw = crate::framework::raw_values(&options);
    let mut args = garbage::<PJRT_Client_Create_Args>();
    (args.create_options, args.num_options) = (raw.as_ptr(), raw.len());
    let error = unsafe { toy().0.PJRT_Client_Create.unwrap()(&raw mut args) };
    assert!(!error.is_null());
    error
}

pub fn destroy_error(error: *mut PJRT_Error) {
    assert!(toy().check(error).is_err());
}

pub fn toy_program() -> PJRT_Program {
    program("toy", CODE.as_bytes())
}
