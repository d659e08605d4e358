//! Tests the export and import of DLPack tensors: their fields, their lifetimes, and the rejection of invalid tensors.
//! The tests run on the embedded CPU device and on real plugins.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::real::{compile, embedded, everywhere};
use dlpark::ffi::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::versioned::Dlpack;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use expect_test::{Expect, expect};
use pjrt::{Buffer, Client, ElementType, ErrorKind, Shape, Upload};

/// Number of elements of the imported tensors. CPU plugins use aligned arrays of this size in place instead of copying
/// them.
const COUNT: usize = 3 << 16;
/// Number of columns of the imported tensors, which have two rows.
const COLUMNS: i64 = 3 << 15;

/// Elements that count their drops. Their alignment of 64 bytes allows CPU devices to use them in place.
#[repr(C, align(64))]
struct Elements([f32; COUNT], Arc<AtomicUsize>);

impl Drop for Elements {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// Creates a tensor as another library would create it. Each of the first 1000 elements is its own index, and all later
/// elements are 0. `drops` counts how often the elements are dropped.
fn foreign<M: ManagedTensorBase>(shape: &[i64], strides: &[i64], drops: &Arc<AtomicUsize>) -> Managed<M> {
    let mut elements = Box::new(Elements([0.0; COUNT], Arc::clone(drops)));
    for (index, element) in (0i16..1000).zip(elements.0.iter_mut()) {
        *element = index.into();
    }
    let data = elements.0.as_mut_ptr().cast();
    let mut tensor = Dynamic::new(shape, strides).initialize_as::<M>(elements).unwrap();
    tensor.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    // SAFETY: the elements live until the tensor is dropped.
    unsafe { tensor.finish() }
}

fn import<M: ManagedTensorBase + 'static>(client: &Client, tensor: Managed<M>) -> Result<Buffer, pjrt::Error> {
    // SAFETY: P5: the tensors of this file own their elements, and no code writes to the elements.
    let upload = unsafe { Upload::dlpack(tensor) }?;
    client.upload(upload)
}

#[test]
fn buffers_are_exported_in_both_forms() {
    everywhere("buffers_are_exported_in_both_forms", |client| {
        let buffer = Arc::new(client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap());
        let tensor: Dlpack = buffer.to_dlpack().unwrap();
        assert_eq!(tensor.flags(), DlpackFlags::READ_ONLY);
        assert_eq!(tensor.version().major, 1);
        let old: dlpark::legacy::Dlpack = buffer.to_dlpack().unwrap();
        fn check<M: ManagedTensorBase>(tensor: &Managed<M>) {
            let view = tensor.validate_export().unwrap();
            assert_eq!((view.shape(), view.strides()), (&[2, 3][..], Some(&[3, 1][..])));
            assert!(view.dtype().is::<f32>());
            assert_eq!(view.device(), DLDevice::CPU);
            // SAFETY: the tensor keeps the buffer alive, and its memory is readable by the host.
            assert_eq!(unsafe { view.cpu_slice::<f32>() }.unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        }
        check(&tensor);
        check(&old);
    });
}

/// An exported tensor keeps the buffer's memory alive. While the tensor exists, the buffer can be read but not deleted.
#[test]
fn tensors_outlive_their_buffers() {
    everywhere("tensors_outlive_their_buffers", |client| {
        let buffer = Arc::new(client.buffer_from_host(&[7i32, 8], &[2]).unwrap());
        let tensor: Dlpack = buffer.to_dlpack().unwrap();
        assert_eq!(buffer.delete().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(buffer.to_host::<i32>().unwrap(), [7, 8]);
        drop(buffer);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let view = tensor.validate().unwrap();
                // SAFETY: the tensor keeps the buffer alive.
                assert_eq!(unsafe { view.cpu_slice::<i32>() }.unwrap(), [7, 8]);
            });
        });
        drop(tensor);
        let buffer = Arc::new(client.buffer_from_host(&[7i32], &[1]).unwrap());
        let tensor: Dlpack = buffer.to_dlpack().unwrap();
        drop(tensor);
        buffer.delete().unwrap();
        assert!(buffer.to_dlpack::<DLManagedTensorVersioned>().is_err());
    });
}

#[test]
fn scalars_empty_tensors_and_element_types() {
    let client = embedded();
    let scalar = Arc::new(client.buffer_from_host(&[5.0f64], &[]).unwrap());
    let tensor: Dlpack = scalar.to_dlpack().unwrap();
    assert_eq!(tensor.validate().unwrap().ndim(), 0);
    assert_eq!(import(&client, tensor).unwrap().to_host::<f64>().unwrap(), [5.0]);
    let empty = Arc::new(client.buffer_from_host::<f32>(&[], &[3, 0]).unwrap());
    let tensor: Dlpack = empty.to_dlpack().unwrap();
    assert!(tensor.validate().unwrap().data_ptr().is_null());
    assert_eq!(import(&client, tensor).unwrap().shape().unwrap().dimensions[..], [3, 0]);
    for ty in ElementType::ALL.iter().copied().filter(|ty| *ty != ElementType::Token) {
        let shape = Shape::new(ty, [4]);
        let bytes: Vec<u8> = (0..shape.host_size().unwrap()).map(|byte| u8::try_from(byte % 2).unwrap()).collect();
        // The embedded device does not support all element types.
        let Ok(buffer) = client.upload(Upload::of(&bytes).shape(&shape)) else { continue };
        let buffer = Arc::new(buffer);
        match buffer.to_dlpack::<DLManagedTensorVersioned>() {
            Ok(tensor) => {
                let again = import(&client, tensor).unwrap();
                assert_eq!(again.shape().unwrap(), &shape);
                assert_eq!(again.download().bytes().unwrap(), bytes, "{ty}");
            }
            Err(error) => {
                assert!(ty.bits() < 8, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            }
        }
    }
}

#[test]
fn imported_tensors_live_as_long_as_their_buffers() {
    everywhere("imported_tensors_live_as_long_as_their_buffers", |client| {
        let double = compile(
            client,
            "func.func @main(%x: tensor<2x98304xf32>) -> tensor<2x98304xf32> {
               %y = stablehlo.add %x, %x : tensor<2x98304xf32>
               return %y : tensor<2x98304xf32>
             }",
        );
        let drops = Arc::new(AtomicUsize::new(0));
        let tensor = foreign::<DLManagedTensorVersioned>(&[2, COLUMNS], &[COLUMNS, 1], &drops);
        let buffer = import(client, tensor).unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 0, "an aligned tensor is used in place");
        let outputs = double.execute(&[&buffer]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap()[..4], [0.0, 2.0, 4.0, 6.0]);
        drop(buffer);
        dropped(&drops);
        let drops = Arc::new(AtomicUsize::new(0));
        // Import a column-major tensor in the older DLPack struct without a version.
        let buffer = import(client, foreign::<DLManagedTensor>(&[2, COLUMNS], &[1, 2], &drops)).unwrap();
        assert_eq!(buffer.to_host::<f32>().unwrap()[..4], [0.0, 2.0, 4.0, 6.0]);
        drop(buffer);
        dropped(&drops);
    });
}

/// Waits until the plugin has dropped the tensor. Checks that it was dropped only once.
fn dropped(drops: &AtomicUsize) {
    while drops.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn wrong_tensors_are_refused_and_dropped() {
    let client = embedded();
    let refused = |change: fn(&mut DLManagedTensorVersioned), kind: ErrorKind, expected: Expect| {
        let drops = Arc::new(AtomicUsize::new(0));
        let tensor = foreign::<DLManagedTensorVersioned>(&[2, COLUMNS], &[COLUMNS, 1], &drops);
        // SAFETY: no other reference to the tensor exists.
        change(unsafe { &mut *tensor.as_ptr() });
        let error = import(&client, tensor).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let word = |word| if str::starts_with(word, "0x") && word != "0x0," { "ADDRESS," } else { word };
        let words: Vec<&str> = error.message().split(' ').map(word).collect();
        expected.assert_eq(&words.join(" "));
        assert_eq!(drops.load(Ordering::SeqCst), 1, "{error}");
    };
    refused(
        |tensor| tensor.dl_tensor.device = DLDevice::cuda(3),
        ErrorKind::Unsupported,
        expect!["the DLPack tensor is on device 3 of type 2, whose memory the host cannot read; copy it to the CPU"],
    );
    refused(
        |tensor| tensor.dl_tensor.dtype.lanes = 4,
        ErrorKind::Unsupported,
        expect!["PJRT has no element type for DLPack's type code 2 of 32 bits and 4 lanes, or it is packed"],
    );
    refused(
        |tensor| tensor.dl_tensor.dtype.bits = 0,
        ErrorKind::InvalidArgument,
        expect!["an invalid DLPack tensor: dtype bit width must be greater than zero"],
    );
    refused(
        |tensor| tensor.dl_tensor.dtype = DLDataType::F4E2M1FN,
        ErrorKind::Unsupported,
        expect!["PJRT has no element type for DLPack's type code 17 of 4 bits and 1 lanes, or it is packed"],
    );
    refused(
        |tensor| tensor.dl_tensor.ndim = -1,
        ErrorKind::InvalidArgument,
        expect!["an invalid DLPack tensor: ndim is negative: -1"],
    );
    refused(
        |tensor| tensor.dl_tensor.byte_offset = 2,
        ErrorKind::InvalidArgument,
        expect![
            "the elements of the DLPack tensor, f32[2,98304], are at ADDRESS, which is not a multiple of 4; copy it"
        ],
    );
    refused(
        |tensor| tensor.dl_tensor.data = std::ptr::null_mut(),
        ErrorKind::InvalidArgument,
        expect!["the elements of the DLPack tensor, f32[2,98304], are at 0x0, which is not a multiple of 4; copy it"],
    );
    // SAFETY: the strides are writable memory that the tensor owns.
    refused(
        |tensor| unsafe { *tensor.dl_tensor.strides = i64::MAX },
        ErrorKind::InvalidArgument,
        expect!["an invalid DLPack tensor: its strides exceed the address space"],
    );
}
