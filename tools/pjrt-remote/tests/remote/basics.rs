//! What the plugin forwards.

use pjrt::extensions::{PluginExtension as _, Shardings};
use pjrt::{
    Client, ClientOptions, CompileOptions, DeviceAssignment, ElementType, ErrorCode, ExecuteOptions, Input, Plugin,
    Program, Shape, Upload,
};

use crate::server::{MEMORY, Started, add_one};

/// Returns a client of the served plugin in this process.
fn local() -> Client {
    let plugin = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
    plugin.client(&ClientOptions::new().with("device_count", 2i64)).unwrap()
}

/// Returns everything that a client says about its devices.
fn description(client: &Client) -> String {
    let mut text = format!("{:?} {:?}\n", client.platform_name(), client.platform_version());
    for device in client.devices().unwrap() {
        let about = device.description().unwrap();
        text += &format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?}\n",
            device.id(),
            device.kind(),
            device.local_hardware_id(),
            device.attributes(),
            about.debug_string(),
            about.display_string(),
            device.default_memory().unwrap().kind(),
        );
        for memory in device.memories().unwrap() {
            text += &format!("  {:?} {:?}\n", memory.kind(), memory.kind_id());
        }
    }
    text
}

#[test]
fn descriptions_are_those_of_the_served_plugin() {
    let server = Started::unix();
    let client = server.client();
    assert_eq!(description(&client), description(&local()));
    assert_eq!(client.devices().unwrap().len(), 2);
}

#[test]
fn chain_of_launches_over_each_transport() {
    for server in [Started::unix(), Started::tcp()] {
        let client = server.client();
        let add_one = add_one(&client);
        let mut x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        // More launches than the server accepts at once, so that the client must wait for answers.
        for _ in 0..20_000 {
            x = add_one.execute(&[&x]).unwrap().into_array::<1>().unwrap().into_iter().next().unwrap();
        }
        assert_eq!(x.to_host::<f32>().unwrap(), [20_001.0, 20_002.0, 20_003.0, 20_004.0]);
    }
}

#[test]
fn uploads_of_all_sizes_and_strides_come_back() {
    let server = Started::unix();
    let client = server.client();
    for len in [0usize, 1, 1000, 20_000, 3_000_000] {
        let data: Vec<u8> = (0..=250).cycle().take(len).collect();
        let buffer = client.buffer_from_host(&data, &[i64::try_from(len).unwrap()]).unwrap();
        assert_eq!(buffer.to_host::<u8>().unwrap(), data, "{len} bytes");
    }
    let columns = [1i32, 2, 3, 4, 5, 6];
    let strided = client.upload(Upload::of(&columns).dims(&[2, 3]).strides(0, &[1, 2])).unwrap();
    assert_eq!(strided.to_host::<i32>().unwrap(), [1, 3, 5, 2, 4, 6]);
    let small = Shape::new(ElementType::S4, [3]);
    let nibbles = client.upload(Upload::of(&[1u8, 0xfe, 3]).shape(&small)).unwrap();
    assert_eq!(nibbles.download().bytes().unwrap(), [1, 0xfe, 3]);
    let columns = pjrt::Layout::new(vec![0, 1]);
    assert_eq!(strided.download().layout(&columns).bytes().unwrap().len(), 24);
}

#[test]
fn copies_go_to_other_devices_and_memories() {
    let server = Started::unix();
    let client = server.client();
    let devices = client.devices().unwrap();
    let x = client.buffer_from_host(&[7i32, 8], &[2]).unwrap();
    let y = x.copy_to(&devices[1]).unwrap();
    assert_eq!(y.device().unwrap(), devices[1]);
    let host = devices[1].memories().unwrap().into_iter().find(|m| m.kind().unwrap() == "pinned_host").unwrap();
    let z = y.copy_to(&host).unwrap();
    assert_eq!(z.memory().unwrap().kind().unwrap(), "pinned_host");
    x.delete().unwrap();
    assert_eq!(z.to_host::<i32>().unwrap(), [7, 8]);
    assert!(x.to_host::<i32>().is_err());
}

#[test]
fn donation_consumes_the_argument_and_reuses_its_memory() {
    let server = Started::unix();
    let client = server.client();
    let program = Program::mlir(
        "func.func @main(%x: tensor<1048576xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1048576xf32> {
           %y = stablehlo.add %x, %x : tensor<1048576xf32>
           return %y : tensor<1048576xf32>
         }",
    );
    let double = client.compile(&program, &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&vec![0.5f32; 1 << 20], &[1 << 20]).unwrap();
    let mut x = double.execute(&[&x]).unwrap().into_iter().next().unwrap();
    x.wait().unwrap();
    let before = Started::bytes_in_use(&client);
    assert!(before >= 4 << 20, "{before}");
    for _ in 0..3 {
        let run = double.execute_with([Input::Donate(x)], &ExecuteOptions::new()).unwrap();
        x = run.outputs.into_iter().next().unwrap();
    }
    assert_eq!(x.to_host::<f32>().unwrap()[1], 8.0);
    assert_eq!(Started::bytes_in_use(&client), before);
    // A donation that the caller excludes leaves the argument alone.
    let kept = client.buffer_from_host(&vec![1.0f32; 1 << 20], &[1 << 20]).unwrap();
    let run = double.execute(&[&kept]).unwrap();
    assert_eq!(run[0].to_host::<f32>().unwrap()[0], 2.0);
    assert_eq!(kept.to_host::<f32>().unwrap()[0], 1.0);
}

#[test]
fn program_on_two_devices_reduces_between_them() {
    let server = Started::unix();
    let client = server.client();
    let program = Program::mlir(
        r#"module @m attributes {mhlo.num_replicas = 2 : i32} {
           func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
             %y = "stablehlo.all_reduce"(%x) ({
               ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                 %s = stablehlo.add %a, %b : tensor<f32>
                 stablehlo.return %s : tensor<f32>
             }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
             return %y : tensor<2xf32>
           }
         }"#,
    );
    let assignment = DeviceAssignment::new(2, 1, vec![0, 1]).unwrap();
    let options = CompileOptions::default().with_num_replicas(2).with_device_assignment(assignment);
    let program = client.compile(&program, &options).unwrap();
    let devices = client.devices().unwrap();
    let upload = |data: &[f32], device| client.upload(Upload::of(data).to(device)).unwrap();
    for _ in 0..20 {
        let inputs = vec![
            vec![Input::from(upload(&[1.0, 2.0], &devices[0]))],
            vec![Input::from(upload(&[10.0, 20.0], &devices[1]))],
        ];
        let run = program.execute_sharded(inputs, &ExecuteOptions::new()).unwrap();
        for outputs in &run.outputs {
            assert_eq!(outputs[0].to_host::<f32>().unwrap(), [11.0, 22.0]);
        }
    }
    let shardings = Shardings::of(&client.plugin()).unwrap();
    assert!(shardings.output_shardings(program.executable()).is_ok());
}

#[test]
fn partitioned_program_takes_a_shard_on_each_device() {
    let server = Started::unix();
    let client = server.client();
    let program = Program::mlir(
        r#"module @m attributes {mhlo.num_partitions = 2 : i32} {
           func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
               -> (tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
             %y = stablehlo.add %x, %x : tensor<4xf32>
             return %y : tensor<4xf32>
           }
         }"#,
    );
    let assignment = DeviceAssignment::new(1, 2, vec![0, 1]).unwrap();
    let options = CompileOptions::default().with_num_partitions(2).with_spmd_partitioning(true);
    let double = client.compile(&program, &options.with_device_assignment(assignment)).unwrap();
    let devices = client.devices().unwrap();
    let upload = |data: &[f32], device| Input::from(client.upload(Upload::of(data).to(device)).unwrap());
    let inputs = vec![vec![upload(&[1.0, 2.0], &devices[0])], vec![upload(&[3.0, 4.0], &devices[1])]];
    let run = double.execute_sharded(inputs, &ExecuteOptions::new()).unwrap();
    let outputs = run.outputs.iter().map(|outputs| outputs[0].to_host::<f32>().unwrap());
    assert_eq!(outputs.collect::<Vec<_>>(), [[2.0, 4.0], [6.0, 8.0]]);
    let shardings = Shardings::of(&client.plugin()).unwrap();
    assert_eq!(shardings.parameter_shardings(double.executable()).unwrap().map(|all| all.len()), Some(1));
}

#[test]
fn properties_of_executables_are_those_of_the_served_plugin() {
    let server = Started::unix();
    let (remote, local) = (add_one(&server.client()), add_one(&local()));
    let (remote, local) = (remote.executable(), local.executable());
    assert_eq!(remote.name().unwrap(), local.name().unwrap());
    assert_eq!(remote.output_shapes().unwrap(), local.output_shapes().unwrap());
    assert_eq!(remote.output_memory_kinds().unwrap(), local.output_memory_kinds().unwrap());
    assert_eq!(remote.cost_analysis().unwrap(), local.cost_analysis().unwrap());
    assert_eq!(remote.compiled_memory_stats().unwrap(), local.compiled_memory_stats().unwrap());
    assert_eq!(remote.fingerprint().unwrap(), local.fingerprint().unwrap());
}

#[test]
fn errors_have_the_code_and_text_of_the_served_plugin() {
    let server = Started::unix();
    let (remote, local) = (server.client(), local());
    let wrong = Program::mlir("func.func @main() -> tensor<f32> { this is wrong }");
    let error = |client: &Client| client.compile(&wrong, &CompileOptions::default()).unwrap_err();
    assert_eq!(error(&remote).code(), error(&local).code());
    assert_eq!(error(&remote).message(), error(&local).message());
    let stats = Started::bytes_in_use(&remote);
    assert!(stats >= 0, "{stats}");
}

#[test]
fn program_of_bounded_size_is_refused() {
    let server = Started::unix();
    let bounded = Program::mlir(
        "func.func @main(%x: tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<4>> {
           return %x : tensor<?xf32, #stablehlo.bounds<4>>
         }",
    );
    let error = server.client().compile(&bounded, &CompileOptions::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED, "{error}");
    assert!(error.message().contains("bounds"), "{error}");
}

#[test]
fn failed_upload_poisons_what_depends_on_it() {
    let server = Started::unix();
    let client = server.client();
    let program = Program::mlir(
        "func.func @main(%x: tensor<33554432xf32>) -> tensor<33554432xf32> { return %x : tensor<33554432xf32> }",
    );
    let same = client.compile(&program, &CompileOptions::default()).unwrap();
    // 128 MiB exceed the limit of the client's buffers.
    const { assert!(MEMORY < 128 << 20) };
    let too_large = client.buffer_from_host(&vec![0.0f32; 32 << 20], &[32 << 20]).unwrap();
    let outputs = same.execute(&[&too_large]);
    let copy = too_large.copy_to(&client.devices().unwrap()[1]);
    let is_exhausted = |error: pjrt::Error| {
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED, "{error}");
        assert!(error.message().contains("of this client"), "{error}");
    };
    is_exhausted(too_large.wait().unwrap_err());
    is_exhausted(outputs.and_then(|outputs| outputs[0].wait()).unwrap_err());
    is_exhausted(copy.and_then(|copy| copy.wait()).unwrap_err());
    // The connection still works.
    let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
    assert_eq!(add_one(&client).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap()[3], 5.0);
}

#[test]
fn results_count_for_the_memory_limit() {
    let server = Started::unix();
    let client = server.client();
    let program = Program::mlir(
        "func.func @main(%x: tensor<f32>) -> tensor<10485760xf32> {
           %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<10485760xf32>
           return %y : tensor<10485760xf32>
         }",
    );
    let fill = client.compile(&program, &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[1.0f32], &[]).unwrap();
    // Two results of 40 MiB exceed the limit.
    const { assert!(MEMORY < 80 << 20) };
    let first = fill.execute(&[&x]).unwrap();
    first[0].wait().unwrap();
    let error = fill.execute(&[&x]).and_then(|second| second[0].to_host::<f32>()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED, "{error}");
    drop(first);
    for _ in 0..3 {
        assert_eq!(fill.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap()[0], 1.0);
    }
}

#[test]
fn threads_share_a_client() {
    let server = Started::unix();
    let client = server.client();
    let add_one = add_one(&client);
    std::thread::scope(|scope| {
        for thread in 0..4u16 {
            let (client, add_one) = (&client, &add_one);
            scope.spawn(move || {
                for _ in 0..100 {
                    let x = client.buffer_from_host(&[f32::from(thread); 4], &[4]).unwrap();
                    let y = add_one.execute(&[&x]).unwrap();
                    assert_eq!(y[0].to_host::<f32>().unwrap(), [f32::from(thread) + 1.0; 4]);
                }
            });
        }
    });
}

#[test]
fn large_arrays_of_several_threads_keep_their_contents() {
    const LENGTH: usize = 3 << 18;
    let server = Started::unix();
    let client = server.client();
    let data = |value: usize| (value..value + LENGTH).map(|number| u32::try_from(number).unwrap()).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (client, data) = (&client, &data);
            scope.spawn(move || {
                let values = (0..8).map(|index| 1000 * thread + index);
                let upload = |value| (value, client.buffer_from_host(&data(value), &[3 << 18]).unwrap());
                let buffers: Vec<_> = values.map(upload).collect();
                for (value, buffer) in buffers {
                    assert!(buffer.to_host::<u32>().unwrap() == data(value), "{value}");
                }
            });
        }
    });
}

#[test]
fn client_ends_only_its_own_runs() {
    let server = Started::unix();
    let (client, other) = (server.client(), server.client());
    let program = Program::mlir(
        "func.func @main(%x: tensor<i32>) -> tensor<i32> {
           %one = stablehlo.constant dense<1> : tensor<i32>
           %true = stablehlo.constant dense<true> : tensor<i1>
           %r = stablehlo.while(%i = %x) : tensor<i32>
             cond { stablehlo.return %true : tensor<i1> }
             do { %j = stablehlo.add %i, %one : tensor<i32>
                  stablehlo.return %j : tensor<i32> }
           return %r : tensor<i32>
         }",
    );
    let launch = |client: &Client| {
        let endless = client.compile(&program, &CompileOptions::default()).unwrap();
        let x = client.buffer_from_host(&[0i32], &[]).unwrap();
        endless.execute_with([Input::Donate(x)], &ExecuteOptions::new().with_launch_id(5)).unwrap()
    };
    let poison = |client: &Client| {
        client.default_device().unwrap().poison_execution(5, ErrorCode::ABORTED, "the reason").unwrap()
    };
    let endless = launch(&client);
    assert!(!poison(&other), "the run of another client");
    // Both give their runs the same id.
    let others = launch(&other);
    assert!(poison(&other));
    assert!(others.done.wait().unwrap_err().message().contains("the reason"));
    assert!(!endless.done.is_ready().unwrap());
    assert!(poison(&client));
    assert!(endless.done.wait().unwrap_err().message().contains("the reason"));
}
