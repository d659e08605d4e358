//! `cargo xtask performance`: runs benchmarks, and writes the tables that they print to `docs/performance.md`. With
//! `--print`, prints the tables instead.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::package::PLUGINS;
use crate::python::{JAX, Jax, MAIN};
use crate::workspace::release_cpu;
use crate::{Error, jax, sh};

/// The page, relative to the repository's root.
const PAGE: &str = "docs/performance.md";

/// The benchmarks by the name of their table. The page contains each table between the lines `<!-- table NAME -->` and
/// `<!-- end -->`.
const TABLES: &[(&str, Benchmark)] = &[
    ("caller", Benchmark::Cargo(&["-p", "pjrt-rs", "--bench", "execute"])),
    ("remote", Benchmark::Cargo(&["-p", "pjrt-remote", "--bench", "against_local"])),
    ("vendor", Benchmark::Cargo(&["-p", "device-plugin", "--bench", "null_plugin"])),
    ("dispatch", Benchmark::Python { script: "tests/jax/bench_dispatch.py", arguments: &[CPU, XLA] }),
    ("programs", Benchmark::WithWheel(&["tests/jax/bench_programs.py", "--held-out"])),
    ("factorizations", Benchmark::WithWheel(&["tests/jax/bench_linalg.py"])),
    ("libraries", Benchmark::WithWheel(&["tests/third_party/run.py"])),
    ("memory", Benchmark::WithWheel(&["tests/jax/bench_memory.py"])),
    (
        "collectives",
        Benchmark::Python { script: "tests/jax/bench_collectives.py", arguments: &["--mpi", CPU_WITH_MPI] },
    ),
];

/// Stands for the path of the embedded device's library.
const CPU: &str = "CPU";
/// Stands for the same library with the transport over MPI, which needs Open MPI and libclang.
const CPU_WITH_MPI: &str = "CPU_WITH_MPI";
/// Stands for the path of XLA's newest CPU plugin.
const XLA: &str = "XLA";

#[derive(Clone, Copy)]
enum Benchmark {
    /// Arguments of `cargo bench`.
    Cargo(&'static [&'static str]),
    /// A program and its arguments. It runs with JAX, third-party libraries, and the content of the CPU plugin's wheel.
    WithWheel(&'static [&'static str]),
    /// A program that runs with JAX.
    Python { script: &'static str, arguments: &'static [&'static str] },
}

/// Parses the arguments `[--print] [TABLE ...]`, and runs the benchmarks of the named tables, or all benchmarks.
pub(crate) fn arguments(arguments: &[&str]) -> Result<(), Error> {
    let (options, names): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|argument| argument.starts_with("--"));
    let prints = match options[..] {
        [] => false,
        ["--print"] => true,
        _ => return Err("usage: cargo xtask performance [--print] [TABLE ...]".into()),
    };
    if let Some(unknown) = names.iter().find(|name| !TABLES.iter().any(|(table, _)| table == *name)) {
        let known: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        return Err(format!("performance: no table is named {unknown:?}; the tables are {}", known.join(", ")).into());
    }
    let page = sh::root().join(PAGE);
    for (name, benchmark) in TABLES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("{name}");
        let output = benchmark.output()?;
        // Some benchmarks print several tables, with empty lines between them.
        let table: Vec<&str> = output.lines().filter(|line| line.is_empty() || line.starts_with('|')).collect();
        if table.iter().filter(|line| !line.is_empty()).count() < 3 {
            return Err(format!("the benchmark of the table {name} printed no table:\n{output}").into());
        }
        if prints {
            println!("{}", table.join("\n"));
            continue;
        }
        // Read the page again for each table, because somebody may edit it while a benchmark runs.
        let text =
            replaced(&fs::read_to_string(&page)?, name, &format!("{}\n\n{}\n", table.join("\n").trim(), machine()?))?;
        fs::write(&page, text)?;
        if *name == "programs" {
            fs::copy(sh::root().join("target/programs.svg"), sh::root().join("docs/programs.svg"))?;
        }
    }
    Ok(())
}

impl Benchmark {
    /// Runs the benchmark and returns its stdout. Shows its stderr.
    fn output(self) -> Result<String, Error> {
        let mut command = match self {
            Self::Cargo(arguments) => {
                let mut cargo = sh::cargo();
                cargo.arg("bench").args(arguments).env("PJRT_TEST_PLUGINS", xla()?);
                cargo
            }
            Self::WithWheel(arguments) => {
                let package = jax::package(&release_cpu(&[])?)?;
                let mut python = Command::new(main_jax()?.python_for_libraries()?);
                python.current_dir(sh::root()).args(arguments).env("PYTHONPATH", package);
                python
            }
            Self::Python { script, arguments } => {
                let mut python = Command::new(main_jax()?.python()?);
                python.current_dir(sh::root()).arg(script);
                for argument in arguments {
                    match *argument {
                        CPU => python.arg(release_cpu(&[])?),
                        CPU_WITH_MPI => python.arg(release_cpu(&["--features", "mpi"])?),
                        XLA => python.arg(xla()?),
                        other => python.arg(other),
                    };
                }
                python
            }
        };
        let out = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if out.status.success() { Ok(text) } else { Err(format!("{command:?} failed: {}\n{text}", out.status).into()) }
    }
}

fn main_jax() -> Result<&'static Jax, Error> {
    JAX.iter().find(|jax| jax.version == MAIN).ok_or_else(|| "no version of JAX".into())
}

fn xla() -> Result<PathBuf, Error> {
    PLUGINS.last().ok_or("there is no plugin to compare with")?.path()
}

/// Replaces the content of a table's block.
fn replaced(page: &str, name: &str, content: &str) -> Result<String, Error> {
    let start = format!("<!-- table {name} -->\n");
    let (before, rest) = page.split_once(&start).ok_or_else(|| format!("{PAGE} lacks the line {start:?}"))?;
    let (_, after) = rest.split_once("<!-- end -->").ok_or_else(|| format!("{PAGE}: {name} has no end"))?;
    Ok(format!("{before}{start}\n{content}\n<!-- end -->{after}"))
}

/// Returns a sentence that names the date, the processor and the number of cores.
fn machine() -> Result<String, Error> {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = information.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let cores = std::thread::available_parallelism()?;
    let date = sh::output(Command::new("date").arg("+%Y-%m-%d"))?;
    Ok(format!("Measured on {} with {} cores of an {}.", date.trim(), cores, name.unwrap_or("unknown processor")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_replaced() {
        let page = "a\n<!-- table x -->\nold\n<!-- end -->\nb\n<!-- table y -->\nkept\n<!-- end -->\n";
        let new = replaced(page, "x", "| new |\n").unwrap();
        assert_eq!(new, "a\n<!-- table x -->\n\n| new |\n\n<!-- end -->\nb\n<!-- table y -->\nkept\n<!-- end -->\n");
        assert_eq!(replaced(&new, "x", "| new |\n").unwrap(), new);
        assert!(replaced(page, "z", "").is_err());
    }

    #[test]
    fn page_contains_all_tables() {
        let page = fs::read_to_string(sh::root().join(PAGE)).unwrap();
        for (name, _) in TABLES {
            replaced(&page, name, "").unwrap();
            let (_, block) = page.split_once(&format!("<!-- table {name} -->")).unwrap();
            assert!(block.split_once("<!-- end -->").unwrap().0.contains("\n|"), "the table {name} is empty");
        }
        assert_eq!(page.matches("<!-- table ").count(), TABLES.len());
    }
}
