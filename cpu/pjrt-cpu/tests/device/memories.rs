//! Tests of memory kinds, and of transfers between them.

use pjrt::{Client, Memory, Upload};

use crate::{client, compile};

fn memory(client: &Client, device: usize, kind: &str) -> Memory {
    let memories = client.devices().unwrap()[device].memories().unwrap();
    memories.into_iter().find(|memory| memory.kind().unwrap() == kind).unwrap()
}

fn in_use(client: &Client, device: usize) -> i64 {
    client.devices().unwrap()[device].memory_stats().unwrap().bytes_in_use
}

#[test]
fn buffers_move_between_devices_and_memories() {
    let client = client(2);
    let data: Vec<f32> = (0..1024u16).map(f32::from).collect();
    let first = client.buffer_from_host(&data, &[1024]).unwrap();
    assert_eq!((in_use(&client, 0), in_use(&client, 1)), (4096, 0));
    let pinned = first.copy_to(&memory(&client, 0, "pinned_host")).unwrap();
    assert_eq!(pinned.memory().unwrap().kind().unwrap(), "pinned_host");
    assert_eq!(in_use(&client, 0), 4096, "host memory does not count for a device");
    let second = pinned.copy_to(&memory(&client, 1, "device")).unwrap();
    drop((first, pinned));
    assert_eq!(second.device().unwrap().id().unwrap(), 1);
    assert_eq!((in_use(&client, 0), in_use(&client, 1)), (0, 4096));
    let back = second.copy_to(&client.devices().unwrap()[0]).unwrap();
    assert_eq!(back.to_host::<f32>().unwrap(), data);
}

#[test]
fn copies_await_pending_buffers() {
    let client = client(2);
    let program = compile(&client, crate::LOOP);
    let x = client.buffer_from_host(&[2.0f32; 4], &[4]).unwrap();
    let n = client.buffer_from_host(&[20_000i32], &[]).unwrap();
    let out = program.execute(&[&x, &n]).unwrap();
    let copies: Vec<_> = (0..2)
        .flat_map(|device| ["device", "pinned_host", "unpinned_host"].map(|kind| memory(&client, device, kind)))
        .map(|memory| out[0].copy_to(&memory).unwrap())
        .collect();
    let again = copies[3].copy_to(&memory(&client, 0, "device")).unwrap();
    for copy in copies.iter().chain([&again]) {
        assert_eq!(copy.to_host::<f32>().unwrap(), [2.0; 4]);
    }
}

#[test]
fn programs_say_where_their_results_go() {
    let client = client(1);
    let program = compile(
        &client,
        r#"func.func @main(%x: tensor<1024xf32> {mhlo.memory_kind = "pinned_host"}, %y: tensor<1024xf32>)
          -> (tensor<1024xf32> {mhlo.memory_kind = "pinned_host"}, tensor<1024xf32>, tensor<1024xf32>) {
          %0 = stablehlo.add %x, %y : tensor<1024xf32>
          %1 = stablehlo.custom_call @annotate_device_placement(%x)
            {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}}
            : (tensor<1024xf32>) -> tensor<1024xf32>
          return %0, %0, %1 : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>
        }"#,
    );
    let kinds = program.executable().output_memory_kinds().unwrap();
    assert_eq!(kinds, ["pinned_host", "device", "device"]);
    assert_eq!(program.executable().parameter_memory_kinds().unwrap(), ["pinned_host", "device"]);
    let pinned = memory(&client, 0, "pinned_host");
    let x = client.upload(Upload::of(&[1.0f32; 1024]).dims(&[1024]).to(&pinned)).unwrap();
    let y = client.buffer_from_host(&[2.0f32; 1024], &[1024]).unwrap();
    let outputs = program.execute(&[&x, &y]).unwrap();
    for (output, kind) in outputs.iter().zip(&kinds) {
        assert_eq!(&output.memory().unwrap().kind().unwrap(), kind);
    }
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [3.0; 1024]);
    assert_eq!(outputs[2].to_host::<f32>().unwrap(), [1.0; 1024]);
    drop(y);
    assert_eq!(in_use(&client, 0), 8192, "two of the results are the device's");
}

#[test]
fn unknown_kind_is_rejected() {
    let client = client(1);
    let text = r#"func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {mhlo.memory_kind = "hbm"}) {
      return %x : tensor<4xf32>
    }"#;
    let error = client.compile(&pjrt::Program::mlir(text), &Default::default()).map(drop).unwrap_err();
    assert_eq!(error.code(), pjrt::ErrorCode::INVALID_ARGUMENT, "{error}");
}
