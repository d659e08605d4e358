//! Arrays of bounded size.

use super::{DType, compile, program, run, tensor};

/// `masked_scatter` in the form of PyTorch/XLA: the selected positions come first, and only they are valid.
#[test]
fn updates_that_do_not_count_are_not_scattered() {
    let p = program(
        "%x: tensor<4xf32>, %at: tensor<4x1xi32>, %u: tensor<4xf32>, %n: tensor<i32>",
        "tensor<4xf32>",
        "%i = stablehlo.set_dimension_size %at, %n, dim = 0 : (tensor<4x1xi32>, tensor<i32>) -> tensor<?x1xi32, #stablehlo.bounds<4, ?>>
         %v = stablehlo.set_dimension_size %u, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
         %0 = \"stablehlo.scatter\"(%x, %i, %v) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
           ^bb0(%p: tensor<f32>, %q: tensor<f32>):
             stablehlo.return %q : tensor<f32>
         }) : (tensor<4xf32>, tensor<?x1xi32, #stablehlo.bounds<4, ?>>, tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<4xf32>
         return %0 : tensor<4xf32>",
    );
    let scattered = |n: i32| {
        run::<f32>(
            &p,
            vec![
                tensor(DType::F32, &[4], &[1.0f32, 2.0, 3.0, 4.0]),
                tensor(DType::I32, &[4, 1], &[3, 1, 0, 2]),
                tensor(DType::F32, &[4], &[10.0f32, 20.0, 30.0, 40.0]),
                tensor(DType::I32, &[], &[n]),
            ],
        )
    };
    assert_eq!(scattered(0), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(scattered(2), [1.0, 20.0, 3.0, 10.0]);
    assert_eq!(scattered(4), [30.0, 20.0, 40.0, 10.0]);
}

#[test]
fn sums_are_of_the_elements_that_count() {
    let p = program(
        "%x: tensor<2x3xf32>, %n: tensor<i32>",
        "tensor<2xf32>, tensor<i32>, tensor<i32>",
        "%b = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
         %c = stablehlo.add %b, %b : tensor<2x?xf32, #stablehlo.bounds<?, 3>>
         %z = stablehlo.constant dense<0.0> : tensor<f32>
         %0 = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [1] : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<f32>) -> tensor<2xf32>
         %1 = stablehlo.get_dimension_size %c, dim = 1 : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>) -> tensor<i32>
         %2 = stablehlo.get_dimension_size %c, dim = 0 : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>) -> tensor<i32>
         return %0, %1, %2 : tensor<2xf32>, tensor<i32>, tensor<i32>",
    );
    let x = tensor(DType::F32, &[2, 3], &[1.0f32, 2.0, 4.0, 8.0, 16.0, 32.0]);
    let outputs = p.run(vec![x, tensor(DType::I32, &[], &[2])]).expect("the test's program runs");
    assert_eq!(outputs[0].as_slice::<f32>().expect("floats"), [6.0, 48.0]);
    assert_eq!(outputs[1].as_slice::<i32>().expect("a number"), [2]);
    assert_eq!(outputs[2].as_slice::<i32>().expect("a number"), [2]);
}

/// The rows that are kept are also of bounded size.
#[test]
fn dimensions_that_are_kept_keep_their_size() {
    let p = program(
        "%x: tensor<2x3xf32>, %n: tensor<i32>",
        "tensor<f32>",
        "%b = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
         %z = stablehlo.constant dense<0.0> : tensor<f32>
         %c = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>, tensor<f32>) -> tensor<?xf32, #stablehlo.bounds<3>>
         %0 = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<3>>, tensor<f32>) -> tensor<f32>
         return %0 : tensor<f32>",
    );
    let x = tensor(DType::F32, &[2, 3], &[1.0f32, 2.0, 4.0, 8.0, 16.0, 32.0]);
    assert_eq!(run::<f32>(&p, vec![x, tensor(DType::I32, &[], &[1])]), [9.0]);
}

#[test]
fn other_uses_are_refused_with_the_remedy() {
    let refused = |body: &str, result: &str| {
        let text = format!(
            "func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> {result} {{
               %b = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
               {body} }}"
        );
        compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses"))
            .unwrap_err()
            .to_string()
    };
    let ty = "tensor<?xf32, #stablehlo.bounds<4>>";
    let error = refused(&format!("return %b : {ty}"), ty);
    assert!(error.contains("a result of bounded size; return an array of one size"), "{error}");
    let error =
        refused(&format!("%0 = stablehlo.reverse %b, dims = [0] : {ty}\n return %x : tensor<4xf32>"), "tensor<4xf32>");
    assert!(error.contains("stablehlo.reverse of an array of bounded size"), "{error}");
    let text = format!(
        "func.func @main(%x: {ty}) -> tensor<f32> {{ %0 = stablehlo.constant dense<1.0> : tensor<f32> return %0 : tensor<f32> }}"
    );
    let error = compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).expect("the test's program parses"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("an argument of bounded size of function `main`"), "{error}");
}
