//! Speed of reading: `cargo bench -p stablehlo`. Prints MB/s and ops/s for an artifact and its text.
//!
//! With paths as arguments (`cargo bench -p stablehlo -- PROGRAM...`) those programs are read instead.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use stablehlo::ir::Region;

fn main() {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).filter(|a| a != "--bench").map(PathBuf::from).collect();
    if paths.is_empty() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        paths = ["transformer.1.17.0.bc", "transformer.mlir"].map(|name| data.join(name)).to_vec();
    }
    for path in paths {
        match std::fs::read(&path) {
            Ok(program) => measure(&path, Bytes::from(program)),
            Err(e) => println!("{}: {e}", path.display()),
        }
    }
}

fn count(region: &Region) -> usize {
    region.ops.iter().map(|op| 1 + op.regions.iter().map(count).sum::<usize>()).sum()
}

fn measure(path: &Path, program: Bytes) {
    let module = match stablehlo::parse(program.clone()) {
        Ok(module) => module,
        Err(e) => return println!("{}: {e}", path.display()),
    };
    let ops: usize = module.funcs.iter().map(|f| count(&f.body)).sum();
    let mut best = Duration::MAX;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        let one = Instant::now();
        let module = stablehlo::parse(black_box(program.clone()));
        // Dropping the module is part of the price.
        drop(black_box(module));
        best = best.min(one.elapsed());
    }
    let verified = Instant::now();
    let sound = stablehlo::verify(&module).is_ok();
    let verify = verified.elapsed();
    let seconds = best.as_secs_f64();
    println!(
        "{}: {} bytes, {ops} ops: {:.3} ms, {:.1} MB/s, {:.2} M ops/s (of which verify {:.3} ms{})",
        path.file_name().unwrap_or_default().display(),
        program.len(),
        seconds * 1e3,
        to_f64(program.len()) / seconds / 1e6,
        to_f64(ops) / seconds / 1e6,
        verify.as_secs_f64() * 1e3,
        if sound { "" } else { ", failed" },
    );
}

fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
