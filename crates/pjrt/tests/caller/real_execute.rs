//! Tests compilation and runs of programs on real plugins.

use crate::block_on::block_on;
use crate::real::{compile, each_client, each_plugin};
use expect_test::{Expect, expect};
use pjrt::{CompileOptions, DeviceAssignment, ErrorKind, ExecuteOptions, Input, Program, SerializedExecutable, Upload};

const AXPY: &str = "
func.func @main(%a: tensor<f32>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.multiply %0, %x : tensor<4xf32>
  %2 = stablehlo.add %1, %y : tensor<4xf32>
  return %2 : tensor<4xf32>
}";

/// A program that adds 1 to its argument. If the argument is donated, the output may reuse the argument's memory.
const INCREMENT: &str = "
func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %one : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

/// A program that is large enough for plugins to run it on their own threads, after the call returns.
const SQUARE: &str = "
func.func @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %0 : tensor<256x256xf32>
}";

#[test]
fn axpy() {
    each_client("axpy", |client| {
        let axpy = compile(client, AXPY);
        let a = client.buffer_from_host(&[2.0f32], &[]).unwrap();
        let x = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        let y = client.buffer_from_host(&[0.5f32; 4], &[4]).unwrap();
        // The inputs can be used in several runs.
        for _ in 0..3 {
            let outputs = axpy.execute(&[&a, &x, &y]).unwrap();
            assert_eq!(outputs.len(), 1);
            assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.5, 4.5, 6.5, 8.5]);
        }
        // An output can be the input of another run.
        let once = axpy.execute(&[&a, &x, &y]).unwrap();
        let twice = axpy.execute(&[&a, &once[0], &y]).unwrap();
        assert_eq!(twice[0].to_host::<f32>().unwrap(), [5.5, 9.5, 13.5, 17.5]);
        assert_eq!(x.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0], "inputs stay");
    });
}

#[test]
fn wrong_arguments_never_reach_the_plugin() {
    each_client("wrong_arguments", |client| {
        let axpy = compile(client, AXPY);
        let expected: Vec<String> = axpy.parameters().unwrap().iter().map(|p| p.shape().unwrap().to_string()).collect();
        assert_eq!(expected, ["f32[]", "f32[4]", "f32[4]"]);
        let a = client.buffer_from_host(&[2.0f32], &[]).unwrap();
        let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        let error = |inputs: &[&pjrt::Buffer]| {
            let error = axpy.execute(inputs).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            error.to_string()
        };
        let refused = |inputs: &[&pjrt::Buffer], expected: Expect| expected.assert_eq(&error(inputs));
        refused(&[], expect!["the program has 3 parameters, but 0 arguments were given"]);
        refused(&[&a, &x, &x, &x], expect!["the program has 3 parameters, but 4 arguments were given"]);
        // XLA's CPU plugins check only the size in bytes. They would read the integers and the 2x2 matrix as `f32[4]`.
        let ints = client.buffer_from_host(&[1i32; 4], &[4]).unwrap();
        refused(&[&a, &x, &ints], expect!["argument 2 is s32[4], but the program expects f32[4]"]);
        let square = client.buffer_from_host(&[1.0f32; 4], &[2, 2]).unwrap();
        refused(&[&a, &square, &x], expect!["argument 1 is f32[2,2], but the program expects f32[4]"]);
        let short = client.buffer_from_host(&[1.0f32; 2], &[2]).unwrap();
        refused(&[&a, &x, &short], expect!["argument 2 is f32[2], but the program expects f32[4]"]);
        if let devices @ [_, second, ..] = &client.addressable_devices().unwrap()[..] {
            let elsewhere = client.upload(Upload::of(&[1.0f32; 4]).dims(&[4]).to(second)).unwrap();
            // The device ids differ between plugins, so replace them in the message.
            let mut elsewhere = error(&[&a, &x, &elsewhere]);
            for (device, name) in devices.iter().zip(["FIRST", "SECOND"]) {
                elsewhere = elsewhere.replace(&format!("device {}", device.id().unwrap()), &format!("device {name}"));
            }
            expect!["argument 2 is on device SECOND, but the program runs on device FIRST"].assert_eq(&elsewhere);
        } else {
            eprintln!("SKIPPED wrong_arguments, a buffer on another device: the client has one device");
        }
        let other = client.plugin().client(&pjrt::ClientOptions::new()).unwrap();
        let stranger = other.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        refused(&[&a, &x, &stranger], expect!["argument 2 belongs to another client than the program"]);
    });
}

#[test]
fn buffers_of_another_plugin_are_refused() {
    each_client("buffers_of_another_plugin", |client| {
        let axpy = compile(client, AXPY);
        each_client("buffers_of_another_plugin (the other)", |other| {
            let x = other.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
            assert_eq!(axpy.execute(&[&x, &x, &x]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        });
    });
}

#[test]
fn inputs_by_reference_are_never_donated() {
    each_client("donation", |client| {
        let increment = compile(client, INCREMENT);
        let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        for _ in 0..3 {
            let outputs = increment.execute(&[&x]).unwrap();
            assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.0; 4]);
            assert!(!x.is_deleted().unwrap());
        }
        assert_eq!(x.to_host::<f32>().unwrap(), [1.0; 4]);
        // Each run of this chain may reuse the memory of its donated input.
        let mut x = x;
        for _ in 0..10 {
            let mut run = increment.execute_with([Input::Donate(x)], &ExecuteOptions::default()).unwrap();
            run.done.wait().unwrap();
            x = run.outputs.pop().unwrap();
        }
        assert_eq!(x.to_host::<f32>().unwrap(), [11.0; 4]);
    });
}

#[test]
fn many_inputs_and_outputs() {
    each_client("many_inputs_and_outputs", |client| {
        for n in [0usize, 1, 8, 9, 32, 200] {
            let arguments: Vec<String> = (0..n).map(|i| format!("%a{i}: tensor<2xf32>")).collect();
            let values: Vec<String> = (0..n).rev().map(|i| format!("%a{i}")).collect();
            let types = vec!["tensor<2xf32>"; n].join(", ");
            let (arguments, values) = (arguments.join(", "), values.join(", "));
            let colon = if n == 0 { "" } else { ":" };
            let text = format!("func.func @main({arguments}) -> ({types}) {{ return {values} {colon} {types} }}");
            let reverse = compile(client, &text);
            assert_eq!((reverse.num_outputs(), reverse.parameters().unwrap().len()), (n, n));
            let data: Vec<[f32; 2]> = (0u16..).take(n).map(|i| [f32::from(i), 0.5]).collect();
            let inputs: Vec<_> = data.iter().map(|data| client.buffer_from_host(data, &[2]).unwrap()).collect();
            let outputs = reverse.execute(&inputs.iter().collect::<Vec<_>>()).unwrap();
            let back: Vec<Vec<f32>> = outputs.iter().map(|output| output.to_host().unwrap()).collect();
            assert_eq!(back, data.iter().rev().map(|data| data.to_vec()).collect::<Vec<_>>());
            // Donate every second input.
            let mixed: Vec<Input<'_>> = inputs
                .iter()
                .enumerate()
                .map(|(i, input)| match i % 2 {
                    0 => Input::Borrow(input),
                    _ => Input::Donate(client.buffer_from_host(&data[i], &[2]).unwrap()),
                })
                .collect();
            let run = reverse.execute_with(mixed, &ExecuteOptions::default()).unwrap();
            run.done.wait().unwrap();
            let again: Vec<Vec<f32>> = run.outputs.iter().map(|output| output.to_host().unwrap()).collect();
            assert_eq!(again, back);
        }
    });
}

#[test]
fn several_devices() {
    each_client("several_devices", |client| {
        let devices = client.addressable_devices().unwrap();
        if devices.len() < 2 {
            return eprintln!("SKIPPED several_devices: the client has {} devices", devices.len());
        }
        let ids: Vec<i64> = devices[..2].iter().map(|device| device.id().unwrap().into()).collect();
        let options = CompileOptions::default()
            .with_num_replicas(2)
            .with_device_assignment(DeviceAssignment::new(2, 1, ids.clone()).unwrap());
        let increment = client.compile(&Program::mlir(INCREMENT), &options).unwrap();
        assert_eq!(increment.addressable_devices(), &devices[..2]);
        assert_eq!(increment.device_assignment().map(|a| a.devices().to_vec()).ok(), Some(ids));
        let place = |value: f32, i: usize| client.upload(Upload::of(&[value; 4]).dims(&[4]).to(&devices[i])).unwrap();
        let (a, b) = (place(1.0, 0), place(5.0, 1));
        let options = ExecuteOptions::default();
        let run = increment.execute_sharded(vec![vec![(&a).into()], vec![b.into()]], &options).unwrap();
        for done in &run.done {
            done.wait().unwrap();
        }
        assert_eq!(run.outputs[0][0].to_host::<f32>().unwrap(), [2.0; 4]);
        assert_eq!(run.outputs[1][0].to_host::<f32>().unwrap(), [6.0; 4]);
        assert_eq!(run.outputs[1][0].device().unwrap(), devices[1]);
        assert_eq!(a.to_host::<f32>().unwrap(), [1.0; 4], "borrowed on one device, donated on none");
        let error = increment.execute(&[&a]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        expect!["the program runs on 2 devices; use execute_sharded"].assert_eq(&error.to_string());
        assert!(increment.execute_sharded(vec![vec![(&a).into()]], &options).is_err());
    });
}

#[test]
fn portable_program_runs_on_selected_device() {
    each_client("portable", |client| {
        let devices = client.addressable_devices().unwrap();
        let options = CompileOptions::default().with_portable_executable(true);
        let increment = client.compile(&Program::mlir(INCREMENT), &options).unwrap();
        for device in &devices {
            let x = client.upload(Upload::of(&[1.0f32; 4]).dims(&[4]).to(device)).unwrap();
            let options = ExecuteOptions::new().with_device(device);
            let run = increment.execute_with([Input::Borrow(&x)], &options).unwrap();
            run.done.wait().unwrap();
            assert_eq!(run.outputs[0].device().unwrap(), *device);
            assert_eq!(run.outputs[0].to_host::<f32>().unwrap(), [2.0; 4]);
        }
    });
}

#[test]
fn bad_programs_return_plugin_message() {
    each_client("bad_programs", |client| {
        let options = CompileOptions::default();
        for text in ["", "nonsense", "func.func @main() -> tensor<f32> { return %x : tensor<f32> }"] {
            let error = client.compile(&Program::mlir(text), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Plugin);
            assert_eq!(error.function(), Some("PJRT_Client_Compile"));
            assert!(!error.message().is_empty());
        }
        let error = client.compile(&Program::new("no such format", "x"), &options).unwrap_err();
        assert!(error.to_string().contains("no such format"), "{error}");
        assert!(client.compile_with_raw_options(&Program::mlir(AXPY), &[0xff; 9]).is_err());
        for (num_replicas, num_partitions) in [(0, 1), (1, -1), (i64::MAX, i64::MAX), (1 << 16, 1 << 16)] {
            let options = CompileOptions::default().with_num_replicas(num_replicas).with_num_partitions(num_partitions);
            let error = client.compile(&Program::mlir(AXPY), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert!(client.lookup_device(12345).is_err());
    });
}

#[test]
fn serialized_executables_outlive_client() {
    each_plugin("serialize", |plugin| {
        let client = plugin.client(&pjrt::ClientOptions::new()).unwrap();
        let stored = compile(&client, AXPY).executable().serialize().unwrap().into_bytes();
        let mut altered = stored.clone();
        altered[stored.len() / 2] ^= 1;
        assert!(SerializedExecutable::from_bytes(altered).is_err());
        let serialized = SerializedExecutable::from_bytes(stored).unwrap();
        each_client("serialize (the other)", |other| {
            let Err(error) = other.deserialize_and_load(&serialized) else {
                return assert_eq!(other.plugin(), *plugin);
            };
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            // The rest of the message lists the differences between the two plugins, which depend on the plugins.
            let rule = error.message().split(": ").next().unwrap();
            expect!["a serialized executable can be loaded only by the plugin that made it"].assert_eq(rule);
        });
        let axpy = client.deserialize_and_load(&serialized).unwrap();
        let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        let a = client.buffer_from_host(&[3.0f32], &[]).unwrap();
        drop(client);
        let outputs = axpy.execute(&[&a, &x, &x]).unwrap();
        drop((a, x));
        let executable = axpy.executable();
        assert_eq!(executable.name().unwrap(), "main");
        assert_eq!(executable.num_outputs().unwrap(), 1);
        assert_eq!((executable.num_replicas().unwrap(), executable.num_partitions().unwrap()), (1, 1));
        assert_eq!(executable.output_shapes().unwrap()[0].to_string(), "f32[4]");
        let program = executable.optimized_program().unwrap();
        assert!(!program.code().is_empty() && program.format().starts_with("hlo"), "{}", program.format());
        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [4.0; 4]);
    });
}

#[test]
fn metadata_is_an_answer_or_unsupported() {
    fn ok<T: std::fmt::Debug>(name: &str, result: Result<T, pjrt::Error>) {
        match result {
            Ok(value) => eprintln!("  {name}: {value:?}"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Plugin), "{name}: {error}")
            }
        }
    }
    each_client("metadata", |client| {
        ok("topology", client.topology().and_then(|topology| topology.platform_name()));
        ok("topology attributes", client.topology().and_then(|topology| topology.attributes()));
        ok("topology fingerprint", client.topology().and_then(|topology| topology.fingerprint()));
        ok(
            "topology bytes",
            client.topology().and_then(|topology| topology.serialize()).map(|bytes| bytes.payload().len()),
        );
        ok("topology devices", client.topology().and_then(|topology| topology.device_descriptions()).map(|d| d.len()));
        assert_eq!(client.process_index().unwrap(), 0);
        assert_eq!(client.default_device_assignment(2, 1).unwrap().devices().len(), 2);
        assert!(client.default_device_assignment(0, 1).is_err());
        for memory in client.memories().unwrap() {
            ok("memory", Ok((memory.id(), memory.kind(), memory.kind_id(), memory.display_string())));
            assert!(!memory.devices().unwrap().is_empty());
        }
        let devices = client.devices().unwrap();
        for device in &devices {
            let description = device.description().unwrap();
            let id = device.id().unwrap();
            assert_eq!(client.lookup_device(id).unwrap(), *device);
            let local = device.local_hardware_id().unwrap();
            assert_eq!(client.lookup_addressable_device(local).unwrap(), *device);
            assert!(device.is_addressable().unwrap());
            assert!(!description.debug_string().unwrap().is_empty());
            assert!(!description.display_string().unwrap().is_empty());
            assert!(!device.kind().unwrap().is_empty());
            assert!(device.memories().unwrap().contains(&device.default_memory().unwrap()));
            ok("attributes", description.attributes());
            ok("memory stats", device.memory_stats());
            ok("clear", device.clear_memory_stats());
            ok("device attributes", device.attributes());
        }
        let mut axpy = compile(client, AXPY);
        let executable = axpy.executable();
        ok("fingerprint", executable.fingerprint());
        ok("code size", executable.size_of_generated_code());
        ok("cost", executable.cost_analysis());
        ok("memory", executable.compiled_memory_stats());
        ok("parameter kinds", executable.parameter_memory_kinds());
        ok("output kinds", executable.output_memory_kinds());
        ok("options", executable.compile_options());
        ok("logical ids", axpy.logical_device_ids());
        ok("assignment", axpy.device_assignment());
        if let Some(layouts) = client.plugin().extension::<pjrt::extensions::Layouts>() {
            let shape = pjrt::Shape::new(pjrt::ElementType::F32, [2, 3]);
            assert_eq!(layouts.default_layout(client, &shape).unwrap(), "{1,0}");
            // Each of these shapes would make XLA's plugins abort the process.
            let f32s = |extents: &[i64]| pjrt::Shape::new(pjrt::ElementType::F32, extents);
            let token = pjrt::Shape::new(pjrt::ElementType::Token, []);
            for shape in [f32s(&[-5]), f32s(&[i64::MAX, i64::MAX]), token] {
                let error = layouts.default_layout(client, &shape).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                if let Ok(topology) = client.topology() {
                    let error = layouts.topology_default_layout(&topology, &shape).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                }
            }
            for _ in 0..3 {
                // Query the layouts several times, because the executable owns the returned layouts and they must not
                // be destroyed.
                assert_eq!(layouts.output_layouts(executable).unwrap(), ["{0}"]);
            }
            ok("parameter layouts", layouts.parameter_layouts(executable));
        }
        axpy.delete().unwrap();
        assert!(axpy.is_deleted().unwrap());
        let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        let a = client.buffer_from_host(&[1.0f32], &[]).unwrap();
        let error = axpy.execute(&[&a, &x, &x]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        expect!["the executable has been deleted"].assert_eq(&error.to_string());
    });
}

#[test]
fn topologies_compile_without_a_client() {
    each_client("topologies", |client| {
        let compiled = client.topology().and_then(|t| t.compile(&Program::mlir(AXPY), &CompileOptions::default()));
        let executable = match compiled {
            Ok(executable) => executable,
            Err(error) => return eprintln!("  no ahead-of-time compilation: {error}"),
        };
        assert_eq!(executable.output_shapes().unwrap().len(), 1);
        match client.load_executable(&executable, &CompileOptions::default()) {
            Ok(axpy) => {
                let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
                let a = client.buffer_from_host(&[1.0f32], &[]).unwrap();
                assert_eq!(axpy.execute(&[&a, &x, &x]).unwrap()[0].to_host::<f32>().unwrap(), [2.0; 4]);
            }
            Err(error) => eprintln!("  compiled, but not loaded: {error}"),
        }
    });
}

#[test]
fn threads_share_a_client() {
    each_client("threads", |client| {
        let axpy = compile(client, AXPY);
        let weights = client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0u8..8 {
                let (axpy, weights) = (&axpy, &weights);
                scope.spawn(move || {
                    let a = client.buffer_from_host(&[f32::from(thread)], &[]).unwrap();
                    for _ in 0..200 {
                        let outputs = axpy.execute(&[&a, weights, weights]).unwrap();
                        let a = f32::from(thread) + 1.0;
                        assert_eq!(outputs[0].to_host::<f32>().unwrap(), [a, 2.0 * a, 3.0 * a, 4.0 * a]);
                    }
                });
            }
        });
    });
}

#[test]
fn runs_and_copies_are_futures() {
    each_client("futures", |client| {
        let n = 256usize;
        let square = compile(client, SQUARE);
        let x = client.upload(Upload::owned::<f32, _>(vec![1.0; n * n]).dims(&[256, 256])).unwrap();
        let value = block_on(async {
            let run = square.execute_with([Input::Borrow(&x)], &ExecuteOptions::default())?;
            run.done.await?;
            run.outputs[0].ready_event()?.await?;
            run.outputs[0].download().start::<f32>()?.await
        });
        assert_eq!(value.unwrap(), vec![256.0f32; n * n]);
        for _ in 0..50 {
            // Start a run, and drop or leak its downloads before they have ended.
            let run = square.execute_with([Input::Borrow(&x)], &ExecuteOptions::default()).unwrap();
            drop(run.outputs[0].download().start::<f32>().unwrap());
            std::mem::forget(run.outputs[0].download().start::<f32>().unwrap());
        }
    });
}

#[test]
fn everything_may_go_while_programs_run() {
    each_plugin("in_flight", |plugin| {
        for round in 0..5 {
            let client = plugin.client(&pjrt::ClientOptions::new()).unwrap();
            let square = compile(&client, SQUARE);
            let mut x = client.buffer_from_host(&vec![0.5f32; 256 * 256], &[256, 256]).unwrap();
            for _ in 0..10 {
                x = square.execute(&[&x]).unwrap().pop().unwrap();
            }
            match round {
                0 => drop((client, square, x)),
                1 => drop((square, x, client)),
                2 => drop((x, client, square)),
                3 => {
                    let event = x.ready_event().unwrap();
                    drop((x, client, square));
                    event.wait().unwrap();
                }
                _ => {
                    // The callback drops the last handles of the client.
                    let (sender, receiver) = std::sync::mpsc::channel();
                    let event = x.ready_event().unwrap();
                    let last = move |result| {
                        drop((x, client, square));
                        sender.send(result).unwrap();
                    };
                    event.on_ready(last).unwrap();
                    drop(event);
                    receiver.recv().unwrap().unwrap();
                }
            }
        }
    });
}

#[test]
fn error_follows_data() {
    each_client("error_buffer", |client| {
        let increment = compile(client, INCREMENT);
        let memory = client.default_device().unwrap().default_memory().unwrap();
        let shape = pjrt::Shape::new(pjrt::ElementType::F32, [4]);
        let code = pjrt::ErrorCode::DATA_LOSS;
        let broken = match memory.buffer(&shape).error(code, "lost on the way") {
            Ok(broken) => broken,
            Err(error) => return assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
        };
        let told = |error: pjrt::Error| {
            assert_eq!(error.kind(), ErrorKind::Plugin, "{error}");
            assert!(error.message().contains("lost on the way"), "{error}");
        };
        told(broken.wait().unwrap_err());
        told(broken.wait().unwrap_err());
        told(broken.to_host::<f32>().unwrap_err());
        told(block_on(broken.ready_event().unwrap()).unwrap_err());
        told(block_on(broken.download().start::<f32>().unwrap()).unwrap_err());
        match increment.execute_with([Input::Borrow(&broken)], &ExecuteOptions::default()) {
            Ok(run) => {
                // The event of the run and all reads of its outputs return the error. In particular, reads do not
                // return zeros.
                told(run.done.wait().unwrap_err());
                told(run.outputs[0].to_host::<f32>().unwrap_err());
            }
            Err(error) => told(error),
        }
    });
}
