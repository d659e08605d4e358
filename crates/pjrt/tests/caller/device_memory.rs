//! Tests transfer managers, buffers without contents, external references, DMA mappings and events that the caller
//! sets. The tests run on the embedded CPU device and on real plugins.

use crate::real;
use std::sync::Arc;
use std::time::Duration;

use crate::real::{each_client, embedded, refused, supported};
use expect_test::{Expect, expect};
use pjrt::{
    AsyncHostToDeviceTransferManager, Client, ClientOptions, ElementType, Error, ErrorCode, Layout, Memory,
    SettableEvent, Shape, Upload,
};

/// A timeout that no operation of these tests exceeds.
const LONG: Duration = Duration::from_secs(600);

fn memory(client: &Client) -> Memory {
    client.default_device().unwrap().default_memory().unwrap()
}

fn f32s(dims: &[i64]) -> Shape {
    Shape::new(ElementType::F32, dims)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Compares the message of an error with the expected message. `pjrt` set the error on a buffer, and the plugin
/// returned it. Only the embedded device is checked, because other plugins may add text to the message.
fn expect_of_embedded(client: &Client, error: &Error, expected: Expect) {
    if client.plugin().path().is_none() {
        expected.assert_eq(error.message());
    }
}

type Case = (&'static str, fn(&Client));

fn on_embedded_device(cases: &[Case]) {
    cases.iter().for_each(|(_, case)| case(&embedded()));
}

fn on_real_plugins(test: &str, cases: &[Case]) {
    each_client(test, |client| {
        for (name, case) in cases {
            println!("{name}");
            case(client);
        }
    });
}

mod transfer_manager {
    use super::*;

    fn manager(client: &Client, shapes: &[Shape]) -> Option<AsyncHostToDeviceTransferManager> {
        let manager = AsyncHostToDeviceTransferManager::new(&memory(client), shapes);
        supported(client, "create_buffers_for_async_host_to_device", manager)
    }

    fn sends_pieces(client: &Client) {
        let Some(manager) = manager(client, &[f32s(&[4]), f32s(&[2])]) else { return };
        assert_eq!(manager.buffer_count(), 2);
        assert_eq!(manager.buffer_size(0).unwrap(), 16);
        assert_eq!(manager.device().unwrap().id().unwrap(), client.default_device().unwrap().id().unwrap());
        let buffer = manager.retrieve_buffer(0).unwrap();
        assert_eq!(buffer.shape().unwrap().to_string(), "f32[4]");
        // Send the second half before the first half.
        manager.transfer_data(0, 8, bytes(&[3.0, 4.0])).unwrap().wait().unwrap();
        manager.transfer_last_data(0, 0, bytes(&[1.0, 2.0])).unwrap().wait().unwrap();
        assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        if let Some(sent) = supported(client, "transfer_literal", manager.transfer_literal(1, vec![5.0f32, 6.0])) {
            sent.wait().unwrap();
            assert_eq!(manager.retrieve_buffer(1).unwrap().to_host::<f32>().unwrap(), [5.0, 6.0]);
        }
        client.synchronize(LONG).unwrap();
    }

    fn rejects_wrong_calls(client: &Client) {
        let memory = memory(client);
        refused(
            AsyncHostToDeviceTransferManager::new(&memory, &[]),
            expect!["no buffers to create; pass at least one shape"],
        );
        refused(
            AsyncHostToDeviceTransferManager::new(&memory, &[f32s(&[-1])]),
            expect!["f32[-1] has negative extents or exceeds the address space"],
        );
        let layout = Layout::new(vec![0, 0]);
        let buffers = [(f32s(&[2, 2]), layout)];
        refused(
            AsyncHostToDeviceTransferManager::with_layouts(&memory, &buffers),
            expect!["{0,0} is not a layout of f32[2,2]: name each dimension once"],
        );
        let Some(manager) = manager(client, &[f32s(&[4])]) else { return };
        refused(manager.buffer_size(1), expect!["the transfer manager has no buffer 1; it has 1, numbered from 0"]);
        refused(manager.retrieve_buffer(7), expect!["the transfer manager has no buffer 7; it has 1, numbered from 0"]);
        refused(
            manager.transfer_data(1, 0, Vec::new()),
            expect!["the transfer manager has no buffer 1; it has 1, numbered from 0"],
        );
        refused(
            manager.transfer_data(0, 8, vec![0; 9]),
            expect!["9 bytes at offset 8 are not within the 16 bytes of buffer 0"],
        );
        refused(
            manager.transfer_data(0, usize::MAX, vec![0; 9]),
            expect!["9 bytes at offset 18446744073709551615 are not within the 16 bytes of buffer 0"],
        );
        refused(manager.transfer_literal(0, vec![1i32; 4]), expect!["buffer 0 is f32[4], not of element type s32"]);
        refused(
            manager.transfer_literal(0, vec![1.0f32; 3]),
            expect!["buffer 0 is f32[4], but the data has 3 elements"],
        );
        refused(
            manager.set_buffer_error(0, ErrorCode::OK, ""),
            expect!["a buffer cannot end with an error whose code is OK"],
        );
        let buffer = manager.retrieve_buffer(0).unwrap();
        refused(manager.retrieve_buffer(0), expect!["buffer 0 was retrieved before"]);
        manager.transfer_last_data(0, 0, bytes(&[1.0; 4])).unwrap().wait().unwrap();
        refused(manager.transfer_data(0, 0, vec![0]), expect!["buffer 0 has received its last data or an error"]);
        refused(manager.transfer_last_data(0, 0, vec![0]), expect!["buffer 0 has received its last data or an error"]);
        refused(
            manager.transfer_literal(0, vec![1.0f32; 4]),
            expect!["buffer 0 has received its last data or an error"],
        );
        refused(
            manager.set_buffer_error(0, ErrorCode::INTERNAL, ""),
            expect!["buffer 0 has received its last data or an error"],
        );
        assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0; 4]);
    }

    fn ends_buffers_with_errors(client: &Client) {
        let Some(manager) = manager(client, &[f32s(&[1]), f32s(&[1]), f32s(&[1])]) else { return };
        let buffers: Vec<_> = (0..3).map(|index| manager.retrieve_buffer(index).unwrap()).collect();
        manager.set_buffer_error(0, ErrorCode::DATA_LOSS, "the file is truncated").unwrap();
        let error = buffers[0].to_host::<f32>().unwrap_err();
        assert_eq!(error.code(), ErrorCode::DATA_LOSS, "{error}");
        assert!(error.message().contains("the file is truncated"), "{error}");
        // Buffer 1 receives a chunk that is not the last, and buffer 2 receives nothing.
        manager.transfer_data(1, 0, bytes(&[1.0])).unwrap().wait().unwrap();
        drop(manager);
        for buffer in &buffers[1..] {
            let error = buffer.to_host::<f32>().unwrap_err();
            assert_eq!(error.code(), ErrorCode::CANCELLED, "{error}");
            expect_of_embedded(
                client,
                &error,
                expect!["the transfer manager was dropped before the buffer received its last data"],
            );
        }
    }

    /// The data is dropped when the transfer has ended, and not before.
    fn owns_data_in_flight(client: &Client) {
        let Some(manager) = manager(client, &[f32s(&[1024])]) else { return };
        let data = Arc::new(bytes(&[1.5; 1024]));
        struct Shared(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let buffer = manager.retrieve_buffer(0).unwrap();
        drop(manager.transfer_last_data(0, 0, Shared(data.clone())).unwrap());
        drop(manager);
        assert_eq!(buffer.to_host::<f32>().unwrap(), [1.5; 1024]);
        client.synchronize(LONG).unwrap();
        assert_eq!(Arc::strong_count(&data), 1);
    }

    #[test]
    fn embedded_device() {
        on_embedded_device(&CASES);
    }

    #[test]
    fn real_plugins() {
        on_real_plugins("transfer_manager::real_plugins", &CASES);
    }

    const CASES: [Case; 4] = [
        ("sends_pieces", sends_pieces),
        ("rejects_wrong_calls", rejects_wrong_calls),
        ("ends_buffers_with_errors", ends_buffers_with_errors),
        ("owns_data_in_flight", owns_data_in_flight),
    ];
}

mod pending_buffers {
    use super::*;

    fn allocates_without_contents(client: &Client) {
        let memory = memory(client);
        refused(
            memory.buffer(&f32s(&[-1])).uninitialized(),
            expect!["f32[-1] has negative extents or exceeds the address space"],
        );
        let wrong = Layout::row_major(3);
        refused(
            memory.buffer(&f32s(&[2, 2])).layout(&wrong).uninitialized(),
            expect!["{2,1,0} is not a layout of f32[2,2]: name each dimension once"],
        );
        let buffer = memory.buffer(&f32s(&[2, 3])).layout(&Layout::row_major(2)).uninitialized();
        let Some(buffer) = supported(client, "create_uninitialized_buffer", buffer) else { return };
        assert_eq!(buffer.shape().unwrap().to_string(), "f32[2,3]");
        assert_eq!(buffer.to_host::<f32>().unwrap().len(), 6);
    }

    fn fulfills_aliases(client: &Client) {
        let memory = memory(client);
        let alias = memory.buffer(&f32s(&[2])).alias();
        let Some((alias, fulfillment)) = supported(client, "create_alias_buffer", alias) else { return };
        let doubled = real::compile(
            client,
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
               %y = stablehlo.add %x, %x : tensor<2xf32>
               return %y : tensor<2xf32>
             }",
        );
        let provide = || {
            let buffer = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
            fulfillment.fulfill(&buffer).unwrap();
        };
        // Start the program before its argument has contents. In XLA's GPU client, the call blocks until the contents
        // are available, so it runs on another thread.
        let outputs = if client.platform_name().unwrap() == "cuda" {
            std::thread::scope(|threads| {
                let run = threads.spawn(|| doubled.execute(&[&alias]).unwrap());
                provide();
                run.join().unwrap()
            })
        } else {
            let outputs = doubled.execute(&[&alias]).unwrap();
            provide();
            outputs
        };
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(alias.to_host::<f32>().unwrap(), [1.0, 2.0]);
    }

    fn ends_aliases_with_errors(client: &Client) {
        let memory = memory(client);
        let new = || memory.buffer(&f32s(&[2])).alias();
        let Some((alias, fulfillment)) = supported(client, "create_alias_buffer", new()) else { return };
        fulfillment.fail(ErrorCode::DATA_LOSS, "the file is truncated").unwrap();
        let error = alias.to_host::<f32>().unwrap_err();
        assert_eq!(error.code(), ErrorCode::DATA_LOSS, "{error}");
        assert!(error.message().contains("the file is truncated"), "{error}");
        let (alias, fulfillment) = new().unwrap();
        drop(fulfillment);
        let error = alias.to_host::<f32>().unwrap_err();
        assert_eq!(error.code(), ErrorCode::CANCELLED, "{error}");
        expect_of_embedded(
            client,
            &error,
            expect!["the alias buffer's fulfillment was dropped before it provided a buffer"],
        );
        let (alias, fulfillment) = new().unwrap();
        let wrong = client.buffer_from_host(&[1.0f32], &[1]).unwrap();
        refused(fulfillment.fulfill(&wrong), expect!["the alias buffer is f32[2], but the buffer is f32[1]"]);
        assert!(alias.to_host::<f32>().is_err());
        let source = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
        if let Some(view) = supported(client, "host_view", source.host_view::<f32>()) {
            let (alias, fulfillment) = new().unwrap();
            refused(
                fulfillment.fulfill(&source),
                expect!["the buffer's memory has external references; drop them first"],
            );
            assert!(alias.to_host::<f32>().is_err());
            drop(view);
        }
        let (alias, fulfillment) = new().unwrap();
        refused(
            fulfillment.fulfill(&alias),
            expect!["the buffer waits for the alias buffer, so neither would ever be ready; provide another buffer"],
        );
        let (first, of_first) = new().unwrap();
        let (second, of_second) = new().unwrap();
        if of_first.fulfill(&second).is_ok() {
            refused(
                of_second.fulfill(&first),
                expect![
                    "the buffer waits for the alias buffer, so neither would ever be ready; provide another buffer"
                ],
            );
            assert!(first.to_host::<f32>().is_err());
        }
        let (_alias, fulfillment) = new().unwrap();
        source.delete().unwrap();
        refused(fulfillment.fulfill(&source), expect!["the buffer has been deleted"]);
        let other = client.plugin().client(&ClientOptions::new()).unwrap();
        let (alias, fulfillment) = new().unwrap();
        let wrong = other.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
        refused(fulfillment.fulfill(&wrong), expect!["the buffer belongs to another client than the alias buffer"]);
        assert!(alias.to_host::<f32>().is_err());
    }

    fn waits_for_control_dependencies(client: &Client) {
        let new = || client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap().donate_with_control_dependency();
        let Some((buffer, dependency)) = supported(client, "donate_with_control_dependency", new()) else { return };
        assert!(!buffer.ready_event().unwrap().is_ready().unwrap());
        dependency.ready();
        assert_eq!(buffer.to_host::<f32>().unwrap(), [1.0, 2.0]);
        let (buffer, dependency) = new().unwrap();
        refused(dependency.fail(ErrorCode::OK, ""), expect!["an operation cannot end with an error whose code is OK"]);
        let error = buffer.to_host::<f32>().unwrap_err();
        assert_eq!(error.code(), ErrorCode::CANCELLED, "{error}");
        expect_of_embedded(
            client,
            &error,
            expect!["the operation that the buffer waits for was dropped before it ended"],
        );
        let (buffer, dependency) = new().unwrap();
        dependency.fail(ErrorCode::ABORTED, "the copy failed").unwrap();
        let error = buffer.to_host::<f32>().unwrap_err();
        assert_eq!(error.code(), ErrorCode::ABORTED, "{error}");
        assert!(error.message().contains("the copy failed"), "{error}");
    }

    const CASES: [Case; 4] = [
        ("allocates_without_contents", allocates_without_contents),
        ("fulfills_aliases", fulfills_aliases),
        ("ends_aliases_with_errors", ends_aliases_with_errors),
        ("waits_for_control_dependencies", waits_for_control_dependencies),
    ];

    #[test]
    fn embedded_device() {
        on_embedded_device(&CASES);
    }

    #[test]
    fn real_plugins() {
        on_real_plugins("pending_buffers::real_plugins", &CASES);
    }
}

mod references {
    use super::*;

    fn shows_contents_in_place(client: &Client) {
        let buffer = client.buffer_from_host(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
        refused(buffer.host_view::<i32>(), expect!["the buffer is f32[3], not of element type s32"]);
        let Some(view) = supported(client, "host_view", buffer.host_view::<f32>()) else { return };
        assert_eq!(*view, [1.0, 2.0, 3.0]);
        refused(buffer.delete(), expect!["the buffer's memory has external references; drop them first"]);
        assert_eq!(*view, [1.0, 2.0, 3.0]);
        drop(view);
        buffer.delete().unwrap();
        refused(buffer.host_view::<f32>(), expect!["the buffer has been deleted"]);
        let empty = client.buffer_from_host::<f32>(&[], &[0]).unwrap();
        assert!(empty.host_view::<f32>().unwrap().is_empty());
    }

    fn keeps_memory_where_it_is(client: &Client) {
        let buffer = client.buffer_from_host(&[1.0f32; 1000], &[1000]).unwrap();
        buffer.wait().unwrap();
        let Some(reference) = supported(client, "external_reference", buffer.external_reference()) else { return };
        let address = reference.address().unwrap();
        assert_eq!(buffer.unsafe_pointer().unwrap(), address.addr());
        let second = buffer.external_reference().unwrap();
        assert_eq!(second.address().unwrap(), address);
        drop(reference);
        refused(buffer.delete(), expect!["the buffer's memory has external references; drop them first"]);
        drop(second);
        buffer.delete().unwrap();
        refused(buffer.external_reference(), expect!["the buffer has been deleted"]);
    }

    fn copies_raw_bytes(client: &Client) {
        let buffer = client.buffer_from_host(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
        let size = buffer.on_device_size().unwrap();
        refused(
            buffer.download().raw(size, 1).start(),
            expect!["1 bytes at offset 12 are not within the 12 bytes of the buffer"],
        );
        refused(
            buffer.download().raw(usize::MAX, 2).start(),
            expect!["2 bytes at offset 18446744073709551615 are not within the 12 bytes of the buffer"],
        );
        let Some(read) = supported(client, "raw_download", buffer.download().raw(4, 8).start()) else { return };
        assert_eq!(read.wait().unwrap(), bytes(&[2.0, 3.0]));
    }

    fn maps_host_memory(client: &Client) {
        refused(client.dma_map(Vec::new()), expect!["there are no bytes to register"]);
        let pages = vec![7u8; 1 << 16];
        let Some(mapping) = supported(client, "dma_map", client.dma_map(pages)) else { return };
        let device = client.default_device().unwrap();
        let buffer = client.upload(Upload::owned(mapping.clone()).dims(&[1 << 16]).to(&device)).unwrap();
        assert!(buffer.to_host::<u8>().unwrap().iter().all(|byte| *byte == 7));
        drop(buffer);
        client.synchronize(LONG).unwrap();
        drop(mapping);
    }

    const CASES: [Case; 4] = [
        ("shows_contents_in_place", shows_contents_in_place),
        ("keeps_memory_where_it_is", keeps_memory_where_it_is),
        ("copies_raw_bytes", copies_raw_bytes),
        ("maps_host_memory", maps_host_memory),
    ];

    #[test]
    fn embedded_device() {
        on_embedded_device(&CASES);
    }

    #[test]
    fn real_plugins() {
        on_real_plugins("references::real_plugins", &CASES);
    }
}

mod events {
    use super::*;

    fn ends_as_the_caller_says(client: &Client) {
        let Some(pending) = supported(client, "create_event", SettableEvent::new(client)) else { return };
        assert!(!pending.event().is_ready().unwrap());
        let (sender, receiver) = std::sync::mpsc::channel();
        pending.event().on_ready(move |result| sender.send(result.is_ok()).unwrap()).unwrap();
        let event = pending.set().unwrap();
        assert!(event.is_ready().unwrap());
        event.wait().unwrap();
        assert!(receiver.recv().unwrap());
        let event = SettableEvent::new(client).unwrap().set_error(ErrorCode::ABORTED, "the copy failed").unwrap();
        let error = event.wait().unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::ABORTED, "the copy failed"));
        refused(
            SettableEvent::new(client).unwrap().set_error(ErrorCode::OK, ""),
            expect!["an event cannot end with an error whose code is OK"],
        );
    }

    /// If a `SettableEvent` is dropped before it is set, its event ends with an error.
    fn ends_when_dropped(client: &Client) {
        let Some(pending) = supported(client, "create_event", SettableEvent::new(client)) else { return };
        let (sender, receiver) = std::sync::mpsc::channel();
        pending.event().on_ready(move |result| sender.send(result.unwrap_err().code()).unwrap()).unwrap();
        drop(pending);
        assert_eq!(receiver.recv().unwrap(), ErrorCode::CANCELLED);
        client.synchronize(LONG).unwrap();
    }

    const CASES: [Case; 2] =
        [("ends_as_the_caller_says", ends_as_the_caller_says), ("ends_when_dropped", ends_when_dropped)];

    #[test]
    fn embedded_device() {
        on_embedded_device(&CASES);
    }

    #[test]
    fn real_plugins() {
        on_real_plugins("events::real_plugins", &CASES);
    }
}

mod tracking {
    use super::*;

    /// The embedded device returns a tracking event. XLA's CPU plugins return null, which becomes `None`.
    fn absent_event_is_none(client: &Client) {
        let device = client.default_device().unwrap();
        let Some(tracked) = supported(client, "Device::track", device.track("loading weights")) else { return };
        assert_eq!(tracked.is_some(), client.plugin().path().is_none(), "{tracked:?}");
    }

    #[test]
    fn on_embedded() {
        on_embedded_device(&[("absent_event_is_none", absent_event_is_none)]);
    }

    #[test]
    fn on_real() {
        on_real_plugins("tracking::on_real", &[("absent_event_is_none", absent_event_is_none)]);
    }
}
