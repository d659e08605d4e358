//! Tests uploads and views of `ndarray` arrays on the embedded CPU device.

#[cfg(feature = "dlpack")]
use dlpark::ffi::DLManagedTensorVersioned;
use ndarray::{Array, Array0, Array3, ArrayD, ArrayViewD, Axis, IxDyn, s};
use pjrt::{Buffer, Client, ClientOptions, Error, ErrorKind, Plugin, StaticApi, Upload};
use pjrt_sys::*;
use std::sync::Arc;

fn client() -> Client {
    plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap()
}

/// Uploads an array. Compares the downloaded elements and a view of the buffer with the array.
#[track_caller]
fn round_trip(client: &Client, array: ArrayViewD<'_, i32>) {
    let buffer = client.upload(Upload::array(&array)).unwrap();
    let expected: Vec<i32> = array.iter().copied().collect();
    assert_eq!(buffer.to_host::<i32>().unwrap(), expected, "{:?}", array.strides());
    let view = buffer.host_view::<i32>().unwrap();
    assert_eq!(view.array(), array);
}

#[test]
fn arrays_of_all_strides_come_back() {
    let client = client();
    let array: Array3<i32> = Array::from_shape_fn((2, 3, 4), |(i, j, k)| i32::try_from(100 * i + 10 * j + k).unwrap());
    round_trip(&client, array.view().into_dyn());
    round_trip(&client, array.view().reversed_axes().into_dyn());
    round_trip(&client, array.view().permuted_axes([1, 2, 0]).into_dyn());
    round_trip(&client, array.slice(s![..;-1, .., ..;-1]).into_dyn());
    round_trip(&client, array.slice(s![.., 1, ..]).into_dyn());
    round_trip(&client, array.slice(s![..;-1, ..;2, 1..3;-1]).into_dyn());
    round_trip(&client, array.slice(s![.., 1..1, ..]).into_dyn());
    round_trip(&client, array.index_axis(Axis(2), 3).broadcast([5, 2, 3]).unwrap().into_dyn());
    round_trip(&client, Array0::from_elem((), 7).view().into_dyn());
    round_trip(&client, ArrayD::<i32>::zeros(IxDyn(&[0, 3])).view());
}

static BEYOND_MEMORY: [i64; 3] = [1 << 40, 0, 1 << 40];

unsafe extern "C" fn beyond_memory(args: *mut PJRT_Buffer_Dimensions_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let args = unsafe { &mut *args };
    (args.dims, args.num_dims) = (BEYOND_MEMORY.as_ptr(), BEYOND_MEMORY.len());
    std::ptr::null_mut()
}

/// An empty array whose other extents exceed the address space has no strides, so it cannot be a view.
#[test]
fn shape_beyond_memory_is_an_error() {
    #[track_caller]
    fn named<T>(result: Result<T, Error>) {
        let error = result.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains("f32[1099511627776,0,1099511627776]"), "{error}");
    }
    let own = client();
    // SAFETY: C1: the function table is readable for its size.
    let mut table = unsafe { std::ptr::read(own.plugin().api().as_raw()) };
    table.PJRT_Buffer_Dimensions = Some(beyond_memory);
    // SAFETY: the table is that of the embedded device, and the replaced function returns an array that stays readable.
    let plugin = Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap();
    let client = plugin.client(&ClientOptions::new()).unwrap();
    let x: Arc<Buffer> = Arc::new(client.buffer_from_host::<f32>(&[], &[0]).unwrap());
    assert_eq!(x.dimensions().unwrap(), BEYOND_MEMORY);
    named(x.host_view::<f32>());
    #[cfg(feature = "dlpack")]
    named(x.to_dlpack::<DLManagedTensorVersioned>());
    named(x.to_host::<f32>());
    named(x.download().copy_to::<f32>(&mut []));
    named(x.download().start::<f32>());
    named(x.download().array());
    named(own.buffer_from_host::<f32>(&[], &BEYOND_MEMORY));
    named(own.upload(Upload::of::<f32>(&[]).dims(&BEYOND_MEMORY).strides(0, &[0, 0, 0])));
}
