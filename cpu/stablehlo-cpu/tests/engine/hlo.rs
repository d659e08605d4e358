//! Tests programs in XLA's HLO format. Compares their results with JAX (see `make_hlo.py`), and checks that broken
//! programs do not panic.
//!
//! Requires Python with JAX 0.10.2, at `target/venv-jax-0.10.2` or at the path in `STABLEHLO_TEST_PYTHON`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use half::{bf16, f16};
use stablehlo_cpu::{Communicator, CompileSettings, DType, Pool, Program, Tensor, compile_with};

/// The directory of the test programs. The first use creates it. `None` if the Python interpreter does not exist.
static CASES: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("STABLEHLO_TEST_PYTHON")
        .map_or_else(|| own.join("../../target/venv-jax-0.10.2/bin/python"), PathBuf::from);
    if !python.exists() {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hlo");
    let _ = std::fs::remove_dir_all(&folder);
    let status = Command::new(python).arg(own.join("tests/make_hlo.py")).arg(&folder).status();
    assert!(status.expect("python starts").success(), "make_hlo.py failed");
    Some(folder)
});

fn programs(test: &str) -> Vec<PathBuf> {
    let Some(folder) = &*CASES else {
        println!("SKIPPED {test}: no Python with JAX at target/venv-jax-0.10.2");
        return Vec::new();
    };
    let entries = std::fs::read_dir(folder).expect("the folder of programs");
    let mut programs: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    programs.retain(|path| path.extension().is_some_and(|e| e == "hlo"));
    programs.sort();
    assert!(programs.len() > 70, "{} programs", programs.len());
    programs
}

/// Returns the elements as `f64` and their tolerance, if they are floats.
fn floats(dtype: DType, bytes: &[u8]) -> Option<(Vec<f64>, f64)> {
    fn wide<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
    }
    Some(match dtype {
        DType::F64 | DType::C128 => (wide(bytes, f64::from_ne_bytes), 1e-11),
        DType::F32 | DType::C64 => (wide(bytes, |b| f32::from_ne_bytes(b).into()), 2e-5),
        DType::Bf16 => (wide(bytes, |b| bf16::from_ne_bytes(b).to_f64()), 2e-2),
        DType::F16 => (wide(bytes, |b| f16::from_ne_bytes(b).to_f64()), 2e-3),
        _ => return None,
    })
}

fn agree(dtype: DType, got: &[u8], want: &[u8]) -> bool {
    let (Some((g, tolerance)), Some((w, _))) = (floats(dtype, got), floats(dtype, want)) else {
        return got == want;
    };
    g.len() == w.len()
        && g.iter()
            .zip(&w)
            .all(|(g, w)| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * (1.0 + w.abs()))
}

/// Reads the settings from the program's file name, `NAME@REPLICASxPARTITIONS`. The suffix `.split` marks a program
/// that describes the work of all partitions together.
fn settings(program: &Path) -> Result<CompileSettings, String> {
    let stem = program.file_stem().and_then(|stem| stem.to_str()).ok_or("a file without a name")?;
    let Some((_, members)) = stem.split_once('@') else { return Ok(CompileSettings::default()) };
    let (counts, split) = members.strip_suffix(".split").map_or((members, false), |counts| (counts, true));
    let (replicas, partitions) = counts.split_once('x').ok_or("a name without counts")?;
    let count = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a count"));
    let mut settings = CompileSettings::new(count(replicas)?, count(partitions)?);
    settings.use_spmd = split;
    Ok(settings)
}

fn run(program: &Path) -> Result<(), String> {
    let code = std::fs::read(program).map_err(|e| e.to_string())?;
    let mut data = &std::fs::read(program.with_extension("bin")).map_err(|e| e.to_string())?[..];
    let module = stablehlo::parse_hlo(code, stablehlo::VerifyLevel::FULL).map_err(|e| format!("parse: {e}"))?;
    // Check that the parsed program can be written and parsed again.
    let artifact = stablehlo::write(&module, stablehlo::ir::Version::NEWEST).map_err(|e| format!("write: {e}"))?;
    stablehlo::parse(artifact, stablehlo::VerifyLevel::FULL).map_err(|e| format!("parse again: {e}"))?;
    let settings = settings(program)?;
    let compiled = compile_with(&module, &settings, Pool::global()).map_err(|e| format!("compile: {e}"))?;
    let mut next = |bytes: usize| data.split_off(..bytes).ok_or("the data file is too short");
    let (mut inputs, mut wants) = (Vec::new(), Vec::new());
    for _ in 0..settings.replicas * settings.partitions {
        let (mut given, mut wanted) = (Vec::new(), Vec::new());
        for parameter in compiled.parameters() {
            let bytes = next(parameter.ty.bytes())?;
            let tensor = Tensor::from_bytes(Pool::global(), parameter.ty.dtype, &parameter.ty.dims, bytes);
            given.push(tensor.map_err(|e| e.to_string())?);
        }
        for output in compiled.outputs() {
            wanted.push(next(output.bytes())?);
        }
        inputs.push(given);
        wants.push(wanted);
    }
    if !data.is_empty() {
        return Err(format!("{} bytes of data are left over", data.len()));
    }
    for (member, (got, want)) in launch(&compiled, inputs).into_iter().zip(wants).enumerate() {
        for (i, (got, want)) in got?.iter().zip(want).enumerate() {
            if !agree(got.dtype(), got.bytes(), want) {
                return Err(format!(
                    "output {i} ({:?}) of member {member} is {:?}, want {want:?}",
                    got.ty(),
                    got.bytes()
                ));
            }
        }
    }
    Ok(())
}

/// Runs every member on its own thread, or on the calling thread if there is only one member.
fn launch(program: &Program, mut inputs: Vec<Vec<Tensor>>) -> Vec<Result<Vec<Tensor>, String>> {
    if inputs.len() == 1 {
        return vec![program.run(inputs.remove(0)).map_err(|e| e.to_string())];
    }
    let members = Communicator::new(program.settings().replicas, program.settings().partitions).members();
    std::thread::scope(|scope| {
        let run = |(given, member)| scope.spawn(move || program.run_in(given, Pool::global(), Some(&member), None));
        let threads: Vec<_> = inputs.into_iter().zip(members).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no member panics").map_err(|e| e.to_string())).collect()
    })
}

#[test]
fn hlo_results_match_jax() {
    let programs = programs("hlo_results_match_jax");
    let failures: Vec<String> = programs
        .iter()
        .filter_map(|program| Some(format!("{}: {}", program.file_stem()?.display(), run(program).err()?)))
        .collect();
    assert!(failures.is_empty(), "{} of {} programs failed:\n{}", failures.len(), programs.len(), failures.join("\n"));
}

#[test]
fn donated_arguments_alias_results() {
    let programs = programs("donated_arguments_alias_results");
    let Some(program) = programs.iter().find(|path| path.ends_with("donated.hlo")) else { return };
    let module = stablehlo::parse_hlo(std::fs::read(program).expect("a program"), stablehlo::VerifyLevel::FULL)
        .expect("an HLO module");
    let main = module.entry().expect("an entry");
    let alias = |argument| main.arg_attribute(argument, "tf.aliasing_output").and_then(|a| a.as_integer());
    assert_eq!((alias(0), alias(1)), (None, Some(1)));
}

/// Truncates programs, inserts copies of a few of their bytes, or overwrites bytes with random values. The parser must
/// parse or reject each resulting program without a panic.
#[test]
fn broken_programs_never_panic() {
    let programs = programs("broken_programs_never_panic");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % below.max(1)
    };
    let (mut read, mut refused) = (0, 0);
    for program in &programs {
        let code = std::fs::read(program).expect("a program");
        for round in 0..150 {
            let mut broken = code.clone();
            match round % 3 {
                0 => broken.truncate(next(code.len())),
                1 => {
                    let (at, from, n) = (next(code.len()), next(code.len()), next(24));
                    let piece = code[from..(from + n).min(code.len())].to_vec();
                    broken.splice(at..at, piece);
                }
                _ => {
                    for _ in 0..=next(3) {
                        let at = next(broken.len());
                        broken[at] = u8::try_from(next(256)).expect("a byte");
                    }
                }
            }
            match stablehlo::parse_hlo(broken, stablehlo::VerifyLevel::FULL) {
                Ok(_) => read += 1,
                Err(error) => {
                    assert!(!error.message().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(programs.is_empty() || (read > 0 && refused > read), "{read} read, {refused} refused");
}
