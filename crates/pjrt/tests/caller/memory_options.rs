//! Tests less common options: deferred copies, views of other libraries' memory, layouts, host buffer semantics,
//! canonical shapes, load options and process states. The tests run on the embedded CPU device and on real plugins.

use std::time::Duration;

use crate::drops::{Drops, Reporter, reporter};
use crate::real::{compile, embedded, everywhere, refused, supported};
use pjrt::{
    CompileOptions, ElementType, ErrorCode, ErrorKind, ExecuteOptions, HostBufferSemantics, Input, Layout, LoadOptions,
    NamedValue, ProcessInfo, ProcessState, Shape, UploadOptions,
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
        let Some(copy) = supported(client, "copy_raw_to_host_future", x.copy_raw_to_host_future(1, 2)) else { return };
        assert_eq!(copy.len(), 2);
        assert_eq!(copy.start(vec![0; 2]).unwrap().wait().unwrap(), [2, 3]);
        refused(x.copy_raw_to_host_future(3, 2), "copy_raw_to_host_future", "bytes after the end");
        refused(
            x.copy_raw_to_host_future(0, 4).unwrap().start(vec![0; 3]),
            "copy_raw_to_host_future",
            "a short destination",
        );
        refused(
            x.copy_raw_to_host_future(0, 4).unwrap().fail(ErrorCode::OK, ""),
            "copy_raw_to_host_future",
            "an error with the code OK",
        );
        x.copy_raw_to_host_future(0, 4).unwrap().fail(ErrorCode::ABORTED, "no memory").unwrap();
        drop(x.copy_raw_to_host_future(0, 4).unwrap());
        // On the embedded device, the buffer may be dropped before the copy starts.
        let copy = x.copy_raw_to_host_future(0, 4).unwrap();
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
            (unsafe { client.create_view_of_device_buffer(address, shape, layout, &memory, None, keep) }, dropped)
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
        refused(wrong, "create_view_of_device_buffer", "negative extents");
        assert_eq!(dropped.count(), 1);
        refused(
            view(&f32s(&[8, 8]), Some(&Layout::new(vec![0, 0]))).0,
            "create_view_of_device_buffer",
            "a dimension twice in the layout",
        );
        let (keep, _) = Counted::new();
        // SAFETY: the call is rejected, so the address is not used.
        refused(
            unsafe { client.create_view_of_device_buffer(std::ptr::null_mut(), &shape, None, &memory, None, keep) },
            "create_view_of_device_buffer",
            "a null address",
        );
        let other = embedded();
        let (keep, dropped) = Counted::new();
        let mut data = Aligned([0.0; 64]);
        let address = (&raw mut data).cast();
        // SAFETY: the call is rejected, so the address is not used.
        let foreign = unsafe { other.create_view_of_device_buffer(address, &shape, None, &memory, None, keep) };
        refused(foreign, "create_view_of_device_buffer", "a memory of another client");
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
            let options = UploadOptions::new().with_semantics(semantics);
            let device = client.default_device().unwrap();
            let buffer = client.buffer_from_owned_with(data, &[64], &device, &options).unwrap();
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
        let options = UploadOptions::new().with_semantics(HostBufferSemantics::MutableZeroCopy);
        refused(
            client.buffer_from_owned_with(data, &[64], &device, &options),
            "buffer_from_owned_with",
            "mutable memory",
        );
        assert_eq!(dropped.count(), 1);
        let (data, dropped) = Counted::new();
        refused(
            client.buffer_from_owned_with(data, &[3], &device, &UploadOptions::new()),
            "buffer_from_owned_with",
            "fewer elements than the data",
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
        let x = client.buffer_from_owned_mut(data, &[64], &device, None).unwrap();
        let run = add.execute_with([Input::Donate(x)], &ExecuteOptions::new()).unwrap();
        run.done.wait().unwrap();
        assert_eq!(run.outputs[0].to_host::<f32>().unwrap()[..3], [1.0, 2.0, 3.0]);
        drop(run);
        dropped.wait();
        let (data, dropped) = Counted::new();
        refused(
            client.buffer_from_owned_mut(data, &[65], &device, None),
            "buffer_from_owned_mut",
            "more elements than the data",
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
        assert_eq!(x.to_host_with_layout::<f32>(&columns).unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(x.to_host_with_layout::<f32>(&Layout::row_major(2)).unwrap(), data);
        refused(x.to_host_with_layout::<f32>(&Layout::new(vec![0])), "to_host_with_layout", "a layout of another rank");
        refused(x.to_host_with_layout::<i32>(&columns), "to_host_with_layout", "integers");
        let tiled = columns.clone().with_tiles(vec![vec![2]]);
        assert_eq!(x.to_host_with_layout::<f32>(&tiled).unwrap_err().kind(), ErrorKind::Unsupported);

        let wrong = Layout::new(vec![0, 0]);
        refused(
            client.buffer_from_host_with_layout(&data, &[2, 3], &wrong, &device),
            "buffer_from_host_with_layout",
            "a dimension twice in the layout",
        );
        let y = client.buffer_from_host_with_layout(&data, &[2, 3], &columns, &device);
        let Some(y) = supported(client, "buffer_from_host_with_layout", y) else { return };
        assert_eq!(y.to_host::<f32>().unwrap(), data);
        assert_eq!(y.to_host_with_layout::<f32>(&columns).unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(y.memory_layout().unwrap().unwrap().minor_to_major, [0, 1]);
        let bytes: &[u8] = bytemuck::cast_slice(&data);
        let y = client.buffer_from_bytes_with_layout(bytes, &f32s(&[2, 3]), &columns, &device).unwrap();
        assert_eq!(y.to_host::<f32>().unwrap(), data);
        assert_eq!(y.memory_layout().unwrap().unwrap().minor_to_major, [0, 1]);
        refused(
            client.buffer_from_bytes_with_layout(&bytes[1..], &f32s(&[2, 3]), &columns, &device),
            "buffer_from_host_with_layout",
            "too few bytes",
        );
        let options = UploadOptions::new().with_device_layout(columns);
        let z = client.buffer_from_owned_with(data.to_vec(), &[2, 3], &device, &options).unwrap();
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
            "canonical_shape_for_memory",
            "a layout of another rank",
        );
        refused(
            topology.canonical_shape_for_memory(default, &f32s(&[-2]), None),
            "canonical_shape_for_memory",
            "negative extents",
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
        refused(x.bitcast(&f32s(&[3]), None), "bitcast", "a larger shape");
        refused(x.bitcast(&f32s(&[-2]), None), "bitcast", "negative extents");
        refused(x.bitcast(&f32s(&[2]), Some(&Layout::new(vec![1]))), "bitcast", "a wrong dimension in the layout");
        drop(x);
        assert_eq!(bits.to_host::<u32>().unwrap()[0], 1.0f32.to_bits());
        bits.delete().unwrap();
        refused(bits.bitcast(&f32s(&[2]), None), "bitcast", "a deleted buffer");
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
            client.create_error_buffer_with(ErrorCode::DATA_LOSS, "torn", &payload, &shape, Some(layout), &memory)
        };
        refused(create(&Layout::new(vec![0])), "create_error_buffer_with", "a layout of another rank");
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
        refused(client.update_global_process_info(&twice), "update_global_process_info", "a process twice");
        refused(
            client.update_global_process_info(&[process(0, failed(ErrorCode::OK))]),
            "update_global_process_info",
            "a failure with the code OK",
        );
        let processes = [process(0, ProcessState::Connected), process(1, failed(ErrorCode::UNAVAILABLE))];
        match client.update_global_process_info(&processes) {
            Ok(()) => {}
            Err(error) if error.code() == ErrorCode::UNIMPLEMENTED => println!("{error}"),
            Err(error) => panic!("{error}"),
        }
    });
}
