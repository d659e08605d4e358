//! Tests transfers between host memory and a device. The tests check lengths, element types and layouts, and who owns
//! the host memory during a transfer.

use expect_test::expect;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use crate::block_on::block_on;
use crate::fake::{Fake, plugin_of, table};
use pjrt::{CompileOptions, ElementType, ErrorKind, HostRead, Program, Shape, Upload};

#[test]
fn wrong_lengths_never_reach_the_plugin() {
    let client = Fake::new().client();
    let error = client.buffer_from_host(&[1f32], &[16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    expect!["f32[16] has 16 elements, but the data has 1"].assert_eq(&error.to_string());
    assert!(client.buffer_from_host(&[1f32], &[400_000_000]).is_err());
    assert!(client.buffer_from_host(&[1f32], &[i64::MAX, i64::MAX]).is_err());
    assert!(client.buffer_from_host(&[1f32], &[-1]).is_err());
    assert!(client.upload(Upload::owned::<f32, _>(vec![1f32]).dims(&[2])).is_err());
    let shape = Shape::new(ElementType::S4, [4]);
    assert!(client.upload(Upload::of::<u8>(&[1, 2]).shape(&shape)).is_err());
    assert!(client.upload(Upload::of(&[1f32; 6]).dims(&[2, 3]).strides(0, &[4, 1])).is_err());
    let token = Shape::new(ElementType::Token, []);
    assert!(client.upload(Upload::of::<u8>(&[]).shape(&token)).is_err());
    let buffer = client.buffer_from_host(&[1f32, 2.0], &[2]).unwrap();
    let error = buffer.download().copy_to(&mut [0f32; 3]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    expect!["f32[2] has 2 elements, but the destination 3"].assert_eq(&error.to_string());
}

#[test]
fn rejects_element_types_newer_than_plugin() {
    let mut old = table();
    old.pjrt_api_version.minor_version = 81;
    let client = Fake::new().client_of(&plugin_of(old).unwrap());
    let shape = Shape::new(ElementType::F6E2M3FN, [1]);
    let error = client.upload(Upload::of::<u8>(&[1]).shape(&shape)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn wrong_types_are_refused() {
    let client = Fake::new().client();
    let buffer = client.buffer_from_host(&[1i32, 2], &[2]).unwrap();
    let error = buffer.to_host::<f32>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    expect!["the buffer is s32[2], not of element type f32"].assert_eq(&error.to_string());
    assert!(buffer.download().copy_to(&mut [0u32; 2]).is_err());
    assert!(buffer.download().start::<i64>().is_err());
    assert_eq!(buffer.to_host::<i32>().unwrap(), [1, 2]);
    let mut place = [0i32; 2];
    buffer.download().copy_to(&mut place).unwrap();
    assert_eq!(place, [1, 2]);
    assert_eq!(buffer.download().array().unwrap().to_vec::<i32>().unwrap(), [1, 2]);
}

#[test]
fn scalars_and_empty_arrays() {
    let client = Fake::new().client();
    let scalar = client.buffer_from_host(&[7u16], &[]).unwrap();
    assert!(scalar.dimensions().unwrap().is_empty(), "null dimensions are those of a scalar");
    assert!(scalar.unpadded_dimensions().unwrap().is_empty());
    assert_eq!(scalar.to_host::<u16>().unwrap(), [7]);
    assert_eq!(scalar.download().array().unwrap().scalar::<u16>().unwrap(), 7);
    let empty = client.buffer_from_host::<f64>(&[], &[3, 0]).unwrap();
    assert_eq!(empty.to_host::<f64>().unwrap(), [0.0; 0]);
}

#[test]
fn rejects_invalid_bool_byte() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = client.buffer_from_host(&[true, false], &[2]).unwrap();
    assert_eq!(buffer.to_host::<bool>().unwrap(), [true, false]);
    fake.garbage.store(7, SeqCst);
    assert_eq!(buffer.to_host::<bool>().unwrap_err().kind(), ErrorKind::Malformed);
    assert!(block_on(buffer.download().start::<bool>().unwrap()).is_err());
    assert_eq!(buffer.download().bytes().unwrap(), [7, 7]);
}

#[test]
fn row_major_data_or_error() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = client.buffer_from_host(&[1u8, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
    fake.no_layouts.store(true, SeqCst);
    assert_eq!(buffer.to_host::<u8>().unwrap(), [1, 2, 3, 4, 5, 6], "the plugin's own layout is row-major");
    // Like XLA's plugins of API 0.81, the fake ignores the requested layout and returns the bytes as they are stored.
    let other = client.buffer_from_host(&[1u8, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
    fake.column_major.store(true, SeqCst);
    for no_layouts in [true, false] {
        fake.no_layouts.store(no_layouts, SeqCst);
        let rows = [1u8, 3, 5, 2, 4, 6];
        assert_eq!(other.to_host::<u8>().unwrap(), rows);
        assert_eq!(other.download().bytes().unwrap(), rows);
        assert_eq!(block_on(other.download().start::<u8>().unwrap()).unwrap(), rows);
        let mut place = [0u8; 6];
        other.download().copy_to(&mut place).unwrap();
        assert_eq!(place, rows);
    }
    fake.no_layouts.store(true, SeqCst);
    let wide = client.buffer_from_host(&[1u16, 2, 3, 4], &[2, 2]).unwrap();
    let bytes: Vec<u8> = [1u16, 3, 2, 4].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(wide.download().bytes().unwrap(), bytes);
    let flat = client.buffer_from_host(&[1u8, 2], &[2]).unwrap();
    assert_eq!(flat.to_host::<u8>().unwrap(), [1, 2]);
}

#[test]
fn unknown_layout_is_row_major_or_error() {
    let mut table = table();
    table.PJRT_Buffer_GetMemoryLayout = None;
    let fake = Fake::new();
    let client = fake.client_of(&plugin_of(table).unwrap());
    let buffer = client.buffer_from_host(&[1u8, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
    assert_eq!(buffer.to_host::<u8>().unwrap(), [1, 2, 3, 4, 5, 6], "the plugin takes the layout it is given");
    fake.no_layouts.store(true, SeqCst);
    assert_eq!(buffer.to_host::<u8>().unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn rejects_tiled_layout_of_other_order() {
    let fake = Fake::new();
    let client = fake.client();
    fake.tiled.store(true, SeqCst);
    let tiled = |rank: &[i64]| client.buffer_from_host(&[1u8, 2, 3, 4], rank).unwrap();
    assert_eq!(tiled(&[2, 2]).to_host::<u8>().unwrap(), [1, 2, 3, 4], "row-major, whatever the tiles");
    fake.column_major.store(true, SeqCst);
    let error = tiled(&[2, 2]).to_host::<u8>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(tiled(&[4]).to_host::<u8>().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn unknown_layouts_take_row_major_arguments() {
    let fake = Fake::new();
    let client = fake.client();
    let program = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    let rows = client.buffer_from_host(&[1u8, 2, 3, 4], &[2, 2]).unwrap();
    program.execute(&[&rows]).unwrap();
    fake.column_major.store(true, SeqCst);
    let columns = client.buffer_from_host(&[1u8, 2, 3, 4], &[2, 2]).unwrap();
    let error = program.execute(&[&columns]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    expect!["argument 0 has the layout {0,1}, but the program expects {1,0}; compile the program for {0,1}, or produce the argument with {1,0}"]
        .assert_eq(error.message());
    assert_eq!(fake.runs.load(SeqCst), 1);
}

#[test]
fn accepts_negative_strides() {
    let client = Fake::new().client();
    let data = [1i32, 2, 3, 4, 5, 6];
    let upload = |offset, dims: &[i64], strides: &[i64]| {
        client.upload(Upload::of(&data).dims(dims).strides(offset, strides))?.to_host::<i32>()
    };
    assert_eq!(upload(5, &[2, 3], &[-3, -1]).unwrap(), [6, 5, 4, 3, 2, 1]);
    assert_eq!(upload(2, &[2, 2], &[3, -1]).unwrap(), [3, 2, 6, 5]);
    assert_eq!(upload(usize::MAX, &[0, 2], &[3, -1]).unwrap(), [0; 0], "nothing is read, wherever it starts");
}

#[test]
fn copy_outlives_future() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = client.buffer_from_host(&[9u64; 1000], &[1000]).unwrap();
    fake.manual.store(true, SeqCst);
    let mut cx = Context::from_waker(Waker::noop());
    let read = {
        let dropped = buffer.download().start::<u64>().unwrap();
        let mut polled = pin!(buffer.download().start::<u64>().unwrap());
        assert!(polled.as_mut().poll(&mut cx).is_pending());
        // Leak a download, but keep it reachable, so that leak checkers do not report it.
        static LEAKED: Mutex<Vec<HostRead<u64>>> = Mutex::new(Vec::new());
        LEAKED.lock().unwrap().push(buffer.download().start::<u64>().unwrap());
        drop(dropped);
        buffer.download().start::<u64>().unwrap()
    };
    assert!(!read.is_ready());
    drop(buffer);
    drop(client);
    // The fake now writes to the memory of all four downloads.
    fake.finish();
    assert_eq!(read.wait().unwrap(), [9u64; 1000]);
    assert!(fake.all_gone());
}

#[test]
fn awaits_copy_on_other_thread() {
    let fake = Fake::new();
    let client = fake.client();
    let buffer = client.buffer_from_host(&[3i16; 5], &[5]).unwrap();
    fake.manual.store(true, SeqCst);
    let read = buffer.download().start::<i16>().unwrap();
    let waiting = std::thread::spawn(move || block_on(read));
    fake.finish();
    assert_eq!(waiting.join().unwrap().unwrap(), [3; 5]);
    let read = buffer.download().start::<i16>().unwrap();
    let waiting = std::thread::spawn(move || read.wait());
    fake.finish();
    assert_eq!(waiting.join().unwrap().unwrap(), [3; 5]);
}

/// Data that overwrites its elements and sets a flag when it is dropped.
struct Watched(Vec<f32>, Arc<AtomicBool>);

impl AsRef<[f32]> for Watched {
    fn as_ref(&self) -> &[f32] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.fill(-1.0);
        self.1.store(true, SeqCst);
    }
}

#[test]
fn owned_data_lives_until_plugin_releases_it() {
    let fake = Fake::new();
    let client = fake.client();
    fake.manual.store(true, SeqCst);
    let dropped = Arc::new(AtomicBool::new(false));
    let data = Watched(vec![1.0, 2.0], dropped.clone());
    // The upload returns while the plugin still uses the data, because `pjrt` does not wait for the event.
    let buffer = client.upload(Upload::owned::<f32, _>(data).dims(&[2])).unwrap();
    assert!(!dropped.load(SeqCst));
    drop(buffer);
    drop(client);
    assert!(!dropped.load(SeqCst), "still borrowed by the plugin");
    fake.finish();
    assert!(dropped.load(SeqCst));

    // Also test data that stores its elements inline, and data that the caller shares.
    fake.manual.store(false, SeqCst);
    let client = fake.client();
    let inline = client.upload(Upload::owned::<f32, _>([1.0, 2.0]).dims(&[2])).unwrap();
    assert_eq!(inline.to_host::<f32>().unwrap(), [1.0, 2.0]);
    let shared: Arc<[f32]> = Arc::from([5.0, 6.0]);
    let buffer = client.upload(Upload::owned::<f32, _>(shared.clone()).dims(&[2])).unwrap();
    assert_eq!(buffer.to_host::<f32>().unwrap(), *shared);
}

#[test]
fn places_of_another_client_are_refused() {
    let (client, other) = (Fake::new().client(), Fake::new().client());
    let device = other.default_device().unwrap();
    let error = client.upload(Upload::of(&[1u8]).dims(&[1]).to(&device)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
    assert_eq!(buffer.copy_to(&device).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
