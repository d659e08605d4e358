//! Tests the layouts of arrays.

use std::ptr::null_mut;
use std::sync::Arc;

use device_plugin::features::{AheadOfTime, Features, StorageLayouts};
use device_plugin::{
    Backend, CompileOptions, Compiled, DeviceInfo, DevicePlugin, ElementType, ErrorCode, ExecutableInfo, HostArray,
    Layout, Placement, Program, Result, Shape, TopologyInfo, device_plugin,
};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, Framework, garbage, slice, text, toy};
use crate::transfers::{strided, tiled};

struct Tiles;

#[device_plugin]
impl DevicePlugin for Tiles {
    const NAME: &'static str = "tiles";
    type Backend = TilesDevice;
}

/// A device that by default stores matrices in column-major order, in tiles of two. Its programs return their argument.
/// The code of a program contains the layouts of its parameter and its result, as `PARAMETER RESULT`. Code without a
/// space selects the default layouts.
struct TilesDevice;

/// The shape that the backend received, and the bytes of the array.
type Stored = Arc<(Shape, Vec<u8>)>;

fn columns(rank: usize) -> Option<Layout> {
    (rank == 2).then(|| Layout::new(vec![0, 1]).with_tiles(vec![vec![2]]))
}

impl Backend for TilesDevice {
    type Buffer = Stored;

    const FEATURES: Features<Self> = Features::none().ahead_of_time().storage_layouts();

    device_plugin_testing::unit_backend!();
    device_plugin_testing::several_devices!(2, "tiles");
    device_plugin_testing::echo_executions!(String);

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Stored> {
        Ok(Arc::new((host.shape().clone(), host.into_bytes())))
    }

    fn read(&self, buffer: &Stored, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&buffer.1);
        Ok(())
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Compiled<String>> {
        let text = String::from_utf8(program.code().to_vec()).unwrap();
        let mut info = ExecutableInfo::new("echo", [matrix()], [matrix()]);
        if let Some((parameter, result)) = text.split_once(' ') {
            let layouts = |text: &str| text.split(';').map(|layout| layout.parse().unwrap()).collect();
            (info.parameter_layouts, info.output_layouts) = (layouts(parameter), layouts(result));
        }
        Ok(Compiled::new(text, info))
    }
}

impl AheadOfTime for TilesDevice {
    fn topology(_: &str, _: &[device_plugin::NamedValue]) -> Result<TopologyInfo> {
        Ok(TopologyInfo::new(vec![DeviceInfo::new(0, "tiles")]))
    }
}

impl StorageLayouts for TilesDevice {
    fn default_layout(topology: &TopologyInfo, shape: &Shape) -> Option<Layout> {
        assert!(!topology.devices.is_empty());
        columns(shape.dimensions.len())
    }
}

fn tiles() -> Framework {
    Framework(device_plugin::raw::api::<Tiles>())
}

fn matrix() -> Shape {
    Shape::new(ElementType::S32, [2, 3])
}

/// The elements in row-major order.
const ROWS: [i32; 6] = [0, 1, 2, 3, 4, 5];
const COLUMNS: [i32; 6] = [0, 3, 1, 4, 2, 5];

fn put(of: Framework, client: Client, layout: Option<&PJRT_Buffer_MemoryLayout>, strides: &[i64]) -> Answer<Buffer> {
    let dims = [2i64, 3];
    let args = of.ask::<slot::PJRT_Client_BufferFromHostBuffer>(|args| {
        (args.client, args.data) = (client, ROWS.as_ptr().cast());
        args.type_ = PJRT_Buffer_Type(ElementType::S32.as_raw());
        (args.dims, args.num_dims) = (dims.as_ptr(), 2);
        (args.byte_strides, args.num_byte_strides) = (strides.as_ptr(), strides.len());
        args.host_buffer_semantics = PJRT_HostBufferSemantics(0);
        (args.device, args.memory) = (of.devices(client)[0], null_mut());
        args.device_layout = layout.map_or(null_mut(), |layout| std::ptr::from_ref(layout).cast_mut());
    })?;
    of.destroy_event(args.done_with_host_buffer);
    Ok(args.buffer)
}

fn read(of: Framework, buffer: Buffer, layout: Option<&PJRT_Buffer_MemoryLayout>) -> Vec<i32> {
    let mut out = vec![-1i32; 6];
    let args = of.ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
        args.src = buffer;
        args.host_layout = layout.map_or(null_mut(), |layout| std::ptr::from_ref(layout).cast_mut());
        (args.dst, args.dst_size) = (out.as_mut_ptr().cast(), 24);
    });
    of.wait(args.unwrap().event).unwrap();
    out
}

/// Returns the layout of a buffer that `PJRT_Buffer_GetMemoryLayout` reports.
fn layout_of(of: Framework, buffer: Buffer) -> Layout {
    let layout = of.ask::<slot::PJRT_Buffer_GetMemoryLayout>(|args| args.buffer = buffer).unwrap().layout;
    assert!(layout.type_ == PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled);
    let tiled = unsafe { layout.__bindgen_anon_1.tiled };
    let ranks = unsafe { slice(tiled.tile_dim_sizes, tiled.num_tiles) };
    let extents = unsafe { slice(tiled.tile_dims, ranks.iter().sum()) };
    let mut extents = extents.iter().copied();
    Layout::new(unsafe { slice(tiled.minor_to_major, tiled.minor_to_major_size) }.to_vec())
        .with_tiles(ranks.iter().map(|rank| extents.by_ref().take(*rank).collect()).collect())
}

#[test]
fn any_order_may_be_asked_for() {
    let client = toy().client(&[]).unwrap();
    let order = [0i64, 1];
    let buffer = put(toy(), client, Some(&tiled(&order)), &[]).unwrap();
    assert_eq!(layout_of(toy(), buffer).to_string(), "{0,1}");
    let args = toy().ask::<slot::PJRT_Buffer_Dimensions>(|args| args.buffer = buffer).unwrap();
    assert_eq!(unsafe { slice(args.dims, args.num_dims) }, [2, 3]);
    // If the framework passes no layout, a read uses the layout of the buffer. Raw bytes are always in the layout of
    // the buffer.
    assert_eq!(read(toy(), buffer, None), COLUMNS);
    assert_eq!(read(toy(), buffer, Some(&tiled(&[0, 1]))), COLUMNS);
    assert_eq!(read(toy(), buffer, Some(&tiled(&[1, 0]))), ROWS);
    assert_eq!(read(toy(), buffer, Some(&strided(&[12, 4]))), ROWS);
    let mut raw = [0i32; 2];
    let copied = toy().ask::<slot::PJRT_Buffer_CopyRawToHost>(|args| {
        (args.buffer, args.dst) = (buffer, raw.as_mut_ptr().cast());
        (args.offset, args.transfer_size) = (4, 8);
    });
    toy().wait(copied.unwrap().event).unwrap();
    assert_eq!(raw, COLUMNS[1..3]);
    // A copy has the same layout as its source.
    let to = toy().devices(client)[1];
    let copy = toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| {
        (args.buffer, args.dst_device) = (buffer, to);
    });
    let copy = copy.unwrap().dst_buffer;
    assert_eq!((layout_of(toy(), copy).to_string(), read(toy(), copy, None)), ("{0,1}".to_owned(), COLUMNS.to_vec()));
    toy().destroy(&[buffer, copy]);
    // The strides describe host data in column-major order.
    let buffer = put(toy(), client, Some(&tiled(&order)), &[4, 8]).unwrap();
    assert_eq!(read(toy(), buffer, None), ROWS);
    assert_eq!(read(toy(), buffer, Some(&tiled(&[1, 0]))), [0, 2, 4, 1, 3, 5]);
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

#[test]
fn rejects_layout_of_other_array() {
    let client = toy().client(&[]).unwrap();
    for order in [&[0i64][..], &[0, 0], &[0, 2], &[-1, 0], &[0, 1, 2]] {
        let fault = put(toy(), client, Some(&tiled(order)), &[]).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    }
    let mut messages = String::new();
    for strides in [[16i64, 4], [4, 8]] {
        let fault = put(toy(), client, Some(&strided(&strides)), &[]).unwrap_err();
        assert_eq!(fault.code, ErrorCode::UNIMPLEMENTED, "{fault:?}");
        messages += &format!("{strides:?}: {}\n", fault.message);
    }
    expect![[r#"
        [16, 4]: PJRT_Client_BufferFromHostBuffer: device layouts given as strides must be row-major; give minor_to_major instead
        [4, 8]: PJRT_Client_BufferFromHostBuffer: device layouts given as strides must be row-major; give minor_to_major instead
    "#]].assert_eq(&messages);
    let dense = [12i64, 4];
    toy().destroy(&[put(toy(), client, Some(&strided(&dense)), &[]).unwrap()]);
    let (order, extents, ranks) = ([1i64, 0], [8i64, 128], [2usize]);
    let mut tiles = tiled(&order);
    tiles.__bindgen_anon_1.tiled.num_tiles = 1;
    tiles.__bindgen_anon_1.tiled.tile_dims = extents.as_ptr();
    tiles.__bindgen_anon_1.tiled.tile_dim_sizes = ranks.as_ptr();
    let fault = put(toy(), client, Some(&tiles), &[]).unwrap_err();
    assert_eq!(fault.code, ErrorCode::UNIMPLEMENTED);
    toy().destroy_client(client);
}

#[test]
fn arguments_need_compiled_layouts() {
    let client = toy().client(&[]).unwrap();
    let program = toy().compile(client, "op=echo\nin=s32[2,3]").unwrap();
    let order = [0i64, 1];
    let columns = put(toy(), client, Some(&tiled(&order)), &[]).unwrap();
    let fault = toy().execute(program, &[columns], 1).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_LoadedExecutable_Execute: argument 0 is s32[2,3]{0,1}, but the program expects s32[2,3]"]
        .assert_eq(&fault.message);
    toy().destroy_loaded(program);
    toy().destroy(&[columns]);
    // The position of a dimension of extent 1 does not matter.
    let program = toy().compile(client, "op=echo\nin=s32[2,1]").unwrap();
    let dims = [2i64, 1];
    let layout = tiled(&order);
    let args = toy().ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|args| {
        (args.client, args.shape_element_type) = (client, PJRT_Buffer_Type(ElementType::S32.as_raw()));
        (args.shape_dims, args.shape_num_dims) = (dims.as_ptr(), 2);
        args.shape_layout = (&raw const layout).cast_mut();
        (args.device, args.memory) = (toy().devices(client)[0], null_mut());
    });
    let buffer = args.unwrap().buffer;
    let (outputs, event) = toy().execute(program, &[buffer], 1).unwrap();
    toy().wait(event).unwrap();
    toy().destroy(&[buffer, outputs[0]]);
    toy().destroy_loaded(program);
    toy().destroy_client(client);
}

#[test]
fn uses_device_layouts() {
    let client = tiles().client(&[]).unwrap();
    let buffer = put(tiles(), client, None, &[]).unwrap();
    assert_eq!(layout_of(tiles(), buffer).to_string(), "{0,1:T(2)}");
    assert_eq!(read(tiles(), buffer, None), COLUMNS);
    assert_eq!(read(tiles(), buffer, Some(&tiled(&[1, 0]))), ROWS);
    // Another order of dimensions is accepted only with the tiles of the device.
    let (order, extents, ranks) = ([1i64, 0], [2i64], [1usize]);
    let mut rows = tiled(&order);
    rows.__bindgen_anon_1.tiled.num_tiles = 1;
    rows.__bindgen_anon_1.tiled.tile_dims = extents.as_ptr();
    rows.__bindgen_anon_1.tiled.tile_dim_sizes = ranks.as_ptr();
    let as_rows = put(tiles(), client, Some(&rows), &[]).unwrap();
    assert_eq!(layout_of(tiles(), as_rows).to_string(), "{1,0:T(2)}");
    assert_eq!(read(tiles(), as_rows, None), ROWS);
    let fault = put(tiles(), client, Some(&tiled(&order)), &[]).unwrap_err();
    assert_eq!(fault.code, ErrorCode::UNIMPLEMENTED, "{fault:?}");

    // By default, programs expect parameters and return results in the default layout of the device.
    let plain = tiles().compile(client, "plain").unwrap();
    let (outputs, event) = tiles().execute(plain, &[buffer], 1).unwrap();
    tiles().wait(event).unwrap();
    assert_eq!(layout_of(tiles(), outputs[0]).to_string(), "{0,1:T(2)}");
    let fault = tiles().execute(plain, &[as_rows], 1).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    // A program may specify other layouts for its parameters and results.
    let other = tiles().compile(client, "{1,0:T(2)} {1,0}").unwrap();
    let (rows, event) = tiles().execute(other, &[as_rows], 1).unwrap();
    tiles().wait(event).unwrap();
    assert_eq!(layout_of(tiles(), rows[0]).to_string(), "{1,0}");
    let held = tiles().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = other).unwrap();
    let outputs_of = layouts::<extension_slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>(tiles(), |args| {
        args.executable = held.executable;
    });
    let parameters = layouts::<extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>(tiles(), |args| {
        args.executable = held.executable;
    });
    assert_eq!(layout_text(unsafe { slice(outputs_of.layouts, 1) }[0]), "{1,0}");
    assert_eq!(layout_text(unsafe { slice(parameters.layouts, 1) }[0]), "{1,0:T(2)}");
    tiles().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = held.executable).unwrap();
    let mut messages = String::new();
    for code in ["{1,0};{1,0} {1,0}", "{1,0} {0}"] {
        let fault = tiles().compile(client, code).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INTERNAL, "{fault:?}");
        messages += &format!("{code}: {}\n", fault.message);
    }
    expect![[r#"
        {1,0};{1,0} {1,0}: the backend returned contradictory values: it returned 2 layouts for 1 parameters
        {1,0} {0}: the backend returned contradictory values: the layout {0} does not list each dimension of s32[2,3] once
    "#]].assert_eq(&messages);
    tiles().destroy_loaded(plain);
    tiles().destroy_loaded(other);
    tiles().destroy(&[buffer, as_rows, outputs[0], rows[0]]);
    tiles().destroy_client(client);
}

#[test]
fn topology_reports_layouts() {
    let name = "any";
    let topology = tiles().ask::<slot::PJRT_TopologyDescription_Create>(|args| {
        (args.topology_name, args.topology_name_size) = (name.as_ptr().cast(), name.len());
        args.num_options = 0;
    });
    let topology = topology.unwrap().topology;
    let dims = [2i64, 3];
    let layout = layouts::<extension_slot::PJRT_Layouts_PJRT_Topology_GetDefaultLayout>(tiles(), |args| {
        (args.topology_description, args.type_) = (topology, PJRT_Buffer_Type(ElementType::S4.as_raw()));
        (args.dims, args.num_dims) = (dims.as_ptr(), 2);
    })
    .layout;
    assert_eq!(layout_text(layout), "{0,1:T(2)E(4)}");
    destroy_layout(layout);
    let args = tiles().ask::<slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace>(|args| {
        (args.topology, args.memory_space_kind_id) = (topology, 0);
        args.element_type = PJRT_Buffer_Type(ElementType::S32.as_raw());
        (args.dims, args.num_dims, args.layout) = (dims.as_ptr(), 2, null_mut());
    });
    let args = args.unwrap();
    let proto = unsafe { slice(args.serialized_shape.cast::<u8>(), args.serialized_shape_size) }.to_vec();
    unsafe { args.serialized_shape_deleter.unwrap()(args.serialized_shape) };
    // The expected type is `s32`, the extents are `[2,3]`, `minor_to_major` is `[0,1]`, and there is one tile `(2)`.
    // Neither dimension is dynamic.
    assert_eq!(proto, [0x10, 4, 0x1A, 2, 2, 3, 0x2A, 9, 0x0A, 2, 0, 1, 0x32, 3, 0x0A, 1, 2, 0x32, 2, 0, 0]);
    tiles().ask::<slot::PJRT_TopologyDescription_Destroy>(|args| args.topology = topology).unwrap();
}

#[test]
fn pending_buffers_have_layout() {
    let client = toy().client(&[]).unwrap();
    let memory = toy().memories(client)[0];
    let (dims, order) = ([2i64, 3], [0i64, 1]);
    let mut spec = garbage::<PJRT_ShapeSpec>();
    (spec.dims, spec.num_dims) = (dims.as_ptr(), 2);
    spec.element_type = PJRT_Buffer_Type(ElementType::S32.as_raw());
    let layout = tiled(&order);
    let list = [(&raw const layout).cast_mut()];
    let manager = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
        (args.client, args.memory) = (client, memory);
        (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
        (args.device_layouts, args.num_device_layouts) = (list.as_ptr().cast_mut(), 1);
    });
    let manager = manager.unwrap().transfer_manager;
    let sent = toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral>(|args| {
        (args.transfer_manager, args.buffer_index, args.data) = (manager, 0, ROWS.as_ptr().cast());
        (args.shape_dims, args.shape_num_dims) = (dims.as_ptr(), 2);
        args.shape_element_type = PJRT_Buffer_Type(ElementType::S32.as_raw());
        args.shape_layout = null_mut();
    });
    toy().destroy_event(sent.unwrap().done_with_h2d_transfer);
    let buffer = toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, 0);
    });
    let buffer = buffer.unwrap().buffer_out;
    assert_eq!(
        (layout_of(toy(), buffer).to_string(), read(toy(), buffer, None)),
        ("{0,1}".to_owned(), COLUMNS.to_vec())
    );
    // The buffer that fulfills an alias must have the layout of the alias.
    let alias = |layout: &PJRT_Buffer_MemoryLayout| {
        let args = toy().ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
            (args.client, args.memory) = (client, memory);
            (args.shape_dims, args.shape_num_dims) = (dims.as_ptr(), 2);
            args.shape_element_type = PJRT_Buffer_Type(ElementType::S32.as_raw());
            args.shape_layout = std::ptr::from_ref(layout).cast_mut();
        });
        let args = args.unwrap();
        (args.alias_buffer, args.fulfill_alias_buffer_cb)
    };
    let fulfill = |token| {
        toy().ask::<slot::PJRT_Client_FulfillAliasBuffer>(|args| {
            (args.client, args.buffer, args.fulfill_alias_buffer_cb) = (client, buffer, token);
            (args.status_code.0, args.error_message_size) = (0, 0);
        })
    };
    let (same, token) = alias(&layout);
    fulfill(token).unwrap();
    assert_eq!(read(toy(), same, None), COLUMNS);
    let plain = [1i64, 0];
    let (other, token) = alias(&tiled(&plain));
    let fault = fulfill(token).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(|args| args.transfer_manager = manager).unwrap();
    toy().destroy(&[buffer, same, other]);
    toy().destroy_client(client);
}

/// Calls a function of the layouts extension.
fn layouts<S: Slot<Table = PJRT_Layouts_Extension, Return = *mut PJRT_Error>>(
    of: Framework,
    set: impl FnOnce(&mut S::Args),
) -> S::Args {
    let extension = unsafe { &*of.0.extension_start.cast::<PJRT_Layouts_Extension>() };
    assert!(extension.base.type_ == <PJRT_Layouts_Extension as Extension>::TYPE);
    let mut args = garbage();
    set(&mut args);
    of.check(unsafe { S::get(extension).unwrap()(&mut args) }).unwrap();
    args
}

fn layout_text(layout: *mut PJRT_Layouts_MemoryLayout) -> String {
    let blob = layouts::<extension_slot::PJRT_Layouts_MemoryLayout_Serialize>(toy(), |args| args.layout = layout);
    let text = unsafe { text(blob.serialized_bytes, blob.serialized_bytes_size) };
    unsafe { blob.serialized_layout_deleter.unwrap()(blob.serialized_layout) };
    text
}

fn destroy_layout(layout: *mut PJRT_Layouts_MemoryLayout) {
    layouts::<extension_slot::PJRT_Layouts_MemoryLayout_Destroy>(toy(), |args| args.layout = layout);
}

#[test]
fn default_layouts() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().put(client, &Shape::new(ElementType::S4, [2, 3]), &[0; 6], 0).unwrap();
    let layout =
        layouts::<extension_slot::PJRT_Layouts_PJRT_Buffer_MemoryLayout>(toy(), |args| args.buffer = buffer).layout;
    assert_eq!(layout_text(layout), "{1,0:E(4)}");
    destroy_layout(layout);
    for (element, dims, expected) in [(11, &[4i64, 5, 6][..], "{2,1,0}"), (4, &[], "{}"), (21, &[7], "{0:E(4)}")] {
        let layout = layouts::<extension_slot::PJRT_Layouts_PJRT_Client_GetDefaultLayout>(toy(), |args| {
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
    let parameters = layouts::<extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>(toy(), |args| {
        args.executable = executable;
    });
    let outputs = layouts::<extension_slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>(toy(), |args| {
        args.executable = executable
    });
    let mut all = unsafe { slice(parameters.layouts, parameters.num_parameters) }.to_vec();
    all.extend(unsafe { slice(outputs.layouts, outputs.num_outputs) });
    assert_eq!(all.iter().map(|layout| layout_text(*layout)).collect::<Vec<_>>(), ["{1,0}", "{0}", "{0}"]);
    // These layouts belong to the executable. If a framework destroys them anyway, the call does nothing.
    all.iter().for_each(|layout| destroy_layout(*layout));
    assert_eq!(layout_text(all[0]), "{1,0}");
    toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = executable).unwrap();
    toy().destroy_loaded(loaded);
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}
