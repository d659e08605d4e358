//! Frameworks of other versions pass shorter or longer structs.

use std::ptr::null_mut;

use pjrt_sys::*;

use crate::framework::{execute_options, garbage, toy};

/// Bytes that follow a struct in memory and must stay as they are.
#[repr(C)]
struct Guarded<T> {
    args: T,
    guard: [u8; 64],
}

fn guarded<T: AbiStruct>(struct_size: usize, set: impl FnOnce(&mut T)) -> Box<Guarded<T>> {
    let mut guarded = Box::new(Guarded { args: garbage::<T>(), guard: [0x55; 64] });
    set(&mut guarded.args);
    unsafe { (&raw mut guarded.args).cast::<usize>().write(struct_size) };
    guarded
}

/// Bytes of the struct from `from` on.
fn tail<T>(guarded: &Guarded<T>, from: usize) -> &[u8] {
    unsafe { crate::framework::slice((&raw const *guarded).cast::<u8>().add(from), size_of_val(guarded) - from) }
}

/// Calls slot `S` with every struct size a framework ever had, and with longer ones; `good` checks the outputs.
fn each_size<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>>(
    set: impl Fn(&mut S::Args),
    good: impl Fn(&S::Args, usize),
) {
    let size = S::Args::STRUCT_SIZE;
    let history = S::Args::HISTORY.iter().map(|(_, size)| *size);
    for struct_size in history.chain([S::Args::MIN_SIZE, size, size + 8, size + 4096, usize::MAX]) {
        let mut args = guarded::<S::Args>(struct_size, &set);
        let known = struct_size.min(size);
        let before = tail(&args, known).to_vec();
        toy().call::<S>(&mut args.args).unwrap_or_else(|fault| panic!("{} of {struct_size}: {fault:?}", S::NAME));
        assert_eq!(unsafe { (&raw const args.args).cast::<usize>().read() }, struct_size);
        assert_eq!(tail(&args, known), before, "{} wrote beyond {struct_size} bytes", S::NAME);
        good(&args.args, struct_size);
    }
    for struct_size in [0, 1, 8, 15, 16, S::Args::MIN_SIZE - 1] {
        let mut args = guarded::<S::Args>(struct_size, &set);
        let before = tail(&args, 0).to_vec();
        let fault = toy().call::<S>(&mut args.args).unwrap_err();
        assert!(fault.message.starts_with(S::NAME), "{fault:?}");
        assert!(fault.message.contains(&format!("set it to {size}")), "{fault:?}");
        assert_eq!(tail(&args, 0), before, "{} wrote to a struct of {struct_size} bytes", S::NAME);
    }
}

#[test]
fn the_size_of_a_struct_bounds_what_is_written() {
    let client = toy().client(&[]).unwrap();
    let device = toy().devices(client)[0];
    each_size::<slot::PJRT_Client_Create>(
        |args| {
            args.create_options = std::ptr::null();
            args.num_options = 0;
        },
        |args, _| toy().destroy_client(args.client),
    );
    each_size::<slot::PJRT_Device_MemoryStats>(
        |args| args.device = device,
        |args, size| {
            assert_eq!((args.bytes_in_use, args.num_allocs), (7, 3));
            assert!(args.num_allocs_is_set.get() && !args.bytes_limit_is_set.get());
            assert_eq!(args.peak_allocated_bytes_is_set.get(), size < PJRT_Device_MemoryStats_Args::STRUCT_SIZE);
        },
    );
    each_size::<slot::PJRT_Client_ProcessIndex>(
        |args| args.client = client,
        |args, _| assert_eq!(args.process_index, 0),
    );
    each_size::<slot::PJRT_Client_PlatformName>(
        |args| args.client = client,
        |args, _| assert_eq!(args.platform_name_size, 3),
    );
    let code = "op=echo\nin=s32[2]";
    let executable = toy().compile(client, code).unwrap();
    let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = executable);
    let held = held.unwrap().executable;
    each_size::<slot::PJRT_Executable_GetCompiledMemoryStats>(
        |args| args.executable = held,
        |args, _| assert_eq!((args.argument_size_in_bytes, args.output_size_in_bytes), (8, 8)),
    );
    let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = held).unwrap();
    each_size::<slot::PJRT_Executable_DeserializeAndLoad>(
        |args| {
            args.client = client;
            args.serialized_executable = blob.serialized_bytes;
            args.serialized_executable_size = blob.serialized_bytes_size;
            args.overridden_serialized_compile_options = std::ptr::null();
            args.overridden_serialized_compile_options_size = 0;
        },
        |args, _| toy().destroy_loaded(args.loaded_executable),
    );
    unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
    toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = held).unwrap();
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn callers_from_before_the_last_fields_are_served() {
    let client = toy().client(&[]).unwrap();
    let (device, memory) = (toy().devices(client)[0], toy().memories(client)[2]);
    let dims = [2i64];
    let data = [1i32, 2];
    each_size::<slot::PJRT_Client_CreateErrorBuffer>(
        |args| {
            (args.client, args.memory, args.error_code) = (client, memory, PJRT_Error_Code(8));
            (args.error_message, args.error_message_size) = (c"no".as_ptr(), 2);
            (args.shape_dims, args.shape_num_dims) = (dims.as_ptr(), 1);
            args.shape_element_type = PJRT_Buffer_Type::PJRT_Buffer_Type_S32;
            args.shape_layout = null_mut();
            (args.payload, args.num_payload) = (std::ptr::null(), 0);
        },
        |args, _| {
            assert_eq!(toy().read_ints(args.buffer).unwrap_err().message, "no");
            toy().destroy(&[args.buffer]);
        },
    );
    each_size::<slot::PJRT_Device_PoisonExecution>(
        |args| {
            (args.device, args.launch_id, args.error_code) = (device, 12345, PJRT_Error_Code(10));
            (args.error_message, args.error_message_size) = (c"no".as_ptr(), 2);
            (args.payload, args.num_payload) = (std::ptr::null(), 0);
        },
        |args, _| assert!(!args.poisoned.get()),
    );
    // Before the memory could be named, the device says which one is meant: its default memory, which the toy's host
    // does not see.
    for struct_size in PJRT_Client_CreateViewOfDeviceBuffer_Args::HISTORY.iter().map(|(_, size)| *size) {
        let set = |args: &mut PJRT_Client_CreateViewOfDeviceBuffer_Args| {
            (args.client, args.device) = (client, device);
            args.device_buffer_ptr = data.as_ptr().cast_mut().cast();
            (args.dims, args.num_dims) = (dims.as_ptr(), 1);
            args.element_type = PJRT_Buffer_Type::PJRT_Buffer_Type_S32;
            args.layout = null_mut();
            args.on_delete_callback = None;
            args.stream = 0;
        };
        let mut args = guarded(struct_size, set);
        let fault = toy().call::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(&mut args.args).unwrap_err();
        assert_eq!(fault.message, "s32[2] in foreign memory 0");
    }
    toy().destroy_client(client);
}

#[test]
fn execute_options_of_every_age_are_read_within_their_size() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap();
    let history = PJRT_ExecuteOptions::HISTORY.iter().map(|(_, size)| *size);
    for struct_size in history.chain([16, PJRT_ExecuteOptions::STRUCT_SIZE, 4096]) {
        let buffer = toy().ints(client, &[1, 2]);
        let mut options = execute_options(&[0]);
        options.struct_size = struct_size;
        let (mut output, mut event) = (null_mut(), null_mut());
        let (arguments, outputs) = ([(&raw const buffer)], [(&raw mut output)]);
        toy()
            .ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                args.executable = executable;
                args.options = &raw mut options;
                args.argument_lists = arguments.as_ptr();
                args.num_devices = 1;
                args.num_args = 1;
                args.output_lists = outputs.as_ptr();
                args.device_complete_events = &raw mut event;
                args.execute_device = null_mut();
            })
            .unwrap();
        toy().wait(event).unwrap();
        assert_eq!(toy().read_ints(output).unwrap(), [2, 3]);
        // Options too short to name the kept arguments name none.
        assert_eq!(toy().is_deleted(buffer), struct_size == 16, "{struct_size}");
        toy().destroy(&[buffer, output]);
    }
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}
