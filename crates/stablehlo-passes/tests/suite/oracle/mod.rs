//! Compares the results of programs before and after passes. The CPU device runs the programs.

use std::path::{Path, PathBuf};

use stablehlo::VerifyLevel;
use stablehlo::ir::Module;
use stablehlo_cpu::{DType, Pool, Program, Tensor, compile};

pub(crate) mod random;

/// A program with arguments.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) module: Module,
    /// The bytes of the arguments, one after the other. Empty if the arguments are to be invented.
    pub(crate) data: Vec<u8>,
}

pub(crate) fn parsed(text: &str) -> Module {
    stablehlo::parse(text.to_owned(), VerifyLevel::FULL).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the programs of the repository that the CPU device runs.
pub(crate) fn programs() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in ["cpu/stablehlo-cpu/tests/data", "crates/stablehlo/tests/data", "examples/programs"] {
        let folder = root.join(folder);
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let files = entries.map(|entry| entry.expect("a file").path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "mlir")));
    }
    // Programs of the tests of this crate, from JAX.
    let own = std::fs::read_dir(root.join("crates/stablehlo-passes/tests/data")).into_iter().flatten();
    paths.extend(own.map(|entry| entry.expect("a file").path()));
    paths.sort();
    let case = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a text");
        let module = stablehlo::parse(text, VerifyLevel::FULL).ok()?;
        let data = std::fs::read(path.with_extension("bin")).unwrap_or_default();
        Some(Case { name: path.file_stem()?.to_string_lossy().into_owned(), module, data })
    };
    paths.into_iter().filter_map(case).filter(|case| compile(&case.module).is_ok()).collect()
}

/// Returns the arguments of a program. Invented integers are small, so that loops end.
pub(crate) fn arguments(program: &Program, data: &[u8]) -> Vec<Tensor> {
    let mut random = random::Random(7);
    let mut rest = data;
    let tensor = |parameter: &stablehlo_cpu::Parameter| {
        let ty = &parameter.ty;
        let bytes = match rest.split_at_checked(ty.bytes()) {
            Some((bytes, after)) if !data.is_empty() => {
                rest = after;
                bytes.to_vec()
            }
            _ => (0..ty.elements()).flat_map(|_| random.element(ty.dtype)).collect(),
        };
        Tensor::from_bytes(Pool::global(), ty.dtype, &ty.dims, &bytes).expect("an argument")
    };
    program.parameters().iter().map(tensor).collect()
}

/// Checks that a program and its rewritten form give the same values. Numbers may differ by `tolerance`, relative to
/// the larger number or to 1. All NaN are equal.
pub(crate) fn same_values(name: &str, before: &Module, after: &Module, data: &[u8], tolerance: f64) {
    let program = compile(before).unwrap_or_else(|error| panic!("{name}: {error}\n{before}"));
    let rewritten = compile(after).unwrap_or_else(|error| panic!("{name}: {error}\n{after}"));
    let inputs = arguments(&program, data);
    let want = program.run(inputs.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let got = rewritten.run(inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(want.len(), got.len(), "{name}");
    for (index, (want, got)) in want.iter().zip(&got).enumerate() {
        assert_eq!((want.dtype(), want.ty()), (got.dtype(), got.ty()), "{name}");
        if let Some(at) = difference(want, got, tolerance) {
            let size = want.dtype().size();
            let range = at * size..(at + 1) * size;
            panic!(
                "{name}: result {index} ({:?}) has the element {at} {:?}, and not {:?}\n{before}\n{after}",
                want.ty(),
                &got.bytes()[range.clone()],
                &want.bytes()[range]
            );
        }
    }
}

fn difference(want: &Tensor, got: &Tensor, tolerance: f64) -> Option<usize> {
    let dtype = want.dtype();
    let (part, parts) = match dtype {
        DType::C64 => (DType::F32, 2),
        DType::C128 => (DType::F64, 2),
        _ => (dtype, 1),
    };
    let size = part.size();
    let differs = |(want, got): (&[u8], &[u8])| match (float(part, want), float(part, got)) {
        _ if want == got => false,
        (Some(want), Some(got)) if want.is_nan() && got.is_nan() => false,
        (Some(want), Some(got)) if tolerance > 0.0 && want != got => {
            // The difference of infinities is not a number.
            let distance = (want - got).abs();
            distance.is_nan() || distance > tolerance * want.abs().max(got.abs()).max(1.0)
        }
        (Some(want), Some(got)) => tolerance == 0.0 || want.is_nan() || got.is_nan(),
        _ => true,
    };
    let at = want.bytes().chunks(size).zip(got.bytes().chunks(size)).position(differs)?;
    Some(at / parts)
}

fn float(dtype: DType, bytes: &[u8]) -> Option<f64> {
    let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    let half = |element| stablehlo::FloatFormat::of(element).map(|format| format.decode(bits));
    match dtype {
        DType::F64 => Some(f64::from_bits(bits)),
        DType::F32 => Some(f64::from(f32::from_bits(u32::try_from(bits).ok()?))),
        DType::F16 => half(stablehlo::ir::ElementType::F16),
        DType::Bf16 => half(stablehlo::ir::ElementType::Bf16),
        _ => None,
    }
}

/// Applies a pass to a program. Checks that the result is valid, and that a second application changes nothing.
pub(crate) fn applied(name: &str, module: &Module, pass: impl Fn(&Module) -> Option<Module>) -> Option<Module> {
    let done = pass(module)?;
    stablehlo::verify(&done, VerifyLevel::FULL).unwrap_or_else(|error| panic!("{name}: {error}\n{module}\n{done}"));
    if let Some(again) = pass(&done) {
        panic!("{name}: the pass applies twice\n{module}\n{done}\n{again}");
    }
    Some(done)
}

/// Checks a pass on the programs of the repository and on random programs. Returns how many of each it changed.
pub(crate) fn check(pass: impl Fn(&Module) -> Option<Module>, tolerance: f64, count: u64) -> (usize, usize) {
    let mut changed = (0, 0);
    for Case { name, module, data } in programs() {
        if let Some(after) = applied(&name, &module, &pass) {
            same_values(&name, &module, &after, &data, tolerance);
            changed.0 += 1;
        }
    }
    for seed in 0..count {
        let name = format!("random program {seed}");
        let module = parsed(&random::program(seed));
        if let Some(after) = applied(&name, &module, &pass) {
            same_values(&name, &module, &after, &[], tolerance);
            changed.1 += 1;
        }
    }
    changed
}

/// Checks that a pass turns one program into another one, and that the result is valid and stays as it is.
pub(crate) fn becomes(pass: impl Fn(&Module) -> Option<Module>, before: &str, after: &str) {
    let done = applied("program", &parsed(before), pass).expect("the pass applies");
    assert_eq!(done.to_string(), parsed(after).to_string());
}

/// Runs a program of `f64` numbers.
pub(crate) fn run(module: &Module, arguments: &[&[f64]]) -> Vec<Vec<f64>> {
    let program = compile(module).unwrap_or_else(|error| panic!("{error}\n{module}"));
    let tensor = |(values, parameter): (&&[f64], &stablehlo_cpu::Parameter)| {
        Tensor::from_slice(DType::F64, &parameter.ty.dims, values).expect("an argument")
    };
    let arguments = arguments.iter().zip(program.parameters()).map(tensor).collect();
    let results = program.run(arguments).expect("results");
    results.iter().map(|result| result.as_slice().expect("numbers").to_vec()).collect()
}

pub(crate) fn near(got: &[f64], want: &[f64], tolerance: f64) {
    let is_near = |(got, want): (&f64, &f64)| (got - want).abs() <= tolerance * want.abs().max(1.0);
    assert!(got.len() == want.len() && got.iter().zip(want).all(is_near), "{got:?} is not {want:?}");
}
