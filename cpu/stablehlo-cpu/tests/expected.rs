//! Runs programs and compares their results with the results that JAX computed (see `make_expected.py`).
//!
//! Set `PJRT_CPU_CASES=DIR` to run the cases in another directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use stablehlo_cpu::{CompileErrorKind, DType, Pool, Tensor, compile};

/// The tolerance of a result: |got - want| <= atol + rtol * |want|.
struct Tolerance {
    relative: f64,
    absolute: f64,
}

fn tolerance(text: &str) -> Option<Tolerance> {
    let line = text.lines().next()?.strip_prefix("// rtol=")?;
    let (relative, absolute) = line.split_once(" atol=")?;
    Some(Tolerance { relative: relative.parse().ok()?, absolute: absolute.parse().ok()? })
}

/// Returns the elements as `f64`, if they are floats.
fn floats(dtype: DType, bytes: &[u8]) -> Option<Vec<f64>> {
    fn wide<T, const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
    }
    Some(match dtype {
        DType::F64 => wide(bytes, f64::from_ne_bytes),
        DType::F32 => wide(bytes, |b| f64::from(f32::from_ne_bytes(b))),
        DType::Bf16 => wide(bytes, |b| bf16::from_ne_bytes(b).to_f64()),
        DType::F16 => wide(bytes, |b| f16::from_ne_bytes(b).to_f64()),
        _ => return None,
    })
}

fn difference(dtype: DType, got: &[u8], want: &[u8], tolerance: &Tolerance) -> Option<String> {
    let (Some(g), Some(w)) = (floats(dtype, got), floats(dtype, want)) else {
        let at = got.chunks(dtype.size()).zip(want.chunks(dtype.size())).position(|(g, w)| g != w)?;
        let range = at * dtype.size()..(at + 1) * dtype.size();
        return Some(format!("element {at} is {:?}, want {:?}", &got[range.clone()], &want[range]));
    };
    let close = |g: f64, w: f64| {
        g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance.absolute + tolerance.relative * w.abs()
    };
    let at = g.iter().zip(&w).position(|(&g, &w)| !close(g, w))?;
    Some(format!("element {at} is {:e}, want {:e}", g[at], w[at]))
}

/// Runs a program and compares its results. Returns a description of the first failure or difference as an error.
fn run(program: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(program).map_err(|e| e.to_string())?;
    let mut data = &std::fs::read(program.with_extension("bin")).map_err(|e| e.to_string())?[..];
    let tolerance = tolerance(&text).ok_or("the first line gives no tolerances")?;
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).map_err(|e| format!("parse: {e}"))?;
    let compiled = compile(&module).map_err(|e| match e.kind() {
        CompileErrorKind::Unsupported => format!("UNSUPPORTED {e}"),
        _ => format!("INVALID {e}"),
    })?;
    let mut next = |bytes: usize| data.split_off(..bytes).ok_or("the data file is too short");
    let pool = Pool::new(0);
    let mut inputs = Vec::new();
    for parameter in compiled.parameters() {
        let bytes = next(parameter.ty.bytes())?;
        let tensor = Tensor::from_bytes(&pool, parameter.ty.dtype, &parameter.ty.dims, bytes);
        inputs.push(tensor.map_err(|e| e.to_string())?);
    }
    // Run the program once with shared inputs and once with donated inputs. In-place updates must not change the
    // results.
    let kept = compiled.run_in(inputs.clone(), &pool, None, None).map_err(|e| e.to_string())?;
    let (usage, estimate) = (pool.usage(), compiled.memory_estimate().total);
    // Blocks are up to a quarter larger than the requested memory, and at least a cache line.
    let most = estimate + estimate / 4 + 64 * usize::try_from(usage.allocations).map_err(|e| e.to_string())?;
    if usage.peak > most {
        return Err(format!("{} bytes were in use, estimated were {estimate}", usage.peak));
    }
    let given = compiled.run_in(inputs, &pool, None, None).map_err(|e| e.to_string())?;
    for (i, (kept, given)) in kept.iter().zip(&given).enumerate() {
        let want = next(kept.bytes().len())?;
        for (how, got) in [("shared", kept), ("donated", given)] {
            if let Some(difference) = difference(got.dtype(), got.bytes(), want, &tolerance) {
                return Err(format!("output {i} ({:?}, {how} inputs): {difference}", got.ty()));
            }
        }
    }
    if !data.is_empty() {
        return Err(format!("{} bytes of data are left over", data.len()));
    }
    Ok(())
}

#[test]
fn results_match_jax() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folder = std::env::var_os("PJRT_CPU_CASES").map_or(committed, PathBuf::from);
    let mut programs: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "mlir"))
        .collect();
    programs.sort();
    assert!(!programs.is_empty(), "{} holds no programs", folder.display());
    let mut failures = String::new();
    let mut failed = 0;
    for program in &programs {
        if let Err(message) = run(program) {
            let name = program.file_stem().unwrap_or_default().to_string_lossy();
            if !cfg!(feature = "math") && message.contains("needs the feature `math`") {
                println!("SKIPPED results_match_jax, {name}: {message}");
                continue;
            }
            failed += 1;
            writeln!(failures, "{name}: {message}").expect("writing to a string");
        }
    }
    assert!(failed == 0, "{failed} of {} programs failed:\n{failures}", programs.len());
}

/// XLA's CPU plugins terminate the process when they compile this call (see `stablehlo::hazards`).
#[test]
fn top_k_without_a_comparator() {
    let program = "func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @TopK(%x) {api_version = 1 : i32} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}";
    let module = stablehlo::parse(program.to_owned(), stablehlo::VerifyLevel::FULL).unwrap();
    let bytes = [1.0f32, 4.0, 2.0, 3.0].map(f32::to_ne_bytes).concat();
    let x = Tensor::from_bytes(Pool::global(), DType::F32, &[4], &bytes).unwrap();
    let results = compile(&module).unwrap().run(vec![x]).unwrap();
    assert_eq!(results[0].bytes(), [4.0f32, 3.0].map(f32::to_ne_bytes).concat());
    assert_eq!(results[1].bytes(), [1i32, 3].map(i32::to_ne_bytes).concat());
}
