//! Tests values that arrive after their buffers were created. The SDK drops such a value without cloning it, and
//! without holding a lock.

use std::sync::atomic::Ordering;

use pjrt_sys::*;

use super::faulty::{Kind, LIVE, arm, at_end_of_a_buffer, disarm, within_execution};
use super::{DATA, EXCLUSIVE, Fixture, plugin, shape};
use crate::framework::{Buffer, garbage};

/// Creates a buffer whose data was transferred after the framework received the buffer.
fn late(fixture: &Fixture) -> Buffer {
    let shape = shape();
    let mut spec = garbage::<PJRT_ShapeSpec>();
    (spec.dims, spec.num_dims) = (shape.dimensions.as_ptr(), shape.dimensions.len());
    spec.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
    let memory = plugin().memories(fixture.client)[0];
    let manager = plugin().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
        (args.client, args.memory) = (fixture.client, memory);
        (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
        args.num_device_layouts = 0;
    });
    let manager = manager.unwrap().transfer_manager;
    let buffer = plugin().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, 0);
    });
    let done = plugin().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, 0);
        (args.data, args.offset) = (DATA.as_ptr().cast(), 0);
        (args.transfer_size, args.is_last_transfer) = (2, true.into());
    });
    plugin().wait(done.unwrap().done_with_h2d_transfer).unwrap();
    plugin()
        .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(|args| args.transfer_manager = manager)
        .unwrap();
    buffer.unwrap().buffer_out
}

fn add_external(buffer: Buffer) {
    plugin().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = buffer).unwrap();
}

fn remove_external(buffer: Buffer) {
    plugin().ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|args| args.buffer = buffer).unwrap();
}

/// A way to end the life of a buffer: its description, and a function that ends the life of the given buffer.
type End = (&'static str, fn(&Fixture, Buffer));

const ENDS: &[End] = &[
    ("deleted", |_, buffer| {
        plugin().delete(buffer);
        plugin().destroy(&[buffer]);
    }),
    ("deleted while another library uses it", |_, buffer| {
        add_external(buffer);
        plugin().delete(buffer);
        remove_external(buffer);
        plugin().destroy(&[buffer]);
    }),
    ("destroyed", |_, buffer| plugin().destroy(&[buffer])),
    ("donated", |fixture, buffer| {
        let program = plugin().compile(fixture.client, "donated").unwrap();
        let (outputs, event) = plugin().execute(program, &[buffer], 1).expect("the execution itself did not panic");
        plugin().wait(event).unwrap();
        assert!(plugin().is_deleted(buffer));
        assert_eq!(plugin().read(outputs[0]).unwrap(), DATA);
        plugin().destroy(&[buffer, outputs[0]]);
        plugin().destroy_loaded(program);
    }),
    ("deleted within an execution", |fixture, buffer| {
        let program = plugin().compile(fixture.client, "fresh").unwrap();
        within_execution(move || plugin().delete(buffer));
        let (outputs, event) = plugin().execute(program, &[buffer], 1).expect("the execution itself did not panic");
        plugin().wait(event).unwrap();
        assert_eq!(plugin().read(outputs[0]).unwrap(), DATA);
        plugin().destroy(&[buffer, outputs[0]]);
        plugin().destroy_loaded(program);
    }),
];

#[test]
fn late_value_is_dropped_without_clone() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    for (end, give_up) in ENDS {
        let live = LIVE.load(Ordering::Relaxed);
        let buffer = late(&fixture);
        arm("Buffer::clone", Kind::Panic);
        give_up(&fixture, buffer);
        assert!(!disarm(), "a buffer that is {end} is cloned");
        assert_eq!(LIVE.load(Ordering::Relaxed), live, "a buffer that is {end} leaks");
    }
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn values_are_dropped_without_lock() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    let both = plugin().compile(fixture.client, "both").unwrap();
    let fresh = plugin().compile(fixture.client, "fresh").unwrap();
    let live = LIVE.load(Ordering::Relaxed);
    for _ in 0..2 {
        let (first, second, third) = (late(&fixture), late(&fixture), late(&fixture));
        within_execution(move || {
            plugin().delete(first);
            plugin().delete(second);
            // When the first value is dropped, the framework runs another execution, which also drops a value.
            at_end_of_a_buffer(move || {
                within_execution(move || plugin().delete(third));
                let (outputs, event) = plugin().execute(fresh, &[third], 1).unwrap();
                plugin().wait(event).unwrap();
                plugin().destroy(&[third, outputs[0]]);
            });
        });
        // All destructors panic. A panic during the unwinding of another panic would end the process.
        for kind in [Kind::Panic, Kind::PanicTwice, Kind::Panic, Kind::PanicTwice] {
            arm("Buffer::drop", kind);
        }
        let (outputs, event) = plugin().execute(both, &[first, second], 1).unwrap();
        assert!(disarm());
        plugin().wait(event).unwrap();
        assert_eq!(LIVE.load(Ordering::Relaxed), live + 1, "only the output is left");
        plugin().destroy(&[first, second, outputs[0]]);
        assert_eq!(LIVE.load(Ordering::Relaxed), live);
    }
    plugin().destroy_loaded(both);
    plugin().destroy_loaded(fresh);
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn failed_execution_drops_values_on_unwind() {
    // A second panic during the unwinding of the first would end the process.
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    let program = plugin().compile(fixture.client, "fresh").unwrap();
    for kind in [Kind::Panic, Kind::Error] {
        let live = LIVE.load(Ordering::Relaxed);
        let buffer = late(&fixture);
        within_execution(move || plugin().delete(buffer));
        arm("Buffer::clone", Kind::Panic);
        arm("execute", kind);
        plugin().execute(program, &[buffer], 1).unwrap_err();
        assert!(!disarm(), "the value is cloned");
        assert_eq!(LIVE.load(Ordering::Relaxed), live);
        plugin().destroy(&[buffer]);
    }
    plugin().destroy_loaded(program);
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}
