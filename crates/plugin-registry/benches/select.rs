//! Measures selecting a plugin among many, and accessing a loaded one. The baseline is the minimum that any framework
//! must do: read an environment variable and compare it with a list of names.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use device_plugin::{Descriptor, Library, Manifest};
use plugin_registry::{HardwareProbe, PluginRegistry, Policy};

const PLUGINS: usize = 50;
const ROUNDS: usize = 2000;

fn main() {
    // Only the last of the registered plugins can be loaded.
    let registry = PluginRegistry::builder().hardware(HardwareProbe::at("/nonexistent")).build();
    let mut names = Vec::new();
    for index in 0..PLUGINS - 1 {
        let mut manifest = Manifest::new(format!("plugin_{index}"));
        manifest.aliases.push("gpu".to_owned());
        names.push(manifest.name.clone());
        // SAFETY: R1 (the library is trusted): the file does not exist, so no code runs.
        let library = unsafe { Library::path(format!("/nonexistent/lib{index}.so")) };
        registry.register_descriptor(Descriptor::new(manifest, library, Arc::new(())).unwrap()).unwrap();
    }
    let cpu = registry.register::<pjrt_cpu::Cpu>().unwrap();
    names.push(cpu.name().to_owned());
    cpu.load().unwrap();

    println!("{PLUGINS} plugins, nanoseconds for each call, median of {ROUNDS}");
    let baseline = time("read a variable, compare names", || {
        let wanted = std::env::var("PJRT_DEVICE").unwrap_or_else(|_| "pjrt_cpu".to_owned());
        names.iter().position(|name| *name == wanted)
    });
    let named = Policy::named("pjrt_cpu");
    let any = Policy::prefer("tpu").or("pjrt_cpu").or_any();
    for (what, nanoseconds) in [
        ("select by name", time("select by name", || registry.select(&named).unwrap())),
        ("select by kinds in turn", time("select by kinds in turn", || registry.select(&any).unwrap())),
        ("load what is loaded", time("load what is loaded", || cpu.load().unwrap())),
        ("select and load", time("select and load", || registry.select(&named).unwrap().load().unwrap())),
        ("look a handle up", time("look a handle up", || registry.get(cpu.id()).unwrap())),
    ] {
        println!("  {what}: {:.1} times the baseline", nanoseconds / baseline);
    }
}

/// Returns the median time of a call in nanoseconds.
fn time<T>(what: &str, mut call: impl FnMut() -> T) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            const CALLS: u32 = 10;
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(call());
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[ROUNDS / 2];
    println!("{what:32} {median:10.0}");
    median
}
