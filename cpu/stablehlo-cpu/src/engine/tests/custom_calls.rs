//! Tests of custom calls with handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{DType, program, run, tensor};
use crate::{RunError, compile, custom_calls};

#[test]
fn handler_arguments_and_results() {
    custom_calls::register("tests.scale", |call, operands, results| {
        assert_eq!(call.operands[0].to_string(), "tensor<3xf32>");
        assert_eq!(call.results.len(), 1);
        let config = call.backend_config.as_str().ok_or("no configuration")?;
        let factor: f32 = config.parse().map_err(|_| format!("{config} is not a number"))?;
        let x: &[f32] = bytemuck::cast_slice(operands[0]);
        let y: &mut [f32] = bytemuck::cast_slice_mut(results[0]);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * factor);
        Ok(())
    });
    assert!(custom_calls::targets().contains(&"tests.scale".to_owned()));
    let call = |config: &str| {
        let body = format!(
            "%0 = stablehlo.custom_call @tests.scale(%a) {{backend_config = \"{config}\"}} : (tensor<3xf32>) -> tensor<3xf32>\n
             %1 = stablehlo.add %0, %0 : tensor<3xf32>\n return %1 : tensor<3xf32>"
        );
        program("%a: tensor<3xf32>", "tensor<3xf32>", &body)
    };
    let x = tensor(DType::F32, &[3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(run::<f32>(&call("2.5"), vec![x.clone()]), [5.0, 10.0, 15.0]);
    let error = call("many").run(vec![x]).unwrap_err();
    assert!(matches!(error, RunError::CustomCall(_)), "{error}");
}

#[test]
fn unread_call_with_side_effects_runs() {
    let calls = Arc::new(AtomicUsize::new(0));
    for target in ["tests.effect", "tests.pure"] {
        let calls = calls.clone();
        custom_calls::register(target, move |_, _, _| {
            calls.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
    }
    let p = program(
        "%a: tensor<2xf32>",
        "tensor<2xf32>",
        "%0 = stablehlo.custom_call @tests.effect(%a) {has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
         %1 = stablehlo.custom_call @tests.pure(%a) : (tensor<2xf32>) -> tensor<2xf32>
         return %a : tensor<2xf32>",
    );
    run::<f32>(&p, vec![tensor(DType::F32, &[2], &[1.0f32, 2.0])]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// PyTorch/XLA declares one tuple where JAX declares several results.
#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn tuple_result() {
    let program = |results: &str| {
        let text = format!(
            "func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
              %0 = stablehlo.custom_call @Qr(%x) : (tensor<2x2xf32>) -> tuple<{results}>
              %1 = stablehlo.get_tuple_element %0[0] : (tuple<{results}>) -> tensor<2x2xf32>
              return %1 : tensor<2x2xf32>
            }}"
        );
        compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap())
    };
    let given = tensor(DType::F32, &[2, 2], &[3.0f32, 1.0, 4.0, 2.0]);
    let outputs = program("tensor<2x2xf32>, tensor<2xf32>").unwrap().run(vec![given]).unwrap();
    // The first element of `R` is the length of the first column, up to the sign.
    assert!((outputs[0].as_slice::<f32>().unwrap()[0].abs() - 5.0).abs() < 1e-5);
    let error = program("tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>").unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Invalid, "{error}");
    let error = program("tensor<2x2xf32>, tensor<3xf32>").unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Invalid, "{error}");
}

#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn eigenvalues_of_named_triangle() {
    let eigh = |config: &str| {
        program(
            "%a: tensor<2x2xf32>",
            "tensor<2xf32>",
            &format!(
                "%v, %w = stablehlo.custom_call @Eigh(%a) {{backend_config = \"{config}\"}} : \
                 (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)\n \
                 stablehlo.custom_call @dce_sink(%v) {{has_side_effect = true}} : (tensor<2x2xf32>) -> ()\n \
                 return %w : tensor<2xf32>"
            ),
        )
    };
    // The lower triangle contains 1 below the diagonal, so its eigenvalues are 1 and 3. The upper triangle contains 2
    // above the diagonal, so its eigenvalues are 0 and 4.
    for (config, expected) in [("1,1,100,1e-6", [1.0f32, 3.0]), ("0,1,100,1e-6", [0.0, 4.0])] {
        let x = tensor(DType::F32, &[2, 2], &[2.0f32, 2.0, 1.0, 2.0]);
        let w = run::<f32>(&eigh(config), vec![x]);
        assert!(w.iter().zip(expected).all(|(w, e)| (w - e).abs() < 1e-6), "{config}: {w:?}");
    }
}

/// The factors of `[[0, 4], [2, 6], [1, 5]]`, by hand: the pivots are row 1, and then row 1 of the exchanged matrix.
#[cfg_attr(not(feature = "math"), ignore = "it needs the feature math")]
#[test]
fn lu_decomposition_returns_order_of_rows() {
    let decomposition = |batch: &str, result: &str| {
        let (x, k, m) =
            (format!("tensor<{batch}3x2xbf16>"), format!("tensor<{batch}2xi32>"), format!("tensor<{batch}3xi32>"));
        let types = [&x, &k, &m];
        program(
            &format!("%a: {x}"),
            types[result.parse::<usize>().unwrap()],
            &format!(
                "%0:3 = stablehlo.custom_call @LuDecomposition(%a) : ({x}) -> ({x}, {k}, {m})\n \
                 return %0#{result} : {}",
                types[result.parse::<usize>().unwrap()]
            ),
        )
    };
    let numbers = [0.0f32, 4.0, 2.0, 6.0, 1.0, 5.0].map(half::bf16::from_f32);
    let x = |batch: &[usize]| {
        tensor(DType::Bf16, &[batch, &[3, 2]].concat(), &numbers.repeat(batch.iter().product::<usize>()))
    };
    let factors = run::<half::bf16>(&decomposition("", "0"), vec![x(&[])]);
    assert_eq!(factors.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), [2.0, 6.0, 0.0, 4.0, 0.5, 0.5]);
    assert_eq!(run::<i32>(&decomposition("", "1"), vec![x(&[])]), [1, 1]);
    assert_eq!(run::<i32>(&decomposition("2x", "2"), vec![x(&[2])]), [1, 0, 2, 1, 0, 2]);
}

#[test]
fn aliased_result_starts_as_operand() {
    custom_calls::register("tests.increment", |call, operands, results| {
        assert_eq!((&call.aliases[..], operands.len()), (&[(1, 0)][..], 1));
        bytemuck::cast_slice_mut::<u8, i32>(results[1]).iter_mut().for_each(|x| *x += 1);
        bytemuck::cast_slice_mut::<u8, i32>(results[0]).fill(0);
        Ok(())
    });
    let call = |alias: &str| -> stablehlo::Result<_> {
        let text = format!(
            "func.func @main(%a: tensor<2xi32>) -> tensor<2xi32> {{
               %0:2 = stablehlo.custom_call @tests.increment(%a) {{output_operand_aliases = [#stablehlo.output_operand_alias<
                 output_tuple_indices = [{alias}], operand_index = 0, operand_tuple_indices = []>]}}
                 : (tensor<2xi32>) -> (tensor<1xi32>, tensor<2xi32>)
               return %0#1 : tensor<2xi32>
             }}"
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL)?;
        Ok(compile(&module).expect("the reader accepts it"))
    };
    let x = tensor(DType::I32, &[2], &[41, 7]);
    assert_eq!(run::<i32>(&call("1").unwrap(), vec![x]), [42, 8]);
    // Result 0 does not have the type of the operand, and result 2 does not exist.
    for wrong in ["0", "2"] {
        let error = call(wrong).expect_err("the alias is wrong");
        assert_eq!(error.kind(), stablehlo::ErrorKind::Attribute, "{error}");
    }
}

#[test]
fn registry_lookup_while_handler_drops() {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            ASKED.fetch_add(custom_calls::targets().len().min(1), Ordering::Relaxed);
        }
    }
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    custom_calls::register("tests.stays", |_, _, _| Ok(()));
    for _ in 0..2 {
        let asks = Asks;
        custom_calls::register("tests.asks", move |_, _, _| {
            let _ = &asks;
            Ok(())
        });
    }
    assert!(custom_calls::unregister("tests.asks"));
    assert_eq!(ASKED.load(Ordering::Relaxed), 2);
}

#[test]
fn stated_layouts() {
    custom_calls::register("tests.columns", |call, operands, results| {
        assert_eq!(
            (call.operands[0].to_string(), call.results[1].to_string()),
            ("tensor<2x3xi32>".to_owned(), "tensor<2x3x4xi32>".to_owned())
        );
        assert_eq!(bytemuck::cast_slice::<u8, i32>(operands[0]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(bytemuck::cast_slice::<u8, i32>(operands[1]), [0, 1, 2, 3, 4, 5]);
        results[0].copy_from_slice(operands[0]);
        bytemuck::cast_slice_mut::<u8, i32>(results[1]).iter_mut().zip(0..).for_each(|(to, n)| *to = n);
        Ok(())
    });
    let call = |layouts: &str| {
        format!(
            "%0:2 = stablehlo.custom_call @tests.columns(%a, %a) {{{layouts}}}
               : (tensor<2x3xi32>, tensor<2x3xi32>) -> (tensor<2x3xi32>, tensor<2x3x4xi32>)
             return %0#0, %0#1 : tensor<2x3xi32>, tensor<2x3x4xi32>"
        )
    };
    let layouts = "operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>],
                   result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[1, 0, 2]> : tensor<3xindex>]";
    let results = "tensor<2x3xi32>, tensor<2x3x4xi32>";
    let p = program("%a: tensor<2x3xi32>", results, &call(layouts));
    let x = tensor(DType::I32, &[2, 3], &[0, 1, 2, 3, 4, 5i32]);
    let outputs = p.run(vec![x]).unwrap();
    assert_eq!(bytemuck::cast_slice::<u8, i32>(outputs[0].bytes()), [0, 1, 2, 3, 4, 5]);
    // The second result is stored with its last dimension outermost, followed by the first dimension and the second
    // dimension.
    let place = |i: i32, j: i32, k: i32| k * 6 + i * 3 + j;
    let expected = (0..24).map(|n| place(n / 12, n / 4 % 3, n % 4));
    assert_eq!(bytemuck::cast_slice::<u8, i32>(outputs[1].bytes()), expected.collect::<Vec<_>>());
    let wrong = layouts.replacen("[0, 1]", "[0, 0]", 1);
    let text = format!("func.func @main(%a: tensor<2x3xi32>) -> ({results}) {{ {} }}", call(&wrong));
    let error = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap_err();
    assert_eq!(error.kind(), stablehlo::ErrorKind::Attribute, "{error}");
}
