//! Measures a search for 50 installed plugins among 150 other packages. The search does not load any plugin.
//!
//! To run it, use `cargo bench -p plugin-registry --bench discovery [-- --assert 20]`. The baseline lists the same
//! folders, and reads the same small files and the first 4096 bytes of the same libraries. The baseline and the search
//! run alternately. Each time is the shortest of many, with a warm file cache. With `--assert`, the benchmark fails if
//! a search takes longer than the given number of milliseconds.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a benchmark")]

#[path = "../tests/discovery/common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use common::Content::{Library, Text};
use common::{Elf, Machine};
use plugin_registry::discovery::{Discovery, inspect};

const PLUGINS: usize = 50;
const OTHERS: usize = 150;
const ROUNDS: usize = 40;
/// Size to which each library file is extended. The search reads only headers and symbols.
const LIBRARY_SIZE: u64 = 200 << 20;
const SITE: &str = "venv/lib/python3.12/site-packages";

fn install(machine: &Machine) {
    machine.file("venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.1\ninclude-system-site-packages = false\n");
    for i in 0..PLUGINS {
        let name = format!("bench-plugin{i}");
        let (module, library) = (format!("jax_plugins/p{i}/__init__.py"), format!("jax_plugins/p{i}/lib/p{i}.so"));
        let source = format!("{}\nxb.register_plugin('p{i}', priority=500)\n", "# text\nimport os\n".repeat(100));
        let elf = Elf { runpath: Some("$ORIGIN".to_owned()), ..Elf::plugin() }.needing(&[
            "libc.so.6",
            "libm.so.6",
            "libdep.so",
        ]);
        let dependency = format!("jax_plugins/p{i}/lib/libdep.so");
        let files = [(module.as_str(), Text(&source)), (&library, Library(elf)), (&dependency, Library(Elf::new()))];
        machine.wheel(SITE, &name, "1", &files, &format!("[jax_plugins]\np{i} = jax_plugins.p{i}\n"));
        let path = machine.path(&format!("{SITE}/{library}"));
        File::options().write(true).open(path).unwrap().set_len(LIBRARY_SIZE).unwrap();
    }
    for i in 0..OTHERS {
        let file = format!("other{i}/__init__.py");
        machine.wheel(
            SITE,
            &format!("other{i}"),
            "1",
            &[(file.as_str(), Text("import os\n"))],
            "[console_scripts]\nx = y:z\n",
        );
    }
}

/// Lists all folders, and reads small files completely and the first bytes of libraries. Returns the number of bytes
/// read.
fn baseline(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut buffer = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            bytes += baseline(&path);
            continue;
        }
        buffer.clear();
        let most = if path.extension().is_some_and(|extension| extension == "so") { 4096 } else { u64::MAX };
        bytes += File::open(&path).unwrap().take(most).read_to_end(&mut buffer).unwrap() as u64;
    }
    bytes
}

fn time(run: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Returns the shortest time, because other programs can only make a run slower.
fn fastest(times: Vec<Duration>) -> Duration {
    times.into_iter().min().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let limit = arguments
        .iter()
        .position(|argument| argument == "--assert")
        .map(|at| arguments[at + 1].parse::<f64>().unwrap());
    let machine = Machine::new("bench");
    install(&machine);
    let site = machine.path(SITE);
    let isolated = machine.discovery().variable("VIRTUAL_ENV", machine.path("venv"));
    // Search the same virtual environment, and the real libraries, interpreters and folders of the machine.
    let whole = Discovery::from_environment().variable("VIRTUAL_ENV", machine.path("venv"));
    let count = |discovery: &Discovery| {
        let found = discovery.candidates();
        found.iter().filter(|candidate| candidate.name().is_some_and(|name| name.starts_with('p'))).count()
    };
    assert!(count(&whole) >= PLUGINS && count(&isolated) == PLUGINS, "the plugins were not found");
    assert!(baseline(&site) > 0);

    let (mut walks, mut searches, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        walks.push(time(&mut || assert_ne!(baseline(&site), 0)));
        searches.push(time(&mut || drop(isolated.candidates())));
        wholes.push(time(&mut || drop(whole.candidates())));
    }
    let library = site.join("jax_plugins/p0/lib/p0.so");
    let looks = fastest((0..1000).map(|_| time(&mut || drop(inspect(&library)))).collect());
    let (walk, search, whole) = (fastest(walks), fastest(searches), fastest(wholes));
    println!("{PLUGINS} plugins of {} MiB among {OTHERS} other packages, fastest of {ROUNDS}:", LIBRARY_SIZE >> 20);
    println!("  list folders and read the same files   {:8.3} ms", milliseconds(walk));
    println!(
        "  search of that environment alone       {:8.3} ms   {:.2} times the reading",
        milliseconds(search),
        search.as_secs_f64() / walk.as_secs_f64()
    );
    println!("  search of this machine and environment {:8.3} ms", milliseconds(whole));
    println!("  look at one library                    {:8.3} ms", milliseconds(looks));
    for library in std::env::split_paths(&std::env::var_os("PJRT_TEST_PLUGINS").unwrap_or_default()) {
        if !library.is_file() {
            continue;
        }
        let look = fastest((0..200).map(|_| time(&mut || drop(inspect(&library)))).collect());
        let size = fs::metadata(&library).map_or(0, |metadata| metadata.len()) >> 20;
        println!("  look at a real one of {size:4} MiB          {:8.3} ms", milliseconds(look));
    }
    match limit {
        Some(limit) if milliseconds(whole.max(search)) > limit => {
            println!("FAILED: a search took longer than {limit} ms");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
