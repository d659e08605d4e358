//! Tests of programs whose shapes are computed from constants.

use super::{DType, compile, program, run, tensor};

/// Extents are computed from `get_dimension_size` and used for a result with dynamic dimensions.
#[test]
fn shape_from_shapes() {
    let p = program(
        "%a: tensor<2x3xf32>",
        "tensor<6xf32>",
        "%r = stablehlo.get_dimension_size %a, dim = 0 : (tensor<2x3xf32>) -> tensor<i32>
         %c = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
         %n = stablehlo.multiply %r, %c : tensor<i32>
         %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
         %f = stablehlo.dynamic_reshape %a, %s : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<?xf32>
         %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
         %0 = stablehlo.add %f, %i : tensor<?xf32>
         %1 = stablehlo.reshape %0 : (tensor<?xf32>) -> tensor<6xf32>
         return %1 : tensor<6xf32>",
    );
    let x = tensor(DType::F32, &[2, 3], &[10.0f32, 20.0, 30.0, 40.0, 50.0, 60.0]);
    assert_eq!(run::<f32>(&p, vec![x]), [10.0, 21.0, 32.0, 43.0, 54.0, 65.0]);
}

#[test]
fn shape_from_parts() {
    let p = program(
        "%a: tensor<3xf32>",
        "tensor<2x3xf32>",
        "%c = stablehlo.get_dimension_size %a, dim = 0 : (tensor<3xf32>) -> tensor<i32>
         %x = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
         %y = stablehlo.constant dense<2> : tensor<1xi32>
         %s = stablehlo.concatenate %y, %x, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
         %b = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
         %0 = stablehlo.reshape %b : (tensor<?x?xf32>) -> tensor<2x3xf32>
         return %0 : tensor<2x3xf32>",
    );
    let x = tensor(DType::F32, &[3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(run::<f32>(&p, vec![x]), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
}

/// Batch normalization of four rows of three features. The number of rows is `?`.
#[test]
fn batch_norm() {
    const EPSILON: f32 = 0.25;
    let p = program(
        "%i: tensor<12xf32>, %j: tensor<12xf32>, %a: tensor<3xf32>, %b: tensor<3xf32>, %m: tensor<3xf32>, \
         %v: tensor<3xf32>",
        "tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>",
        r#"%s = stablehlo.constant dense<[4, 3]> : tensor<2xi32>
         %x = stablehlo.dynamic_reshape %i, %s : (tensor<12xf32>, tensor<2xi32>) -> tensor<?x3xf32>
         %g = stablehlo.dynamic_reshape %j, %s : (tensor<12xf32>, tensor<2xi32>) -> tensor<?x3xf32>
         %0 = "stablehlo.batch_norm_inference"(%x, %a, %b, %m, %v) {epsilon = 0.25 : f32, feature_index = 1 : i64}
           : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
         %1:3 = "stablehlo.batch_norm_training"(%x, %a, %b) {epsilon = 0.25 : f32, feature_index = 1 : i64}
           : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>)
         %2:3 = "stablehlo.batch_norm_grad"(%x, %a, %m, %v, %g) {epsilon = 0.25 : f32, feature_index = 1 : i64}
           : (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<?x3xf32>)
             -> (tensor<?x3xf32>, tensor<3xf32>, tensor<3xf32>)
         %y0 = stablehlo.reshape %0 : (tensor<?x3xf32>) -> tensor<4x3xf32>
         %y1 = stablehlo.reshape %1#0 : (tensor<?x3xf32>) -> tensor<4x3xf32>
         %y2 = stablehlo.reshape %2#0 : (tensor<?x3xf32>) -> tensor<4x3xf32>
         return %y0, %y1, %1#1, %1#2, %y2, %2#1, %2#2
           : tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>"#,
    );
    let x: [[f32; 3]; 4] = [[1.0, -2.0, 0.5], [2.5, 0.0, 3.0], [-1.0, 4.0, 1.5], [0.5, -3.0, 2.0]];
    let g: [[f32; 3]; 4] = [[0.5, 1.0, -1.5], [-2.0, 0.25, 1.0], [1.5, -0.5, 2.0], [0.0, 3.0, -1.0]];
    let [a, b, m, v] = [[1.5f32, -2.0, 0.5], [0.25, 1.0, -3.0], [0.5, -1.0, 2.0], [1.0, 4.0, 0.5]];
    let features = [a, b, m, v].map(|numbers| tensor(DType::F32, &[3], &numbers));
    let arrays = [x, g].map(|numbers| tensor(DType::F32, &[12], numbers.as_flattened()));
    let results = p.run(arrays.into_iter().chain(features).collect()).expect("the test's program runs");

    let mut expected = vec![Vec::new(); 7];
    let normal = |mean: [f32; 3], variance: [f32; 3]| {
        x.map(|row| std::array::from_fn::<f32, 3, _>(|f| (row[f] - mean[f]) / (variance[f] + EPSILON).sqrt()))
    };
    let scaled = |rows: [[f32; 3]; 4]| rows.map(|row| std::array::from_fn::<f32, 3, _>(|f| row[f] * a[f] + b[f]));
    let sum = |rows: [[f32; 3]; 4]| std::array::from_fn::<f32, 3, _>(|f| rows.iter().map(|row| row[f]).sum::<f32>());
    expected[0].extend(scaled(normal(m, v)).as_flattened());
    let mean = sum(x).map(|sum| sum / 4.0);
    let variance = sum(x.map(|row| std::array::from_fn(|f| (row[f] - mean[f]).powi(2)))).map(|sum| sum / 4.0);
    expected[1].extend(scaled(normal(mean, variance)).as_flattened());
    (expected[2], expected[3]) = (mean.to_vec(), variance.to_vec());
    let normals = normal(m, v);
    let of_scale = sum(std::array::from_fn(|row| std::array::from_fn(|f| g[row][f] * normals[row][f])));
    let of_offset = sum(g);
    for (row, normal) in g.iter().zip(&normals) {
        for f in 0..3 {
            let inner = 4.0 * row[f] - of_offset[f] - normal[f] * of_scale[f];
            expected[4].push(a[f] / (v[f] + EPSILON).sqrt() / 4.0 * inner);
        }
    }
    (expected[5], expected[6]) = (of_scale.to_vec(), of_offset.to_vec());
    for (at, (result, expected)) in results.iter().zip(&expected).enumerate() {
        let result = result.as_slice::<f32>().expect("numbers");
        let is_near = |(one, other): (&f32, &f32)| (one - other).abs() <= 1e-5;
        assert!(result.len() == expected.len() && result.iter().zip(expected).all(is_near), "{at}: {result:?}");
    }
    assert_eq!(results.len(), expected.len());
}

#[test]
fn run_time_shape_is_rejected() {
    let module = stablehlo::parse(
        "func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
           %0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
           return %0 : tensor<?x?xf32> }",
        stablehlo::VerifyLevel::FULL,
    );
    let error = compile(&module.unwrap()).unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Unsupported, "{error}");
}

#[test]
fn host_queue_is_rejected() {
    let module = stablehlo::parse(
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {
           %t = stablehlo.create_token : !stablehlo.token
           %0 = \"stablehlo.outfeed\"(%a, %t) <{outfeed_config = \"\"}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
           return %a : tensor<f32> }", stablehlo::VerifyLevel::FULL);
    let error = compile(&module.unwrap()).unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (crate::CompileErrorKind::Unsupported, Some("stablehlo.outfeed")),
        "{error}"
    );
}
