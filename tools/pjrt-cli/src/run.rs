//! `pjrt run`: compiles a program, runs it and prints or saves its outputs.

use std::cell::LazyCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pjrt::{
    Buffer, Client, CompileOptions, Device, DeviceAssignment, ElementType, Error, ExecuteOptions, HostArray, Input,
    LoadedExecutable, Program, Upload,
};
use serde_json::json;

#[cfg(unix)]
use crate::interrupt::{LAUNCH_ID, Watch};
use crate::open::ClientArgs;
use crate::paint::{Meaning, paint};
use crate::program::{self, ProgramArgs};
use crate::signature::Signature;
use crate::{Report, array};

#[cfg(not(unix))]
const LAUNCH_ID: i32 = 1;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt run axpy.mlir f32=2 f32[4]=0,1,2,3 f32[4]=10
  pjrt run axpy.mlir 2 '[0,1,2,3]' 10              element types and shapes of the program
  pjrt run model.mlir x.npy w.npy:bf16 -o out.npz  files of NumPy in and out
  pjrt run model.mlir x.npy -p cuda --repeat 100   another plugin, timed")]
pub(crate) struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Inputs in order. FILE.npy, FILE.npy:TYPE for element types that NumPy lacks, FILE.npz:NAME, or a literal such as
    /// `f32[2,2]=1,2,3,4`, `f32[4]=0`, `f32=[[1,2],[3,4]]`, `c64=1-2j` or `1.5`.
    #[arg(allow_negative_numbers = true)]
    inputs: Vec<String>,
    #[command(flatten)]
    client: ClientArgs,
    /// Index of the device among the client's addressable ones.
    #[arg(long, short, default_value_t = 0)]
    device: usize,
    /// Save the outputs: out0.npy, out1.npy, … in this folder, or all of them in one file if the path ends in `.npz`.
    #[arg(long, short, value_name = "DIR|FILE.npz")]
    output: Option<PathBuf>,
    /// Execute this many times on the same inputs and print the median time.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print the complete outputs and the times as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The outputs of a program, and the times to compile and execute it.
struct Outcome {
    outputs: Vec<HostArray>,
    compile: Duration,
    execute: Duration,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let program = args.program.read()?;
    let inputs = inputs(args, &program)?;
    let client = args.client.client()?;
    let device = device(&client, args.device)?;
    #[cfg(unix)]
    let watch = Watch::new(&device).map_err(|error| format!("handling of Ctrl-C: {error}"))?;
    let outcome = on(&client, &device, args, program, inputs);
    drop(device);
    #[cfg(unix)]
    let interrupted = watch.release();
    // Free the device before printing, because printing may take long.
    drop(client);
    #[cfg(unix)]
    if let Some(code) = interrupted {
        anstream::eprintln!("{} interrupted", paint(Meaning::Bad, "pjrt:"));
        return Ok(Report::new(String::new(), code));
    }
    let outcome = outcome?;
    if let Some(path) = &args.output {
        array::save(path, &outcome.outputs)?;
    }
    Ok(if args.json { as_json(&outcome) } else { as_text(args, &outcome) }.into())
}

/// Reads the inputs. The program determines the shapes of literals without a type.
fn inputs(args: &Args, program: &Program) -> Result<Vec<HostArray>, String> {
    let signature = LazyCell::new(|| Signature::of(program));
    let read = |(index, text): (usize, &String)| {
        array::from_argument(text, || signature.as_ref().map_err(String::clone)?.input_shape(index))
    };
    args.inputs.iter().enumerate().map(read).collect()
}

/// Returns the addressable device with the given index.
fn device(client: &Client, index: usize) -> Result<Device, String> {
    let mut devices = client.addressable_devices().map_err(|error| error.to_string())?;
    if index < devices.len() {
        return Ok(devices.swap_remove(index));
    }
    Err(format!("--device {index}: the client has {} addressable devices, numbered from 0", devices.len()))
}

fn on(
    client: &Client,
    device: &Device,
    args: &Args,
    program: Program,
    inputs: Vec<HostArray>,
) -> Result<Outcome, String> {
    let text = |error: Error| error.to_string();
    let options = compile_options(device).map_err(text)?;
    let start = Instant::now();
    let executable = program::compile(&client.plugin(), &program, |program| client.compile(program, &options))
        .map_err(|error| args.program.explained(&error.to_string(), &program))?;
    let compile = start.elapsed();
    let upload = |array: &HostArray| client.upload(Upload::of(array.bytes()).shape(array.shape()).to(device));
    let buffers = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>().map_err(text)?;
    let (execute, outputs) = execute(&executable, &buffers, args.repeat).map_err(text)?;
    Ok(Outcome { outputs, compile, execute })
}

/// Returns compile options for one replica with one partition, on the given device.
fn compile_options(device: &Device) -> Result<CompileOptions, Error> {
    let id = i64::from(device.id()?);
    let mut options = CompileOptions::default();
    options.device_assignment = DeviceAssignment::new(1, 1, vec![id]);
    Ok(options)
}

/// Returns the median time of the executions, and the outputs of the last one. Each time includes waiting for the
/// outputs.
fn execute(executable: &LoadedExecutable, inputs: &[Buffer], repeat: u32) -> Result<(Duration, Vec<HostArray>), Error> {
    // The launch id allows a signal to stop the execution.
    let options = ExecuteOptions::new().with_launch_id(LAUNCH_ID);
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..repeat {
        let given: Vec<_> = inputs.iter().map(Input::from).collect();
        let start = Instant::now();
        let outputs = executable.execute_with(given, &options)?.outputs;
        for output in &outputs {
            output.wait()?;
        }
        times.push(start.elapsed());
        last = Some(outputs);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok((median, last.iter().flatten().map(fetched).collect::<Result<_, _>>()?))
}

/// Copies an output to the host. A token has no elements to copy.
fn fetched(output: &Buffer) -> Result<HostArray, Error> {
    match output.shape()? {
        shape if shape.element_type == ElementType::Token => HostArray::new(shape.clone(), Vec::new()),
        _ => output.download().array(),
    }
}

fn as_text(args: &Args, outcome: &Outcome) -> String {
    let mut out = String::new();
    for (index, output) in outcome.outputs.iter().enumerate() {
        let text = array::text(output);
        let gap = if text.starts_with('\n') { "" } else { " " };
        line!(out, "out{index} {}{gap}{text}", output.shape());
    }
    let times = if args.repeat > 1 { format!("median of {} executions", args.repeat) } else { "execution".to_owned() };
    line!(
        out,
        "compile {:.3} ms, {times} {:.1} us",
        milliseconds(outcome.compile),
        milliseconds(outcome.execute) * 1e3
    );
    out
}

fn as_json(outcome: &Outcome) -> String {
    let mut out = String::new();
    let outputs: Vec<_> = outcome
        .outputs
        .iter()
        .map(|output| {
            json!({
                "element_type": output.shape().element_type.name(),
                "dimensions": output.shape().dimensions,
                "values": array::values(output),
            })
        })
        .collect();
    line!(
        out,
        "{:#}",
        json!({
            "outputs": outputs,
            "compile_ms": milliseconds(outcome.compile),
            "execute_us": milliseconds(outcome.execute) * 1e3,
        })
    );
    out
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
