//! Prints the topology of this process, how the SDK detected it, and the result of a plan for this topology.
//!
//! `cargo run -p device-plugin --example topology -- tpu` reads the environment in which it is started. `cuda`, `rocm`,
//! `neuron` and `tpu` are plans of the SDK. To use your own plan, pass the path of a JSON file instead. Without an
//! argument, the plan is empty. If the second argument is `one`, each process uses one device.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use device_plugin::process::{DeviceShare, Explicit, ThisHost, detect};
use device_plugin::{Environment, ProcessPlan, builtin};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let plan = match arguments.next().as_deref() {
        None => ProcessPlan::default(),
        Some(plan) => match builtin::find(plan) {
            Some(known) => known.process,
            None => serde_json::from_str(&std::fs::read_to_string(plan)?)?,
        },
    };
    let mut explicit = Explicit::default();
    if arguments.next().as_deref() == Some("one") {
        explicit.device_share = Some(DeviceShare::One);
    }
    let environment = Environment::of_this_process();
    let detected = detect(&environment, Some(&ThisHost), &explicit)?;
    for report in &detected.sources {
        println!("{report}");
    }
    println!("\n{}", detected.topology);
    println!("\n{}", plan.resolve(&detected.topology, &environment)?);
    Ok(())
}
