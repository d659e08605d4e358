//! A test framework that calls a plugin through the C function table.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape, Value};
use pjrt_sys::*;

/// An error that a plugin returned.
#[derive(Clone, PartialEq, Eq)]
pub struct Fault {
    pub code: ErrorCode,
    pub message: String,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

pub type Answer<T = ()> = Result<T, Fault>;

#[derive(Clone, Copy)]
pub struct Framework(pub &'static PJRT_Api);

/// Returns the framework for the toy plugin.
pub fn toy() -> Framework {
    Framework(device_plugin::raw::api::<crate::toy::Toy>())
}

/// Creates an arguments struct that contains garbage except for its header.
pub fn garbage<T: AbiStruct>() -> T {
    let mut args = T::new();
    let size = size_of::<T>();
    unsafe { (&raw mut args).cast::<u8>().add(16).write_bytes(0xAA, size - 16) };
    args
}

pub unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    assert!(len < 1 << 40, "an output was not written");
    if len == 0 { &[] } else { unsafe { &*std::ptr::slice_from_raw_parts(data, len) } }
}

pub unsafe fn text(data: *const std::ffi::c_char, len: usize) -> String {
    String::from_utf8(unsafe { slice(data.cast::<u8>(), len) }.to_vec()).unwrap()
}

pub fn raw_values(values: &[NamedValue]) -> Vec<PJRT_NamedValue> {
    let raw = |value: &NamedValue| {
        let mut raw = garbage::<PJRT_NamedValue>();
        raw.name = value.name.as_ptr().cast();
        raw.name_size = value.name.len();
        (raw.type_.0, raw.value_size) = match &value.value {
            Value::String(text) => {
                raw.__bindgen_anon_1.string_value = text.as_ptr().cast();
                (0, text.len())
            }
            Value::Int64(value) => {
                raw.__bindgen_anon_1.int64_value = *value;
                (1, 1)
            }
            Value::Int64List(list) => {
                raw.__bindgen_anon_1.int64_array_value = list.as_ptr();
                (2, list.len())
            }
            Value::Float(value) => {
                raw.__bindgen_anon_1.float_value = *value;
                (3, 1)
            }
            Value::Bool(value) => {
                raw.__bindgen_anon_1.bool_value = (*value).into();
                (4, 1)
            }
            _ => unreachable!(),
        };
        raw
    };
    values.iter().map(raw).collect()
}

pub unsafe fn read_values(values: *const PJRT_NamedValue, len: usize) -> Vec<NamedValue> {
    let read = |raw: &PJRT_NamedValue| unsafe {
        assert_eq!(raw.struct_size, PJRT_NamedValue::STRUCT_SIZE);
        let value = match raw.type_.0 {
            0 => Value::String(text(raw.__bindgen_anon_1.string_value, raw.value_size)),
            1 => Value::Int64(raw.__bindgen_anon_1.int64_value),
            2 => Value::Int64List(slice(raw.__bindgen_anon_1.int64_array_value, raw.value_size).to_vec()),
            3 => Value::Float(raw.__bindgen_anon_1.float_value),
            4 => Value::Bool(raw.__bindgen_anon_1.bool_value.get()),
            other => panic!("value of type {other}"),
        };
        NamedValue::new(text(raw.name, raw.name_size), value)
    };
    unsafe { slice(values, len) }.iter().map(read).collect()
}

/// Returns the shape of an array of two 32-bit integers.
pub fn pair() -> Shape {
    Shape::new(ElementType::S32, [2])
}

pub type Client = *mut PJRT_Client;
pub type Buffer = *mut PJRT_Buffer;
pub type Event = *mut PJRT_Event;
pub type Loaded = *mut PJRT_LoadedExecutable;

impl Framework {
    /// Calls the function in slot `S` of the table.
    pub fn call<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>>(&self, args: &mut S::Args) -> Answer {
        self.check(unsafe { S::get(self.0).unwrap()(args) })
    }

    /// Fills garbage arguments with `set`, calls the function in slot `S` and returns the arguments with the outputs.
    pub fn ask<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>>(
        &self,
        set: impl FnOnce(&mut S::Args),
    ) -> Answer<S::Args> {
        let mut args = garbage();
        set(&mut args);
        self.call::<S>(&mut args).map(|()| args)
    }

    /// Reads and destroys an error. Returns `Ok` if it is null.
    pub fn check(&self, error: *mut PJRT_Error) -> Answer {
        if error.is_null() {
            return Ok(());
        }
        unsafe {
            let mut message = garbage::<PJRT_Error_Message_Args>();
            message.error = error;
            self.0.PJRT_Error_Message.unwrap()(&mut message);
            let mut code = garbage::<PJRT_Error_GetCode_Args>();
            code.error = error;
            assert!(self.0.PJRT_Error_GetCode.unwrap()(&mut code).is_null());
            let fault =
                Fault { code: ErrorCode::from_raw(code.code.0), message: text(message.message, message.message_size) };
            let mut destroy = garbage::<PJRT_Error_Destroy_Args>();
            destroy.error = error;
            self.0.PJRT_Error_Destroy.unwrap()(&mut destroy);
            Err(fault)
        }
    }

    pub fn client(&self, options: &[NamedValue]) -> Answer<Client> {
        let raw = raw_values(options);
        // The callback pointers stay garbage, because frameworks do not initialize them.
        let args = self.ask::<slot::PJRT_Client_Create>(|args| {
            args.create_options = raw.as_ptr();
            args.num_options = raw.len();
        })?;
        Ok(args.client)
    }

    pub fn destroy_client(&self, client: Client) {
        self.ask::<slot::PJRT_Client_Destroy>(|args| args.client = client).unwrap();
    }

    pub fn devices(&self, client: Client) -> Vec<*mut PJRT_Device> {
        let args = self.ask::<slot::PJRT_Client_AddressableDevices>(|args| args.client = client).unwrap();
        unsafe { slice(args.addressable_devices, args.num_addressable_devices) }.to_vec()
    }

    pub fn memories(&self, client: Client) -> Vec<*mut PJRT_Memory> {
        let args = self.ask::<slot::PJRT_Client_AddressableMemories>(|args| args.client = client).unwrap();
        unsafe { slice(args.addressable_memories, args.num_addressable_memories) }.to_vec()
    }

    pub fn compile(&self, client: Client, code: &str) -> Answer<Loaded> {
        self.compile_with(client, code, &[])
    }

    pub fn compile_with(&self, client: Client, code: &str, options: &[u8]) -> Answer<Loaded> {
        self.compile_as(client, "toy", code.as_bytes(), options)
    }

    pub fn compile_as(&self, client: Client, format: &str, code: &[u8], options: &[u8]) -> Answer<Loaded> {
        let program = program(format, code);
        let args = self.ask::<slot::PJRT_Client_Compile>(|args| {
            args.client = client;
            args.program = &raw const program;
            args.compile_options = options.as_ptr().cast();
            args.compile_options_size = options.len();
        })?;
        Ok(args.executable)
    }

    pub fn destroy_loaded(&self, executable: Loaded) {
        self.ask::<slot::PJRT_LoadedExecutable_Destroy>(|args| args.executable = executable).unwrap();
    }

    /// Copies dense data to the memory with the given index. Returns the new buffer.
    pub fn put(&self, client: Client, shape: &Shape, data: &[u8], memory: usize) -> Answer<Buffer> {
        assert_eq!(data.len(), shape.host_size().unwrap());
        let (buffer, done) = self.put_as(client, shape, data.as_ptr(), None, 1, memory)?;
        assert_eq!(self.wait(done), Ok(()));
        Ok(buffer)
    }

    pub fn put_as(
        &self,
        client: Client,
        shape: &Shape,
        data: *const u8,
        strides: Option<&[i64]>,
        semantics: u32,
        memory: usize,
    ) -> Answer<(Buffer, Event)> {
        let memory = self.memories(client)[memory];
        let args = self.ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            args.client = client;
            args.data = data.cast();
            args.type_ = PJRT_Buffer_Type(shape.element_type.as_raw());
            args.dims = shape.dimensions.as_ptr();
            args.num_dims = shape.dimensions.len();
            args.byte_strides = strides.map_or(null(), <[i64]>::as_ptr);
            args.num_byte_strides = strides.map_or(0, <[i64]>::len);
            args.host_buffer_semantics = PJRT_HostBufferSemantics(semantics);
            args.device = null_mut();
            args.memory = memory;
            args.device_layout = null_mut();
        })?;
        Ok((args.buffer, args.done_with_host_buffer))
    }

    /// Copies 32-bit integers to device 0.
    pub fn ints(&self, client: Client, values: &[i32]) -> Buffer {
        let shape = Shape::new(ElementType::S32, [values.len() as i64]);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.put(client, &shape, &bytes, 0).unwrap()
    }

    /// Reads a buffer of 32-bit integers.
    pub fn read_ints(&self, buffer: Buffer) -> Answer<Vec<i32>> {
        let bytes = self.read(buffer)?;
        Ok(bytes.as_chunks().0.iter().map(|element| i32::from_le_bytes(*element)).collect())
    }

    pub fn read(&self, buffer: Buffer) -> Answer<Vec<u8>> {
        let size = self.read_into(buffer, null_mut(), 0)?.1;
        let mut bytes = vec![0; size];
        let (event, _) = self.read_into(buffer, bytes.as_mut_ptr(), size)?;
        self.wait(event)?;
        Ok(bytes)
    }

    pub fn read_into(&self, buffer: Buffer, to: *mut u8, size: usize) -> Answer<(Event, usize)> {
        let args = self.ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
            args.src = buffer;
            args.host_layout = null_mut();
            args.dst = to.cast();
            args.dst_size = size;
        })?;
        Ok((args.event, args.dst_size))
    }

    /// Executes a program with `outputs` outputs on the device for which it was compiled. Returns the output buffers
    /// and the event of the execution.
    pub fn execute(&self, executable: Loaded, arguments: &[Buffer], outputs: usize) -> Answer<(Vec<Buffer>, Event)> {
        self.execute_keeping(executable, arguments, outputs, &[])
    }

    pub fn execute_keeping(
        &self,
        executable: Loaded,
        arguments: &[Buffer],
        outputs: usize,
        kept: &[i64],
    ) -> Answer<(Vec<Buffer>, Event)> {
        let options = execute_options(kept);
        let mut results = vec![garbage_pointer(); outputs];
        let mut event = garbage_pointer();
        let lists = [arguments.as_ptr()];
        let result_lists = [results.as_mut_ptr()];
        let answer = self.ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            args.executable = executable;
            args.options = (&raw const options).cast_mut();
            args.argument_lists = lists.as_ptr();
            args.num_devices = 1;
            args.num_args = arguments.len();
            args.output_lists = result_lists.as_ptr();
            args.device_complete_events = &raw mut event;
            args.execute_device = null_mut();
        });
        if let Err(fault) = answer {
            assert!(results.iter().all(|result| result.is_null() || *result == garbage_pointer()), "{results:?}");
            assert!(event == garbage_pointer::<PJRT_Event>());
            return Err(fault);
        }
        Ok((results, event))
    }

    pub fn destroy(&self, buffers: &[Buffer]) {
        for buffer in buffers {
            self.ask::<slot::PJRT_Buffer_Destroy>(|args| args.buffer = *buffer).unwrap();
        }
    }

    pub fn delete(&self, buffer: Buffer) {
        self.ask::<slot::PJRT_Buffer_Delete>(|args| args.buffer = buffer).unwrap();
    }

    pub fn is_deleted(&self, buffer: Buffer) -> bool {
        self.ask::<slot::PJRT_Buffer_IsDeleted>(|args| args.buffer = buffer).unwrap().is_deleted.get()
    }

    pub fn ready_event(&self, buffer: Buffer) -> Event {
        self.ask::<slot::PJRT_Buffer_ReadyEvent>(|args| args.buffer = buffer).unwrap().event
    }

    pub fn is_ready(&self, event: Event) -> bool {
        self.ask::<slot::PJRT_Event_IsReady>(|args| args.event = event).unwrap().is_ready.get()
    }

    /// Waits for an event and destroys it.
    pub fn wait(&self, event: Event) -> Answer {
        let answer = self.ask::<slot::PJRT_Event_Await>(|args| args.event = event).map(drop);
        assert!(self.is_ready(event));
        assert_eq!(self.ask::<slot::PJRT_Event_Error>(|args| args.event = event).map(drop), answer);
        self.destroy_event(event);
        answer
    }

    pub fn destroy_event(&self, event: Event) {
        self.ask::<slot::PJRT_Event_Destroy>(|args| args.event = event).unwrap();
    }

    pub fn on_ready(
        &self,
        event: Event,
        callback: unsafe extern "C" fn(*mut PJRT_Error, *mut c_void),
        user_arg: *mut c_void,
    ) -> Answer {
        self.ask::<slot::PJRT_Event_OnReady>(|args| {
            args.event = event;
            args.callback = Some(callback);
            args.user_arg = user_arg;
        })
        .map(drop)
    }
}

/// Creates a program struct that points to the given format and code.
pub fn program(format: &str, code: &[u8]) -> PJRT_Program {
    let mut program = garbage::<PJRT_Program>();
    (program.code, program.code_size) = (code.as_ptr().cast_mut().cast(), code.len());
    (program.format, program.format_size) = (format.as_ptr().cast(), format.len());
    program
}

pub fn garbage_pointer<T>() -> *mut T {
    std::ptr::without_provenance_mut(0xAAAA_AAAA_AAAA_AAA0)
}

pub fn execute_options(kept: &[i64]) -> PJRT_ExecuteOptions {
    let mut options = garbage::<PJRT_ExecuteOptions>();
    options.num_send_ops = 0;
    options.num_recv_ops = 0;
    options.launch_id = 7;
    options.non_donatable_input_indices = kept.as_ptr();
    options.num_non_donatable_input_indices = kept.len();
    options.context = null_mut();
    options.call_location = null();
    // The pointers of the empty lists stay invalid, because the plugin must not read them.
    options.num_tasks = 0;
    options.multi_slice_config = null_mut();
    options.use_major_to_minor_data_layout_for_callbacks = false.into();
    options.num_hlo_output_callbacks = 0;
    options.num_custom_options = 0;
    options
}
