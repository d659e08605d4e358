//! Tests of programs with several members, each on its own thread.

use std::thread;

use bytemuck::Pod;

use super::tensor;
use crate::{Communicator, CompileSettings, DType, Member, Pool, Program, RunError, Tensor, compile_with};

/// Compiles a program with one function `main` for a communicator of the given size.
pub(super) fn program(replicas: usize, partitions: usize, parameters: &str, results: &str, body: &str) -> Program {
    let text = format!("func.func @main({parameters}) -> ({results}) {{\n{body}\n}}");
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses");
    let mut settings = CompileSettings::new(replicas, partitions);
    settings.use_spmd = false;
    compile_with(&module, &settings, Pool::global()).expect("the test's program compiles")
}

/// Runs a program on all members of a communicator. `inputs(flattened id)` returns the inputs of a member.
pub(super) fn launch(
    program: &Program,
    inputs: impl Fn(usize) -> Vec<Tensor> + Sync,
) -> Vec<Result<Vec<Tensor>, RunError>> {
    let communicator = Communicator::new(program.settings().replicas, program.settings().partitions);
    let members: Vec<Member> = communicator.members();
    thread::scope(|scope| {
        let inputs = &inputs;
        let run = |(id, member): (usize, Member)| {
            scope.spawn(move || program.run_in(inputs(id), Pool::global(), Some(&member), None))
        };
        let threads: Vec<_> = members.into_iter().enumerate().map(run).collect();
        threads.into_iter().map(|t| t.join().expect("no member panics")).collect()
    })
}

/// Returns the elements of each member's only result.
pub(super) fn results<T: Pod>(program: &Program, inputs: impl Fn(usize) -> Vec<Tensor> + Sync) -> Vec<Vec<T>> {
    let outputs = launch(program, inputs);
    let one = |o: Result<Vec<Tensor>, RunError>| o.expect("a member runs")[0].as_slice().expect("elements").to_vec();
    outputs.into_iter().map(one).collect()
}

/// Returns the attributes of a collective with the groups `list`. `channel` and `global` select whether the IDs in the
/// groups are IDs of replicas, partitions or members.
pub(super) fn groups(list: &str, channel: bool, global: bool) -> String {
    let rows = list.matches('[').count() - 1;
    let columns = list.split(']').next().map_or(0, |row| row.split(',').count());
    let channel = if channel { "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, " } else { "" };
    let global = if global { ", use_global_device_ids" } else { "" };
    format!("{channel}replica_groups = dense<{list}> : tensor<{rows}x{columns}xi64>{global}")
}

pub(super) fn all_reduce(op: &str, element: &str, n: usize, groups: &str) -> String {
    format!(
        "%0 = \"stablehlo.all_reduce\"(%x) <{{{groups}}}> ({{
          ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
            %s = stablehlo.{op} %a, %b : tensor<{element}>
            stablehlo.return %s : tensor<{element}>
        }}) : (tensor<{n}x{element}>) -> tensor<{n}x{element}>
        return %0 : tensor<{n}x{element}>"
    )
}

#[test]
fn all_reduce_member_numbers() {
    let sum = |replicas, partitions, list: &str, channel, global| {
        let body = all_reduce("add", "i32", 1, &groups(list, channel, global));
        let program = program(replicas, partitions, "%x: tensor<1xi32>", "tensor<1xi32>", &body);
        assert!(program.has_collectives());
        let bits = |id: usize| vec![tensor(DType::I32, &[1], &[1i32 << id])];
        results::<i32>(&program, bits).concat()
    };
    // Flattened IDs are `replica * 2 + partition`. These groups contain replicas, and each group exists once per
    // partition.
    assert_eq!(sum(2, 2, "[[0, 1]]", false, false), [0b0101, 0b1010, 0b0101, 0b1010]);
    assert_eq!(sum(2, 2, "[[0], [1]]", false, false), [1, 2, 4, 8]);
    // With a channel, a group contains all partitions of its replicas.
    assert_eq!(sum(2, 2, "[[0], [1]]", true, false), [0b0011, 0b0011, 0b1100, 0b1100]);
    assert_eq!(sum(2, 2, "[[0, 1]]", true, false), [15; 4]);
    // With global IDs, any set of members can be a group.
    assert_eq!(sum(1, 4, "[[0, 3], [1, 2]]", true, true), [0b1001, 0b0110, 0b0110, 0b1001]);
    assert_eq!(sum(4, 1, "[[0, 1, 2, 3]]", false, false), [15; 4]);
}

#[test]
fn every_reducer_and_element_type() {
    fn check<T: Pod + PartialEq + std::fmt::Debug>(op: &str, dtype: DType, of: impl Fn(usize) -> T + Sync, want: T) {
        let body = all_reduce(op, dtype.name(), 3, &groups("[[0, 1, 2, 3]]", true, true));
        let ty = format!("tensor<3x{}>", dtype.name());
        let program = program(1, 4, &format!("%x: {ty}"), &ty, &body);
        let got = results::<T>(&program, |id| vec![tensor(dtype, &[3], &[of(id); 3])]);
        assert_eq!(got, vec![vec![want; 3]; 4], "{op} {dtype:?}");
    }
    let float = |id: usize| [1.5f32, -2.0, 4.0, 0.25][id];
    check("add", DType::F32, float, 3.75);
    check("multiply", DType::F32, float, -3.0);
    check("maximum", DType::F32, float, 4.0);
    check("minimum", DType::F32, float, -2.0);
    check("add", DType::F64, |id| f64::from(float(id)), 3.75);
    check("add", DType::Bf16, |id| half::bf16::from_f32(float(id)), half::bf16::from_f32(3.75));
    check("add", DType::F16, |id| half::f16::from_f32(float(id)), half::f16::from_f32(3.75));
    check("add", DType::I64, |id| [5i64, -7, 1, 2][id], 1);
    check("add", DType::U8, |id| [200u8, 100, 1, 2][id], 47);
    check("and", DType::I32, |id| [7i32, 6, 14, 15][id], 6);
    check("or", DType::Bool, |id| u8::from(id == 2), 1);
    check("xor", DType::U32, |id| 1u32 << id, 15);
    check("and", DType::Bool, |id| u8::from(id != 3), 0);
}

#[test]
fn scalar_function_reducer() {
    // The reducer is a + 2 b, so the result depends on the order of the members.
    let body = format!(
        "%two = stablehlo.constant dense<2> : tensor<i32>
        %0 = \"stablehlo.all_reduce\"(%x) <{{{}}}> ({{
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %t = stablehlo.multiply %b, %two : tensor<i32>
            %s = stablehlo.add %a, %t : tensor<i32>
            stablehlo.return %s : tensor<i32>
        }}) : (tensor<2xi32>) -> tensor<2xi32>
        return %0 : tensor<2xi32>",
        groups("[[2, 0, 1]]", true, true)
    );
    let program = program(1, 3, "%x: tensor<2xi32>", "tensor<2xi32>", &body);
    let got = results::<i32>(&program, |id| vec![tensor(DType::I32, &[2], &[[1, 10], [2, 20], [3, 30]][id])]);
    assert_eq!(got, vec![vec![3 + 2 + 4, 90]; 3]);
}

#[test]
fn all_reduce_of_several_tensors() {
    let body = format!(
        "%0:2 = \"stablehlo.all_reduce\"(%x, %y) <{{{}}}> ({{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }}) : (tensor<2xf32>, tensor<f32>) -> (tensor<2xf32>, tensor<f32>)
        return %0#0, %0#1 : tensor<2xf32>, tensor<f32>",
        groups("[[0, 1]]", true, true)
    );
    let program = program(1, 2, "%x: tensor<2xf32>, %y: tensor<f32>", "tensor<2xf32>, tensor<f32>", &body);
    let of = |id: usize| [1.0f32, 10.0][id];
    let outputs =
        launch(&program, |id| vec![tensor(DType::F32, &[2], &[of(id), -of(id)]), tensor(DType::F32, &[], &[of(id)])]);
    for outputs in outputs {
        let outputs = outputs.unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [11.0, -11.0]);
        assert_eq!(outputs[1].as_slice::<f32>().unwrap(), [11.0]);
    }
}

/// Returns a 4 by 2 matrix whose elements are `id * 100 + row * 10 + column`. `id` is the ID of a member.
fn matrix(id: usize) -> Tensor {
    let id = i32::try_from(id).unwrap();
    let elements: Vec<i32> = (0..4).flat_map(|row| (0..2).map(move |column| id * 100 + row * 10 + column)).collect();
    tensor(DType::I32, &[4, 2], &elements)
}

#[test]
fn all_gather_along_each_dimension() {
    let gather = |dimension: usize, result: &str| {
        let body = format!(
            "%0 = \"stablehlo.all_gather\"(%x) <{{all_gather_dim = {dimension} : i64, {}}}> : (tensor<4x2xi32>) -> {result}
            return %0 : {result}",
            groups("[[1, 0]]", true, true)
        );
        results::<i32>(&program(1, 2, "%x: tensor<4x2xi32>", result, &body), |id| vec![matrix(id)])
    };
    let (a, b) = ([0, 1, 10, 11, 20, 21, 30, 31], [100, 101, 110, 111, 120, 121, 130, 131]);
    assert_eq!(gather(0, "tensor<8x2xi32>"), vec![[b, a].concat(); 2]);
    let row = |i: usize| [b[2 * i], b[2 * i + 1], a[2 * i], a[2 * i + 1]];
    assert_eq!(gather(1, "tensor<4x4xi32>"), vec![[row(0), row(1), row(2), row(3)].concat(); 2]);
}

#[test]
fn reduce_scatter_along_each_dimension() {
    let scatter = |dimension: usize, result: &str| {
        let body = format!(
            "%0 = \"stablehlo.reduce_scatter\"(%x) <{{scatter_dimension = {dimension} : i64, {}}}> ({{
              ^bb0(%a: tensor<i32>, %b: tensor<i32>):
                %s = stablehlo.add %a, %b : tensor<i32>
                stablehlo.return %s : tensor<i32>
            }}) : (tensor<4x2xi32>) -> {result}
            return %0 : {result}",
            groups("[[0, 1]]", true, true)
        );
        results::<i32>(&program(1, 2, "%x: tensor<4x2xi32>", result, &body), |id| vec![matrix(id)])
    };
    assert_eq!(scatter(0, "tensor<2x2xi32>"), [[100, 102, 120, 122], [140, 142, 160, 162]]);
    assert_eq!(scatter(1, "tensor<4x1xi32>"), [[100, 120, 140, 160], [102, 122, 142, 162]]);
}

#[test]
fn all_to_all_split_and_concat() {
    let body = format!(
        "%0 = \"stablehlo.all_to_all\"(%x) <{{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, {}}}>
          : (tensor<4x2xi32>) -> tensor<2x4xi32>
        return %0 : tensor<2x4xi32>",
        groups("[[0, 1]]", true, false)
    );
    let program = program(1, 2, "%x: tensor<4x2xi32>", "tensor<2x4xi32>", &body);
    let got = results::<i32>(&program, |id| vec![matrix(id)]);
    assert_eq!(got, [[0, 1, 100, 101, 10, 11, 110, 111], [20, 21, 120, 121, 30, 31, 130, 131]]);
}

#[test]
fn permute_and_broadcast_zero_fill() {
    let permute = |replicas, partitions, channel: &str| {
        let body = format!(
            "%0 = \"stablehlo.collective_permute\"(%x) <{{{channel}source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>}}>
              : (tensor<4x2xi32>) -> tensor<4x2xi32>
            return %0 : tensor<4x2xi32>"
        );
        let program = program(replicas, partitions, "%x: tensor<4x2xi32>", "tensor<4x2xi32>", &body);
        let got = results::<i32>(&program, |id| vec![matrix(id)]);
        got.iter().map(|m| m[1]).collect::<Vec<i32>>()
    };
    let channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, ";
    assert_eq!(permute(1, 4, channel), [0, 1, 101, 0]);
    assert_eq!(permute(3, 1, ""), [0, 1, 101]);
    let body = format!(
        "%0 = \"stablehlo.collective_broadcast\"(%x) <{{{}}}> : (tensor<4x2xi32>) -> tensor<4x2xi32>
        return %0 : tensor<4x2xi32>",
        groups("[[2, 1]]", true, false)
    );
    let program = program(1, 3, "%x: tensor<4x2xi32>", "tensor<4x2xi32>", &body);
    let got = results::<i32>(&program, |id| vec![matrix(id)]);
    assert_eq!([got[0][1], got[1][1], got[2][1]], [0, 201, 201]);
}

#[test]
fn partition_and_replica_id() {
    let body = "%r = stablehlo.replica_id : tensor<ui32>
        %p = stablehlo.partition_id : tensor<ui32>
        %c = stablehlo.constant dense<10> : tensor<ui32>
        %m = stablehlo.multiply %r, %c : tensor<ui32>
        %0 = stablehlo.add %m, %p : tensor<ui32>
        return %0 : tensor<ui32>";
    let program = program(2, 2, "", "tensor<ui32>", body);
    assert!(!program.has_collectives());
    assert_eq!(results::<u32>(&program, |_| Vec::new()).concat(), [0, 1, 10, 11]);
}

/// Returns a program with a loop. Each iteration sums a value over all members and subtracts one from the sum. `rounds`
/// is the op that computes the number of iterations.
fn looping(rounds: &str) -> Program {
    let body = format!(
        "%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %n = {rounds}
        %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<i32>
          cond {{
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }} do {{
            %s = \"stablehlo.all_reduce\"(%v) <{{{}}}> ({{
              ^bb0(%a: tensor<i32>, %b: tensor<i32>):
                %t = stablehlo.add %a, %b : tensor<i32>
                stablehlo.return %t : tensor<i32>
            }}) : (tensor<i32>) -> tensor<i32>
            %w = stablehlo.subtract %s, %one : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %w : tensor<i32>, tensor<i32>
          }}
        return %0#1 : tensor<i32>",
        groups("[[0, 1]]", true, true)
    );
    program(1, 2, "%x: tensor<i32>", "tensor<i32>", &body)
}

#[test]
fn collectives_in_loops() {
    let program = looping("stablehlo.constant dense<20> : tensor<i32>");
    for _ in 0..20 {
        // The first iteration computes 0 + 1 - 1 on both members. Each later iteration replaces v by 2 v - 1.
        let want = (1..20).fold(0, |v, _| 2 * v - 1);
        let got = results::<i32>(&program, |id| vec![tensor(DType::I32, &[], &[[0, 1][id]])]);
        assert_eq!(got.concat(), [want; 2]);
    }
}

#[test]
fn finished_member_releases_others() {
    // The number of iterations is the member's own ID. Member 1 therefore waits for member 0, which has already ended.
    let program = looping("stablehlo.add %x, %zero : tensor<i32>");
    let got = launch(&program, |id| vec![tensor(DType::I32, &[], &[[0, 1][id]])]);
    assert!(got[0].is_ok());
    let error = got[1].as_ref().unwrap_err();
    assert!(matches!(error, RunError::Launch(_)), "{error}");
}

#[test]
fn failed_member_releases_others() {
    let program = looping("stablehlo.constant dense<2> : tensor<i32>");
    // The input of member 1 has the wrong type.
    let got = launch(&program, |id| {
        vec![if id == 0 { tensor(DType::I32, &[], &[1]) } else { tensor(DType::F32, &[], &[1.0f32]) }]
    });
    assert!(matches!(got[1], Err(RunError::Input(_))), "{:?}", got[1]);
    let error = got[0].as_ref().unwrap_err();
    assert!(matches!(error, RunError::Launch(_)), "{error}");
}

#[test]
fn dropped_member_releases_others() {
    let program = looping("stablehlo.constant dense<2> : tensor<i32>");
    let communicator = Communicator::new(1, 2);
    let mut members = communicator.members();
    drop(members.pop());
    let error = program.run_in(vec![tensor(DType::I32, &[], &[1])], Pool::global(), members.first(), None).unwrap_err();
    assert!(matches!(error, RunError::Launch(_)), "{error}");
}

#[test]
fn mismatched_collectives_are_errors() {
    // Member 0 first joins {0, 1}, member 1 joins {1, 2}, and member 2 joins {2, 0}.
    let meet = |list: &str| {
        format!(
            "%s = \"stablehlo.collective_broadcast\"(%x) <{{{}}}> : (tensor<i32>) -> tensor<i32>
            stablehlo.return %s : tensor<i32>",
            groups(list, true, false)
        )
    };
    let body = format!(
        "%0 = \"stablehlo.case\"(%x) ({{ {} }}, {{ {} }}, {{ {} }}) : (tensor<i32>) -> tensor<i32>
        return %0 : tensor<i32>",
        meet("[[0, 1]]"),
        meet("[[1, 2]]"),
        meet("[[2, 0]]")
    );
    let program = program(1, 3, "%x: tensor<i32>", "tensor<i32>", &body);
    for got in launch(&program, |id| vec![tensor(DType::I32, &[], &[i32::try_from(id).unwrap()])]) {
        let error = got.unwrap_err();
        assert!(matches!(error, RunError::Launch(_)), "{error}");
    }
}

#[test]
fn member_count_must_match() {
    let program = looping("stablehlo.constant dense<2> : tensor<i32>");
    let error = program.run(vec![tensor(DType::I32, &[], &[1])]).unwrap_err();
    assert!(matches!(error, RunError::Input(_)), "{error}");
}

#[test]
fn large_reductions_are_deterministic() {
    let n = 300_000;
    let body = all_reduce("add", "f32", n, &groups("[[0, 1, 2, 3]]", true, true));
    let ty = format!("tensor<{n}xf32>");
    let program = program(1, 4, &format!("%x: {ty}"), &ty, &body);
    let of = |id: usize, i: usize| ((i * 7919 + id * 104_729) % 10_007) as f32 * 1e-3 - 3.0;
    let inputs = |id| vec![tensor(DType::F32, &[n], &(0..n).map(|i| of(id, i)).collect::<Vec<f32>>())];
    let want: Vec<f32> = (0..n).map(|i| (1..4).fold(of(0, i), |sum, id| sum + of(id, i))).collect();
    for _ in 0..3 {
        for got in results::<f32>(&program, inputs) {
            assert!(got == want);
        }
    }
}

#[test]
fn run_time_root() {
    let attributes = format!("{}, has_dynamic_root = true", groups("[[2, 1]]", true, false));
    let types = "(tensor<4x2xi32>, tensor<4x2xi32>, tensor<2xi32>) -> (tensor<4x2xi32>, tensor<4x2xi32>)";
    let body = format!(
        "%0:2 = \"stablehlo.collective_broadcast\"(%x, %x, %root) <{{{attributes}}}> : {types}
        return %0#0, %0#1 : tensor<4x2xi32>, tensor<4x2xi32>"
    );
    let parameters = "%x: tensor<4x2xi32>, %root: tensor<2xi32>";
    let program = program(1, 3, parameters, "tensor<4x2xi32>, tensor<4x2xi32>", &body);
    let with = |roots: [i32; 2]| launch(&program, |id| vec![matrix(id), tensor(DType::I32, &[2], &roots)]);
    let second = |outputs: &[Tensor]| outputs.iter().map(|o| o.as_slice::<i32>().expect("elements")[1]).collect();
    let got: Vec<Vec<i32>> = with([0, 1]).into_iter().map(|o| second(&o.expect("a member runs"))).collect();
    // The first tensor comes from member 2, the second from member 1. Member 0 is in no group.
    assert_eq!(got, [[0, 0], [201, 101], [201, 101]]);
    let outputs = with([0, 2]);
    let error = outputs[1].as_ref().expect_err("there is no third member");
    assert!(matches!(error, RunError::Input(_)), "{error}");
}

#[test]
fn collective_reduce() {
    let reduce = |attributes: &str, operands: &str, types: &str| {
        format!(
            "%0 = \"stablehlo.collective_reduce\"({operands}) <{{{attributes}}}> ({{
              ^bb0(%a: tensor<i32>, %b: tensor<i32>):
                %s = stablehlo.add %a, %b : tensor<i32>
                stablehlo.return %s : tensor<i32>
            }}) : ({types}) -> tensor<4x2xi32>
            return %0 : tensor<4x2xi32>"
        )
    };
    let body = reduce(&groups("[[2, 1]]", true, false), "%x", "tensor<4x2xi32>");
    let first = program(1, 3, "%x: tensor<4x2xi32>", "tensor<4x2xi32>", &body);
    let got = results::<i32>(&first, |id| vec![matrix(id)]);
    assert_eq!([got[0][1], got[1][1], got[2][1]], [0, 0, 302]);
    let attributes = format!("{}, has_dynamic_root = true", groups("[[0, 1, 2]]", false, false));
    let body = reduce(&attributes, "%x, %root", "tensor<4x2xi32>, tensor<1xi32>");
    let rooted = program(3, 1, "%x: tensor<4x2xi32>, %root: tensor<1xi32>", "tensor<4x2xi32>", &body);
    let got = results::<i32>(&rooted, |id| vec![matrix(id), tensor(DType::I32, &[1], &[1i32])]);
    assert_eq!([got[0][1], got[1][1], got[2][1]], [0, 303, 0]);
}
