//! Tests of programs that are built with `stablehlo::builder`.

use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::ir::{ComparisonDirection, ElementType, Module, TensorType};
use pjrt::{Buffer, Client, CompileOptions, ExecuteOptions, Input, LoadedExecutable, Program, Upload};
use stablehlo::Result;
use stablehlo::builder::*;

use super::client;

fn floats(f: &FunctionBuilder, shape: &[i64]) -> Value {
    f.argument(TensorType::new(shape, ElementType::F32)).unwrap()
}

fn build<R: Values>(body: impl FnOnce(&FunctionBuilder) -> Result<R>) -> Module {
    let module = ModuleBuilder::new("built");
    module.function("main", body).unwrap();
    module.build().unwrap()
}

fn compile(client: &Client, module: &Module) -> LoadedExecutable {
    let program = Program::for_plugin(module, &client.plugin()).unwrap();
    client.compile(&program, &CompileOptions::default()).unwrap_or_else(|error| panic!("{error}\n{module}"))
}

fn numbers(buffer: &Buffer) -> Vec<f32> {
    buffer.to_host::<f32>().unwrap()
}

/// The program makes one step of gradient descent for a layer with a mean squared error, and returns the loss before
/// the step.
#[test]
fn training_step() {
    let module = build(|f| {
        f.numpy_broadcasting(true);
        let w = f.argument(Argument::new(TensorType::new([3, 1], ElementType::F32)).donated_to(0))?;
        let (x, y) = (floats(f, &[4, 3]), floats(f, &[4, 1]));
        let zero = f.constant(0f32)?;
        let error = f.subtract(f.dot(x, w)?, y)?;
        let squares = f.multiply(error, error)?;
        let loss = f.divide(f.reduce(squares, zero, &[0, 1], |a, b| f.add(a, b))?, f.constant(4f32)?)?;
        let gradient = f.dot_general(x, error, DotGeneral::new().contracting([0], [0]))?;
        let step = f.multiply(gradient, f.constant(0.05f32)?)?;
        Ok((f.subtract(w, step)?, loss))
    });
    let client = client(1);
    let step = compile(&client, &module);
    let features: Vec<f32> = vec![1.0, 0.0, 0.5, 0.0, 1.0, -0.5, 1.0, 1.0, 1.0, 0.5, -1.0, 0.0];
    let truth = [2.0, -1.0, 0.5];
    let targets: Vec<f32> =
        features.chunks(3).map(|row| row.iter().zip(truth).map(|(value, weight)| value * weight).sum()).collect();
    let x = client.buffer_from_host(&features, &[4, 3]).unwrap();
    let y = client.buffer_from_host(&targets, &[4, 1]).unwrap();
    let mut w = client.buffer_from_host(&[0f32; 3], &[3, 1]).unwrap();
    let mut losses = Vec::new();
    for _ in 0..400 {
        let inputs: Vec<Input<'_>> = vec![w.into(), (&x).into(), (&y).into()];
        let mut outputs = step.execute_with(inputs, &ExecuteOptions::default()).unwrap().outputs;
        losses.push(numbers(&outputs[1])[0]);
        w = outputs.remove(0);
    }
    let first = targets.iter().map(|target| target * target).sum::<f32>() / 4.0;
    assert!((losses[0] - first).abs() < 1e-5, "{} instead of {first}", losses[0]);
    assert!(losses[399] < 1e-3 * losses[0], "{losses:?}");
    for (found, expected) in numbers(&w).iter().zip(truth) {
        assert!((found - expected).abs() < 0.1, "{:?}", numbers(&w));
    }
}

#[test]
fn loop_with_branches() {
    // Count the steps of the Collatz sequence until it reaches 1, and double the count.
    let module = build(|f| {
        let start = f.argument(TensorType::new([], ElementType::I32))?;
        let [one, two, three] = [1, 2, 3].map(|number| f.constant(number).unwrap());
        let (_, steps) = f.while_(
            (start, f.constant(0i32)?),
            |(n, _)| f.compare(n, ComparisonDirection::Ne, one),
            |(n, steps)| {
                let odd = f.compare(f.and(n, one)?, ComparisonDirection::Eq, one)?;
                let next = f.if_(odd, || f.add(f.multiply(n, three)?, one), || f.divide(n, two))?;
                Ok((next, f.add(steps, one)?))
            },
        )?;
        f.case(f.constant(1i32)?, 2, |branch| if branch == 0 { f.negate(steps) } else { f.add(steps, steps) })
    });
    let client = client(1);
    let collatz = compile(&client, &module);
    let start = client.buffer_from_host(&[27i32], &[]).unwrap();
    assert_eq!(collatz.execute(&[&start]).unwrap()[0].to_host::<i32>().unwrap(), [222]);
}

#[test]
fn sort_gather_and_scatter() {
    let module = build(|f| {
        let keys = floats(f, &[5]);
        let positions = f.iota(TensorType::new([5], ElementType::I32), 0)?;
        let (sorted, order) =
            f.sort((keys, positions), 0, true, |a, b| f.compare(a.0, ComparisonDirection::Lt, b.0))?;
        let rows = Gather::new([1]).collapsed_slice_dims([0]).start_index_map([0]).index_vector_dim(1usize);
        let gathered = f.gather(keys, order, rows)?;
        let options =
            Scatter::new().inserted_window_dims([0]).scatter_dims_to_operand_dims([0]).index_vector_dim(1usize);
        // Element 0 is updated twice, so both updates are added.
        let indices = f.constant_slice(&[0i32, 3, 0], &[3])?;
        let updates = f.constant_slice(&[10f32, 20.0, 30.0], &[3])?;
        let scattered = f.scatter(f.splat(1f32, &[5])?, indices, updates, options, |old, new| f.add(old, new))?;
        let pooled = f.reduce_window(
            keys,
            f.constant(f32::NEG_INFINITY)?,
            WindowOptions::new([2]).strides([2]).padding([(0, 1)]),
            |a, b| f.maximum(a, b),
        )?;
        Ok([sorted, gathered, scattered, pooled])
    });
    let client = client(1);
    let keys = client.buffer_from_host(&[3f32, -1.0, 2.0, 9.0, 0.0], &[5]).unwrap();
    let outputs: Vec<_> = compile(&client, &module).execute(&[&keys]).unwrap().iter().map(numbers).collect();
    assert_eq!(outputs[0], [-1.0, 0.0, 2.0, 3.0, 9.0]);
    assert_eq!(outputs[1], outputs[0]);
    assert_eq!(outputs[2], [41.0, 1.0, 1.0, 21.0, 1.0]);
    assert_eq!(outputs[3], [3.0, 9.0, 0.0]);
}

#[test]
fn calls_and_composites() {
    let module = ModuleBuilder::new("calls");
    let ty = TensorType::new([3], ElementType::F32);
    let silu = module.function("silu", |f| {
        let x = f.private().argument(&ty)?;
        f.multiply(x, f.logistic(x)?)
    });
    let silu = silu.unwrap();
    let main = module.function("main", |f| {
        let x = f.argument(&ty)?;
        let called = f.call(&silu, [x])?[0];
        let composed = f.composite("my.silu", &silu, [x], Vec::new(), 0)?[0];
        f.subtract(called, composed)
    });
    main.unwrap();
    let client = client(1);
    let executable = compile(&client, &module.build().unwrap());
    let x = client.buffer_from_host(&[1f32, -2.0, 0.5], &[3]).unwrap();
    assert_eq!(numbers(&executable.execute(&[&x]).unwrap()[0]), [0.0; 3]);
}

#[test]
fn collectives_on_two_devices() {
    let module = ModuleBuilder::new("collectives");
    module.replicas(2);
    let main = module.function("main", |f| {
        let x = floats(f, &[2]);
        let both = || Collective::groups([[0, 1]]);
        let sum = f.all_reduce(x, both(), |a, b| f.add(a, b))?;
        let all = f.all_gather(x, 0, both())?;
        let part = f.reduce_scatter(x, 0, both(), |a, b| f.maximum(a, b))?;
        let other = f.collective_permute(x, &[[0, 1], [1, 0]], 0)?;
        let exchanged = f.all_to_all(x, 0, 0, 2, both())?;
        let first = f.collective_broadcast(x, both())?;
        let replica = f.convert(f.replica_id()?, ElementType::F32)?;
        Ok(vec![sum, all, part, other, exchanged, first, replica])
    });
    main.unwrap();
    let module = module.build().unwrap();
    let client = client(2);
    let artifact = Program::for_plugin(&module, &client.plugin()).unwrap();
    assert_eq!(artifact.format(), "mlir");
    let hlo = Program::hlo(stablehlo::write_hlo(&module).unwrap());
    for program in [artifact, hlo] {
        let options = CompileOptions::default().with_num_replicas(2);
        let executable = client.compile(&program, &options).unwrap();
        let devices = client.addressable_devices().unwrap();
        let upload = |values: [f32; 2], device: usize| {
            client.upload(Upload::of(&values).dims(&[2]).to(&devices[device])).unwrap()
        };
        let (first, second) = (upload([1.0, 5.0], 0), upload([10.0, 2.0], 1));
        let inputs = vec![vec![Input::from(&first)], vec![Input::from(&second)]];
        let outputs = executable.execute_sharded(inputs, &ExecuteOptions::default()).unwrap().outputs;
        let values: Vec<Vec<Vec<f32>>> = outputs.iter().map(|device| device.iter().map(numbers).collect()).collect();
        let (sum, all, first) = (vec![11.0, 7.0], vec![1.0, 5.0, 10.0, 2.0], vec![1.0, 5.0]);
        let received = [vec![10.0], vec![10.0, 2.0], vec![1.0, 10.0]];
        let [part, other, exchanged] = received;
        assert_eq!(values[0], [sum.clone(), all.clone(), part, other, exchanged, first.clone(), vec![0.0]]);
        let [part, other, exchanged] = [vec![5.0], vec![1.0, 5.0], vec![5.0, 2.0]];
        assert_eq!(values[1], [sum, all, part, other, exchanged, first, vec![1.0]]);
    }
}

#[test]
fn donation_is_written_as_hlo() {
    let ty = TensorType::new([1024], ElementType::F32);
    let arguments = [Argument::new(&ty), Argument::new(&ty).donated_to(0), Argument::new(&ty).donated()];
    let used = arguments.map(|argument| {
        let module = build(|f| {
            let x = f.argument(argument)?;
            f.add(x, x)
        });
        let client = client(1);
        let hlo = Program::hlo(stablehlo::write_hlo(&module).unwrap());
        let double = client.compile(&hlo, &CompileOptions::default()).unwrap();
        let x = client.buffer_from_host(&[1f32; 1024], &[1024]).unwrap();
        let in_use = || client.devices().unwrap()[0].memory_stats().unwrap();
        let before = in_use().num_allocs;
        let outputs = double.execute_with([Input::Donate(x)], &ExecuteOptions::default()).unwrap().outputs;
        assert_eq!(numbers(&outputs[0]), [2.0; 1024]);
        in_use().num_allocs.unwrap() - before.unwrap()
    });
    assert_eq!(used, [1, 0, 0], "a donated argument becomes the result");
}
