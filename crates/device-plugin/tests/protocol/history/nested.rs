//! Tests nested structs in arguments, in the size of every header version.

use std::ptr::{null, null_mut};

use device_plugin::ErrorCode;
use expect_test::expect;
use pjrt_sys::*;

use super::caller::Cliff;
use super::fixture::{CODE, DATA, DIMS, Fixture, S32, shape_spec};
use crate::framework::{Answer, execute_options, program, raw_values, toy};

/// Passes `value` in every size that frameworks have passed or that newer frameworks may pass, with no readable memory
/// after it. Then passes it in smaller sizes than frameworks have ever passed. Returns the messages of the errors that
/// these cause.
fn each_size<T: AbiStruct>(value: &T, mut pass: impl FnMut(*const T) -> Answer) -> String {
    let history = T::HISTORY.iter().map(|(_, size)| *size).chain([T::STRUCT_SIZE]);
    let future = [1, 8, 4096].map(|more| T::STRUCT_SIZE + more);
    for struct_size in history.chain(future) {
        let cliff = Cliff::new(struct_size + size_of::<T>());
        let at = cliff.put(value, struct_size);
        pass(at).unwrap_or_else(|fault| panic!("{} with {struct_size} bytes: {fault:?}", T::NAME));
    }
    let mut messages = String::new();
    for struct_size in [0, 1, 8, 15, 16, T::MIN_SIZE - 1] {
        let cliff = Cliff::new(size_of::<T>());
        let at = cliff.put(value, struct_size);
        let fault = pass(at).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{}\n", fault.message);
    }
    messages
}

#[test]
fn programs_of_every_age() {
    let fixture = Fixture::new();
    let given = program("toy", CODE.as_bytes());
    let messages = each_size(&given, |program| {
        let args = toy().ask::<slot::PJRT_Client_Compile>(|args| {
            (args.client, args.program, args.compile_options_size) = (fixture.client, program, 0);
        })?;
        toy().destroy_loaded(args.executable);
        Ok(())
    });
    expect![[r#"
        PJRT_Client_Compile: program->struct_size is 0, but even the oldest supported framework passes 48; set it to 48
        PJRT_Client_Compile: program->struct_size is 1, but even the oldest supported framework passes 48; set it to 48
        PJRT_Client_Compile: program->struct_size is 8, but even the oldest supported framework passes 48; set it to 48
        PJRT_Client_Compile: program->struct_size is 15, but even the oldest supported framework passes 48; set it to 48
        PJRT_Client_Compile: program->struct_size is 16, but even the oldest supported framework passes 48; set it to 48
        PJRT_Client_Compile: program->struct_size is 47, but even the oldest supported framework passes 48; set it to 48
    "#]]
    .assert_eq(&messages);
    // Here, the function writes its outputs to the nested struct. It must not write beyond the current size.
    let mut asked = program("", &[]);
    asked.code = null_mut();
    let messages = each_size(&asked, |program| {
        let end = unsafe { program.cast::<usize>().read() }.max(PJRT_Program::STRUCT_SIZE);
        let beyond = end - PJRT_Program::STRUCT_SIZE;
        let args = toy().ask::<slot::PJRT_Executable_OptimizedProgram>(|args| {
            (args.executable, args.program) = (fixture.executable, program.cast_mut());
        });
        args?;
        assert_eq!(unsafe { (*program).code_size }, CODE.len());
        let after = unsafe { crate::framework::slice(program.add(1).cast::<u8>(), beyond) };
        assert!(after.iter().all(|byte| *byte == super::caller::POISON));
        Ok(())
    });
    expect![[r#"
        PJRT_Executable_OptimizedProgram: program->struct_size is 0, but even the oldest supported framework passes 48; set it to 48
        PJRT_Executable_OptimizedProgram: program->struct_size is 1, but even the oldest supported framework passes 48; set it to 48
        PJRT_Executable_OptimizedProgram: program->struct_size is 8, but even the oldest supported framework passes 48; set it to 48
        PJRT_Executable_OptimizedProgram: program->struct_size is 15, but even the oldest supported framework passes 48; set it to 48
        PJRT_Executable_OptimizedProgram: program->struct_size is 16, but even the oldest supported framework passes 48; set it to 48
        PJRT_Executable_OptimizedProgram: program->struct_size is 47, but even the oldest supported framework passes 48; set it to 48
    "#]]
    .assert_eq(&messages);
    fixture.end();
}

#[test]
fn execute_options_of_every_age() {
    let fixture = Fixture::new();
    let kept = [0i64];
    let options = execute_options(&kept);
    let messages = each_size(&options, |options| {
        let buffer = fixture.ints();
        let (mut output, mut event) = (null_mut(), null_mut());
        let (arguments, outputs) = ([(&raw const buffer)], [(&raw mut output)]);
        let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options) = (fixture.loaded, options.cast_mut());
            (args.argument_lists, args.output_lists) = (arguments.as_ptr(), outputs.as_ptr());
            (args.num_devices, args.num_args) = (1, 1);
            (args.device_complete_events, args.execute_device) = (&raw mut event, null_mut());
        });
        // The options exclude the argument from donation.
        assert!(!toy().is_deleted(buffer));
        if answer.is_ok() {
            toy().wait(event).unwrap();
            assert_eq!(toy().read_ints(output).unwrap(), [2, 3]);
            toy().destroy(&[output]);
        }
        toy().destroy(&[buffer]);
        answer.map(drop)
    });
    expect![[r#"
        PJRT_LoadedExecutable_Execute: options->struct_size is 0, but even the oldest supported framework passes 72; set it to 160
        PJRT_LoadedExecutable_Execute: options->struct_size is 1, but even the oldest supported framework passes 72; set it to 160
        PJRT_LoadedExecutable_Execute: options->struct_size is 8, but even the oldest supported framework passes 72; set it to 160
        PJRT_LoadedExecutable_Execute: options->struct_size is 15, but even the oldest supported framework passes 72; set it to 160
        PJRT_LoadedExecutable_Execute: options->struct_size is 16, but even the oldest supported framework passes 72; set it to 160
        PJRT_LoadedExecutable_Execute: options->struct_size is 71, but even the oldest supported framework passes 72; set it to 160
    "#]]
    .assert_eq(&messages);
    fixture.end();
}

#[test]
fn named_values_of_every_age() {
    let values = [device_plugin::NamedValue::new("list", [1i64, 2])];
    let raw = raw_values(&values);
    let messages = each_size(&raw[0], |options| {
        let args =
            toy().ask::<slot::PJRT_Client_Create>(|args| (args.create_options, args.num_options) = (options, 1))?;
        toy().destroy_client(args.client);
        Ok(())
    });
    expect![[r#"
        PJRT_Client_Create: create_options->struct_size is 0, but even the oldest supported framework passes 56; set it to 56
        PJRT_Client_Create: create_options->struct_size is 1, but even the oldest supported framework passes 56; set it to 56
        PJRT_Client_Create: create_options->struct_size is 8, but even the oldest supported framework passes 56; set it to 56
        PJRT_Client_Create: create_options->struct_size is 15, but even the oldest supported framework passes 56; set it to 56
        PJRT_Client_Create: create_options->struct_size is 16, but even the oldest supported framework passes 56; set it to 56
        PJRT_Client_Create: create_options->struct_size is 55, but even the oldest supported framework passes 56; set it to 56
    "#]]
    .assert_eq(&messages);
    let fixture = Fixture::new();
    let manager = fixture.manager();
    let messages = each_size(&raw[0], |metadata| {
        toy()
            .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_AddMetadata>(|args| {
                (args.transfer_manager, args.transfer_metadata, args.num_metadata) = (manager, metadata, 1);
            })
            .map(drop)
    });
    expect![[r#"
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_metadata->struct_size is 0, but even the oldest supported framework passes 56; set it to 56
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_metadata->struct_size is 1, but even the oldest supported framework passes 56; set it to 56
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_metadata->struct_size is 8, but even the oldest supported framework passes 56; set it to 56
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_metadata->struct_size is 15, but even the oldest supported framework passes 56; set it to 56
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_metadata->struct_size is 16, but even the oldest supported framework passes 56; set it to 56
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata: transfer_metadata->struct_size is 55, but even the oldest supported framework passes 56; set it to 56
    "#]]
    .assert_eq(&messages);
    super::fixture::destroy_manager(manager);
    let messages = each_size(&raw[0], |payload| {
        let args = toy().ask::<slot::PJRT_Device_PoisonExecution>(|args| {
            (args.device, args.launch_id, args.error_code) = (fixture.devices[0], 98765, PJRT_Error_Code(1));
            (args.error_message_size, args.payload, args.num_payload) = (0, payload, 1);
        });
        args.map(drop)
    });
    expect![[r#"
        PJRT_Device_PoisonExecution: payload->struct_size is 0, but even the oldest supported framework passes 56; set it to 56
        PJRT_Device_PoisonExecution: payload->struct_size is 1, but even the oldest supported framework passes 56; set it to 56
        PJRT_Device_PoisonExecution: payload->struct_size is 8, but even the oldest supported framework passes 56; set it to 56
        PJRT_Device_PoisonExecution: payload->struct_size is 15, but even the oldest supported framework passes 56; set it to 56
        PJRT_Device_PoisonExecution: payload->struct_size is 16, but even the oldest supported framework passes 56; set it to 56
        PJRT_Device_PoisonExecution: payload->struct_size is 55, but even the oldest supported framework passes 56; set it to 56
    "#]]
    .assert_eq(&messages);
    fixture.end();
}

#[test]
fn shape_specs_of_every_age() {
    let fixture = Fixture::new();
    let spec = shape_spec();
    let messages = each_size(&spec, |spec| {
        let args = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            (args.client, args.memory) = (fixture.client, fixture.memories[0]);
            (args.shape_specs, args.num_shape_specs, args.num_device_layouts) = (spec.cast_mut(), 1, 0);
        })?;
        super::fixture::destroy_manager(args.transfer_manager);
        Ok(())
    });
    expect![[r#"
        PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs->struct_size is 0, but even the oldest supported framework passes 36; set it to 36
        PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs->struct_size is 1, but even the oldest supported framework passes 36; set it to 36
        PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs->struct_size is 8, but even the oldest supported framework passes 36; set it to 36
        PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs->struct_size is 15, but even the oldest supported framework passes 36; set it to 36
        PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs->struct_size is 16, but even the oldest supported framework passes 36; set it to 36
        PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs->struct_size is 35, but even the oldest supported framework passes 36; set it to 36
    "#]]
    .assert_eq(&messages);
    fixture.end();
}

#[test]
fn arrays_of_longer_structs() {
    // Pass two named values of a newer framework. Its structs are 24 bytes longer.
    const LONGER: usize = PJRT_NamedValue::STRUCT_SIZE + 24;
    let values = [device_plugin::NamedValue::new("name", "of two"), device_plugin::NamedValue::new("flag", true)];
    let raw = raw_values(&values);
    let cliff = Cliff::new(2 * LONGER);
    let at = cliff.last(2 * LONGER);
    for (i, value) in raw.iter().enumerate() {
        let mut value = *value;
        value.struct_size = LONGER;
        unsafe {
            let to = at.add(i * LONGER);
            std::ptr::from_ref(&value).cast::<u8>().copy_to_nonoverlapping(to, PJRT_NamedValue::STRUCT_SIZE);
        }
    }
    let args = toy().ask::<slot::PJRT_Client_Create>(|args| {
        (args.create_options, args.num_options) = (at.cast_const().cast(), 2);
    });
    toy().destroy_client(args.unwrap().client);
    assert_eq!(crate::toy::notes("of two is closed").len(), 1);
}

#[test]
fn ignores_layout_size() {
    // Frameworks do not initialize the sizes of these structs.
    let fixture = Fixture::new();
    let order = [0i64];
    for struct_size in [0, 1, 8, PJRT_Buffer_MemoryLayout::STRUCT_SIZE, 4096, usize::MAX] {
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        let mut tiled = crate::framework::garbage::<PJRT_Buffer_MemoryLayout_Tiled>();
        (tiled.minor_to_major, tiled.minor_to_major_size, tiled.num_tiles) = (order.as_ptr(), 1, 0);
        tiled.struct_size = struct_size;
        layout.__bindgen_anon_1.tiled = tiled;
        layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
        let cliff = Cliff::new(size_of_val(&layout));
        let at = cliff.last(size_of_val(&layout)).cast::<PJRT_Buffer_MemoryLayout>();
        layout.struct_size = struct_size;
        unsafe { at.write(layout) };
        let args = toy().ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            (args.client, args.data, args.type_) = (fixture.client, DATA.as_ptr().cast(), S32);
            (args.dims, args.num_dims) = (DIMS.as_ptr(), 1);
            (args.byte_strides, args.num_byte_strides) = (null(), 0);
            args.host_buffer_semantics = PJRT_HostBufferSemantics(0);
            (args.device, args.memory, args.device_layout) = (fixture.devices[0], null_mut(), at);
        });
        let args = args.unwrap();
        toy().wait(args.done_with_host_buffer).unwrap();
        assert_eq!(toy().read_ints(args.buffer).unwrap(), DATA);
        toy().destroy(&[args.buffer]);
    }
    fixture.end();
}
