//! Divides programs at random between a device and the host, and compares the results with those of the whole program.
//! The device of these tests runs each op as a program of the CPU engine.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use host_fallback::{HostProgram, outline_unsupported, supports};
use stablehlo::VerifyLevel;
use stablehlo::ir::{Func, Module, Op, OpKind, ValueId};
use stablehlo_cpu::{DType, Pool, Program, Tensor, compile};
use stablehlo_passes::{extract, outline};

/// Number of random divisions of each program.
const DIVISIONS: u64 = 6;

fn programs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).expect("a folder of programs");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "mlir"));
    found.sort();
    assert!(!found.is_empty(), "no programs in {}", folder.display());
    found
}

/// Returns the inputs of a program: those beside it, or else small numbers.
fn inputs(path: &Path, program: &Program) -> Vec<Vec<u8>> {
    let data = std::fs::read(path.with_extension("bin")).unwrap_or_default();
    let mut rest = &data[..];
    let input = |ty: &stablehlo_cpu::TensorType| match rest.split_off(..ty.bytes()) {
        Some(bytes) => bytes.to_vec(),
        None if ty.dtype == DType::F32 => {
            (0..ty.elements()).flat_map(|at| (0.25 + (at % 7) as f32 / 8.0).to_ne_bytes()).collect()
        }
        None => (0..ty.bytes()).map(|at| u8::from(at % ty.dtype.size() == 0)).collect(),
    };
    program.parameters().iter().map(|parameter| &parameter.ty).map(input).collect()
}

fn run(program: &Program, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let tensors = inputs.iter().zip(program.parameters()).map(|(bytes, parameter)| {
        Tensor::from_bytes(Pool::global(), parameter.ty.dtype, &parameter.ty.dims, bytes).expect("a tensor")
    });
    let outputs = program.run(tensors.collect()).expect("the program runs");
    outputs.iter().map(|output| output.bytes().to_vec()).collect()
}

/// Runs the ops of the entry function one by one, and the functions that it calls on the host.
fn run_divided(module: &Module, inputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let main = module.entry().expect("an entry function");
    let mut values: HashMap<ValueId, Vec<u8>> = main.args().iter().copied().zip(inputs).collect();
    for op in &main.body.ops {
        let arrays = |ids: &[ValueId]| ids.iter().map(|id| &values[id][..]).collect::<Vec<_>>();
        let results = match &op.kind {
            OpKind::Return => return arrays(&op.operands).into_iter().map(<[u8]>::to_vec).collect(),
            OpKind::Call { callee } => {
                let program = HostProgram::compile(module, callee).expect("the host supports the function");
                let mut results: Vec<Vec<u8>> = program.output_sizes().iter().map(|&size| vec![0; size]).collect();
                let mut slices: Vec<&mut [u8]> = results.iter_mut().map(|result| &mut result[..]).collect();
                program.run(&arrays(&op.operands), &mut slices).expect("the function runs");
                results
            }
            _ => {
                let part = outline("op", [op], &op.results, &main.values).expect("an op");
                let program = compile(&extract(module, part.func)).expect("the engine supports the op");
                run(&program, &arrays(&part.operands))
            }
        };
        values.extend(op.results.iter().copied().zip(results));
    }
    panic!("the function ends in a return")
}

/// Returns whether the results are equal, or almost equal for `f32`, because the engine may round less often when it
/// joins ops.
fn agree(dtype: DType, one: &[u8], other: &[u8]) -> bool {
    let number = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let close = |(a, b): (f32, f32)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-5 * (1.0 + a.abs());
    one == other
        || dtype == DType::F32 && one.chunks(4).zip(other.chunks(4)).all(|(a, b)| close((number(a), number(b))))
}

/// Divides the programs of a folder. Returns the number of functions that were outlined.
fn divide(folder: &str) -> usize {
    let mut functions = 0;
    for path in programs(folder) {
        let text = std::fs::read_to_string(&path).expect("a program");
        let module = stablehlo::parse(text, VerifyLevel::FULL).expect("a valid program");
        let module = stablehlo::inline(&module, &[]).expect("a program with an entry function");
        let whole = compile(&module);
        let main = module.entry().expect("an entry function");
        let are_supported = main.body.ops.iter().all(|op| supports(&module, main, op).is_ok());
        assert_eq!(are_supported, whole.is_ok(), "`supports` and `compile` disagree: {}", path.display());
        // Without the feature `math`, the engine does not support all ops.
        let Ok(whole) = whole else { continue };
        let inputs = inputs(&path, &whole);
        let want = run(&whole, &inputs.iter().map(|input| &input[..]).collect::<Vec<_>>());
        for division in 0..DIVISIONS {
            let is_supported = |op: &Op, _: &Func| {
                let mut hasher = DefaultHasher::new();
                (op.kind.name(), division).hash(&mut hasher);
                // The first division leaves nothing to the device.
                division > 0 && !hasher.finish().is_multiple_of(3)
            };
            let Some(outlined) = outline_unsupported(&module, is_supported).expect("no calls") else { continue };
            let name = format!("{} divided by {division}", path.display());
            stablehlo::verify(&outlined.module, VerifyLevel::FULL).expect(&name);
            functions += outlined.functions.len();
            let got = run_divided(&outlined.module, inputs.clone());
            assert_eq!(got.len(), want.len(), "{name}");
            for (index, ((got, want), ty)) in got.iter().zip(&want).zip(whole.outputs()).enumerate() {
                assert!(agree(ty.dtype, got, want), "result {index} of {name}\n{}", outlined.module);
            }
        }
    }
    functions
}

#[test]
fn small_programs_compute_the_same() {
    let functions = divide("../stablehlo-cpu/tests/data");
    assert!(functions > 200, "only {functions} functions were outlined");
}

#[test]
fn training_computes_the_same() {
    let functions = divide("../../examples/programs");
    assert!(functions > 15, "only {functions} functions were outlined");
}
