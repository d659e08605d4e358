//! Tests of one program on several devices at once.

use pjrt::{Client, CompileOptions, ErrorCode, Input, LoadedExecutable, Program, Upload};

use crate::{INCREMENT, client};

pub(crate) fn replicated(client: &Client, text: &str, replicas: i64) -> LoadedExecutable {
    let options = CompileOptions::default().with_num_replicas(replicas);
    client.compile(&Program::mlir(text), &options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs a program on all devices. Each device's input is filled with the index of the device.
pub(crate) fn run(client: &Client, program: &LoadedExecutable) -> Vec<Vec<f32>> {
    let input = |(device, number): (&pjrt::Device, i16)| {
        client.upload(Upload::of(&[f32::from(number); 4]).dims(&[4]).to(device)).unwrap()
    };
    let inputs: Vec<_> = program.addressable_devices().iter().zip(0..).map(input).collect();
    let inputs = inputs.into_iter().map(|input| vec![Input::Donate(input)]).collect();
    let launched = program.execute_sharded(inputs, &Default::default()).unwrap();
    launched.done.iter().for_each(|done| done.wait().unwrap());
    launched.outputs.iter().map(|outputs| outputs[0].to_host().unwrap()).collect()
}

#[test]
fn replicas_run_on_their_own() {
    let client = client(4);
    let program = replicated(&client, INCREMENT, 4);
    assert_eq!(run(&client, &program), [[1.0; 4], [2.0; 4], [3.0; 4], [4.0; 4]]);
}

pub(crate) const ALL_REDUCE: &str = r#"
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"#;

#[test]
fn waiting_members_need_no_more_threads() {
    // Use more members than most test machines have cores, and several launches at once.
    let client = client(8);
    let program = replicated(&client, ALL_REDUCE, 8);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(run(&client, &program), [[28.0; 4]; 8]);
                }
            });
        }
    });
}

#[test]
fn failed_member_fails_launch() {
    let client = client(8);
    let program = replicated(&client, ALL_REDUCE, 8);
    let shape = pjrt::Shape::new(pjrt::ElementType::F32, [4]);
    let input = |(at, device): (usize, &pjrt::Device)| {
        if at != 5 {
            return vec![Input::Donate(client.upload(Upload::of(&[0.0f32; 4]).dims(&[4]).to(device)).unwrap())];
        }
        let memory = device.default_memory().unwrap();
        let failed = memory.buffer(&shape).error(ErrorCode::DATA_LOSS, "the disk is lost");
        vec![Input::Donate(failed.unwrap())]
    };
    let inputs = program.addressable_devices().iter().enumerate().map(input).collect();
    let error = program.execute_sharded(inputs, &Default::default()).map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DATA_LOSS);
    assert_eq!(run(&client, &program), [[28.0; 4]; 8]);
}

#[test]
fn out_of_memory_ends_launch_on_all_devices() {
    let options = pjrt::ClientOptions::new().with("device_count", 8).with("memory_limit", "1MiB");
    let client = crate::plugin().client(&options).unwrap();
    let text = ALL_REDUCE.replace(
        "%0 =",
        "%big = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<4xf32>) -> tensor<99999x4xf32>\n  %0 =",
    );
    let text = text.replace("(%x) ({", "(%big) ({").replace(
        ": (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>",
        ": (tensor<99999x4xf32>) -> tensor<99999x4xf32>\n  %2 = stablehlo.slice %0 [0:1, 0:4] : (tensor<99999x4xf32>) -> tensor<1x4xf32>\n  %3 = stablehlo.reshape %2 : (tensor<1x4xf32>) -> tensor<4xf32>\n  return %3 : tensor<4xf32>",
    );
    let program = replicated(&client, &text, 8);
    let input = |device: &pjrt::Device| {
        vec![Input::Donate(client.upload(Upload::of(&[0.0f32; 4]).dims(&[4]).to(device)).unwrap())]
    };
    let inputs = program.addressable_devices().iter().map(input).collect();
    let launched = program.execute_sharded(inputs, &Default::default()).unwrap();
    let codes: Vec<_> = launched.done.iter().map(|done| done.wait().unwrap_err().code()).collect();
    assert!(codes.contains(&ErrorCode::RESOURCE_EXHAUSTED), "{codes:?}");
    assert!(codes.iter().all(|code| [ErrorCode::RESOURCE_EXHAUSTED, ErrorCode::ABORTED].contains(code)), "{codes:?}");
    // After a failure, the devices' threads can run other programs.
    let fits = replicated(&client, ALL_REDUCE, 8);
    assert_eq!(run(&client, &fits), [[28.0; 4]; 8]);
}

/// Runs a program with 4096 numbers on four devices. Each device's input is filled with the index of the device,
/// counted from 1. Returns the bytes in use on each device, without the arguments, and the first number of each output.
fn accounts(client: &Client, text: &str) -> (Vec<i64>, Vec<f32>) {
    let program = replicated(client, text, 4);
    let devices = program.addressable_devices();
    let in_use = || devices.iter().map(|device| device.memory_stats().unwrap().bytes_in_use).collect::<Vec<_>>();
    let input = |(device, number): (&pjrt::Device, i16)| {
        client.upload(Upload::of(&vec![f32::from(number); 4096]).dims(&[4096]).to(device)).unwrap()
    };
    let inputs: Vec<_> = devices.iter().zip(1..).map(input).collect();
    let before = in_use();
    let borrowed = inputs.iter().map(|input| vec![Input::Borrow(input)]).collect();
    let launched = program.execute_sharded(borrowed, &Default::default()).unwrap();
    launched.done.iter().for_each(|done| done.wait().unwrap());
    let after = in_use();
    let first = launched.outputs.iter().map(|outputs| outputs[0].to_host::<f32>().unwrap()[0]).collect();
    (after.iter().zip(before).map(|(after, before)| after - before).collect(), first)
}

#[test]
fn received_memory_counts_for_own_device() {
    let wide = |text: &str| text.replace("tensor<4xf32>", "tensor<4096xf32>");
    let sum = wide(&ALL_REDUCE.replace("[0, 1, 2, 3, 4, 5, 6, 7]", "[0, 1, 2, 3]").replace("1x8xi64", "1x4xi64"));
    let turn = wide(
        r#"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
             %0 = "stablehlo.collective_permute"(%x) {
               source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>
             } : (tensor<4xf32>) -> tensor<4xf32>
             return %0 : tensor<4xf32>
           }"#,
    );
    for (text, expected) in [(&sum, [10.0; 4]), (&turn, [4.0, 1.0, 2.0, 3.0])] {
        let client = client(4);
        for _ in 0..5 {
            let (used, first) = accounts(&client, text);
            assert_eq!(used, [4 * 4096; 4], "{text}");
            assert_eq!(first, expected);
        }
        for device in client.addressable_devices().unwrap() {
            assert_eq!(device.memory_stats().unwrap().bytes_in_use, 0);
        }
    }
}
