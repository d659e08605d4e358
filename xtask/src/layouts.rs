//! `cargo xtask layouts`: measures the null device in builds with different code layouts.
//!
//! The times of the benchmark `null_plugin` differ by several percent between builds, because caches and branch
//! prediction depend on the addresses of functions. This task therefore builds the benchmark several times, and the
//! linker orders the functions differently in each build.

use std::process::Command;

use crate::{Error, sh};

const USAGE: &str = "usage: cargo xtask layouts [BUILDS], with at least one build";

/// Number of builds if the command line does not specify it.
const BUILDS: u32 = 15;

/// Builds and runs the benchmark. Prints the minimum, the median and the maximum of the ratio of Rust's time to C's
/// time for each number of arguments.
pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    let builds = match args {
        [] => BUILDS,
        [builds] => builds.parse().ok().filter(|builds| *builds > 0).ok_or(USAGE)?,
        _ => return Err(USAGE.into()),
    };
    let mut programs: Vec<(String, Vec<f64>)> = Vec::new();
    for seed in 1..=builds {
        let output = sh::output(Command::new(build(seed)?).arg("--bench"))?;
        print!("build {seed}\n{output}");
        for line in output.lines() {
            let Some((arguments, ratio)) = ratio(line) else { continue };
            match programs.iter_mut().find(|(known, _)| known == arguments) {
                Some((_, ratios)) => ratios.push(ratio),
                None => programs.push((arguments.to_owned(), vec![ratio])),
            }
        }
    }
    if programs.is_empty() {
        return Err("null_plugin printed no table".into());
    }
    for (arguments, mut ratios) in programs {
        ratios.sort_by(f64::total_cmp);
        let [min, median, max] = [0, ratios.len() / 2, ratios.len() - 1].map(|index| ratios[index]);
        println!("{arguments} arguments: ratio {min:.2} to {max:.2} in {builds} builds, median {median:.2}");
    }
    Ok(())
}

/// Builds the benchmark with functions in a random order, and returns the path of the executable.
fn build(seed: u32) -> Result<String, Error> {
    let mut cargo = sh::cargo();
    cargo.args(["rustc", "--quiet", "-p", "device-plugin", "--bench", "null_plugin", "--profile", "bench"]);
    cargo.args(["--message-format=json", "--", "-C"]).arg(format!("link-arg=-Wl,--shuffle-sections=.text*={seed}"));
    let messages = sh::output(&mut cargo)?;
    let executable = messages.lines().rev().find_map(|line| line.split_once(r#""executable":""#)?.1.split('"').next());
    executable.map(str::to_owned).ok_or_else(|| "cargo built no executable".into())
}

/// Returns the number of arguments and the ratio in a row of the benchmark's table, such as
/// `| 32 | 40.1 ns | 41.2 ns | 0.97 |`. Returns `None` for other lines.
fn ratio(line: &str) -> Option<(&str, f64)> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    Some((cells.first()?, cells.last()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_the_benchmark() {
        assert_eq!(ratio("| 32 | 47.9 ns | 27.3 ns | 1.75 |"), Some(("32", 1.75)));
        assert_eq!(ratio("| arguments and outputs | `device-plugin` | C | ratio |"), None);
        assert_eq!(ratio("|--:|--:|--:|--:|"), None);
        assert_eq!(ratio("null_plugin: `cc` cannot build null_plugin.c: nothing to compare with"), None);
    }

    #[test]
    fn rejects_other_arguments() {
        for args in [&["0"][..], &["x"], &["3", "4"]] {
            assert_eq!(run(args).unwrap_err().to_string(), USAGE);
        }
    }
}
