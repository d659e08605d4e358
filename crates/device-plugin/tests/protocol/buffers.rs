//! What buffers say about themselves.

use device_plugin::{ElementType, Shape};
use pjrt_sys::*;

use crate::framework::{slice, text, toy};

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

/// Calls a function of the layouts extension.
fn layouts<S: Slot<Table = PJRT_Layouts_Extension, Return = *mut PJRT_Error>>(
    set: impl FnOnce(&mut S::Args),
) -> S::Args {
    let extension = unsafe { &*toy().0.extension_start.cast::<PJRT_Layouts_Extension>() };
    assert!(extension.base.type_ == <PJRT_Layouts_Extension as Extension>::TYPE);
    let mut args = crate::framework::garbage();
    set(&mut args);
    toy().check(unsafe { S::get(extension).unwrap()(&mut args) }).unwrap();
    args
}

fn layout_text(layout: *mut PJRT_Layouts_MemoryLayout) -> String {
    let blob = layouts::<extension_slot::PJRT_Layouts_MemoryLayout_Serialize>(|args| args.layout = layout);
    let text = unsafe { text(blob.serialized_bytes, blob.serialized_bytes_size) };
    unsafe { blob.serialized_layout_deleter.unwrap()(blob.serialized_layout) };
    text
}

fn destroy_layout(layout: *mut PJRT_Layouts_MemoryLayout) {
    layouts::<extension_slot::PJRT_Layouts_MemoryLayout_Destroy>(|args| args.layout = layout);
}

#[test]
fn layouts_are_row_major_everywhere() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().put(client, &Shape::new(ElementType::S4, [2, 3]), &[0; 6], 0).unwrap();
    let layout = layouts::<extension_slot::PJRT_Layouts_PJRT_Buffer_MemoryLayout>(|args| args.buffer = buffer).layout;
    assert_eq!(layout_text(layout), "{1,0:E(4)}");
    destroy_layout(layout);
    for (element, dims, expected) in [(11, &[4i64, 5, 6][..], "{2,1,0}"), (4, &[], "{}"), (21, &[7], "{0:E(4)}")] {
        let layout = layouts::<extension_slot::PJRT_Layouts_PJRT_Client_GetDefaultLayout>(|args| {
            args.client = client;
            args.type_ = PJRT_Buffer_Type(element);
            (args.dims, args.num_dims) = (dims.as_ptr(), dims.len());
        })
        .layout;
        assert_eq!(layout_text(layout), expected);
        destroy_layout(layout);
    }
    let loaded = toy().compile(client, "op=echo\nin=f32[2,2];pred[3]\nout=f32[1]").unwrap();
    let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded).unwrap();
    let executable = held.executable;
    let parameters = layouts::<extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>(|args| {
        args.executable = executable;
    });
    let outputs =
        layouts::<extension_slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>(|args| args.executable = executable);
    let mut all = unsafe { slice(parameters.layouts, parameters.num_parameters) }.to_vec();
    all.extend(unsafe { slice(outputs.layouts, outputs.num_outputs) });
    assert_eq!(all.iter().map(|layout| layout_text(*layout)).collect::<Vec<_>>(), ["{1,0}", "{0}", "{0}"]);
    // These belong to the executable; a framework that destroys them all the same does no harm.
    all.iter().for_each(|layout| destroy_layout(*layout));
    assert_eq!(layout_text(all[0]), "{1,0}");
    toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = executable).unwrap();
    toy().destroy_loaded(loaded);
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}
