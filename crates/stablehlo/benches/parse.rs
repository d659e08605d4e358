//! Measures the speed of reading, printing and writing. To start the benchmark, use `cargo bench -p stablehlo-rs`. It
//! prints MB/s and ops/s for two small programs as JAX sends them, and for three generated programs. The generated
//! programs have about 5,000 ops, about 100,000 ops, and about 5,000 ops with a large constant. Each program is
//! measured as an artifact and as text, except for the program with a large constant, which is measured only as an
//! artifact.
//!
//! With paths as arguments (`cargo bench -p stablehlo-rs -- PROGRAM...`), the benchmark measures those programs
//! instead.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use stablehlo::ir::{Region, Version};

fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).filter(|a| a != "--bench").map(PathBuf::from).collect();
    for path in &paths {
        match std::fs::read(path) {
            Ok(program) => measure(&path.file_name().unwrap_or_default().display().to_string(), program.into()),
            Err(e) => println!("{}: {e}", path.display()),
        }
    }
    if !paths.is_empty() {
        return;
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for name in ["mlp_grad.1.17.0.bc", "transformer.1.17.0.bc", "transformer.mlir"] {
        match std::fs::read(data.join(name)) {
            Ok(program) => measure(name, program.into()),
            Err(e) => println!("{name}: {e}"),
        }
    }
    for (name, blocks, constant) in [("medium", 200, 0), ("large", 4000, 0), ("large constants", 200, 2048)] {
        let text = transformer(blocks, constant);
        match stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL)
            .and_then(|module| stablehlo::write(&module, Version::NEWEST))
        {
            Ok(artifact) => measure(&format!("{name}, artifact"), artifact.into()),
            Err(e) => println!("{name}: {e}"),
        }
        // The text of the program with a large constant consists mostly of digits, so reading it measures only the
        // parsing of digits.
        if constant == 0 {
            measure(&format!("{name}, text"), text.into());
        }
    }
}

/// Generates the forward pass of a transformer with `blocks` blocks. If `constant` is not 0, adds an unused constant
/// with `constant` rows of 1024 elements.
fn transformer(blocks: usize, constant: usize) -> String {
    const BLOCK: &str = "
    %q = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
    %k = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x256xf32>, tensor<256x256xf32>) -> tensor<64x256xf32>
    %qh = stablehlo.reshape %q : (tensor<64x256xf32>) -> tensor<64x8x32xf32>
    %kh = stablehlo.reshape %k : (tensor<64x256xf32>) -> tensor<64x8x32xf32>
    %s = stablehlo.dot_general %qh, %kh, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<64x8x32xf32>, tensor<64x8x32xf32>) -> tensor<8x64x64xf32>
    %scale = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<8x64x64xf32>
    %t = stablehlo.multiply %s, %scale : tensor<8x64x64xf32>
    %max = stablehlo.reduce(%t init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<8x64x64xf32>, tensor<f32>) -> tensor<8x64xf32>
    %maxb = stablehlo.broadcast_in_dim %max, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x64xf32>
    %d = stablehlo.subtract %t, %maxb : tensor<8x64x64xf32>
    %e = stablehlo.exponential %d : tensor<8x64x64xf32>
    %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x64xf32>, tensor<f32>) -> tensor<8x64xf32>
    %sumb = stablehlo.broadcast_in_dim %sum, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x64xf32>
    %p = stablehlo.divide %e, %sumb : tensor<8x64x64xf32>
    %o = stablehlo.dot_general %p, %qh, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<8x64x64xf32>, tensor<64x8x32xf32>) -> tensor<8x64x32xf32>
    %ot = stablehlo.transpose %o, dims = [1, 0, 2] : (tensor<8x64x32xf32>) -> tensor<64x8x32xf32>
    %of = stablehlo.reshape %ot : (tensor<64x8x32xf32>) -> tensor<64x256xf32>
    %y = stablehlo.add %x, %of : tensor<64x256xf32>
    %h = stablehlo.tanh %y : tensor<64x256xf32>
    %z = stablehlo.add %h, %y : tensor<64x256xf32>\n";
    const LOCAL: [&str; 20] = [
        "%scale", "%maxb", "%sumb", "%max", "%sum", "%qh", "%kh", "%ot", "%of", "%q", "%k", "%s", "%t", "%d", "%e",
        "%p", "%o", "%y", "%h", "%z",
    ];
    let mut text = String::from(
        "func.func @main(%x: tensor<64x256xf32>, %w: tensor<256x256xf32>, %v: tensor<256x256xf32>) -> tensor<64x256xf32> {
    %c = stablehlo.constant dense<0.176776692> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n",
    );
    if constant > 0 {
        let bits: String =
            (0..constant * 1024).map(|i| format!("{:08X}", i.wrapping_mul(0x9E37) & 0x3FFF_FFFF)).collect();
        text.push_str(&format!("    %large = stablehlo.constant dense<\"0x{bits}\"> : tensor<{constant}x1024xf32>\n"));
    }
    let mut input = "%x".to_owned();
    for block in 0..blocks {
        // Rename the values of each block. Replace longer names first, because some names are prefixes of other names.
        let mut code = BLOCK.replace("%x", &input);
        for name in LOCAL {
            for end in [" ", ",", ")"] {
                code = code.replace(&format!("{name}{end}"), &format!("{name}_{block}{end}"));
            }
        }
        text.push_str(&code);
        input = format!("%z_{block}");
    }
    text.push_str(&format!("    return {input} : tensor<64x256xf32>\n}}\n"));
    text
}

fn count(region: &Region) -> usize {
    region.ops.iter().map(|op| 1 + op.regions.iter().map(count).sum::<usize>()).sum()
}

fn measure(name: &str, program: Bytes) {
    let module = match stablehlo::parse(program.clone(), stablehlo::VerifyLevel::FULL) {
        Ok(module) => module,
        Err(e) => return println!("{name}: {e}"),
    };
    let ops: usize = module.funcs.iter().map(|f| count(&f.body)).sum();
    println!("{name}: {} bytes, {ops} ops", program.len());
    // The measured time includes the time to drop the module.
    let read = mean(|| drop(black_box(stablehlo::parse(black_box(program.clone()), stablehlo::VerifyLevel::FULL))));
    report("read", read, program.len(), ops);
    let verify = mean(|| drop(black_box(stablehlo::verify(black_box(&module), stablehlo::VerifyLevel::FULL))));
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

/// Returns the time of one run in seconds, averaged over about one second. Uses processor time if the system reports
/// it, so that other programs on the machine do not affect the measurement.
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

/// Returns the processor time of this thread. Returns `None` on systems other than Linux.
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
