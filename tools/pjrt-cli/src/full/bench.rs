//! `pjrt bench`: measures plugins on the same programs.

use std::fs;
use std::path::{Path, PathBuf};

use pjrt::{ClientOptions, CompileOptions, HostArray, Program};
use pjrt_bench::{Case, Report, Settings, Side, chart, measure};
use pjrt_record::replay::Tolerance;

use crate::array;
use crate::full::progress::Progress;
use crate::library;
use crate::paint::{Meaning, paint};
use crate::program;
use crate::signature::Signature;

#[derive(clap::Args)]
#[command(
    after_help = "The plugins run in one process, alternately. The outputs of each are compared with those of the first plugin, so that a
wrong answer does not count. A ratio is the time of the first plugin divided by that of the other one.

Examples:
  pjrt bench step.mlir -p cpu -p ./libacme.so           one program on two plugins
  pjrt bench models/*.mlir -p acme -p cpu --svg out.svg   many programs, with a chart
  pjrt bench step.mlir -i x.npy -i f32=0.5              the program's inputs, in place of random ones
  pjrt bench step.mlir --json > today.json              for another program"
)]
pub(crate) struct Args {
    /// Programs: StableHLO (text, or a portable artifact), or serialized HLO.
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<PathBuf>,
    /// Inputs in order, if there is one program; see `pjrt run --help`. Without this option, inputs are random:
    /// floating-point numbers between -0.5 and 0.5, and integers from 0 to 3.
    #[arg(long = "input", short, value_name = "INPUT", allow_hyphen_values = true)]
    inputs: Vec<String>,
    /// `cpu` for the embedded device, the name of an installed plugin, or the path of a plugin's library. May be
    /// repeated.
    #[arg(long = "plugin", short, value_name = "NAME|PATH", default_value = "cpu")]
    plugins: Vec<String>,
    /// Seconds to execute each program, on all plugins together. Compiling gets a quarter of this time in addition.
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// How much floating-point elements may differ from those of the first plugin: |got - expected| <= T * (1 +
    /// |expected|). The default is 1e-4, and 1e-9 for f64 and c128, 1e-2 for f16, 5e-2 for bf16.
    #[arg(long, value_name = "T|TYPE=T,...")]
    tolerance: Option<Tolerance>,
    /// Do not compare the outputs, for example those of a program with random numbers.
    #[arg(long, conflicts_with = "tolerance")]
    no_compare: bool,
    /// Write a chart of the ratios of the first plugin to the second one.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=86400.0).contains(&number) { Ok(number) } else { Err("not between 0 and 86400".to_owned()) }
}

pub(crate) fn run(args: &Args) -> Result<String, String> {
    if args.programs.len() > 1 && !args.inputs.is_empty() {
        return Err("--input: give inputs with one program only; several programs get random inputs".to_owned());
    }
    if args.svg.is_some() && args.plugins.len() < 2 {
        return Err("--svg: the chart compares two plugins; add a second --plugin".to_owned());
    }
    if let Some(path) = &args.svg {
        // Check that the file can be written before the measurement, not after it.
        fs::File::create(path).map_err(|error| format!("--svg {}: {error}", path.display()))?;
    }
    if cfg!(debug_assertions) && args.plugins.iter().any(|plugin| plugin == "cpu") {
        let name = paint(Meaning::Notable, "pjrt:");
        anstream::eprintln!(
            "{name} built without optimization, so the embedded device is slow; build with `--release`"
        );
    }
    let sides = args.plugins.iter().zip(names(&args.plugins)).map(|(plugin, name)| side(plugin, &name));
    let sides = sides.collect::<Result<Vec<_>, _>>()?;
    let mut settings = Settings::default().with_seconds(args.seconds);
    if let Some(tolerance) = &args.tolerance {
        settings = settings.with_tolerance(Some(tolerance.clone()));
    } else if args.no_compare {
        settings = settings.with_tolerance(None);
    }
    let mut cases = Vec::new();
    let progress = Progress::of(args.programs.len());
    for path in &args.programs {
        progress.say(path.display().to_string());
        let case = case(path, &args.inputs, &sides)?;
        cases.push(measure(&case, &sides, &settings).map_err(|error| error.to_string())?);
        progress.step("");
    }
    drop(progress);
    let report = Report::new(&sides, cases);
    if let Some(path) = &args.svg {
        let chart = chart(&report).ok_or("--svg: the report has no ratios to draw")?;
        fs::write(path, chart).map_err(|error| format!("--svg {}: {error}", path.display()))?;
    }
    if !args.json {
        return Ok(report.to_string());
    }
    let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    Ok(json + "\n")
}

/// Returns the names of the plugins in the report: the given name, or the file name of the library without its ending.
/// If several plugins would have the same name, adds a number to the name.
fn names(plugins: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for plugin in plugins {
        let stem = Path::new(plugin).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = stem.filter(|_| plugin.contains(std::path::is_separator)).unwrap_or_else(|| plugin.clone());
        let mut unique = name.clone();
        let mut number = 2;
        while names.contains(&unique) {
            unique = format!("{name} ({number})");
            number += 1;
        }
        names.push(unique);
    }
    names
}

fn side(plugin: &str, name: &str) -> Result<Side, String> {
    let loaded = library::find(plugin)?;
    let loaded = loaded.load().map_err(|error| error.to_string())?;
    let client = loaded.client_labelled("the command pjrt", &ClientOptions::new());
    Ok(Side::new(name, client.map_err(|error| error.to_string())?))
}

/// Reads a program and its inputs. Determines for each plugin whether it compiles the given program or a portable
/// artifact of it.
fn case(path: &Path, inputs: &[String], sides: &[Side]) -> Result<Case, String> {
    let explained = |reason: String| format!("{}: {reason}", path.display());
    let program = program::read(path, None)?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let signature = Signature::of(&program).map_err(explained)?;
    let count = signature.inputs().len();
    let case = if inputs.is_empty() {
        let shapes = (0..count).map(|index| signature.input_shape(index)).collect::<Result<Vec<_>, _>>();
        let shapes = shapes.map_err(|reason| explained(format!("{reason}; give the inputs with --input")))?;
        Case::with_random_inputs(name, program, &shapes).map_err(|error| explained(error.to_string()))?
    } else if inputs.len() == count {
        let read = |(index, text): (usize, &String)| array::from_argument(text, || signature.input_shape(index));
        let inputs: Vec<HostArray> = inputs.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Case::new(name, program, inputs)
    } else {
        return Err(explained(format!("the program has {count} inputs, and --input is given {} times", inputs.len())));
    };
    let forms = sides.iter().map(|side| form(&case.program, side).map_err(explained)).collect::<Result<_, _>>()?;
    Ok(case.with_forms(forms))
}

/// Returns the program in the form that the plugin compiles. This is the given program, or a portable artifact of it.
fn form(program: &Program, side: &Side) -> Result<Program, String> {
    let client = side.client();
    let compile = |form: &Program| client.compile(form, &CompileOptions::default()).map(|_| form.clone());
    program::compile(&client.plugin(), program, compile).map_err(|error| format!("{}: {error}", side.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_named_by_their_files() {
        let plugins = ["cpu", "a/libx.so", "b/libx.so", "cpu", "1.5"].map(str::to_owned);
        assert_eq!(names(&plugins), ["cpu", "libx", "libx (2)", "cpu (2)", "1.5"]);
    }

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(["-1", "NaN", "inf", "x", "1e9"].iter().all(|text| seconds(text).is_err()));
    }
}
