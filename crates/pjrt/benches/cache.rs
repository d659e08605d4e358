//! Measures the time of [`ExecutableCache::compile`] for hits in memory, hits in the directory and misses. Also
//! measures a compilation without the cache. Runs on the embedded CPU device, or on the plugin that the environment
//! variable `PJRT_PLUGIN` names.
//!
//! Run it with `cargo bench -p pjrt-rs --bench cache`. It prints medians.

use std::time::{Duration, Instant};

use pjrt::{ClientOptions, CompileOptions, ExecutableCache, Program};

/// Number of operations of the compiled program, which is about as large as a small model.
const OPERATIONS: usize = 500;

fn program(salt: usize) -> Program {
    let mut text = String::from("func.func @main(%0: tensor<16xf32>) -> tensor<16xf32> {\n");
    for number in 0..OPERATIONS {
        let op = if number == salt { "subtract" } else { "multiply" };
        text += &format!("  %{} = stablehlo.{op} %{number}, %0 : tensor<16xf32>\n", number + 1);
    }
    text += &format!("  return %{OPERATIONS} : tensor<16xf32>\n}}");
    Program::mlir(text)
}

fn median(repetitions: usize, mut f: impl FnMut(usize)) -> Duration {
    let mut samples: Vec<Duration> = (0..repetitions)
        .map(|number| {
            let start = Instant::now();
            f(number);
            start.elapsed()
        })
        .collect();
    samples.sort();
    samples[repetitions / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let folder = std::env::temp_dir().join(format!("pjrt-bench-cache-{}", std::process::id()));
    let options = CompileOptions::default();
    let cache = ExecutableCache::in_directory(&folder)?;
    let programs: Vec<Program> = (0..50).map(program).collect();
    let compile = |cache: &ExecutableCache, number: usize| {
        cache.compile(&client, &programs[number % programs.len()], &options).unwrap_or_else(|error| panic!("{error}"));
    };
    println!("{name}: a program of {OPERATIONS} operations, {} bytes", programs[0].code().len());
    println!("  compilation, stored        {:9.1?}", median(50, |number| compile(&cache, number)));
    println!("  hit in memory              {:9.1?}", median(5000, |number| compile(&cache, number)));
    let later = ExecutableCache::in_directory(&folder)?;
    println!("  hit in the directory       {:9.1?}", median(50, |number| compile(&later, number)));
    println!(
        "  compilation without cache  {:9.1?}",
        median(50, |number| {
            client.compile(&programs[number], &options).map(drop).unwrap_or_else(|error| panic!("{error}"));
        })
    );
    let hits = later.statistics();
    println!("  {hits:?}");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
