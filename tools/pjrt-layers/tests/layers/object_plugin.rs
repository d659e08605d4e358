//! A fake plugin whose objects have function tables, and a promise of a fake framework.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_void};
use std::ptr::{from_mut, null, null_mut, with_exposed_provenance_mut};

use pjrt_sys::{
    AbiStruct, Bool, PJRT_Client_AddressableMemories_Args, PJRT_Client_Compile_Args, PJRT_Client_Create_Args,
    PJRT_DeviceEvent, PJRT_DeviceEvent_FunctionTable, PJRT_DeviceEvent_State, PJRT_DeviceEventPromise,
    PJRT_DeviceEventPromise_FunctionTable, PJRT_DeviceEventVector, PJRT_Error, PJRT_Error_Code,
    PJRT_Error_Destroy_Args, PJRT_Error_FunctionTable, PJRT_Error_Message_Args, PJRT_Error_PayloadVisitor,
    PJRT_Extension_Base, PJRT_Extension_Type, PJRT_Memory, PJRT_Memory_FunctionTable, PJRT_RawBuffer,
    PJRT_RawBuffer_CreateRawAliasOfBuffer_Args, PJRT_RawBuffer_Extension, PJRT_RawBuffer_FunctionTable, StaticApi,
};

use crate::setup;

/// The pointer in the device events of the fake plugin.
pub(crate) const EVENT: usize = 0x55;
/// The code of the fake plugin's errors.
pub(crate) const CODE: PJRT_Error_Code = PJRT_Error_Code::PJRT_Error_Code_INVALID_ARGUMENT;
pub(crate) static TEXT: &str = "from the fake plugin";

thread_local! {
    /// Names of the called functions of the fake plugin and of the fake framework's promise.
    static REACHED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether the fake plugin's calls fail.
    pub(crate) static FAILS: Cell<bool> = const { Cell::new(false) };
}

fn reached(what: impl Into<String>) {
    REACHED.with_borrow_mut(|all| all.push(what.into()));
}

pub(crate) fn take_reached() -> Vec<String> {
    REACHED.take()
}

/// Defines functions for the tables of the fake plugin and of the fake framework. Each function first adds its name to
/// [`REACHED`].
macro_rules! functions {
    ($($name:ident($($argument:ident: $ty:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(pub(crate) unsafe extern "C" fn $name($($argument: $ty),*) $(-> $result)? {
            reached(stringify!($name));
            $body
        })*
    };
}

fn fails() -> *mut PJRT_Error {
    if !FAILS.get() {
        return null_mut();
    }
    from_mut(Box::leak(Box::new(PJRT_Error { vtable: ERROR.at() })))
}

/// Returns an event of the fake plugin.
fn event() -> PJRT_DeviceEvent {
    PJRT_DeviceEvent { vtable: DEVICE_EVENT.at(), device_event: with_exposed_provenance_mut(EVENT) }
}

/// Returns `"own"` if an event refers to the fake plugin's own table, and `"other"` otherwise.
pub(crate) fn table_name(event: &PJRT_DeviceEvent) -> &'static str {
    if event.vtable == DEVICE_EVENT.at() { "own" } else { "other" }
}

/// Reads through a pointer of a test.
pub(crate) fn read<T: Copy>(pointer: *const T) -> T {
    // SAFETY: C2: the pointers in these tests are valid.
    unsafe { *pointer }
}

/// Writes through a pointer of a test.
pub(crate) fn write<T>(pointer: *mut T, value: T) {
    // SAFETY: C2: the pointers in these tests are valid.
    unsafe { pointer.write(value) };
}

functions! {
    error_destroy(error: *mut PJRT_Error) {
        // SAFETY: C4: `fails` created the error, and this is its last use.
        drop(unsafe { Box::from_raw(error) });
    }
    error_message(_error: *const PJRT_Error, message: *mut *const c_char, size: *mut usize) {
        write(message, TEXT.as_ptr().cast());
        write(size, TEXT.len());
    }
    error_code(_error: *const PJRT_Error) -> PJRT_Error_Code { CODE }
    error_payload(_error: *const PJRT_Error, visitor: PJRT_Error_PayloadVisitor, argument: *mut c_void) {
        // SAFETY: C6: this calls the visitor with its argument, during the call.
        unsafe { visitor.unwrap()(c"key".as_ptr(), 3, c"value".as_ptr(), 5, argument) };
    }
    memory_get(_memory: *mut PJRT_Memory, key: *const c_void) -> *mut c_void { key.cast_mut() }
    memory_set(
        _memory: *mut PJRT_Memory,
        _key: *const c_void,
        data: *mut c_void,
        dtor: Option<unsafe extern "C" fn(*mut c_void)>
    ) {
        // SAFETY: C6: this calls the destructor once, with its data.
        unsafe { dtor.unwrap()(data) };
    }
    raw_inc_ref(_buffer: *mut PJRT_RawBuffer) {}
    raw_dec_ref(_buffer: *mut PJRT_RawBuffer) {}
    raw_size(_buffer: *const PJRT_RawBuffer) -> usize { 64 }
    raw_memory(_buffer: *const PJRT_RawBuffer) -> *mut PJRT_Memory { new_memory() }
    raw_host_pointer(_buffer: *const PJRT_RawBuffer) -> *mut c_void { with_exposed_provenance_mut(0x80) }
    raw_upload(
        _buffer: *mut PJRT_RawBuffer,
        _src: *const c_void,
        offset: i64,
        size: i64,
        dependencies: *mut PJRT_DeviceEventVector,
        out: *mut PJRT_DeviceEvent
    ) -> *mut PJRT_Error {
        reached(format!("{offset} {size} {}", table_name(&read(read(dependencies).data))));
        write(out, event());
        fails()
    }
    raw_download(
        _buffer: *mut PJRT_RawBuffer,
        _dst: *mut c_void,
        offset: i64,
        size: i64,
        _dependencies: *mut PJRT_DeviceEventVector,
        out: *mut PJRT_DeviceEvent
    ) -> *mut PJRT_Error {
        reached(format!("{offset} {size}"));
        write(out, event());
        fails()
    }
    raw_address(_buffer: *const PJRT_RawBuffer) -> *mut c_void { with_exposed_provenance_mut(0x90) }
    raw_allocation(_buffer: *mut PJRT_RawBuffer, out: *mut PJRT_DeviceEvent) -> *mut PJRT_Error {
        write(out, event());
        fails()
    }
    raw_value(_buffer: *mut PJRT_RawBuffer, out: *mut PJRT_DeviceEvent) -> *mut PJRT_Error {
        write(out, event());
        fails()
    }
    raw_is_mutable(_buffer: *const PJRT_RawBuffer) -> Bool { true.into() }
    raw_slice(_buffer: *mut PJRT_RawBuffer, offset: i64, size: i64, out: *mut *mut PJRT_RawBuffer) -> *mut PJRT_Error {
        reached(format!("{offset} {size}"));
        write(out, new_raw_buffer());
        fails()
    }
    raw_copy(
        _buffer: *mut PJRT_RawBuffer,
        _dependencies: *mut PJRT_DeviceEventVector,
        _destination: *mut PJRT_RawBuffer,
        definition: *mut PJRT_DeviceEventPromise,
        usage: *mut PJRT_DeviceEventPromise,
        callback: Option<unsafe extern "C" fn(*mut PJRT_Error, *mut c_void)>,
        argument: *mut c_void
    ) {
        let table = read(read(definition).vtable);
        // SAFETY: C2: the promise is live.
        unsafe { table.inc_ref.unwrap()(definition) };
        // SAFETY: C2: the promise is live.
        let promised = unsafe { table.event.unwrap()(definition) };
        reached(format!("promised {:#x}", promised.device_event.addr()));
        // SAFETY: C2: the promise is live.
        unsafe { table.set.unwrap()(definition, event()) };
        // SAFETY: C2: the promise is live.
        unsafe { table.dec_ref.unwrap()(definition) };
        let table = read(read(usage).vtable);
        // SAFETY: C2: the promise is live.
        unsafe { table.set_ready.unwrap()(usage) };
        FAILS.set(true);
        // SAFETY: C2: the promise is live, and takes ownership of the error.
        unsafe { table.set_error.unwrap()(usage, fails()) };
        FAILS.set(false);
        // SAFETY: C6: this calls the callback once, with its argument.
        unsafe { callback.unwrap()(null_mut(), argument) };
    }
    event_inc_ref(event: *mut c_void) { assert_eq!(event.addr(), EVENT); }
    event_dec_ref(event: *mut c_void) { assert_eq!(event.addr(), EVENT); }
    event_and_then(event: *mut c_void, callback: Option<unsafe extern "C" fn(*mut c_void)>, argument: *mut c_void) {
        assert_eq!(event.addr(), EVENT);
        // SAFETY: C6: this calls the callback once, with its argument.
        unsafe { callback.unwrap()(argument) };
    }
    event_error(
        event: *mut c_void,
        code: *mut PJRT_Error_Code,
        message: *mut *const c_char,
        size: *mut usize
    ) -> i32 {
        assert_eq!(event.addr(), EVENT);
        write(code, CODE);
        write(message, TEXT.as_ptr().cast());
        write(size, TEXT.len());
        1
    }
    event_state(event: *mut c_void) -> PJRT_DeviceEvent_State {
        assert_eq!(event.addr(), EVENT);
        PJRT_DeviceEvent_State::PJRT_DeviceEvent_State_Ready
    }
    event_stream(event: *mut c_void, number: *mut u64) -> isize {
        assert_eq!(event.addr(), EVENT);
        write(number, 7);
        -3
    }
    promise_inc_ref(_promise: *mut PJRT_DeviceEventPromise) {}
    promise_dec_ref(_promise: *mut PJRT_DeviceEventPromise) {}
    promise_event(_promise: *mut PJRT_DeviceEventPromise) -> PJRT_DeviceEvent {
        PJRT_DeviceEvent { vtable: null(), device_event: with_exposed_provenance_mut(0x66) }
    }
    promise_set(_promise: *mut PJRT_DeviceEventPromise, event: PJRT_DeviceEvent) {
        reached(format!("{} {:#x}", table_name(&event), event.device_event.addr()));
    }
    promise_set_error(_promise: *mut PJRT_DeviceEventPromise, error: *mut PJRT_Error) {
        let table = read(read(error).vtable);
        // SAFETY: C4: the error is live.
        reached(format!("code {}", unsafe { table.get_code.unwrap()(error) }.0));
        // SAFETY: C4: this is the last use of the error.
        unsafe { table.destroy.unwrap()(error) };
    }
    promise_set_ready(_promise: *mut PJRT_DeviceEventPromise) {}
}

pub(crate) static ERROR: Table<PJRT_Error_FunctionTable> = Table(PJRT_Error_FunctionTable {
    struct_size: PJRT_Error_FunctionTable::STRUCT_SIZE,
    instance_size: size_of::<PJRT_Error>(),
    extension_start: null_mut(),
    destroy: Some(error_destroy),
    message: Some(error_message),
    get_code: Some(error_code),
    for_each_payload: Some(error_payload),
});

pub(crate) static MEMORY: Table<PJRT_Memory_FunctionTable> = Table(PJRT_Memory_FunctionTable {
    struct_size: PJRT_Memory_FunctionTable::STRUCT_SIZE,
    extension_start: null_mut(),
    instance_struct_size: size_of::<PJRT_Memory>(),
    get_user_data: Some(memory_get),
    set_user_data: Some(memory_set),
});

pub(crate) static RAW_BUFFER: Table<PJRT_RawBuffer_FunctionTable> = Table(PJRT_RawBuffer_FunctionTable {
    struct_size: PJRT_RawBuffer_FunctionTable::STRUCT_SIZE,
    instance_size: size_of::<PJRT_RawBuffer>(),
    extension_start: null_mut(),
    inc_ref: Some(raw_inc_ref),
    dec_ref: Some(raw_dec_ref),
    get_on_device_size_in_bytes: Some(raw_size),
    get_memory_space: Some(raw_memory),
    get_host_pointer: Some(raw_host_pointer),
    copy_raw_host_to_device_and_return_event: Some(raw_upload),
    copy_raw_device_to_host_and_return_event: Some(raw_download),
    opaque_device_memory_data_pointer: Some(raw_address),
    make_allocation_ready_event: Some(raw_allocation),
    get_raw_buffer_async_value: Some(raw_value),
    is_mutable: Some(raw_is_mutable),
    slice: Some(raw_slice),
    schedule_copy_to: Some(raw_copy),
});

const EVENT_FUNCTIONS: PJRT_DeviceEvent_FunctionTable = PJRT_DeviceEvent_FunctionTable {
    struct_size: PJRT_DeviceEvent_FunctionTable::STRUCT_SIZE,
    extension_start: null_mut(),
    inc_ref: Some(event_inc_ref),
    dec_ref: Some(event_dec_ref),
    and_then: Some(event_and_then),
    get_error_if_present: Some(event_error),
    parent: null(),
    get_state: Some(event_state),
    get_definition_stream: Some(event_stream),
};
pub(crate) static PARENT: Table<PJRT_DeviceEvent_FunctionTable> = Table(EVENT_FUNCTIONS);
static DEVICE_EVENT: Table<PJRT_DeviceEvent_FunctionTable> =
    Table(PJRT_DeviceEvent_FunctionTable { parent: &raw const PARENT.0, ..EVENT_FUNCTIONS });

pub(crate) static PROMISE: Table<PJRT_DeviceEventPromise_FunctionTable> =
    Table(PJRT_DeviceEventPromise_FunctionTable {
        struct_size: PJRT_DeviceEventPromise_FunctionTable::STRUCT_SIZE,
        instance_size: size_of::<PJRT_DeviceEventPromise>(),
        extension_start: null_mut(),
        inc_ref: Some(promise_inc_ref),
        dec_ref: Some(promise_dec_ref),
        event: Some(promise_event),
        set: Some(promise_set),
        set_error: Some(promise_set_error),
        set_ready: Some(promise_set_ready),
    });

/// A table of the fake plugin or of the fake framework.
pub(crate) struct Table<T>(T);

// SAFETY: C1: the tables are not changed, and any thread may call their functions.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    pub(crate) fn at(&'static self) -> *const T {
        &raw const self.0
    }
}

fn new_memory() -> *mut PJRT_Memory {
    from_mut(Box::leak(Box::new(PJRT_Memory { vtable: MEMORY.at() })))
}

pub(crate) fn new_raw_buffer() -> *mut PJRT_RawBuffer {
    from_mut(Box::leak(Box::new(PJRT_RawBuffer { vtable: RAW_BUFFER.at() })))
}

pub(crate) fn new_promise() -> *mut PJRT_DeviceEventPromise {
    from_mut(Box::leak(Box::new(PJRT_DeviceEventPromise { vtable: PROMISE.at() })))
}

functions! {
    create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        unsafe { (*args).client = with_exposed_provenance_mut(0x1000) };
        null_mut()
    }
    compile(_args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error { fails() }
    memories(args: *mut PJRT_Client_AddressableMemories_Args) -> *mut PJRT_Error {
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        let args = unsafe { &mut *args };
        let all = Box::leak(Box::new([ONE_MEMORY.get(), new_memory()]));
        (args.addressable_memories, args.num_addressable_memories) = (all.as_ptr(), all.len());
        null_mut()
    }
    // Like XLA's plugins, the fake plugin implements the error functions of the main table through the table of the
    // error.
    slot_error_message(args: *mut PJRT_Error_Message_Args) {
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        let args = unsafe { &mut *args };
        // SAFETY: V2: the error is live.
        unsafe { read(read(args.error).vtable).message.unwrap()(args.error, &raw mut args.message, &raw mut args.message_size) };
    }
    slot_error_destroy(args: *mut PJRT_Error_Destroy_Args) {
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        let error = unsafe { (*args).error };
        // SAFETY: V2: the error is live.
        unsafe { read(read(error).vtable).destroy.unwrap()(error) };
    }
    create_alias(args: *mut PJRT_RawBuffer_CreateRawAliasOfBuffer_Args) -> *mut PJRT_Error {
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        unsafe { (*args).raw_buffer = NEXT_ALIAS.get() };
        null_mut()
    }
}

thread_local! {
    /// The memory that the fake plugin returns as the first of its memories in each query.
    static ONE_MEMORY: Cell<*mut PJRT_Memory> = Cell::new(new_memory());
    pub(crate) static NEXT_ALIAS: Cell<*mut PJRT_RawBuffer> = Cell::new(new_raw_buffer());
}

pub(crate) fn plugin() -> StaticApi {
    let mut extension = PJRT_RawBuffer_Extension::new();
    extension.base.struct_size = PJRT_RawBuffer_Extension::STRUCT_SIZE;
    extension.base.type_ = PJRT_Extension_Type::PJRT_Extension_Type_RawBuffer;
    extension.PJRT_RawBuffer_CreateRawAliasOfBuffer = Some(create_alias);
    let extension = Box::leak(Box::new(extension));
    setup::fake(117, |table| {
        table.extension_start = from_mut(extension).cast::<PJRT_Extension_Base>();
        table.PJRT_Error_Message = Some(slot_error_message);
        table.PJRT_Error_Destroy = Some(slot_error_destroy);
        table.PJRT_Client_Create = Some(create);
        table.PJRT_Client_Compile = Some(compile);
        table.PJRT_Client_AddressableMemories = Some(memories);
    })
}
