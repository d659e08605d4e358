//! Compares the messages of errors with the record in `tests/messages/errors.txt`.
//!
//! `UPDATE_EXPECT=1 cargo test -p device-plugin --test protocol messages` updates the file.

use std::fmt::{Display, Write};
use std::ptr::{null, null_mut};

use device_plugin::{ElementType, NamedValue, Shape};
use expect_test::expect_file;
use pjrt_sys::*;

use crate::framework::{Answer, Client, toy};
use crate::table::every_slot;

/// The recorded calls, each with the code and the message of its error.
#[derive(Default)]
struct Messages(String);

impl Messages {
    fn section(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        writeln!(self.0, "{gap}# {name}").unwrap();
    }

    #[track_caller]
    fn add<T>(&mut self, call: impl Display, answer: Answer<T>) {
        let Err(fault) = answer else { panic!("{call} succeeds") };
        writeln!(self.0, "{call}\n    {}: {}", fault.code, fault.message).unwrap();
    }
}

#[test]
fn snapshot() {
    let mut messages = Messages::default();
    zeros(&mut messages);
    let client = toy().client(&[]).unwrap();
    options(&mut messages);
    placement(&mut messages, client);
    host_arrays(&mut messages, client);
    buffers(&mut messages, client);
    programs(&mut messages, client);
    toy().destroy_client(client);
    expect_file!["../messages/errors.txt"].assert_eq(&messages.0);
}

fn zeros(messages: &mut Messages) {
    messages.section("Arguments that are all zero");
    for (name, _, zeros) in every_slot() {
        if let Some(Err(fault)) = zeros {
            messages.add(name, Answer::<()>::Err(fault));
        }
    }
}

fn options(messages: &mut Messages) {
    messages.section("Create options and topologies");
    for option in [NamedValue::new("speed", 1i64), NamedValue::new("lists", true)] {
        messages.add(format_args!("{}={}", option.name, option.value), toy().client(std::slice::from_ref(&option)));
    }
    let cube = toy().ask::<slot::PJRT_TopologyDescription_Create>(|args| {
        (args.topology_name, args.topology_name_size) = ("cube".as_ptr().cast(), 4);
        (args.create_options, args.num_options) = (null(), 0);
    });
    messages.add("the topology cube", cube);
}

fn placement(messages: &mut Messages, client: Client) {
    messages.section("Devices and memories");
    for id in [3, -1] {
        let answer = toy().ask::<slot::PJRT_Client_LookupDevice>(|args| (args.client, args.id) = (client, id));
        messages.add(format_args!("device {id}"), answer);
    }
    for (replicas, partitions, room) in [(2, 1, 1), (2, 2, 3), (0, 1, 3), (i32::MAX, i32::MAX, 3)] {
        let mut out = vec![-1; room];
        let answer = toy().ask::<slot::PJRT_Client_DefaultDeviceAssignment>(|args| {
            args.client = client;
            (args.num_replicas, args.num_partitions) = (replicas, partitions);
            (args.default_assignment, args.default_assignment_size) = (out.as_mut_ptr(), out.len());
        });
        messages.add(format_args!("{replicas} x {partitions} devices in {room} integers"), answer);
    }
    let other = toy().client(&[]).unwrap();
    let (device, memory) = (toy().devices(client)[1], toy().memories(client)[0]);
    let put = |element: u32, device: *mut PJRT_Device, memory: *mut PJRT_Memory| {
        toy().ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
            args.client = client;
            args.data = [0u8; 16].as_ptr().cast();
            args.type_ = PJRT_Buffer_Type(element);
            (args.dims, args.num_dims) = ([1i64].as_ptr(), 1);
            (args.byte_strides, args.num_byte_strides) = (null(), 0);
            args.host_buffer_semantics = PJRT_HostBufferSemantics(0);
            (args.device, args.memory, args.device_layout) = (device, memory, null_mut());
        })
    };
    for element in [0, 34, u32::MAX] {
        messages.add(format_args!("element type {element}"), put(element, device, null_mut()));
    }
    messages.add("no device", put(4, null_mut(), null_mut()));
    messages.add("a device of another client", put(4, toy().devices(other)[0], null_mut()));
    messages.add("a memory of another client", put(4, null_mut(), toy().memories(other)[0]));
    messages.add("a memory of another device", put(4, device, memory));
    toy().destroy_client(other);
}

fn host_arrays(messages: &mut Messages, client: Client) {
    messages.section("Host arrays: extents, strides, semantics");
    let data: Vec<i32> = (0..24).collect();
    let put = |dims: &[i64], data: *const u8, strides: Option<&[i64]>, semantics| {
        toy().put_as(client, &Shape::new(ElementType::S32, dims), data, strides, semantics, 0)
    };
    let start = data.as_ptr().cast();
    for (dims, strides) in [
        (&[2, 2][..], &[4][..]),
        (&[2, 2], &[i64::MAX, 4]),
        (&[-2], &[4]),
        (&[1 << 60], &[0]),
        (&[i64::MAX, i64::MAX], &[4, 4]),
    ] {
        messages.add(format_args!("{dims:?} {strides:?} 0"), put(dims, start, Some(strides), 0));
    }
    messages.add("[3], semantics 9", put(&[3], start, None, 9));
    messages.add("[3], null data", put(&[3], null(), None, 0));
}

fn buffers(messages: &mut Messages, client: Client) {
    messages.section("Buffers");
    let buffer = toy().ints(client, &[1, 2]);
    messages.add("a read into 4 of 8 bytes", toy().read_into(buffer, [0u8; 4].as_mut_ptr().cast(), 4));
    toy().delete(buffer);
    messages.add("a read of a deleted buffer", toy().read(buffer));
    toy().destroy(&[buffer]);
}

fn programs(messages: &mut Messages, client: Client) {
    messages.section("Programs and executions");
    messages.add("compile options ff ff ff", toy().compile_with(client, "op=add_one\nin=s32[2]", &[0xff; 3]));
    let donating = toy().compile(client, "op=add_one\nin=s32[2];s32[2]\ndonate=1").unwrap();
    let (a, b) = (toy().ints(client, &[1, 2]), toy().ints(client, &[3, 4]));
    messages.add("one argument of two", toy().execute(donating, &[a], 2));
    messages.add("a donated argument twice", toy().execute(donating, &[b, b], 2));
    let long = toy().ints(client, &[1, 2, 3]);
    messages.add("an argument of another shape", toy().execute(donating, &[a, long], 2));
    toy().delete(b);
    messages.add("a deleted argument", toy().execute(donating, &[a, b], 2));
    toy().destroy(&[a, b, long]);
    toy().destroy_loaded(donating);
}
