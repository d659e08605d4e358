//! Tests transfers from and into the caller's memory, with all element types. The tests run on the embedded CPU device
//! and on real plugins.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::real::{compile, embedded, everywhere};
use aligned_vec::{AVec, avec};
use pjrt::{ElementType, ErrorKind, Shape, Upload};

/// Aligned memory, the byte offset in it at which the data starts, and the number of times that such data was dropped.
struct Bytes(AVec<u8>, usize, Arc<AtomicUsize>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1..]
    }
}

impl AsMut<[u8]> for Bytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0[self.1..]
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.2.fetch_add(1, Ordering::SeqCst);
    }
}

fn bytes(offset: usize, len: usize, drops: &Arc<AtomicUsize>) -> Bytes {
    Bytes(avec![1u8; offset + len], offset, Arc::clone(drops))
}

fn dropped(drops: &AtomicUsize) {
    while drops.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn uploads_tell_whether_they_copied() {
    everywhere("uploads_tell_whether_they_copied", |client| {
        let shape = Shape::new(ElementType::F32, [1024, 64]);
        for (offset, in_place) in [(0, true), (4, false)] {
            let drops = Arc::new(AtomicUsize::new(0));
            let data = bytes(offset, shape.host_size().unwrap(), &drops);
            let address = data.as_ref().as_ptr();
            let buffer = client.upload(Upload::owned::<u8, _>(data).shape(&shape)).unwrap();
            buffer.wait().unwrap();
            assert_eq!(buffer.unsafe_pointer().unwrap() == address.addr(), in_place, "offset {offset}");
            drop(buffer);
            dropped(&drops);
        }
    });
}

#[test]
fn every_element_type_round_trips() {
    let client = embedded();
    let mut types = 0;
    for ty in ElementType::ALL.iter().copied().filter(|ty| *ty != ElementType::Token) {
        let shape = Shape::new(ty, [3, 5]);
        let size = shape.host_size().unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        // The device does not support all element types. A failed upload also drops its data.
        let Ok(buffer) = client.upload(Upload::owned::<u8, _>(bytes(0, size, &drops)).shape(&shape)) else {
            dropped(&drops);
            continue;
        };
        let read = buffer.download().start_into(vec![0u8; size]).unwrap();
        // A one-bit signed integer is 0 or -1, and `pjrt` represents -1 as the byte 0xff.
        let expected = vec![if ty == ElementType::S1 { 0xff } else { 1u8 }; size];
        assert_eq!(read.wait().unwrap(), expected, "{ty}");
        assert_eq!(buffer.download().start_bytes().unwrap().wait().unwrap(), expected, "{ty}");
        types += 1;
    }
    assert!(types >= 25, "{types}");
}

#[test]
fn reads_return_the_callers_memory() {
    everywhere("reads_return_the_callers_memory", |client| {
        let numbers: Vec<u8> = (0..24).collect();
        let buffer = client.buffer_from_host(&numbers, &[2, 3, 4]).unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let memory = bytes(8, 24, &drops);
        let address = memory.as_ref().as_ptr();
        let memory = buffer.download().start_into(memory).unwrap().wait().unwrap();
        assert_eq!(memory.as_ref().as_ptr(), address);
        assert_eq!(memory.as_ref(), numbers);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        // If the future is dropped before the copy has ended, the memory is dropped after the copy has ended.
        drop(buffer.download().start_into(memory).unwrap());
        client.synchronize(Duration::from_secs(600)).unwrap();
        dropped(&drops);
        let drops = Arc::new(AtomicUsize::new(0));
        let error = buffer.download().start_into(bytes(0, 23, &drops)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        dropped(&drops);
    });
}

#[test]
fn strided_bytes_of_any_type() {
    everywhere("strided_bytes_of_any_type", |client| {
        let bytes: Vec<u8> = (0..12).collect();
        let shape = Shape::new(ElementType::U8, [2, 3]);
        let read = |offset, strides: [i64; 2]| {
            let buffer = client.upload(Upload::of(&bytes).shape(&shape).byte_strides(offset, &strides));
            buffer.map(|buffer| buffer.download().bytes().unwrap())
        };
        assert_eq!(read(0, [6, 2]).unwrap(), [0, 2, 4, 6, 8, 10]);
        assert_eq!(read(11, [-6, -2]).unwrap(), [11, 9, 7, 5, 3, 1]);
        for (offset, strides) in [(0, [6, 3]), (12, [-6, -2]), (3, [-6, -2]), (0, [i64::MAX, i64::MAX])] {
            let error = read(offset, strides).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        let error = client.upload(Upload::of(&bytes).shape(&shape).byte_strides(0, &[1])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    });
}

#[test]
fn strided_bytes_of_every_type() {
    let client = embedded();
    let mut types = 0;
    for ty in ElementType::ALL.iter().copied().filter(|ty| *ty != ElementType::Token) {
        let shape = Shape::new(ty, [2, 3]);
        let size = shape.host_size().unwrap() / 6;
        // Upload the matrix [[0, 1, 0], [1, 1, 0]] in column-major order. Every byte of the element 1 has the value 1.
        // This value is valid for every type except the one-bit signed integer. That type has the elements 0 and -1,
        // and the byte 0xff represents -1.
        let element = |n: u8| vec![if ty == ElementType::S1 { 0u8.wrapping_sub(n) } else { n }; size];
        let list = |elements: [u8; 6]| elements.map(element).concat();
        let columns = list([0, 1, 1, 1, 0, 0]);
        let step = i64::try_from(size).unwrap();
        // The device does not support all element types.
        let upload = client.upload(Upload::of(&columns).shape(&shape).byte_strides(0, &[step, 2 * step]));
        let Ok(buffer) = upload else { continue };
        assert_eq!(buffer.download().bytes().unwrap(), list([0, 1, 0, 1, 1, 0]), "{ty}");
        types += 1;
    }
    assert!(types >= 25, "{types}");
}

/// For elements that are smaller than a byte, the unused bits of each byte are the same on every plugin, even if a
/// program computed the elements. Signed integers are sign-extended.
#[test]
fn small_elements_have_defined_bytes() {
    everywhere("small_elements_have_defined_bytes", |client| {
        let negate = compile(
            client,
            "func.func @main(%x: tensor<3xi4>) -> tensor<3xi4> {
               %y = stablehlo.negate %x : tensor<3xi4>
               return %y : tensor<3xi4>
             }",
        );
        let shape = Shape::new(ElementType::S4, [3]);
        let x = client.upload(Upload::of::<u8>(&[0xfe, 7, 0]).shape(&shape)).unwrap();
        assert_eq!(x.download().bytes().unwrap(), [0xfe, 7, 0]);
        let y = negate.execute(&[&x]).unwrap().remove(0);
        assert_eq!(y.download().bytes().unwrap(), [2, 0xf9, 0]);
        assert_eq!(y.download().start_bytes().unwrap().wait().unwrap(), [2, 0xf9, 0]);
    });
}
