//! Tests less common options: deferred copies, views of other libraries' memory, layouts, host buffer semantics,
//! canonical shapes, load options and process states. The tests run on the embedded CPU device and on real plugins.

use std::time::Duration;

use crate::drops::{Drops, Reporter, reporter};
use crate::real::{compile, everywhere, refused, supported};
use expect_test::expect;
use pjrt::{
    CompileOptions, ElementType, ErrorCode, ErrorKind, ExecuteOptions, HostBufferSemantics, Input, Layout, LoadOptions,
    NamedValue, ProcessInfo, ProcessState, Shape, Upload,
};

/// A timeout that no operation of these tests exceeds.
const LONG: Duration = Duration::from_secs(600);

fn f32s(dims: &[i64]) -> Shape {
    Shape::new(ElementType::F32, dims)
}

/// Host data that reports its drop. Its alignment of 64 bytes allows plugins to create views of it.
struct Counted {
    data: Aligned,
    _reporter: Reporter,
}

#[repr(align(64))]
struct Aligned([f32; 64]);

impl Counted {
    fn new() -> (Self, Drops) {
        let (reporter, drops) = reporter();
        let mut data = Aligned([0.0; 64]);
        data.0.iter_mut().zip(0u8..).for_each(|(value, i)| *value = i.into());
        (Self { data, _reporter: reporter }, drops)
    }
}

impl AsRef<[f32]> for Counted {
    fn as_ref(&self) -> &[f32] {
        &self.data.0
    }
}

impl AsMut<[f32]> for Counted {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.data.0
    }
}

const ADD_ONE: &str = "func.func @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<64xf32>
    %y = stablehlo.add %x, %one : tensor<64xf32>
    return %y : tensor<64xf32>
}";

#[test]
fn deferred_copy_starts_with_its_destination() {
    everywhere("deferred_copy_starts_with_its_destination", |client| {
        let x = client.buffer_from_host(&[1u8, 2, 3, 4], &[4]).unwrap();
        let Some(copy) = supported(client, "deferred_download", x.download().raw(1, 2).defer()) else { return };
        assert_eq!(copy.len(), 2);
        assert_eq!(copy.start(vec![0; 2]).unwrap().wait().unwrap(), [2, 3]);
        refused(
            x.download().raw(3, 2).defer(),
            expect!["2 bytes at offset 3 are not within the 4 bytes of the buffer"],
        );
        refused(
            x.download().raw(0, 4).defer().unwrap().start(vec![0; 3]),
            expect!["the copy has 4 bytes, but its destination 3"],
        );
        refused(
            x.download().raw(0, 4).defer().unwrap().fail(ErrorCode::OK, ""),
            expect!["a copy cannot end with an error whose code is OK"],
        );
        x.download().raw(0, 4).defer().unwrap().fail(ErrorCode::ABORTED, "no memory").unwrap();
        drop(x.download().raw(0, 4).defer().unwrap());
        // On the embedded device, the buffer may be dropped before the copy starts.
        let copy = x.download().raw(0, 4).defer().unwrap();
        if client.plugin().path().is_none() {
            drop(x);
        }
        assert_eq!(copy.start(vec![0; 4]).unwrap().wait().unwrap(), [1, 2, 3, 4]);
        client.synchronize(LONG).unwrap();
    });
}

#[test]
fn view_uses_the_memory_of_another_owner() {
    everywhere("view_uses_the_memory_of_another_owner", |client| {
        let memory = client.default_device().unwrap().default_memory().unwrap();
        let shape = f32s(&[64]);
        let view = |shape: &Shape, layout: Option<&Layout>| {
            let (keep, dropped) = Counted::new();
            let keep = Box::new(keep);
            let address = std::ptr::from_ref(&keep.data).cast_mut().cast();
            // SAFETY: A4: `keep` owns 64 `f32` values at this address in host memory.
            (unsafe { memory.buffer(shape).layout(layout).view(address, None, keep) }, dropped)
        };
        let (buffer, dropped) = view(&shape, None);
        let Some(buffer) = supported(client, "create_view_of_device_buffer", buffer) else {
            assert_eq!(dropped.count(), 1, "a failed call gives the memory back");
            return;
        };
        assert_eq!(buffer.to_host::<f32>().unwrap()[..3], [0.0, 1.0, 2.0]);
        assert_eq!(dropped.count(), 0);
        drop(buffer);
        dropped.wait();

        let (wrong, dropped) = view(&f32s(&[-1]), None);
        refused(wrong, expect!["f32[-1] has negative extents or exceeds the address space"]);
        assert_eq!(dropped.count(), 1);
        refused(
            view(&f32s(&[8, 8]), Some(&Layout::new(vec![0, 0]))).0,
            expect!["{0,0} is not a layout of f32[8,8]: name each dimension once"],
        );
        let (keep, dropped) = Counted::new();
        // SAFETY: the call is rejected, so the address is not used.
        refused(
            unsafe { memory.buffer(&shape).view(std::ptr::null_mut(), None, keep) },
            expect!["the address of a buffer of f32[64] is null"],
        );
        assert_eq!(dropped.count(), 1);
    });
}

#[test]
fn upload_with_semantics_drops_the_data_once() {
    everywhere("upload_with_semantics_drops_the_data_once", |client| {
        for semantics in [
            HostBufferSemantics::ImmutableOnlyDuringCall,
            HostBufferSemantics::ImmutableUntilTransferCompletes,
            HostBufferSemantics::ImmutableZeroCopy,
        ] {
            let (data, dropped) = Counted::new();
            let device = client.default_device().unwrap();
            let buffer = client.upload(Upload::owned(data).dims(&[64]).to(&device).semantics(semantics)).unwrap();
            assert_eq!(buffer.to_host::<f32>().unwrap()[63], 63.0);
            client.synchronize(LONG).unwrap();
            if semantics != HostBufferSemantics::ImmutableZeroCopy {
                assert_eq!(dropped.count(), 1, "{semantics:?}: the transfer has ended");
            }
            drop(buffer);
            dropped.wait();
        }
        let device = client.default_device().unwrap();
        let (data, dropped) = Counted::new();
        refused(
            client.upload(Upload::owned(data).dims(&[64]).semantics(HostBufferSemantics::MutableZeroCopy)),
            expect!["a program may write data of MutableZeroCopy; use Upload::owned_mut"],
        );
        assert_eq!(dropped.count(), 1);
        refused(
            client.upload(Upload::of(&[1.0f32]).semantics(HostBufferSemantics::ImmutableZeroCopy)),
            expect!["the plugin may use data of ImmutableZeroCopy after the call; give up the data with Upload::owned"],
        );
        let (data, dropped) = Counted::new();
        drop(Upload::owned(data));
        assert_eq!(dropped.count(), 1, "the upload was not passed to a client");
        let (data, dropped) = Counted::new();
        refused(
            client.upload(Upload::owned(data).dims(&[3]).to(&device)),
            expect!["f32[3] has 3 elements, but the data has 64"],
        );
        assert_eq!(dropped.count(), 1);
    });
}

#[test]
fn program_writes_donated_host_memory() {
    everywhere("program_writes_donated_host_memory", |client| {
        let device = client.default_device().unwrap();
        let add = compile(client, ADD_ONE);
        let (data, dropped) = Counted::new();
        let x = client.upload(Upload::owned_mut(data).dims(&[64]).to(&device)).unwrap();
        let run = add.execute_with([Input::Donate(x)], &ExecuteOptions::new()).unwrap();
        run.done.wait().unwrap();
        assert_eq!(run.outputs[0].to_host::<f32>().unwrap()[..3], [1.0, 2.0, 3.0]);
        drop(run);
        dropped.wait();
        let (data, dropped) = Counted::new();
        refused(
            client.upload(Upload::owned_mut(data).dims(&[65]).to(&device)),
            expect!["f32[65] has 65 elements, but the data has 64"],
        );
        assert_eq!(dropped.count(), 1);
    });
}

#[test]
fn uploads_and_downloads_have_layouts() {
    everywhere("uploads_and_downloads_have_layouts", |client| {
        let device = client.default_device().unwrap();
        let data = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let columns = Layout::new(vec![0, 1]);
        let x = client.buffer_from_host(&data, &[2, 3]).unwrap();
        assert_eq!(x.download().layout(&columns).elements::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(x.download().layout(&Layout::row_major(2)).elements::<f32>().unwrap(), data);
        refused(
            x.download().layout(&Layout::new(vec![0])).elements::<f32>(),
            expect!["{0} is not a layout of f32[2,3]: name each dimension once"],
        );
        refused(
            x.download().layout(&columns).elements::<i32>(),
            expect!["the buffer is f32[2,3], not of element type s32"],
        );
        let in_columns = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0];
        let bytes: &[u8] = bytemuck::cast_slice(&in_columns);
        assert_eq!(x.download().layout(&columns).start::<f32>().unwrap().wait().unwrap(), in_columns);
        assert_eq!(x.download().layout(&columns).bytes().unwrap(), bytes);
        assert_eq!(x.download().layout(&columns).start_bytes().unwrap().wait().unwrap(), bytes);
        let mut place = [0.0f32; 6];
        x.download().layout(&columns).copy_to(&mut place).unwrap();
        assert_eq!(place, in_columns);
        refused(
            x.download().layout(&columns).array(),
            expect!["a HostArray is row-major, but the download has the layout {0,1}; download bytes instead"],
        );
        let tiled = columns.clone().with_tiles(vec![vec![2]]);
        assert_eq!(x.download().layout(&tiled).elements::<f32>().unwrap_err().kind(), ErrorKind::Unsupported);

        let wrong = Layout::new(vec![0, 0]);
        refused(
            client.upload(Upload::of(&data).dims(&[2, 3]).layout(&wrong).to(&device)),
            expect!["{0,0} is not a layout of f32[2,3]: name each dimension once"],
        );
        let y = client.upload(Upload::of(&data).dims(&[2, 3]).layout(&columns).to(&device));
        let Some(y) = supported(client, "upload_layout", y) else { return };
        assert_eq!(y.to_host::<f32>().unwrap(), data);
        assert_eq!(y.download().layout(&columns).elements::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(y.memory_layout().unwrap().unwrap().minor_to_major, [0, 1]);
        let bytes: &[u8] = bytemuck::cast_slice(&data);
        let y = client.upload(Upload::of(bytes).shape(&f32s(&[2, 3])).layout(&columns).to(&device)).unwrap();
        assert_eq!(y.to_host::<f32>().unwrap(), data);
        assert_eq!(y.memory_layout().unwrap().unwrap().minor_to_major, [0, 1]);
        refused(
            client.upload(Upload::of(&bytes[1..]).shape(&f32s(&[2, 3])).layout(&columns).to(&device)),
            expect!["f32[2,3] has 24 bytes on the host, but the data has 23"],
        );
        let z = client.upload(Upload::owned(data.to_vec()).dims(&[2, 3]).layout(&columns).to(&device)).unwrap();
        assert_eq!(z.to_host::<f32>().unwrap(), data);
    });
}

#[test]
fn canonical_shapes_of_each_memory() {
    everywhere("canonical_shapes_of_each_memory", |client| {
        let topology = client.topology().unwrap();
        let Some(kinds) = supported(client, "memory_kind_ids", topology.memory_kind_ids()) else { return };
        let default = client.default_device().unwrap().default_memory().unwrap().kind_id().unwrap();
        if client.plugin().path().is_none() {
            assert!(kinds.contains(&default), "{kinds:?} lack {default}");
        }
        let shape = f32s(&[2, 3]);
        let canonical = topology.canonical_shape_for_memory(default, &shape, None);
        let Some(canonical) = supported(client, "canonical_shape_for_memory", canonical) else { return };
        assert_eq!(canonical, (shape.clone(), Layout::row_major(2)));
        let wrong = Layout::new(vec![1]);
        refused(
            topology.canonical_shape_for_memory(default, &shape, Some(&wrong)),
            expect!["{1} is not a layout of f32[2,3]: name each dimension once"],
        );
        refused(
            topology.canonical_shape_for_memory(default, &f32s(&[-2]), None),
            expect!["f32[-2] has negative extents or exceeds the address space"],
        );
    });
}

#[test]
fn executables_load_with_other_options() {
    everywhere("executables_load_with_other_options", |client| {
        let program = compile(client, ADD_ONE);
        let Some(bytes) = supported(client, "serialize", program.executable().serialize()) else { return };
        let options = LoadOptions::new().with_overridden_compile_options(CompileOptions::default());
        let loaded = client.deserialize_and_load_with(&bytes, &options);
        let Some(loaded) = supported(client, "deserialize_and_load_with", loaded) else { return };
        let x = client.buffer_from_host(&[1.0f32; 64], &[64]).unwrap();
        assert_eq!(loaded.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap()[0], 2.0);
        let mut invalid = CompileOptions::default();
        invalid.num_replicas = 0;
        let options = LoadOptions::new().with_overridden_compile_options(invalid);
        assert_eq!(client.deserialize_and_load_with(&bytes, &options).unwrap_err().kind(), ErrorKind::InvalidArgument);
    });
}

#[test]
fn bitcast_keeps_the_bytes() {
    everywhere("bitcast_keeps_the_bytes", |client| {
        let x = client.buffer_from_host(&[1.0f32, -2.0], &[2]).unwrap();
        let shape = Shape::new(ElementType::U32, [2, 1]);
        let Some(bits) = supported(client, "bitcast", x.bitcast(&shape, None)) else { return };
        assert_eq!(bits.shape().unwrap(), &shape);
        assert_eq!(bits.to_host::<u32>().unwrap(), [1.0f32.to_bits(), (-2.0f32).to_bits()]);
        refused(
            x.bitcast(&f32s(&[3]), None),
            expect!["a buffer of f32[2] cannot be a buffer of f32[3]: their sizes differ"],
        );
        refused(
            x.bitcast(&f32s(&[-2]), None),
            expect!["a buffer of f32[2] cannot be a buffer of f32[-2]: their sizes differ"],
        );
        refused(
            x.bitcast(&f32s(&[2]), Some(&Layout::new(vec![1]))),
            expect!["{1} is not a layout of f32[2]: name each dimension once"],
        );
        drop(x);
        assert_eq!(bits.to_host::<u32>().unwrap()[0], 1.0f32.to_bits());
        // A run that donates the new buffer could write to the viewed memory.
        let Some(view) = supported(client, "host_view", bits.host_view::<u32>()) else { return };
        refused(
            bits.bitcast(&f32s(&[2]), None),
            expect!["the buffer's memory has external references; drop them first"],
        );
        drop(view);
        bits.delete().unwrap();
        refused(bits.bitcast(&f32s(&[2]), None), expect!["the buffer has been deleted"]);
    });
}

#[test]
fn errors_carry_payloads_and_layouts() {
    everywhere("errors_carry_payloads_and_layouts", |client| {
        let memory = client.default_device().unwrap().default_memory().unwrap();
        let shape = f32s(&[2, 3]);
        let payload = [NamedValue::new("where", "shard 3")];
        let columns = Layout::new(vec![0, 1]);
        let create = |layout: &Layout| {
            memory.buffer(&shape).layout(layout).error_with_payload(ErrorCode::DATA_LOSS, "torn", &payload)
        };
        refused(create(&Layout::new(vec![0])), expect!["{0} is not a layout of f32[2,3]: name each dimension once"]);
        let Some(buffer) = supported(client, "create_error_buffer_with", create(&columns)) else { return };
        let error = buffer.wait().unwrap_err();
        assert_eq!(error.code(), ErrorCode::DATA_LOSS, "{error}");
        let device = client.default_device().unwrap();
        let poisoned = device.poison_execution_with_payload(4321, ErrorCode::ABORTED, "stop", &payload);
        supported(client, "poison_execution_with_payload", poisoned);
        if client.plugin().path().is_none() {
            assert_eq!(error.payloads(), [("where".to_owned(), b"shard 3".to_vec())]);
            assert_eq!(buffer.memory_layout().unwrap().unwrap().minor_to_major, [0, 1]);
        }
    });
}

#[test]
fn process_states_are_checked() {
    everywhere("process_states_are_checked", |client| {
        let process = |process_index, state| ProcessInfo { process_index, incarnation: 7, state };
        let failed = |code| ProcessState::Failed { code, message: "lost".to_owned() };
        let twice = [process(0, ProcessState::Connected), process(0, ProcessState::Connected)];
        refused(client.update_global_process_info(&twice), expect!["process 0 is listed twice"]);
        refused(
            client.update_global_process_info(&[process(0, failed(ErrorCode::OK))]),
            expect!["process 0 failed with OK"],
        );
        let processes = [process(0, ProcessState::Connected), process(1, failed(ErrorCode::UNAVAILABLE))];
        match client.update_global_process_info(&processes) {
            Ok(()) => {}
            Err(error) if error.code() == ErrorCode::UNIMPLEMENTED => println!("{error}"),
            Err(error) => panic!("{error}"),
        }
    });
}
