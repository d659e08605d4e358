//! Tests transfers to and from real plugins, with every element type.

use expect_test::expect;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::real::{compile, each_client};
use half::{bf16, f16};
use num_complex::Complex;
use pjrt::{Client, Element, ElementType, ErrorKind, Shape, Upload};

fn round_trip<T: Element + PartialEq>(client: &Client, data: &[T]) {
    let dims = [i64::try_from(data.len()).unwrap()];
    let buffer = client.buffer_from_host(data, &dims).unwrap();
    assert_eq!(buffer.element_type().unwrap(), T::TYPE);
    assert_eq!(buffer.to_host::<T>().unwrap(), data, "{}", T::TYPE);
    // Also pass the data through a program.
    let ty = T::TYPE.stablehlo_name();
    let n = data.len();
    let text = format!("func.func @main(%x: tensor<{n}x{ty}>) -> tensor<{n}x{ty}> {{ return %x : tensor<{n}x{ty}> }}");
    let outputs = compile(client, &text).execute(&[&buffer]).unwrap();
    assert_eq!(outputs[0].download().array().unwrap().to_vec::<T>().unwrap(), data, "{}", T::TYPE);
}

#[test]
fn rust_types_round_trip() {
    each_client("rust_types", |client| {
        let buffer = client.buffer_from_host(&[1.5f64, 2.5], &[2]).unwrap();
        let mut place = [0f64; 2];
        buffer.download().copy_to(&mut place).unwrap();
        assert_eq!(place, [1.5, 2.5]);
        round_trip(client, &[true, false, true]);
        round_trip(client, &[i8::MIN, 0, i8::MAX]);
        round_trip(client, &[i16::MIN, 0, i16::MAX]);
        round_trip(client, &[i32::MIN, 0, i32::MAX]);
        round_trip(client, &[i64::MIN, 0, i64::MAX]);
        round_trip(client, &[0, 7, u8::MAX]);
        round_trip(client, &[0, 7, u16::MAX]);
        round_trip(client, &[0, 7, u32::MAX]);
        round_trip(client, &[0, 7, u64::MAX]);
        round_trip(client, &[f16::MIN, f16::ONE, f16::INFINITY]);
        round_trip(client, &[bf16::MIN, bf16::ONE, bf16::INFINITY]);
        round_trip(client, &[f32::MIN, 0.5, f32::INFINITY]);
        round_trip(client, &[f64::MIN, 0.5, f64::INFINITY]);
        round_trip(client, &[Complex::new(1.0f32, -2.0)]);
        round_trip(client, &[Complex::new(1.0f64, -2.0)]);
    });
}

#[test]
fn element_types_round_trip_or_fail() {
    each_client("every_element_type", |client| {
        for ty in ElementType::ALL {
            let shape = Shape::new(*ty, [3]);
            // A one-bit signed integer is 0 or -1, and `pjrt` represents -1 as the byte 0xff.
            let one = if *ty == ElementType::S1 { 0xff } else { 1u8 };
            let bytes: Vec<u8> = [one, 0, one].iter().flat_map(|byte| vec![*byte; ty.host_size()]).collect();
            match client.upload(Upload::of(&bytes).shape(&shape)) {
                Ok(buffer) => {
                    assert_eq!(*buffer.shape().unwrap(), shape);
                    assert_eq!(buffer.download().bytes().unwrap(), bytes, "{ty}");
                }
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument), "{error}");
                    eprintln!("  {ty}: {error}");
                }
            }
        }
    });
}

#[test]
fn scalars_empty_arrays_and_many_dimensions() {
    each_client("shapes", |client| {
        for dims in [&[][..], &[1, 1, 1], &[0], &[3, 0, 2], &[2, 3], &[2, 1, 2, 1, 2, 1, 2, 1, 2, 1]] {
            let count: i64 = dims.iter().product();
            let data: Vec<i32> = (0i32..).take(usize::try_from(count).unwrap()).collect();
            let buffer = client.buffer_from_host(&data, dims).unwrap();
            assert_eq!(buffer.dimensions().unwrap(), dims);
            assert_eq!(buffer.unpadded_dimensions().unwrap(), dims);
            assert_eq!(buffer.to_host::<i32>().unwrap(), data);
            assert!(buffer.dynamic_dimension_indices().map_or(true, |dynamic| dynamic.is_empty()));
        }
    });
}

#[test]
fn data_is_row_major_in_any_layout() {
    each_client("layout", |client| {
        let text = "func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
            %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
            return %0 : tensor<3x2xf32>
        }";
        let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap();
        assert!(x.memory_layout().unwrap().is_some_and(|layout| layout.is_row_major()));
        let outputs = compile(client, text).execute(&[&x]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        // Upload a column-major matrix, a repeated row, and a reversed array.
        let data = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0];
        let columns = client.upload(Upload::of(&data).dims(&[2, 3]).strides(0, &[1, 2])).unwrap();
        assert_eq!(columns.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let repeated = client.upload(Upload::of(&data).dims(&[2, 2]).strides(1, &[0, 1])).unwrap();
        assert_eq!(repeated.to_host::<f32>().unwrap(), [4.0, 2.0, 4.0, 2.0]);
        if let Ok(reversed) = client.upload(Upload::of(&data).dims(&[6]).strides(5, &[-1])) {
            assert_eq!(reversed.to_host::<f32>().unwrap(), [6.0, 3.0, 5.0, 2.0, 4.0, 1.0]);
        }
    });
}

/// Host data that is sufficiently aligned for XLA to use it without a copy.
#[repr(align(4096))]
struct Aligned([f32; 1024], Arc<AtomicBool>);

impl AsRef<[f32]> for Aligned {
    fn as_ref(&self) -> &[f32] {
        &self.0
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        self.0.fill(-1.0);
        self.1.store(true, SeqCst);
    }
}

#[test]
fn uncopied_data_lives_with_buffer() {
    each_client("zero_copy", |client| {
        let dropped = Arc::new(AtomicBool::new(false));
        let data = Aligned([2.0; 1024], dropped.clone());
        let buffer = client.upload(Upload::owned::<f32, _>(data).dims(&[1024])).unwrap();
        let text = "func.func @main(%x: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1024xf32> {
            %0 = stablehlo.add %x, %x : tensor<1024xf32>
            return %0 : tensor<1024xf32>
        }";
        let double = compile(client, text);
        let outputs = double.execute(&[&buffer]).unwrap();
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [4.0; 1024]);
        // Even if the buffer is donated, the program must not write to the immutable host memory.
        let run = double.execute_with([pjrt::Input::Donate(buffer)], &pjrt::ExecuteOptions::default()).unwrap();
        run.done.wait().unwrap();
        assert_eq!(run.outputs[0].to_host::<f32>().unwrap(), [4.0; 1024]);
        drop((run, outputs, double));
        let started = std::time::Instant::now();
        while !dropped.load(SeqCst) && started.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        assert!(dropped.load(SeqCst), "the data is let go");
    });
}

#[test]
fn buffers_go_to_devices_and_memories() {
    each_client("placement", |client| {
        let devices = client.addressable_devices().unwrap();
        for device in &devices {
            let buffer = client.upload(Upload::of(&[1u8, 2]).dims(&[2]).to(device)).unwrap();
            assert_eq!(buffer.device().unwrap(), *device);
            assert!(device.memories().unwrap().contains(&buffer.memory().unwrap()));
            assert!(buffer.on_device_size().unwrap() >= 2);
            assert!(buffer.is_on_cpu().is_ok());
            let memory = device.default_memory().unwrap();
            let there = client.upload(Upload::of(&[3u8]).dims(&[1]).to(&memory)).unwrap();
            assert_eq!(there.memory().unwrap(), memory);
            assert_eq!(there.to_host::<u8>().unwrap(), [3]);
        }
        if let [first, second, ..] = &devices[..] {
            let buffer = client.upload(Upload::of(&[1u8, 2]).dims(&[2]).to(first)).unwrap();
            let copy = buffer.copy_to(second).unwrap();
            assert_eq!(copy.device().unwrap(), *second);
            assert_eq!(copy.to_host::<u8>().unwrap(), [1, 2]);
            let copy = buffer.copy_to(&second.default_memory().unwrap()).unwrap();
            assert_eq!(copy.to_host::<u8>().unwrap(), [1, 2]);
        }
        let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
        buffer.delete().unwrap();
        let error = buffer.to_host::<u8>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        expect!["the buffer has been deleted"].assert_eq(&error.to_string());
    });
}
