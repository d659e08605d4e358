//! Tests of groups with members that the launch does not have, and of collectives in unusual forms.

use super::collectives::{all_reduce, groups, launch, program, results};
use super::tensor;
use crate::{CompileSettings, DType, Pool, Program, compile_with};

fn refused(replicas: usize, partitions: usize, body: &str) -> crate::CompileError {
    let text = format!("func.func @main(%x: tensor<1xi32>) -> tensor<1xi32> {{\n{body}\n}}");
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses");
    let mut settings = CompileSettings::new(replicas, partitions);
    settings.use_spmd = false;
    compile_with(&module, &settings, Pool::global()).expect_err("refused")
}

/// Returns each member's sum over its group, where each member contributes a different bit.
fn sum(replicas: usize, partitions: usize, list: &str, channel: bool) -> Vec<i32> {
    let body = all_reduce("add", "i32", 1, &groups(list, channel, channel));
    let program = program(replicas, partitions, "%x: tensor<1xi32>", "tensor<1xi32>", &body);
    results::<i32>(&program, |id| vec![tensor(DType::I32, &[1], &[1i32 << id])]).concat()
}

mod absent {
    use super::*;

    #[test]
    fn groups_of_absent_members_are_ignored() {
        assert_eq!(sum(2, 1, "[[0, 1], [2, 3]]", false), [3, 3]);
        assert_eq!(sum(1, 2, "[[2, 3], [1, 0]]", true), [3, 3]);
    }

    #[test]
    fn ungrouped_members_are_alone() {
        assert_eq!(sum(1, 1, "[[1], [0]]", false), [1]);
        assert_eq!(sum(1, 1, "[[1], [0]]", true), [1]);
        assert_eq!(sum(2, 1, "[[0]]", false), [1, 2]);
        let gather = "%0 = \"stablehlo.all_gather\"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[1], [0]]> : tensor<2x1xi64>}> : (tensor<1xi32>) -> tensor<1xi32>
            return %0 : tensor<1xi32>";
        let gather = program(1, 1, "%x: tensor<1xi32>", "tensor<1xi32>", gather);
        assert_eq!(results::<i32>(&gather, |_| vec![tensor(DType::I32, &[1], &[5i32])]).concat(), [5]);
    }

    #[test]
    fn partly_absent_group_is_rejected() {
        let mixed = refused(2, 1, &all_reduce("add", "i32", 1, &groups("[[0, 2], [1, 3]]", false, false)));
        assert_eq!(mixed.kind(), crate::CompileErrorKind::Invalid, "{mixed}");
        let uncovered = refused(3, 1, &all_reduce("add", "i32", 1, &groups("[[0, 1]]", false, false)));
        assert_eq!(uncovered.kind(), crate::CompileErrorKind::Invalid, "{uncovered}");
    }

    #[test]
    fn broadcast_outside_group_is_zero() {
        let body = "%0 = \"stablehlo.collective_broadcast\"(%x) <{replica_groups = dense<[[1]]> : tensor<1x1xi64>}> : (tensor<1xi32>) -> tensor<1xi32>
            return %0 : tensor<1xi32>";
        let program = program(1, 1, "%x: tensor<1xi32>", "tensor<1xi32>", body);
        assert_eq!(results::<i32>(&program, |_| vec![tensor(DType::I32, &[1], &[5i32])]).concat(), [0]);
    }
}

#[test]
fn asynchronous_collective() {
    let body = |collective: &str| {
        format!(
            "%f = \"stablehlo.async_start\"(%x) ({{
              ^bb0(%p: tensor<1xi32>):
                {}
                stablehlo.return %s : tensor<1xi32>
            }}) : (tensor<1xi32>) -> !stablehlo.future<tensor<1xi32>>
            %y = stablehlo.negate %x : tensor<1xi32>
            stablehlo.custom_call @control_dep(%f, %y) {{has_side_effect = true}}
              : (!stablehlo.future<tensor<1xi32>>, tensor<1xi32>) -> ()
            %r = \"stablehlo.async_done\"(%f) : (!stablehlo.future<tensor<1xi32>>) -> tensor<1xi32>
            %0 = stablehlo.subtract %r, %y : tensor<1xi32>
            return %0 : tensor<1xi32>",
            collective
        )
    };
    let reduce = format!(
        "%s = \"stablehlo.all_reduce\"(%p) <{{{}}}> ({{
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %t = stablehlo.add %a, %b : tensor<i32>
            stablehlo.return %t : tensor<i32>
        }}) : (tensor<1xi32>) -> tensor<1xi32>",
        groups("[[0, 1]]", true, true)
    );
    let run =
        |program: &Program| results::<i32>(program, |id| vec![tensor(DType::I32, &[1], &[[1i32, 10][id]])]).concat();
    let program = program(1, 2, "%x: tensor<1xi32>", "tensor<1xi32>", &body(&reduce));
    assert_eq!(run(&program), [12, 21]);
}

#[test]
fn all_reduce_of_several_element_types() {
    let body = format!(
        "%0:3 = \"stablehlo.all_reduce\"(%x, %y, %z) <{{{}}}> ({{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }}) : (tensor<2xf32>, tensor<i32>, tensor<f32>) -> (tensor<2xf32>, tensor<i32>, tensor<f32>)
        return %0#0, %0#1, %0#2 : tensor<2xf32>, tensor<i32>, tensor<f32>",
        groups("[[0, 1]]", true, true)
    );
    let types = "tensor<2xf32>, tensor<i32>, tensor<f32>";
    let program = program(1, 2, "%x: tensor<2xf32>, %y: tensor<i32>, %z: tensor<f32>", types, &body);
    let of = |id: usize| [1.0f32, 10.0][id];
    let outputs = launch(&program, |id| {
        let whole = [(1 << 24) + 1, 2][id];
        vec![
            tensor(DType::F32, &[2], &[of(id), -of(id)]),
            tensor(DType::I32, &[], &[whole]),
            tensor(DType::F32, &[], &[of(id)]),
        ]
    });
    for outputs in outputs {
        let outputs = outputs.unwrap();
        assert_eq!(outputs[0].as_slice::<f32>().unwrap(), [11.0, -11.0]);
        // The reduction must not convert the integers to floats, which would round them.
        assert_eq!(outputs[1].as_slice::<i32>().unwrap(), [(1 << 24) + 3]);
        assert_eq!(outputs[2].as_slice::<f32>().unwrap(), [11.0]);
    }
}

#[test]
fn reduce_scatter_of_several_tensors() {
    let body = format!(
        "%0:2 = \"stablehlo.reduce_scatter\"(%x, %y) <{{scatter_dimension = 0 : i64, {}}}> ({{
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %s = stablehlo.add %a, %b : tensor<i32>
            stablehlo.return %s : tensor<i32>
        }}) : (tensor<4xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<1xi32>)
        return %0#0, %0#1 : tensor<2xi32>, tensor<1xi32>",
        groups("[[0, 1]]", true, true)
    );
    let program = program(1, 2, "%x: tensor<4xi32>, %y: tensor<2xi32>", "tensor<2xi32>, tensor<1xi32>", &body);
    let outputs =
        launch(&program, |_| vec![tensor(DType::I32, &[4], &[1i32, 2, 3, 4]), tensor(DType::I32, &[2], &[10i32, 20])]);
    for (outputs, (x, y)) in outputs.into_iter().zip([([2, 4], [20]), ([6, 8], [40])]) {
        let outputs = outputs.unwrap();
        assert_eq!(outputs[0].as_slice::<i32>().unwrap(), x);
        assert_eq!(outputs[1].as_slice::<i32>().unwrap(), y);
    }
}

mod ragged_all_to_all {
    use super::*;

    /// Compiles a program for two members. The operands have 3 rows of 2 elements, and the outputs have 4 rows.
    fn exchange() -> Program {
        let body = "%0 = stablehlo.custom_call @ragged_all_to_all(%x, %y, %i, %s, %o, %r) {api_version = 4 : i32,
              backend_config = {channel_id = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}
              : (tensor<3x2xi32>, tensor<4x2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<4x2xi32>
            return %0 : tensor<4x2xi32>";
        let parameters = "%x: tensor<3x2xi32>, %y: tensor<4x2xi32>, %i: tensor<2xi32>, %s: tensor<2xi32>, %o: tensor<2xi32>, %r: tensor<2xi32>";
        program(1, 2, parameters, "tensor<4x2xi32>", body)
    }

    fn inputs(id: usize, sizes: [[i32; 2]; 2]) -> Vec<crate::Tensor> {
        let own = [0i32, 100][id];
        let rows: Vec<i32> = (0..6).map(|i| own + i).collect();
        let two = |numbers: [[i32; 2]; 2]| tensor(DType::I32, &[2], &numbers[id]);
        vec![
            tensor(DType::I32, &[3, 2], &rows),
            tensor(DType::I32, &[4, 2], &[-1i32; 8]),
            // Member 0 sends row 0 to itself, and rows 1 and 2 to member 1. Member 1 sends row 0 to member 0.
            two([[0, 1], [0, 1]]),
            two(sizes),
            two([[0, 1], [3, 0]]),
            two([[1, 1], [2, 0]]),
        ]
    }

    #[test]
    fn ragged_all_to_all() {
        let got = results::<i32>(&exchange(), |id| inputs(id, [[1, 2], [1, 0]]));
        assert_eq!(got[0], [0, 1, -1, -1, -1, -1, 100, 101]);
        assert_eq!(got[1], [-1, -1, 2, 3, 4, 5, -1, -1]);
    }

    #[test]
    fn ragged_all_to_all_out_of_range() {
        for sizes in [[[1, 3], [1, 0]], [[1, -1], [1, 0]]] {
            let outputs = launch(&exchange(), |id| inputs(id, sizes));
            let error = outputs.into_iter().find_map(Result::err).expect("a member fails");
            assert!(matches!(error, crate::RunError::Input(_)), "{error}");
        }
    }
}
