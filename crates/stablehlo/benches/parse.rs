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
    let read = mean(|| drop(black_box(stablehlo::parse(black_box(program.clone())))));
    report("read", read, program.len(), ops);
    let verify = mean(|| drop(black_box(stablehlo::verify(black_box(&module)))));
    report("of which verify", verify, program.len(), ops);
    let text = module.to_string();
    report("print", mean(|| drop(black_box(black_box(&module).to_string()))), text.len(), ops);
    match stablehlo::write(&module, Version::NEWEST) {
        Ok(bytes) => {
            let write = mean(|| drop(black_box(stablehlo::write(black_box(&module), Version::NEWEST))));
            report("write", write, bytes.len(), ops);
        }
        Err(e) => println!("  write: {e}"),
    }
}

/// Seconds of one run, the mean over a second: of processor time where the system tells it, since other programs on
/// the machine do not count there.
fn mean(mut run: impl FnMut()) -> f64 {
    let (wall, processor) = (Instant::now(), processor_time());
    let mut runs = 0usize;
    while wall.elapsed() < Duration::from_secs(1) {
        run();
        runs += 1;
    }
    let taken = match (processor, processor_time()) {
        (Some(before), Some(after)) if after > before => after - before,
        _ => wall.elapsed(),
    };
    taken.as_secs_f64() / to_f64(runs)
}

/// Time this thread has run, on Linux.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
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
