//! Tests invalid arguments. Each invalid argument causes an error that names its field, and the client remains usable.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use device_plugin::{CompileOptions, DeviceAssignment, ErrorCode, NamedValue};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Client, execute_options, garbage, raw_values, toy};
use crate::history::Cliff;

/// A small pseudo-random generator with a seed, so that failures are reproducible.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns an index below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from((self.next() >> 11) % end as u64).unwrap()
    }
}

/// The element type, extents and rank that a test passes.
#[derive(Clone, Copy, Debug)]
struct Form {
    element_type: u32,
    dims: *const i64,
    num_dims: usize,
}

fn misaligned<T>(at: *const T) -> *const T {
    at.wrapping_byte_add(1)
}

/// Calls each function that has a shape as a parameter. Returns the name and the result of each call.
fn each_shape(client: Client, form: Form) -> Vec<(&'static str, Answer)> {
    let data = [0u8; 64];
    let (device, memory) = (toy().devices(client)[0], toy().memories(client)[0]);
    let Form { element_type, dims, num_dims } = form;
    let element_type = PJRT_Buffer_Type(element_type);
    let from_host = toy().ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
        (args.client, args.data, args.type_) = (client, data.as_ptr().cast(), element_type);
        (args.dims, args.num_dims, args.byte_strides, args.num_byte_strides) = (dims, num_dims, null(), 0);
        args.host_buffer_semantics = PJRT_HostBufferSemantics(0);
        (args.device, args.memory, args.device_layout) = (device, null_mut(), null_mut());
    });
    let uninitialized = toy().ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|args| {
        (args.client, args.device, args.memory) = (client, device, null_mut());
        (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (dims, num_dims, element_type);
        args.shape_layout = null_mut();
    });
    let error = toy().ask::<slot::PJRT_Client_CreateErrorBuffer>(|args| {
        (args.client, args.memory, args.error_code) = (client, memory, PJRT_Error_Code(1));
        (args.error_message_size, args.num_payload) = (0, 0);
        (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (dims, num_dims, element_type);
        (args.shape_layout, args.device_layout) = (null_mut(), null_mut());
    });
    let alias = toy().ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
        (args.client, args.memory) = (client, memory);
        (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (dims, num_dims, element_type);
        args.shape_layout = null_mut();
    });
    let view = toy().ask::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(|args| {
        (args.client, args.device, args.memory) = (client, device, null_mut());
        args.device_buffer_ptr = data.as_ptr().cast_mut().cast();
        (args.dims, args.num_dims, args.element_type, args.layout) = (dims, num_dims, element_type, null_mut());
        (args.on_delete_callback, args.stream) = (None, 0);
    });
    let buffer = toy().ints(client, &[1]);
    let bitcast = toy().ask::<slot::PJRT_Buffer_Bitcast>(|args| {
        (args.buffer, args.element_type, args.device_layout) = (buffer, element_type, null_mut());
        (args.dims, args.num_dims) = (dims, num_dims);
    });
    toy().destroy(&[buffer]);
    let mut spec = garbage::<PJRT_ShapeSpec>();
    (spec.dims, spec.num_dims, spec.element_type) = (dims, num_dims, element_type);
    let arriving = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
        (args.client, args.memory, args.num_device_layouts) = (client, memory, 0);
        (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
    });
    let topology = toy().ask::<slot::PJRT_Client_TopologyDescription>(|args| args.client = client).unwrap().topology;
    let canonical = toy().ask::<slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace>(|args| {
        (args.topology, args.memory_space_kind_id, args.layout) = (topology, 0, null());
        (args.dims, args.num_dims, args.element_type) = (dims, num_dims, element_type);
    });
    vec![
        ("PJRT_Client_BufferFromHostBuffer", from_host.map(drop)),
        ("PJRT_Client_CreateUninitializedBuffer", uninitialized.map(drop)),
        ("PJRT_Client_CreateErrorBuffer", error.map(drop)),
        ("PJRT_Client_CreateAliasBuffer", alias.map(drop)),
        ("PJRT_Client_CreateViewOfDeviceBuffer", view.map(drop)),
        ("PJRT_Buffer_Bitcast", bitcast.map(drop)),
        ("PJRT_Client_CreateBuffersForAsyncHostToDevice", arriving.map(drop)),
        ("PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace", canonical.map(drop)),
    ]
}

#[test]
fn shapes_that_are_none() {
    let client = toy().client(&[]).unwrap();
    let s32 = 4;
    let (one, negative, huge) = ([1i64, 1], [-1i64, 1], [i64::MAX, i64::MAX]);
    let wraps = [1i64 << 32, 1 << 32, 0, 3];
    let form = |element_type, dims: &[i64]| Form { element_type, dims: dims.as_ptr(), num_dims: dims.len() };
    let bad = [
        (form(0, &one), "type 0"),
        (form(999, &one), "type 999"),
        (form(u32::MAX, &one), "type 4294967295"),
        (form(s32, &negative), "one negative extent"),
        (form(s32, &[i64::MIN]), "the smallest extent"),
        (form(s32, &huge), "the largest extents"),
        (form(s32, &wraps), "a product that wraps"),
        (form(s32, &[1i64 << 62]), "2^62 elements"),
        (Form { element_type: s32, dims: null(), num_dims: 1 }, "null dims"),
        (Form { element_type: s32, dims: null(), num_dims: usize::MAX }, "null dims of the largest rank"),
        (Form { element_type: s32, dims: misaligned(one.as_ptr()), num_dims: 1 }, "misaligned dims"),
        (Form { element_type: s32, dims: one.as_ptr(), num_dims: usize::MAX / 2 }, "half the largest rank"),
    ];
    let mut messages = Vec::new();
    for (form, case) in bad {
        for (function, answer) in each_shape(client, form) {
            let fault = answer.expect_err(function);
            assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{function} {form:?}: {fault:?}");
            messages.push(format!("{case}{}\n", fault.message.strip_prefix(function).expect(function)));
        }
    }
    // The functions differ only in the names with which their messages begin.
    messages.dedup();
    expect![[r#"
        type 0: unknown PJRT_Buffer_Type 0; this plugin knows 1 to 33
        type 999: unknown PJRT_Buffer_Type 999; this plugin knows 1 to 33
        type 4294967295: unknown PJRT_Buffer_Type 4294967295; this plugin knows 1 to 33
        one negative extent: s32[-1,1] has a negative extent or exceeds the address space
        the smallest extent: s32[-9223372036854775808] has a negative extent or exceeds the address space
        the largest extents: s32[9223372036854775807,9223372036854775807] has a negative extent or exceeds the address space
        a product that wraps: s32[4294967296,4294967296,0,3] has a negative extent or exceeds the address space
        2^62 elements: s32[4611686018427387904] has a negative extent or exceeds the address space
        null dims: dims is null, but its length is 1
        null dims of the largest rank: dims is null, but its length is 18446744073709551615
        misaligned dims: dims is not aligned
        half the largest rank: dims has the length 9223372036854775807, which exceeds the address space
    "#]].assert_eq(&messages.concat());
    toy().destroy_client(client);
}

fn strided(client: Client, dims: &[i64], strides: *const i64, num: usize, data: *const u8) -> Answer<Vec<u8>> {
    let device = toy().devices(client)[0];
    let args = toy().ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
        (args.client, args.data, args.type_) = (client, data.cast(), PJRT_Buffer_Type::PJRT_Buffer_Type_U8);
        (args.dims, args.num_dims) = (dims.as_ptr(), dims.len());
        (args.byte_strides, args.num_byte_strides) = (strides, num);
        args.host_buffer_semantics = PJRT_HostBufferSemantics(2);
        (args.device, args.memory, args.device_layout) = (device, null_mut(), null_mut());
    })?;
    toy().wait(args.done_with_host_buffer).unwrap();
    let bytes = toy().read(args.buffer);
    toy().destroy(&[args.buffer]);
    bytes
}

#[test]
fn strides_that_overlap_or_go_nowhere() {
    let client = toy().client(&[]).unwrap();
    // Use four bytes with no readable memory after them. With negative strides, the first element is not the first
    // byte.
    let cliff = Cliff::new(4);
    let end = cliff.last(4);
    unsafe { end.copy_from_nonoverlapping([1u8, 2, 3, 4].as_ptr(), 4) };
    let at = |offset: usize| end.wrapping_add(offset).cast_const();
    let ask = |dims: &[i64], strides: &[i64], data| strided(client, dims, strides.as_ptr(), strides.len(), data);
    assert_eq!(ask(&[2, 2], &[1, 1], at(1)).unwrap(), [2, 3, 3, 4]);
    assert_eq!(ask(&[3, 2], &[0, 0], at(3)).unwrap(), [4; 6]);
    assert_eq!(ask(&[2, 2], &[-2, -1], at(3)).unwrap(), [4, 3, 2, 1]);
    assert_eq!(ask(&[2, 2], &[-1, 1], at(2)).unwrap(), [3, 4, 2, 3]);
    // The stride of a dimension with fewer than two elements is never used.
    assert_eq!(ask(&[1, 2], &[i64::MAX, 1], at(2)).unwrap(), [3, 4]);
    assert_eq!(ask(&[0, 2], &[i64::MIN, i64::MAX], at(0)).unwrap(), [0u8; 0]);
    let mut messages = String::new();
    for strides in [&[1i64][..], &[1, 1, 1], &[i64::MAX, 1], &[i64::MIN, 1], &[i64::MAX, i64::MIN]] {
        let fault = ask(&[3, 2], strides, at(0)).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{strides:?}: {}\n", fault.message);
    }
    expect![[r#"
        [1]: PJRT_Client_BufferFromHostBuffer: byte_strides [1] of u8[3,2]: each dimension needs one stride
        [1, 1, 1]: PJRT_Client_BufferFromHostBuffer: byte_strides [1, 1, 1] of u8[3,2]: each dimension needs one stride
        [9223372036854775807, 1]: PJRT_Client_BufferFromHostBuffer: byte_strides [9223372036854775807, 1] of u8[3,2]: the array exceeds the address space
        [-9223372036854775808, 1]: PJRT_Client_BufferFromHostBuffer: byte_strides [-9223372036854775808, 1] of u8[3,2]: the array exceeds the address space
        [9223372036854775807, -9223372036854775808]: PJRT_Client_BufferFromHostBuffer: byte_strides [9223372036854775807, -9223372036854775808] of u8[3,2]: the array exceeds the address space
    "#]].assert_eq(&messages);
    let mut messages = String::new();
    for (strides, num, case) in [
        (null(), 2, "null"),
        (misaligned([1i64, 1].as_ptr()), 2, "misaligned"),
        ([1i64, 1].as_ptr(), usize::MAX, "the largest number"),
    ] {
        let fault = strided(client, &[2, 2], strides, num, at(0)).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{case}: {}\n", fault.message);
    }
    expect![[r#"
        null: PJRT_Client_BufferFromHostBuffer: byte_strides is null, but its length is 2
        misaligned: PJRT_Client_BufferFromHostBuffer: byte_strides is not aligned
        the largest number: PJRT_Client_BufferFromHostBuffer: byte_strides has the length 18446744073709551615, which exceeds the address space
    "#]].assert_eq(&messages);
    assert_eq!(ask(&[2, 2], &[2, 1], null()).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy_client(client);
}

#[test]
fn numbers_that_are_no_enumerator() {
    let client = toy().client(&[]).unwrap();
    let (device, memory, dims, data) = (toy().devices(client)[0], toy().memories(client)[0], [1i64], [0u8; 8]);
    let mut messages = String::new();
    for semantics in [4, 77, u32::MAX] {
        let answer = toy().ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            (args.client, args.data, args.type_) = (client, data.as_ptr().cast(), PJRT_Buffer_Type(4));
            (args.dims, args.num_dims, args.num_byte_strides) = (dims.as_ptr(), 1, 0);
            args.host_buffer_semantics = PJRT_HostBufferSemantics(semantics);
            (args.device, args.memory, args.device_layout) = (device, null_mut(), null_mut());
        });
        let fault = answer.map(drop).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("host_buffer_semantics {semantics}: {}\n", fault.message);
    }
    expect![[r#"
        host_buffer_semantics 4: PJRT_Client_BufferFromHostBuffer: unknown host_buffer_semantics 4
        host_buffer_semantics 77: PJRT_Client_BufferFromHostBuffer: unknown host_buffer_semantics 77
        host_buffer_semantics 4294967295: PJRT_Client_BufferFromHostBuffer: unknown host_buffer_semantics 4294967295
    "#]]
    .assert_eq(&messages);
    let values = [NamedValue::new("name", "of no type")];
    let mut messages = String::new();
    for ty in [5, u32::MAX] {
        let mut raw = raw_values(&values);
        raw[0].type_ = PJRT_NamedValue_Type(ty);
        let answer = toy().ask::<slot::PJRT_Client_Create>(|args| {
            (args.create_options, args.num_options) = (raw.as_ptr(), 1);
        });
        let fault = answer.map(drop).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("named value of type {ty}: {}\n", fault.message);
    }
    expect![[r#"
        named value of type 5: PJRT_Client_Create: create_options[0]: the value "name" has the unknown type 5
        named value of type 4294967295: PJRT_Client_Create: create_options[0]: the value "name" has the unknown type 4294967295
    "#]].assert_eq(&messages);
    // Unknown error codes are preserved.
    for code in [17, 4711, u32::MAX] {
        let args = toy().ask::<slot::PJRT_Client_CreateErrorBuffer>(|args| {
            (args.client, args.memory, args.error_code) = (client, memory, PJRT_Error_Code(code));
            (args.error_message_size, args.num_payload) = (0, 0);
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (dims.as_ptr(), 1, PJRT_Buffer_Type(4));
            (args.shape_layout, args.device_layout) = (null_mut(), null_mut());
        });
        let buffer = args.unwrap().buffer;
        assert_eq!(toy().read(buffer).unwrap_err().code.as_raw(), code);
        toy().destroy(&[buffer]);
    }
    for id in [-1, 0, 12, i32::MIN, i32::MAX] {
        let lookup = toy().ask::<slot::PJRT_Client_LookupDevice>(|args| (args.client, args.id) = (client, id));
        assert!(lookup.is_err(), "{id}");
        if id != 0 {
            let lookup = toy().ask::<slot::PJRT_Client_LookupAddressableDevice>(|args| {
                (args.client, args.local_hardware_id) = (client, id);
            });
            assert!(lookup.is_err(), "{id}");
        }
    }
    toy().destroy_client(client);
}

#[test]
fn counts_beyond_memory() {
    let client = toy().client(&[]).unwrap();
    let device = toy().devices(client)[0];
    for count in [1, 1 << 40, usize::MAX] {
        let fault = toy().ask::<slot::PJRT_Client_Create>(|args| {
            (args.create_options, args.num_options) = (null(), count);
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        let fault = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            (args.client, args.memory, args.num_device_layouts) = (client, toy().memories(client)[0], 0);
            (args.shape_specs, args.num_shape_specs) = (null_mut(), count);
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        let fault = toy().ask::<slot::PJRT_Client_UpdateGlobalProcessInfo>(|args| {
            (args.client, args.process_infos, args.num_process_infos) = (client, null_mut(), count);
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        let mut program = crate::framework::program("toy", &[]);
        (program.code, program.code_size) = (null_mut(), count);
        let fault = toy().ask::<slot::PJRT_Client_Compile>(|args| {
            (args.client, args.program, args.compile_options_size) = (client, &raw const program, 0);
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        let fault = toy().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
            (args.device, args.description, args.description_size) = (device, null(), count);
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        let fault = toy().ask::<slot::PJRT_Client_DefaultDeviceAssignment>(|args| {
            (args.client, args.num_replicas, args.num_partitions) = (client, 2, 1);
            (args.default_assignment_size, args.default_assignment) = (count.max(2), null_mut());
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    for (replicas, partitions) in [(0, 1), (1, 0), (-1, 1), (i32::MAX, i32::MAX), (1 << 16, 1 << 16), (3, 1)] {
        let mut out = [0i32; 4];
        let fault = toy().ask::<slot::PJRT_Client_DefaultDeviceAssignment>(|args| {
            (args.client, args.num_replicas, args.num_partitions) = (client, replicas, partitions);
            (args.default_assignment_size, args.default_assignment) = (4, out.as_mut_ptr());
        });
        assert_eq!(fault.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT, "{replicas} x {partitions}");
    }
    toy().destroy_client(client);
}

#[test]
fn executions_of_nothing() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=echo\nin=s32[1]").unwrap();
    let buffer = toy().ints(client, &[1]);
    let mut options = execute_options(&[]);
    let (mut output, mut event) = (null_mut(), null_mut());
    let (argument, results) = ([buffer], [&raw mut output]);
    let lists = [argument.as_ptr()];
    let good = |args: &mut PJRT_LoadedExecutable_Execute_Args| {
        (args.executable, args.argument_lists, args.output_lists) = (executable, lists.as_ptr(), results.as_ptr());
        (args.num_devices, args.num_args, args.execute_device) = (1, 1, null_mut());
    };
    let options = &raw mut options;
    let event: *mut *mut PJRT_Event = &raw mut event;
    let nulls = [null_mut::<PJRT_Buffer>()];
    let null_lists = [null::<*mut PJRT_Buffer>()];
    let lists_of_null = [nulls.as_ptr()];
    type Set<'a> = &'a dyn Fn(&mut PJRT_LoadedExecutable_Execute_Args);
    let bad: [(Set<'_>, &str); 14] = [
        (&|args| args.options = null_mut(), "null options"),
        (&|args| args.options = options.wrapping_byte_add(4), "misaligned options"),
        (&|args| args.num_args = 0, "no arguments"),
        (&|args| args.num_args = usize::MAX, "the largest num_args"),
        (&|args| args.num_devices = 0, "no devices"),
        (&|args| args.num_devices = usize::MAX, "the largest num_devices"),
        (&|args| args.argument_lists = null(), "null argument_lists"),
        (&|args| args.argument_lists = misaligned(lists.as_ptr()), "misaligned argument_lists"),
        (&|args| args.argument_lists = null_lists.as_ptr(), "null list of arguments"),
        (&|args| args.argument_lists = lists_of_null.as_ptr(), "null argument"),
        (&|args| args.output_lists = null(), "null output_lists"),
        (&|args| args.output_lists = [null_mut()].as_ptr(), "null list of outputs"),
        (&|args| args.device_complete_events = event.wrapping_byte_add(1), "misaligned device_complete_events"),
        (&|args| args.execute_device = std::ptr::without_provenance_mut(64), "an unknown device"),
    ];
    let mut messages = String::new();
    for (set, case) in bad {
        let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            good(args);
            (args.options, args.device_complete_events) = (options, event);
            set(args);
        });
        let fault = answer.map(drop).expect_err(case);
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
        messages += &format!("{case}: {}\n", fault.message);
    }
    expect![[r#"
        null options: PJRT_LoadedExecutable_Execute: options is null
        misaligned options: PJRT_LoadedExecutable_Execute: options is not aligned
        no arguments: PJRT_LoadedExecutable_Execute: 0 arguments were passed, but the program has 1 parameters
        the largest num_args: PJRT_LoadedExecutable_Execute: 18446744073709551615 arguments were passed, but the program has 1 parameters
        no devices: PJRT_LoadedExecutable_Execute: num_devices is 0, but the program runs on 1 here
        the largest num_devices: PJRT_LoadedExecutable_Execute: num_devices is 18446744073709551615, but the program runs on 1 here
        null argument_lists: PJRT_LoadedExecutable_Execute: argument_lists is null, but its length is 1
        misaligned argument_lists: PJRT_LoadedExecutable_Execute: argument_lists is not aligned
        null list of arguments: PJRT_LoadedExecutable_Execute: argument_lists[i] is null, but its length is 1
        null argument: PJRT_LoadedExecutable_Execute: argument 0 is null
        null output_lists: PJRT_LoadedExecutable_Execute: output_lists is null, but its length is 1
        null list of outputs: PJRT_LoadedExecutable_Execute: output_lists[i] is null, but its length is 1
        misaligned device_complete_events: PJRT_LoadedExecutable_Execute: device_complete_events is not aligned
        an unknown device: PJRT_LoadedExecutable_Execute: device belongs to another client
    "#]].assert_eq(&messages);
    // The options may declare arguments that do not exist as non-donatable.
    for kept in [&[-1i64][..], &[1], &[i64::MAX, i64::MIN], &[0, 0, 0]] {
        let (outputs, event) = toy().execute_keeping(executable, &[buffer], 1, kept).unwrap();
        toy().wait(event).unwrap();
        toy().destroy(&outputs);
    }
    // Pass a null list of callbacks, and a callback without a function.
    let mut send = PJRT_SendCallbackInfo { channel_id: 0, user_arg: null_mut(), send_callback: None };
    let mut sends = [&raw mut send];
    let mut messages = String::new();
    for (callbacks, case) in [(null_mut(), "null send_callbacks"), (sends.as_mut_ptr(), "a null send callback")] {
        let mut talks = execute_options(&[]);
        (talks.send_callbacks, talks.num_send_ops) = (callbacks, 1);
        let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            good(args);
            (args.options, args.device_complete_events) = (&raw mut talks, event);
        });
        let fault = answer.map(drop).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
        messages += &format!("{case}: {}\n", fault.message);
    }
    expect![[r#"
        null send_callbacks: PJRT_LoadedExecutable_Execute: options->send_callbacks is null, but its length is 1
        a null send callback: PJRT_LoadedExecutable_Execute: a send or receive callback is null
    "#]]
    .assert_eq(&messages);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

/// Calls `pass` with a copy of `text` that ends where readable memory ends.
fn on_the_edge(text: &[u8], pass: impl FnOnce(*const c_char, usize) -> Answer) -> Answer {
    let cliff = Cliff::new(text.len());
    let at = cliff.last(text.len());
    unsafe { at.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    pass(at.cast_const().cast(), text.len())
}

#[test]
fn rejects_unterminated_and_invalid_text() {
    let client = toy().client(&[]).unwrap();
    let (device, memory, dims) = (toy().devices(client)[0], toy().memories(client)[0], [1i64]);
    let code = *b"op=echo\nin=s32[1]";
    let format = |text, size| {
        let mut program = crate::framework::program("", &code);
        (program.format, program.format_size) = (text, size);
        let args = toy().ask::<slot::PJRT_Client_Compile>(|args| {
            (args.client, args.program, args.compile_options_size) = (client, &raw const program, 0);
        })?;
        toy().destroy_loaded(args.executable);
        Ok(())
    };
    let named = |name: *const c_char, size| {
        let values = [NamedValue::new("", 1i64)];
        let mut raw = raw_values(&values);
        (raw[0].name, raw[0].name_size) = (name, size);
        let args = toy()
            .ask::<slot::PJRT_Client_Create>(|args| (args.create_options, args.num_options) = (raw.as_ptr(), 1))?;
        toy().destroy_client(args.client);
        Ok(())
    };
    let valued = |value: *const c_char, size| {
        let values = [NamedValue::new("list", "")];
        let mut raw = raw_values(&values);
        (raw[0].__bindgen_anon_1.string_value, raw[0].value_size) = (value, size);
        let args = toy()
            .ask::<slot::PJRT_Client_Create>(|args| (args.create_options, args.num_options) = (raw.as_ptr(), 1))?;
        toy().destroy_client(args.client);
        Ok(())
    };
    let tracked = |text, size| {
        let args = toy().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
            (args.device, args.description, args.description_size) = (device, text, size);
        })?;
        toy().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|destroy| destroy.event = args.event).map(drop)
    };
    let topology = |text, size| {
        let create = toy().ask::<slot::PJRT_TopologyDescription_Create>(|args| {
            (args.topology_name, args.topology_name_size, args.num_options) = (text, size, 0);
        });
        crate::history::fixture::destroy_topology(create?.topology);
        Ok(())
    };
    let failed = |text, size| {
        let args = toy().ask::<slot::PJRT_Client_CreateErrorBuffer>(|args| {
            (args.client, args.memory, args.error_code) = (client, memory, PJRT_Error_Code(1));
            (args.error_message, args.error_message_size, args.num_payload) = (text, size, 0);
            (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (dims.as_ptr(), 1, PJRT_Buffer_Type(4));
            (args.shape_layout, args.device_layout) = (null_mut(), null_mut());
        })?;
        let message = toy().read(args.buffer).unwrap_err().message;
        toy().destroy(&[args.buffer]);
        assert!(message == "pair" || message.contains('\u{FFFD}') || message.contains('\0'), "{message:?}");
        Ok(())
    };
    on_the_edge(b"list", named).unwrap();
    for (pass, good) in [
        (&format as &dyn Fn(*const c_char, usize) -> Answer, &b"toy"[..]),
        (&valued, b"any"),
        (&tracked, b"any"),
        (&topology, b"pair"),
        (&failed, b"pair"),
    ] {
        on_the_edge(good, pass).unwrap();
    }
    let mut messages = String::new();
    for bytes in [&b"\xFF"[..], b"ab\xC3", b"\xED\xA0\x80", b"\xF8\x88\x80\x80\x80"] {
        for (pass, field) in [
            (&format as &dyn Fn(*const c_char, usize) -> Answer, "program->format"),
            (&named, "name"),
            (&valued, "string_value"),
            (&tracked, "description"),
            (&topology, "topology_name"),
        ] {
            let fault = on_the_edge(bytes, pass).expect_err(field);
            assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
            messages += &format!("{field} {bytes:?}: {}\n", fault.message);
        }
        // An error message may contain arbitrary bytes, so the call accepts every text of the loop.
        on_the_edge(bytes, failed).unwrap();
    }
    expect![[r#"
        program->format [255]: PJRT_Client_Compile: program->format is not UTF-8
        name [255]: PJRT_Client_Create: create_options[0]: name is not UTF-8
        string_value [255]: PJRT_Client_Create: create_options[0]: string_value is not UTF-8
        description [255]: PJRT_Device_CreateAsyncTrackingEvent: description is not UTF-8
        topology_name [255]: PJRT_TopologyDescription_Create: topology_name is not UTF-8
        program->format [97, 98, 195]: PJRT_Client_Compile: program->format is not UTF-8
        name [97, 98, 195]: PJRT_Client_Create: create_options[0]: name is not UTF-8
        string_value [97, 98, 195]: PJRT_Client_Create: create_options[0]: string_value is not UTF-8
        description [97, 98, 195]: PJRT_Device_CreateAsyncTrackingEvent: description is not UTF-8
        topology_name [97, 98, 195]: PJRT_TopologyDescription_Create: topology_name is not UTF-8
        program->format [237, 160, 128]: PJRT_Client_Compile: program->format is not UTF-8
        name [237, 160, 128]: PJRT_Client_Create: create_options[0]: name is not UTF-8
        string_value [237, 160, 128]: PJRT_Client_Create: create_options[0]: string_value is not UTF-8
        description [237, 160, 128]: PJRT_Device_CreateAsyncTrackingEvent: description is not UTF-8
        topology_name [237, 160, 128]: PJRT_TopologyDescription_Create: topology_name is not UTF-8
        program->format [248, 136, 128, 128, 128]: PJRT_Client_Compile: program->format is not UTF-8
        name [248, 136, 128, 128, 128]: PJRT_Client_Create: create_options[0]: name is not UTF-8
        string_value [248, 136, 128, 128, 128]: PJRT_Client_Create: create_options[0]: string_value is not UTF-8
        description [248, 136, 128, 128, 128]: PJRT_Device_CreateAsyncTrackingEvent: description is not UTF-8
        topology_name [248, 136, 128, 128, 128]: PJRT_TopologyDescription_Create: topology_name is not UTF-8
    "#]]
    .assert_eq(&messages);
    toy().destroy_client(client);
}

fn deserialize(client: Client, bytes: &[u8]) -> Answer {
    on_the_edge(bytes, |data, size| {
        let args = toy().ask::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
            (args.client, args.serialized_executable, args.serialized_executable_size) = (client, data, size);
            args.overridden_serialized_compile_options_size = 0;
        })?;
        toy().destroy_loaded(args.loaded_executable);
        Ok(())
    })
}

fn deserialize_topology(bytes: &[u8]) -> Answer {
    on_the_edge(bytes, |data, size| {
        let args = toy().ask::<slot::PJRT_TopologyDescription_Deserialize>(|args| {
            (args.serialized_topology, args.serialized_topology_size) = (data, size);
        })?;
        crate::history::fixture::destroy_topology(args.topology);
        Ok(())
    })
}

#[test]
fn rejects_altered_serialized_forms() {
    let fixture = crate::history::Fixture::new();
    let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = fixture.executable).unwrap();
    let executable =
        unsafe { crate::framework::slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
    unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
    let blob = toy().ask::<slot::PJRT_TopologyDescription_Serialize>(|args| args.topology = fixture.topology).unwrap();
    let topology =
        unsafe { crate::framework::slice(blob.serialized_bytes.cast::<u8>(), blob.serialized_bytes_size) }.to_vec();
    unsafe { blob.serialized_topology_deleter.unwrap()(blob.serialized_topology) };

    let read = |bytes: &[u8]| deserialize(fixture.client, bytes);
    for (whole, read) in
        [(executable, &read as &dyn Fn(&[u8]) -> Answer), (topology, &deserialize_topology as &dyn Fn(&[u8]) -> Answer)]
    {
        read(&whole).unwrap();
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT, "{len} bytes");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(read(&changed).unwrap_err().code, ErrorCode::INVALID_ARGUMENT, "bit {bit} of {at}");
            }
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(read(&longer).is_err());
        let mut random = Random::new(7);
        for _ in 0..500 {
            let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next() as u8).collect();
            assert!(read(&bytes).is_err());
        }
    }
    fixture.end();
}

#[test]
fn compile_options_of_random_bytes() {
    let client = toy().client(&[]).unwrap();
    let code = "op=echo\nin=s32[1]";
    let mut options = CompileOptions::default().with_num_partitions(2);
    options.device_assignment = Some(DeviceAssignment::new(1, 2, vec![0, 1]).unwrap());
    let whole = options.encode();
    let mut random = Random::new(11);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..4000 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes.truncate(random.below(whole.len() + 1)),
            1 => bytes = (0..random.below(64)).map(|_| random.next() as u8).collect(),
            _ => {
                for _ in 0..=random.below(4) {
                    let at = random.below(bytes.len());
                    bytes[at] = random.next() as u8;
                }
            }
        }
        match toy().compile_with(client, code, &bytes) {
            Ok(loaded) => {
                taken += 1;
                toy().destroy_loaded(loaded);
            }
            Err(fault) => {
                refused += 1;
                let known = [ErrorCode::INVALID_ARGUMENT, ErrorCode::UNIMPLEMENTED].contains(&fault.code);
                assert!(known && !fault.message.contains("panicked"), "{bytes:?}: {fault:?}");
            }
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} {refused}");
    // Pass nested protobuf groups, nested messages, and a length that exceeds every limit.
    for bytes in [vec![0x0b; 1 << 16], vec![0x1a; 1 << 16], [vec![0x1a], vec![0xff; 9], vec![1]].concat()] {
        assert_eq!(toy().compile_with(client, code, &bytes).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    }
    toy().destroy_client(client);
}

#[test]
fn hlo_modules_of_random_bytes() {
    // The SDK reads the names and configurations of HLO modules.
    let client = toy().client(&[]).unwrap();
    let mut random = Random::new(13);
    for _ in 0..1000 {
        let mut bytes = b"\x0a\x11op=echo\nin=s32[1]".to_vec();
        bytes.extend((0..random.below(40)).map(|_| random.next() as u8));
        let Ok(loaded) = toy().compile_as(client, "hlo", &bytes, &[]) else { continue };
        let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
        let held = held.unwrap().executable;
        let mut program = crate::framework::program("", &[]);
        program.code = null_mut();
        let answer = toy().ask::<slot::PJRT_Executable_OptimizedProgram>(|args| {
            (args.executable, args.program) = (held, &raw mut program);
        });
        answer.unwrap();
        crate::history::fixture::destroy_executable(held);
        toy().destroy_loaded(loaded);
    }
    toy().destroy_client(client);
}

#[test]
fn callbacks_that_are_none() {
    let event = toy().ask::<slot::PJRT_Event_Create>(|_| {}).unwrap().event;
    let none = toy().ask::<slot::PJRT_Event_OnReady>(|args| (args.event, args.callback) = (event, None));
    assert_eq!(none.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy_event(event);
    let error = crate::history::fixture::error();
    let none = toy().ask::<slot::PJRT_Error_ForEachPayload>(|args| (args.error, args.visitor) = (error, None));
    assert_eq!(none.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    crate::history::fixture::destroy_error(error);
}
