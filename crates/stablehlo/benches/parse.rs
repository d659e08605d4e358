//! Speed of reading, printing and writing: `cargo bench -p stablehlo`. Prints MB/s and ops/s for an artifact and its
//! text.
//!
//! With paths as arguments (`cargo bench -p stablehlo -- PROGRAM...`) those programs are measured instead.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use stablehlo::ir::{Region, Version};

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
    let name = path.file_name().unwrap_or_default().display();
    println!("{name}: {} bytes, {ops} ops", program.len());
    // Dropping the module is part of the price.
    let read = best(|| drop(black_box(stablehlo::parse(black_box(program.clone())))));
    report("read", read, program.len(), ops);
    let verify = best(|| drop(black_box(stablehlo::verify(black_box(&module)))));
    report("of which verify", verify, program.len(), ops);
    let text = module.to_string();
    report("print", best(|| drop(black_box(black_box(&module).to_string()))), text.len(), ops);
    match stablehlo::write(&module, Version::NEWEST) {
        Ok(bytes) => {
            let write = best(|| drop(black_box(stablehlo::write(black_box(&module), Version::NEWEST))));
            report("write", write, bytes.len(), ops);
        }
        Err(e) => println!("  write: {e}"),
    }
}

/// The shortest of the runs of one second.
fn best(mut run: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        let one = Instant::now();
        run();
        best = best.min(one.elapsed());
    }
    best.as_secs_f64()
}

fn report(what: &str, seconds: f64, bytes: usize, ops: usize) {
    println!(
        "  {what}: {:.3} ms, {:.1} MB/s of {bytes} bytes, {:.2} M ops/s",
        seconds * 1e3,
        to_f64(bytes) / seconds / 1e6,
        to_f64(ops) / seconds / 1e6,
    );
}

fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
