//! Tests the properties of buffers.

use device_plugin::{ElementType, Shape};
use pjrt_sys::*;

use crate::framework::{slice, toy};

#[test]
fn buffers_describe_themselves() {
    let client = toy().client(&[]).unwrap();
    for dims in [&[][..], &[3], &[2, 1, 2], &[1; 9]] {
        let shape = Shape::new(ElementType::F16, dims);
        let size = shape.host_size().unwrap();
        let buffer = toy().put(client, &shape, &vec![0; size], 0).unwrap();
        let args = toy().ask::<slot::PJRT_Buffer_Dimensions>(|args| args.buffer = buffer).unwrap();
        assert_eq!(unsafe { slice(args.dims, args.num_dims) }, dims);
        let args = toy().ask::<slot::PJRT_Buffer_UnpaddedDimensions>(|args| args.buffer = buffer).unwrap();
        assert_eq!(unsafe { slice(args.unpadded_dims, args.num_dims) }, dims);
        let args = toy().ask::<slot::PJRT_Buffer_DynamicDimensionIndices>(|args| args.buffer = buffer).unwrap();
        assert_eq!(args.num_dynamic_dims, 0);
        assert_eq!(toy().ask::<slot::PJRT_Buffer_ElementType>(|args| args.buffer = buffer).unwrap().type_.0, 10);
        let args = toy().ask::<slot::PJRT_Buffer_OnDeviceSizeInBytes>(|args| args.buffer = buffer).unwrap();
        assert_eq!(args.on_device_size_in_bytes, size);
        let layout = toy().ask::<slot::PJRT_Buffer_GetMemoryLayout>(|args| args.buffer = buffer).unwrap().layout;
        let tiled = unsafe { layout.__bindgen_anon_1.tiled };
        assert_eq!((layout.type_.0, tiled.num_tiles), (0, 0));
        let order: Vec<i64> = (0..dims.len() as i64).rev().collect();
        assert_eq!(unsafe { slice(tiled.minor_to_major, tiled.minor_to_major_size) }, order);
        toy().destroy(&[buffer]);
    }
    toy().destroy_client(client);
}
