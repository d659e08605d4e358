//! Checks whether the device can run a program, without a client.
//!
//! Compiling takes less than a millisecond, so a check of any depth compiles the program. A table of ops would be less
//! reliable.

use device_plugin::support::Reason;
use device_plugin::{CompileOptions, Program, Support};
use stablehlo::ir::Module;

use super::backend::CpuBackend;
use super::compile::{compile_module, settings};
use super::config::MOST_DEVICES;
use stablehlo_cpu::{self as engine, CompileError, Pool};

pub(crate) fn supports(program: &Program) -> Support {
    let module = match device_plugin::stablehlo::read(program, device_plugin::stablehlo::VerifyLevel::FULL) {
        Some(Ok(module)) => module,
        Some(Err(error)) => return Support::No(vec![Reason::unreadable(&error)]),
        None => {
            let message = format!("the device reads StableHLO and HLO, and the program is {:?}", program.format());
            return Support::No(vec![Reason::new(message)]);
        }
    };
    let devices = ["mhlo.num_replicas", "mhlo.num_partitions"].map(|name| stated(&module, name));
    let count = devices[0].checked_mul(devices[1]).filter(|_| devices.iter().all(|n| (1..=MOST_DEVICES).contains(n)));
    if count.is_none_or(|count| count > MOST_DEVICES) {
        let [replicas, partitions] = devices;
        let message = format!(
            "{replicas} replicas of {partitions} partitions: the device makes from 1 to {MOST_DEVICES} devices of a machine"
        );
        return Support::No(vec![Reason::new(message)]);
    }
    let options = CompileOptions::default()
        .with_num_replicas(devices[0])
        .with_num_partitions(devices[1])
        .with_spmd_partitioning(true)
        .with_shardy_partitioner(true);
    match compile_module::<CpuBackend>(&module, &options) {
        Ok(_) => Support::Yes,
        Err(error) => match refused(&module, &options) {
            Some(error) => Support::No(error.all().map(reason).collect()),
            None => Support::No(vec![Reason::new(error.message())]),
        },
    }
}

/// Returns the engine's error for a program, or `None` if the program compiles. [`CompileError::all`] returns one error
/// for each unsupported op.
fn refused(module: &Module, options: &CompileOptions) -> Option<CompileError> {
    let count = |n: i64| usize::try_from(n).unwrap_or(1).max(1);
    let settings = settings::<CpuBackend>(count(options.num_replicas), count(options.num_partitions), options);
    engine::compile_with(module, &settings, Pool::global()).err()
}

fn reason(error: &CompileError) -> Reason {
    Reason {
        operation: error.operation().map(Into::into),
        location: error.location().map(Into::into),
        ..Reason::new(error.message())
    }
}

/// Returns an integer attribute of the module, or 1 if the module does not have this attribute.
fn stated(module: &Module, name: &str) -> i64 {
    let found = module.attributes.iter().find(|(attribute, _)| attribute == name);
    found.and_then(|(_, value)| value.as_integer()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_programs_for_too_many_devices() {
        for (replicas, partitions) in [("1000000000000", "1"), ("4611686018427387904", "4"), ("1024", "2"), ("0", "1")]
        {
            let text = format!(
                "module attributes {{mhlo.num_replicas = {replicas} : i64, mhlo.num_partitions = {partitions} : i64}} {{
                   func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{
                     %0 = \"stablehlo.all_reduce\"(%a) ({{
                       ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                         %s = stablehlo.add %x, %y : tensor<f32>
                         stablehlo.return %s : tensor<f32>
                     }}) {{replica_groups = dense<0> : tensor<1x1xi64>}} : (tensor<2xf32>) -> tensor<2xf32>
                     return %0 : tensor<2xf32>
                   }}
                 }}"
            );
            let program = Program::mlir(text.into_bytes());
            let Support::No(reasons) = supports(&program) else { panic!("{replicas} x {partitions} are supported") };
            assert!(reasons[0].to_string().contains("from 1 to 1024 devices"), "{}", reasons[0]);
        }
    }
}
