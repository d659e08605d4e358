//! Tests uploads and views of `ndarray` arrays on the embedded CPU device.

use ndarray::{Array, Array0, Array3, ArrayD, ArrayViewD, Axis, IxDyn, s};
use pjrt::{Client, ClientOptions, Placement};

fn client() -> Client {
    plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap()
}

/// Uploads an array. Compares the downloaded elements and a view of the buffer with the array.
#[track_caller]
fn round_trip(client: &Client, array: ArrayViewD<'_, i32>) {
    let buffer = client.buffer_from_array(&array, Placement::Default).unwrap();
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
