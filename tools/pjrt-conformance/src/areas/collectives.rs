//! Cases for collective operations, in programs on several devices.

use pjrt::{CompileOptions, ExecuteOptions, Input, Upload};

use crate::case::Profiles;
use crate::context::{Context, floats};
use crate::stop::Stop;
use crate::suite::Suite;

/// Executes a program with one replica for each array in `inputs`, which is the argument of the replica. Returns the
/// elements of the first output of each replica.
fn replicas(cx: &Context, text: &str, inputs: &[Vec<f32>]) -> Result<Vec<Vec<f32>>, Stop> {
    let count = inputs.len();
    cx.devices(count)?;
    let client = cx.client()?;
    let options = CompileOptions::default().with_num_replicas(i64::try_from(count).unwrap_or(1));
    let executable = cx.compile_with(text, &options)?;
    let mut lists = Vec::new();
    for (device, data) in executable.addressable_devices().iter().zip(inputs) {
        let len = i64::try_from(data.len()).unwrap_or(0);
        lists.push(vec![Input::Donate(client.upload(Upload::of(data).dims(&[len]).to(device))?)]);
    }
    let run = executable.execute_sharded(lists, &ExecuteOptions::new())?;
    for done in &run.done {
        done.wait()?;
    }
    run.outputs.iter().map(|outputs| outputs.first().map_or_else(|| Ok(Vec::new()), floats)).collect()
}

pub(crate) fn declare(suite: &mut Suite) {
    let why = "data-parallel training stops at a hang, and diverges with wrong results";
    for count in [2usize, 4] {
        let groups = (0..count).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
        let inputs =
            move || (0..count).map(|at| vec![f32::from(u8::try_from(at).unwrap_or(0)) + 1.0, 10.0]).collect::<Vec<_>>();
        let text = format!(
            "func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %y = \"stablehlo.all_reduce\"(%x) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    \"stablehlo.return\"(%s) : (tensor<f32>) -> ()
  }}) {{replica_groups = dense<[[{groups}]]> : tensor<1x{count}xi64>}} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}}"
        );
        suite
            .case(
                format!("collectives.all_reduce.sum[devices={count}]"),
                "StableHLO, all_reduce: returns the sum over the replicas on every replica",
                why,
            )
            .profiles(Profiles::FRAMEWORKS)
            .devices(count)
            .check(move |cx| {
                let found = replicas(cx, &text, &inputs())?;
                let sums =
                    inputs().iter().fold(vec![0.0, 0.0], |sums, data| vec![sums[0] + data[0], sums[1] + data[1]]);
                ensure_eq!(found, vec![sums; count], "results");
                Ok(())
            });
        let wide = 2 * count;
        let text = format!(
            "func.func public @main(%x: tensor<2xf32>) -> tensor<{wide}xf32> {{
  %y = \"stablehlo.all_gather\"(%x) {{all_gather_dim = 0 : i64, replica_groups = dense<[[{groups}]]> : tensor<1x{count}xi64>}} : (tensor<2xf32>) -> tensor<{wide}xf32>
  return %y : tensor<{wide}xf32>
}}"
        );
        suite
            .case(
                format!("collectives.all_gather.order[devices={count}]"),
                "StableHLO, all_gather: concatenates the operands in the order of the group",
                why,
            )
            .profiles(Profiles::FRAMEWORKS)
            .devices(count)
            .check(move |cx| {
                let found = replicas(cx, &text, &inputs())?;
                let all: Vec<f32> = inputs().concat();
                ensure_eq!(found, vec![all; count], "results");
                Ok(())
            });
        let pairs = (0..count).map(|at| format!("[{at}, {}]", (at + 1) % count)).collect::<Vec<_>>().join(", ");
        let text = format!(
            "func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %y = \"stablehlo.collective_permute\"(%x) {{source_target_pairs = dense<[{pairs}]> : tensor<{count}x2xi64>}} : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}}"
        );
        suite
            .case(
                format!("collectives.collective_permute.ring[devices={count}]"),
                "StableHLO, collective_permute: each target receives its source's operand",
                why,
            )
            .profiles(Profiles::FRAMEWORKS)
            .devices(count)
            .check(move |cx| {
                let found = replicas(cx, &text, &inputs())?;
                let mut expected = inputs();
                expected.rotate_right(1);
                ensure_eq!(found, expected, "results");
                Ok(())
            });
        suite
            .case(
                format!("collectives.replica_id.differs[devices={count}]"),
                "StableHLO, replica_id: returns the number of the replica",
                why,
            )
            .profiles(Profiles::FRAMEWORKS)
            .devices(count)
            .check(move |cx| {
                let text = "func.func public @main(%x: tensor<2xf32>) -> tensor<1xf32> {
  %r = stablehlo.replica_id : tensor<ui32>
  %f = stablehlo.convert %r : (tensor<ui32>) -> tensor<f32>
  %y = stablehlo.reshape %f : (tensor<f32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}";
                let found = replicas(cx, text, &inputs())?;
                let expected: Vec<Vec<f32>> =
                    (0..count).map(|at| vec![f32::from(u8::try_from(at).unwrap_or(0))]).collect();
                ensure_eq!(found, expected, "numbers");
                Ok(())
            });
    }
    suite
        .case("collectives.all_reduce.repeated", "StableHLO, all_reduce: reduces the operands of one run only", why)
        .profiles(Profiles::FRAMEWORKS)
        .devices(2)
        .check(|cx| {
            let text = "func.func public @main(%x: tensor<1xf32>) -> tensor<1xf32> {
  %y = \"stablehlo.all_reduce\"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    \"stablehlo.return\"(%s) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}";
            for at in 0..20u8 {
                let found = replicas(cx, text, &[vec![f32::from(at)], vec![1.0]])?;
                ensure_eq!(found, vec![vec![f32::from(at) + 1.0]; 2], "results of run {at}");
            }
            Ok(())
        });
}
