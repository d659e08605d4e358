//! Plans of many programs, executed by an interpreter and compared with the CPU device.

mod programs;
mod random;
mod toy;

use stablehlo::VerifyLevel;
use stablehlo::ir::Module;

use self::toy::{Toy, check};
use super::{Memory, Plan, Step};

fn parsed(text: &str) -> Module {
    stablehlo::parse(text.to_owned(), VerifyLevel::FULL).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn plan(text: &str) -> Plan<Toy> {
    toy::plan(&parsed(text))
}

fn kernels<K>(plan: &Plan<K>) -> usize {
    let mut count = 0;
    plan.kernels(|_| count += 1);
    count
}

#[test]
fn programs_agree_with_cpu() {
    for (name, text) in programs::ALL {
        check(name, &parsed(text));
    }
}

#[test]
fn random_programs_agree_with_cpu() {
    let mut loops = 0;
    for seed in 0..300 {
        let text = random::program(seed);
        loops += usize::from(text.contains("while"));
        check(&format!("seed {seed}\n{text}"), &parsed(&text));
    }
    assert!(loops > 50, "only {loops} programs have loops");
}

/// Elementwise ops and shape ops are part of the kernels that use them.
#[test]
fn chains_are_one_kernel() {
    let plan = plan(programs::CHAIN);
    assert_eq!((kernels(&plan), plan.scratch_bytes), (1, 0));
    let [Step::Run { reads, writes, .. }] = &plan.steps[..] else { panic!("{:?}", plan.steps) };
    assert_eq!(reads.len(), 2);
    assert_eq!(writes[0].memory, Memory::Output(0));
}

/// The counter and the sum of a loop stay in place: the body has two kernels and no copy.
#[test]
fn loops_update_in_place() {
    let plan = plan(programs::SUM_LOOP);
    let loops: Vec<_> = plan.steps.iter().filter(|step| matches!(step, Step::While { .. })).collect();
    let [Step::While { condition, body, .. }] = &loops[..] else { panic!("{:?}", plan.steps) };
    assert_eq!((condition.len(), body.len()), (1, 2), "{:?}", plan.steps);
    assert!(body.iter().all(|step| matches!(step, Step::Run { .. })), "{body:?}");
}

/// Both swapped values of a loop are first copied to other memory.
#[test]
fn swapped_values_are_copied_through_scratch_memory() {
    let plan = plan(programs::SWAP_LOOP);
    let Some(Step::While { body, .. }) = plan.steps.iter().find(|step| matches!(step, Step::While { .. })) else {
        panic!("{:?}", plan.steps)
    };
    let copies = body.iter().filter(|step| matches!(step, Step::Copy { .. })).count();
    assert_eq!(copies, 4, "{body:?}");
}

#[test]
fn donated_arguments_are_overwritten_if_nothing_reads_them_later() {
    assert_eq!(plan(programs::DONATED).output_aliases, [Some(0)]);
    assert_eq!(plan(programs::DONATED_LOOP).output_aliases, [Some(0)]);
    // The program reads the argument after it has computed the output, or at other indices.
    assert_eq!(plan(programs::DONATED_BUT_READ).output_aliases, [None, None]);
    assert_eq!(plan(programs::DONATED_BUT_REVERSED).output_aliases, [None]);
}

#[test]
fn errors_name_the_value() {
    let module = stablehlo::parse(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }".to_owned(),
        VerifyLevel::STRUCTURE,
    );
    let main = &module.unwrap().funcs[0];
    let error = Plan::new(main, 1, |_| super::Fusion::Opaque, |_| Ok::<_, stablehlo::Error>(())).unwrap_err();
    assert_eq!(error.message(), "a value of type tensor<?xf32> cannot be stored in a buffer");
}

#[test]
fn ops_without_one_result_are_kernels_of_their_own() {
    let module = parsed(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<4xf32>) -> ()
            %a:2 = stablehlo.custom_call @split(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
            %y = stablehlo.add %a#0, %a#1 : tensor<4xf32>
            return %y : tensor<4xf32>
        }",
    );
    let mut kernels = Vec::new();
    let compile = |kernel: &super::Kernel<'_>| {
        kernels.push((kernel.op.kind.name().to_string(), kernel.writes.len()));
        Ok::<_, stablehlo::Error>(())
    };
    Plan::new(&module.funcs[0], 1, |_| super::Fusion::Fusible, compile).unwrap();
    let expected = [("stablehlo.custom_call", 0), ("stablehlo.custom_call", 2), ("stablehlo.add", 1)];
    assert_eq!(kernels, expected.map(|(name, writes)| (name.to_owned(), writes)));
}
