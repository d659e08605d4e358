//! Tests the properties of executables, and their serialized form.

use std::ptr::{null, null_mut};

use device_plugin::{CompileOptions, DeviceAssignment, ErrorCode, NamedValue};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Loaded, garbage, read_values, slice, text, toy};

fn executable_of(loaded: Loaded) -> *mut PJRT_Executable {
    toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded).unwrap().executable
}

fn destroy(executable: *mut PJRT_Executable) {
    toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = executable).unwrap();
}

#[test]
fn executables_describe_themselves() {
    let client = toy().client(&[]).unwrap();
    let code = "op=all\nin=s32[2,3];f32[]\nout=pred[];bf16[4,1]\nkind=pinned_host";
    let options = CompileOptions::default().with_device_ordinal(11).encode();
    let loaded = toy().compile_with(client, code, &options).unwrap();
    let held = executable_of(loaded);
    unsafe {
        let name = toy().ask::<slot::PJRT_Executable_Name>(|args| args.executable = held).unwrap();
        assert_eq!(text(name.executable_name, name.executable_name_size), "all");
        assert_eq!(
            toy().ask::<slot::PJRT_Executable_NumReplicas>(|args| args.executable = held).unwrap().num_replicas,
            1
        );
        let partitions = toy().ask::<slot::PJRT_Executable_NumPartitions>(|args| args.executable = held).unwrap();
        assert_eq!(partitions.num_partitions, 1);
        assert_eq!(
            toy().ask::<slot::PJRT_Executable_NumOutputs>(|args| args.executable = held).unwrap().num_outputs,
            2
        );
        let size =
            toy().ask::<slot::PJRT_Executable_SizeOfGeneratedCodeInBytes>(|args| args.executable = held).unwrap();
        assert_eq!(size.size_in_bytes, 42);
        let types = toy().ask::<slot::PJRT_Executable_OutputElementTypes>(|args| args.executable = held).unwrap();
        let types: Vec<_> = slice(types.output_types, types.num_output_types).iter().map(|ty| ty.0).collect();
        assert_eq!(types, [1, 13]);
        let dims = toy().ask::<slot::PJRT_Executable_OutputDimensions>(|args| args.executable = held).unwrap();
        assert_eq!(slice(dims.dim_sizes, dims.num_outputs), [0, 2]);
        assert_eq!(slice(dims.dims, 2), [4, 1]);
        let kinds = toy().ask::<slot::PJRT_Executable_OutputMemoryKinds>(|args| args.executable = held).unwrap();
        for i in 0..kinds.num_outputs {
            assert_eq!(text(*kinds.memory_kinds.add(i), *kinds.memory_kind_sizes.add(i)), "pinned_host");
        }
        let kinds = toy().ask::<slot::PJRT_Executable_ParameterMemoryKinds>(|args| args.executable = held).unwrap();
        assert_eq!(kinds.num_parameters, 2);
        assert_eq!(text(*kinds.memory_kinds, *kinds.memory_kind_sizes), "device");
        let cost = toy().ask::<slot::PJRT_Executable_GetCostAnalysis>(|args| args.executable = held).unwrap();
        let cost = read_values(cost.properties, cost.num_properties);
        assert_eq!(cost, [NamedValue::new("flops", 2.5f32), NamedValue::new("bytes accessed", 8i64)]);
        let memory = toy().ask::<slot::PJRT_Executable_GetCompiledMemoryStats>(|args| args.executable = held).unwrap();
        assert_eq!((memory.argument_size_in_bytes, memory.output_size_in_bytes), (28, 9));
        let blob = toy().ask::<slot::PJRT_Executable_GetCompileOptions>(|args| args.executable = held).unwrap();
        assert_eq!(slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size), options);
        blob.serialized_compile_options_deleter.unwrap()(blob.serialized_compile_options);
        let one = toy().ask::<slot::PJRT_Executable_Fingerprint>(|args| args.executable = held).unwrap();
        let two = toy().ask::<slot::PJRT_LoadedExecutable_Fingerprint>(|args| args.executable = loaded).unwrap();
        let print = text(one.executable_fingerprint, one.executable_fingerprint_size);
        assert_eq!(print, text(two.executable_fingerprint, two.executable_fingerprint_size));
        assert_eq!(print.len(), 32);
        let devices = toy().ask::<slot::PJRT_LoadedExecutable_AddressableDevices>(|args| args.executable = loaded);
        let devices = devices.unwrap();
        assert_eq!(slice(devices.addressable_devices, devices.num_addressable_devices), [toy().devices(client)[1]]);
        let blob =
            toy().ask::<slot::PJRT_LoadedExecutable_GetDeviceAssignment>(|args| args.executable = loaded).unwrap();
        let bytes = slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size);
        assert_eq!(DeviceAssignment::decode(bytes).unwrap(), DeviceAssignment::new(1, 1, vec![11]).unwrap());
        blob.serialized_device_assignment_deleter.unwrap()(blob.serialized_device_assignment);
    }
    // The same program has another fingerprint if it is compiled with other options.
    let other = toy().compile(client, code).unwrap();
    let print = |loaded: Loaded| {
        let args = toy().ask::<slot::PJRT_LoadedExecutable_Fingerprint>(|args| args.executable = loaded).unwrap();
        unsafe { text(args.executable_fingerprint, args.executable_fingerprint_size) }
    };
    assert_ne!(print(loaded), print(other));
    // The executable outlives the loaded executable.
    toy().destroy_loaded(loaded);
    assert_eq!(toy().ask::<slot::PJRT_Executable_NumOutputs>(|args| args.executable = held).unwrap().num_outputs, 2);
    let again = toy()
        .ask::<slot::PJRT_Client_Load>(|args| {
            (args.client, args.executable) = (client, held);
            (args.compile_options, args.compile_options_size) = (null(), 0);
        })
        .unwrap()
        .loaded_executable;
    destroy(held);
    toy().destroy_loaded(again);
    toy().destroy_loaded(other);
    toy().destroy_client(client);
}

#[test]
fn returns_original_program() {
    let client = toy().client(&[]).unwrap();
    let code = "op=echo\nin=s32[1]";
    let loaded = toy().compile(client, code).unwrap();
    let held = executable_of(loaded);
    // The format is garbage on input, and a null code pointer requests the size.
    let mut program = garbage::<PJRT_Program>();
    program.code = null_mut();
    let ask = |program: &mut PJRT_Program| {
        toy()
            .ask::<slot::PJRT_Executable_OptimizedProgram>(|args| (args.executable, args.program) = (held, program))
            .map(drop)
    };
    ask(&mut program).unwrap();
    assert_eq!(program.code_size, code.len());
    assert_eq!(unsafe { text(program.format, program.format_size) }, "toy");
    let mut bytes = vec![0u8; code.len()];
    program.code = bytes.as_mut_ptr().cast();
    ask(&mut program).unwrap();
    assert_eq!(bytes, code.as_bytes());
    program.code_size = 3;
    assert_eq!(ask(&mut program).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    let fault = toy()
        .ask::<slot::PJRT_Executable_OptimizedProgram>(|args| (args.executable, args.program) = (held, null_mut()))
        .map(drop)
        .unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_Executable_OptimizedProgram: program is null"].assert_eq(&fault.message);
    destroy(held);
    toy().destroy_loaded(loaded);
    toy().destroy_client(client);
}

#[test]
fn returns_hlo_program_with_config() {
    // A framework that sends an `HloModuleProto` can only read an `HloModuleProtoWithConfig` back.
    let client = toy().client(&[]).unwrap();
    let name = "op=echo\nin=s32[1]";
    let mut module = vec![0x0a, u8::try_from(name.len()).unwrap()];
    module.extend(name.bytes());
    module.extend([0x22, 3, b'(', b'x', b')']);
    let loaded = toy().compile_as(client, "hlo", &module, &[]).unwrap();
    let held = executable_of(loaded);
    let mut program = garbage::<PJRT_Program>();
    program.code = null_mut();
    let mut bytes = Vec::new();
    for _ in 0..2 {
        toy()
            .ask::<slot::PJRT_Executable_OptimizedProgram>(|args| {
                (args.executable, args.program) = (held, &raw mut program);
            })
            .unwrap();
        bytes.resize(program.code_size, 0u8);
        program.code = bytes.as_mut_ptr().cast();
    }
    assert_eq!(unsafe { text(program.format, program.format_size) }, "hlo_with_config");
    let mut expected = vec![0x0a, u8::try_from(module.len()).unwrap()];
    expected.extend(&module);
    expected.extend([0x12, 9, 0x0a, 3, b'(', b'x', b')', 0x20, 1, 0x28, 1]);
    assert_eq!(bytes, expected);
    destroy(held);
    toy().destroy_loaded(loaded);
    toy().destroy_client(client);
}

#[test]
fn executables_survive_serialization() {
    let client = toy().client(&[]).unwrap();
    let options = CompileOptions::default().with_device_ordinal(11).encode();
    let loaded = toy().compile_with(client, "op=add_one\nin=s32[1]", &options).unwrap();
    let held = executable_of(loaded);
    let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = held).unwrap();
    let bytes = unsafe { slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
    unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
    destroy(held);
    toy().destroy_loaded(loaded);
    let load = |bytes: &[u8], overridden: &[u8]| {
        toy()
            .ask::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
                args.client = client;
                args.serialized_executable = bytes.as_ptr().cast();
                args.serialized_executable_size = bytes.len();
                args.overridden_serialized_compile_options = overridden.as_ptr().cast();
                args.overridden_serialized_compile_options_size = overridden.len();
            })
            .map(|args| args.loaded_executable)
    };
    let overridden = CompileOptions::default().with_device_ordinal(10).encode();
    for (overridden, device) in [(&[][..], 1), (&overridden[..], 0)] {
        let loaded = load(&bytes, overridden).unwrap();
        let args =
            toy().ask::<slot::PJRT_LoadedExecutable_AddressableDevices>(|args| args.executable = loaded).unwrap();
        let devices = unsafe { slice(args.addressable_devices, args.num_addressable_devices) };
        assert_eq!(devices, [toy().devices(client)[device]]);
        toy().destroy_loaded(loaded);
    }
    assert_eq!(load(b"junk", &[]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    for cut in 1..bytes.len() {
        assert!(load(&bytes[..cut], &[]).is_err(), "{cut}");
    }
    // Damage each byte by flipping one of its bits.
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(load(&damaged, &[]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT, "{at}");
    }
    // Write excessive lengths, with a correct checksum.
    for at in (27..bytes.len() - 16).step_by(3) {
        let mut absurd = bytes.clone();
        absurd[at..at + 8].fill(0xff);
        seal(&mut absurd);
        drop(load(&absurd, &[]).map(|loaded| toy().destroy_loaded(loaded)));
    }
    // The data is complete and valid, but belongs to another platform. The platform's name follows the magic line and a
    // length.
    let mut foreign = bytes.clone();
    assert_eq!(&foreign[35..38], b"toy");
    foreign[35..38].copy_from_slice(b"boy");
    seal(&mut foreign);
    let fault = load(&foreign, &[]).unwrap_err();
    expect![[r#"PJRT_Executable_DeserializeAndLoad: the executable was serialized on the platform "boy", but this platform is "toy""#]]
        .assert_eq(&fault.message);
    // Use another version of the format.
    let mut older = bytes.clone();
    older[25] = b'1';
    seal(&mut older);
    assert_eq!(load(&older, &[]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(load(&bytes, &[0xff; 3]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy_client(client);
}

/// Writes the checksum of modified bytes over their last 8 bytes.
fn seal(bytes: &mut [u8]) {
    let (body, sum) = bytes.split_last_chunk_mut::<8>().unwrap();
    let checksum =
        body.iter().fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    *sum = checksum.to_le_bytes();
}

#[test]
fn loads_native_code_of_same_version() {
    let client = toy().client(&[]).unwrap();
    let loaded = toy().compile(client, "op=native\nin=s32[1]").unwrap();
    let held = executable_of(loaded);
    let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = held).unwrap();
    let mut bytes = unsafe { slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
    unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
    destroy(held);
    toy().destroy_loaded(loaded);
    let name = |bytes: &[u8]| {
        let args = toy().ask::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
            (args.client, args.serialized_executable) = (client, bytes.as_ptr().cast());
            args.serialized_executable_size = bytes.len();
            args.overridden_serialized_compile_options_size = 0;
        });
        let loaded = args?.loaded_executable;
        let held = executable_of(loaded);
        let name = toy().ask::<slot::PJRT_Executable_Name>(|args| args.executable = held).unwrap();
        let name = unsafe { text(name.executable_name, name.executable_name_size) };
        destroy(held);
        toy().destroy_loaded(loaded);
        crate::framework::Answer::Ok(name)
    };
    assert_eq!(name(&bytes).unwrap(), "from native code");
    // The backend must detect damaged native code, because the checksum is correct.
    let at = bytes.windows(6).position(|window| window == b"native").unwrap();
    let code = bytes.windows(11).position(|window| window == b"native code").unwrap();
    assert!(at < code);
    let mut other = bytes.clone();
    other[code] = b'N';
    seal(&mut other);
    assert_eq!(name(&other).unwrap_err().message, "no native code");
    // If the platform version differs, the program is compiled again.
    let version = bytes.windows(5).position(|window| window == b"toy 1").unwrap();
    bytes[version + 4] = b'0';
    seal(&mut bytes);
    assert_eq!(name(&bytes).unwrap(), "native");
    toy().destroy_client(client);
}

#[test]
fn options_nobody_here_knows_are_kept() {
    let client = toy().client(&[]).unwrap();
    let mut options = CompileOptions::default().with_device_ordinal(11).encode();
    // Add field 1999. The SDK does not define it, but a newer framework might send it.
    options.extend([0xfa, 0x7c, 3, b'n', b'e', b'w']);
    let loaded = toy().compile_with(client, "op=echo\nin=s32[1]", &options).unwrap();
    let held = executable_of(loaded);
    let blob = toy().ask::<slot::PJRT_Executable_GetCompileOptions>(|args| args.executable = held).unwrap();
    let kept = unsafe { slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
    unsafe { blob.serialized_compile_options_deleter.unwrap()(blob.serialized_compile_options) };
    assert_eq!(kept, options);
    destroy(held);
    toy().destroy_loaded(loaded);
    toy().destroy_client(client);
}

#[test]
fn reports_shardings() {
    let client = toy().client(&[]).unwrap();
    let layouts = unsafe { &*toy().0.extension_start };
    let extension = unsafe { &*layouts.next.cast::<PJRT_Shardings_Extension>() };
    for (op, expected) in [("all", 2), ("echo", 0)] {
        let loaded = toy().compile(client, &format!("op={op}\nin=s32[1];s32[1]")).unwrap();
        let held = executable_of(loaded);
        let mut args = garbage::<PJRT_Shardings_PJRT_Executable_OutputShardings_Args>();
        args.executable = held;
        unsafe {
            toy().check(extension.PJRT_Shardings_PJRT_Executable_OutputShardings.unwrap()(&raw mut args)).unwrap();
            assert_eq!((args.num_outputs, args.shardings.is_null()), (expected, expected == 0));
            for i in 0..expected {
                assert_eq!(text(*args.shardings.add(i), *args.sharding_sizes.add(i)), "sharding");
            }
            let mut args = garbage::<PJRT_Shardings_PJRT_Executable_ParameterShardings_Args>();
            args.executable = held;
            toy().check(extension.PJRT_Shardings_PJRT_Executable_ParameterShardings.unwrap()(&raw mut args)).unwrap();
            assert!(args.num_parameters == 0 && args.shardings.is_null() && args.sharding_sizes.is_null());
        }
        destroy(held);
        toy().destroy_loaded(loaded);
    }
    toy().destroy_client(client);
}
