//! Tests of sharing, reusing and copying memory.

use super::{DType, program, run, tensor};
use crate::{Parameter, Pool, Program, Tensor, compile_in};

fn address(tensor: &Tensor) -> usize {
    tensor.bytes().as_ptr().addr()
}

#[test]
fn only_donated_input_is_updated_in_place() {
    let ty = "tensor<1000xf32>";
    let add =
        program(&format!("%a: {ty}, %b: {ty}"), ty, &format!("%0 = stablehlo.add %a, %b : {ty}\n return %0 : {ty}"));
    let b = tensor(DType::F32, &[1000], &[1.0f32; 1000]);
    let given = tensor(DType::F32, &[1000], &[2.0f32; 1000]);
    let before = address(&given);
    let out = add.run(vec![given, b.clone()]).unwrap();
    assert_eq!(address(&out[0]), before);
    assert_eq!(out[0].as_slice::<f32>().unwrap(), [3.0; 1000]);
    let kept = out[0].clone();
    let out = add.run(vec![kept.clone(), b.clone()]).unwrap();
    assert_ne!(address(&out[0]), before);
    assert_eq!(kept.as_slice::<f32>().unwrap(), [3.0; 1000]);
    assert_eq!(b.as_slice::<f32>().unwrap(), [1.0; 1000]);
}

#[test]
fn returned_input_shares_elements() {
    let ty = "tensor<2x3xi32>";
    let same = program(
        &format!("%a: {ty}"),
        &format!("{ty}, tensor<6xi32>"),
        &format!("%0 = stablehlo.reshape %a : ({ty}) -> tensor<6xi32>\n return %a, %0 : {ty}, tensor<6xi32>"),
    );
    assert_eq!(same.step_count(), 0);
    let a = tensor(DType::I32, &[2, 3], &[1, 2, 3, 4, 5, 6]);
    let out = same.run(vec![a.clone()]).unwrap();
    assert!(out[0].shares_elements_with(&a) && out[1].shares_elements_with(&a));
    assert_eq!((out[0].dims(), out[1].dims()), (&[2, 3][..], &[6][..]));
}

/// A loop that writes one row per iteration must not copy the carried tensor.
#[test]
fn loop_updates_in_place() {
    let pool = Pool::new(64 << 20);
    let text = r"
      func.func @main(%x: tensor<1000x1024xf32>, %row: tensor<1x1024xf32>) -> tensor<1000x1024xf32> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %n = stablehlo.constant dense<1000> : tensor<i32>
        %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1000x1024xf32>
          cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 stablehlo.return %p : tensor<i1> }
          do { %b = stablehlo.dynamic_update_slice %a, %row, %i, %zero : (tensor<1000x1024xf32>, tensor<1x1024xf32>, tensor<i32>, tensor<i32>) -> tensor<1000x1024xf32>
               %j = stablehlo.add %i, %one : tensor<i32>
               stablehlo.return %j, %b : tensor<i32>, tensor<1000x1024xf32> }
        return %r#1 : tensor<1000x1024xf32>
      }";
    let program = compile_in(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap(), &pool).unwrap();
    let x = Tensor::uninit(&pool, DType::F32, &[1000, 1024]).unwrap();
    let before = address(&x);
    let row = tensor(DType::F32, &[1, 1024], &[7.0f32; 1024]);
    let out = program.run(vec![x, row]).unwrap();
    assert_eq!(address(&out[0]), before, "the donated tensor was written in place all along");
    assert!(out[0].as_slice::<f32>().unwrap().iter().all(|&x| x == 7.0));
    drop(out);
    assert!(pool.held() < 2 * 4 * 1000 * 1024, "no second copy of the tensor was ever made");
}

#[test]
fn parameters_carry_donation() {
    let ty = "tensor<2xf32>";
    let program = program(
        &format!("%a: {ty} {{tf.aliasing_output = 0 : i32}}, %b: {ty} {{jax.buffer_donor = true}}, %c: {ty}"),
        ty,
        &format!("%0 = stablehlo.add %a, %b : {ty}\n return %0 : {ty}"),
    );
    let facts = |p: &Parameter| (p.alias_output, p.donor);
    assert_eq!(
        program.parameters().iter().map(facts).collect::<Vec<_>>(),
        [(Some(0), false), (None, true), (None, false)]
    );
    assert_eq!(program.outputs()[0].to_string(), ty);
}

#[test]
fn wrong_donations_are_named() {
    let refused = |a: &str, b: &str| {
        let ty = "tensor<2xf32>";
        let text = format!(
            "func.func @main(%a: {ty} {{tf.aliasing_output = {a}}}, %b: {ty} {{tf.aliasing_output = {b}}})\
             -> ({ty}, {ty}) {{\n return %a, %b : {ty}, {ty}\n}}"
        );
        let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
        compile_in(&module, &Pool::new(0)).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(refused("1 : i32", "0 : i32"), "");
    for wrong in ["2 : i32", "-1 : i32", "\"0\"", "[0]", "0.0 : f32"] {
        let error = refused("0 : i32", wrong);
        assert!(error.contains("argument 1 has tf.aliasing_output") && error.contains("2 results"), "{wrong}: {error}");
    }
    let error = refused("1 : i32", "1 : i32");
    assert!(error.contains("two arguments have tf.aliasing_output = 1"), "{error}");
}

#[test]
fn wrong_inputs_are_named() {
    let ty = "tensor<2xf32>";
    let program = program(&format!("%a: {ty}"), ty, &format!("return %a : {ty}"));
    let error = program.run(Vec::new()).unwrap_err();
    assert!(matches!(error, crate::RunError::Input(_)), "{error}");
    let error = program.run(vec![tensor(DType::I32, &[2], &[1, 2])]).unwrap_err();
    assert!(matches!(error, crate::RunError::Input(_)), "{error}");
}

#[test]
fn constants_that_outputs_start_as_need_no_memory() {
    let update = |n: usize, dtype: &str, element: &str| {
        let ty = format!("tensor<{n}x{dtype}>");
        let body = format!(
            "%zero = stablehlo.constant dense<{element}> : {ty}
             %0 = stablehlo.dynamic_update_slice %zero, %x, %i : ({ty}, tensor<2x{dtype}>, tensor<i32>) -> {ty}
             return %0 : {ty}"
        );
        program(&format!("%x: tensor<2x{dtype}>, %i: tensor<i32>"), &ty, &body)
    };
    let at = || tensor(DType::I32, &[], &[3i32]);
    // The second array is large enough for several threads.
    for n in [8, 100_001] {
        let program = update(n, "f32", "1.5");
        assert_eq!(program.constant_bytes(), 0);
        let mut want = vec![1.5f32; n];
        want[3..5].copy_from_slice(&[7.0, 8.0]);
        assert_eq!(run::<f32>(&program, vec![tensor(DType::F32, &[2], &[7.0f32, 8.0]), at()]), want);
        let program = update(n, "i8", "-2");
        let mut want = vec![-2i8; n];
        want[3..5].copy_from_slice(&[7, 8]);
        assert_eq!(run::<i8>(&program, vec![tensor(DType::I8, &[2], &[7i8, 8]), at()]), want);
    }
    // A constant that the step also reads as another operand keeps its memory.
    let program = program(
        "%i: tensor<i32>",
        "tensor<4xf32>",
        "%ones = stablehlo.constant dense<1.0> : tensor<4xf32>
         %0 = stablehlo.dynamic_update_slice %ones, %ones, %i
           : (tensor<4xf32>, tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
         return %0 : tensor<4xf32>",
    );
    assert_eq!(run::<f32>(&program, vec![at()]), [1.0; 4]);
}

/// The results of invariant ops are kept only as long as they take little memory in comparison with what a loop reads.
#[test]
fn invariant_results_are_not_all_stored() {
    const PRODUCTS: usize = 12;
    let (matrix, a, b) = ("tensor<2000x2000xf32>", "tensor<2000x2xf32>", "tensor<2x2000xf32>");
    let product = |k: usize| {
        format!(
            "%e{k} = stablehlo.constant dense<{k}.5> : {a}
             %m{k} = stablehlo.multiply %a, %e{k} : {a}
             %d{k} = stablehlo.dot_general %m{k}, %b, contracting_dims = [1] x [0] : ({a}, {b}) -> {matrix}
             %x{k} = stablehlo.dynamic_slice %d{k}, %i, %i, sizes = [1, 1]
                 : ({matrix}, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
             %g{k} = stablehlo.reshape %x{k} : (tensor<1x1xf32>) -> tensor<f32>
             %c{} = stablehlo.add %c{k}, %g{k} : tensor<f32>\n",
            k + 1
        )
    };
    let text = format!(
        "func.func @main(%n: tensor<i32>, %a: {a}, %b: {b}) -> tensor<f32> {{
           %z = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %s = stablehlo.constant dense<0.0> : tensor<f32>
           %r:2 = stablehlo.while(%i = %z, %c0 = %s) : tensor<i32>, tensor<f32>
             cond {{ %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                     stablehlo.return %p : tensor<i1> }}
             do {{ {}
                   %j = stablehlo.add %i, %one : tensor<i32>
                   stablehlo.return %j, %c{PRODUCTS} : tensor<i32>, tensor<f32> }}
           return %r#1 : tensor<f32>
         }}",
        (0..PRODUCTS).map(product).collect::<String>()
    );
    let pool = Pool::new(0);
    let program = compile_in(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap(), &pool).unwrap();
    let inputs = vec![
        tensor(DType::I32, &[], &[2]),
        tensor(DType::F32, &[2000, 2], &[1f32; 4000]),
        tensor(DType::F32, &[2, 2000], &[1f32; 4000]),
    ];
    let out = program.run_in(inputs, &pool, None, None).unwrap();
    // Each product has elements `2 * (k + 0.5)`.
    assert_eq!(out[0].as_slice::<f32>().unwrap(), [2.0 * (PRODUCTS * PRODUCTS) as f32]);
    let size = 16_000_000;
    assert!((size..6 * size).contains(&pool.usage().peak), "{}", pool.usage().peak);
}

/// Programs whose only large allocation besides the arrays of the program is the scratch memory of an op.
const WITH_SCRATCH: &[(&str, &str, &str, &str)] = &[
    (
        "a reduction with any body",
        "%a: tensor<300x200xf32>",
        "tensor<200xf32>",
        r#"%init = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = "stablehlo.reduce"(%a, %init) <{dimensions = array<i64: 0>}> ({
             ^bb0(%x: tensor<f32>, %y: tensor<f32>):
               %p = stablehlo.multiply %x, %y : tensor<f32>
               %s = stablehlo.add %p, %y : tensor<f32>
               stablehlo.return %s : tensor<f32>
           }) : (tensor<300x200xf32>, tensor<f32>) -> tensor<200xf32>
           return %0 : tensor<200xf32>"#,
    ),
    (
        "a product with narrow results",
        "%a: tensor<500x3xbf16>, %b: tensor<3x500xbf16>",
        "tensor<500x500xbf16>",
        "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<500x3xbf16>, tensor<3x500xbf16>) -> tensor<500x500xbf16>
         return %0 : tensor<500x500xbf16>",
    ),
    (
        "a selection with any body",
        "%a: tensor<400x300xf32>, %s: tensor<200x300xf32>",
        "tensor<400x300xf32>",
        r#"%init = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = "stablehlo.select_and_scatter"(%a, %s, %init) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
             ^bb0(%x: tensor<f32>, %y: tensor<f32>):
               %n = stablehlo.negate %y : tensor<f32>
               %p = stablehlo.compare GE, %x, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1>
           }, {
             ^bb0(%x: tensor<f32>, %y: tensor<f32>):
               %t = stablehlo.add %x, %y : tensor<f32>
               stablehlo.return %t : tensor<f32>
           }) : (tensor<400x300xf32>, tensor<200x300xf32>, tensor<f32>) -> tensor<400x300xf32>
           return %0 : tensor<400x300xf32>"#,
    ),
    (
        "a convolution with a transposed kernel",
        "%a: tensor<1x3x3x100xf32>, %b: tensor<3x3x400x100xf32>",
        "tensor<1x1x1x400xf32>",
        "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x3x100xf32>, tensor<3x3x400x100xf32>) -> tensor<1x1x1x400xf32>
         return %0 : tensor<1x1x1x400xf32>",
    ),
    (
        "sums of rows that are not stored",
        "%a: tensor<1000x300xf32>",
        "tensor<300xf32>",
        "%init = stablehlo.constant dense<0.0> : tensor<f32>
         %0 = stablehlo.multiply %a, %a : tensor<1000x300xf32>
         %1 = stablehlo.reduce(%0 init: %init) applies stablehlo.add across dimensions = [0] : (tensor<1000x300xf32>, tensor<f32>) -> tensor<300xf32>
         return %1 : tensor<300xf32>",
    ),
    #[cfg(feature = "math")]
    (
        "a transform of matrices",
        "%a: tensor<300x400xcomplex<f32>>",
        "tensor<300x400xcomplex<f32>>",
        "%0 = stablehlo.fft %a, type = FFT, length = [300, 400] : (tensor<300x400xcomplex<f32>>) -> tensor<300x400xcomplex<f32>>
         return %0 : tensor<300x400xcomplex<f32>>",
    ),
    #[cfg(feature = "math")]
    (
        "an inverse transform of matrices to real numbers",
        "%a: tensor<300x201xcomplex<f32>>",
        "tensor<300x400xf32>",
        "%0 = stablehlo.fft %a, type = IRFFT, length = [300, 400] : (tensor<300x201xcomplex<f32>>) -> tensor<300x400xf32>
         return %0 : tensor<300x400xf32>",
    ),
];

/// Sums over windows of an array of 500 x 300 numbers.
fn window_sums(window: [usize; 2], padding: [[usize; 2]; 2]) -> Program {
    let ty = "tensor<500x300xf32>";
    let body = format!(
        r#"%init = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = "stablehlo.reduce_window"(%a, %init) <{{window_dimensions = array<i64: {}, {}>, padding = dense<{padding:?}> : tensor<2x2xi64>}}> ({{
             ^bb0(%x: tensor<f32>, %y: tensor<f32>):
               %s = stablehlo.add %x, %y : tensor<f32>
               stablehlo.return %s : tensor<f32>
           }}) : ({ty}, tensor<f32>) -> {ty}
           return %0 : {ty}"#,
        window[0], window[1]
    );
    program(&format!("%a: {ty}"), ty, &body)
}

/// A run uses about as much memory as its estimate says.
#[test]
fn scratch_memory_is_estimated() {
    let mut programs = vec![
        ("a padded window", window_sums([3, 1], [[1, 1], [0, 0]])),
        ("a running sum along rows", window_sums([1, 300], [[0, 0], [299, 0]])),
    ];
    programs.extend(
        WITH_SCRATCH.iter().map(|&(name, parameters, results, body)| (name, program(parameters, results, body))),
    );
    for (name, program) in programs {
        let pool = Pool::new(0);
        let zeros = |parameter: &Parameter| {
            let bytes = vec![0; parameter.ty.bytes()];
            Tensor::from_bytes(&pool, parameter.ty.dtype, &parameter.ty.dims, &bytes).unwrap()
        };
        let inputs = program.parameters().iter().map(zeros).collect();
        let given: usize = program.parameters().iter().map(|parameter| parameter.ty.bytes()).sum();
        let made: usize = program.outputs().iter().map(|ty| ty.bytes()).sum();
        program.run_in(inputs, &pool, None, None).unwrap();
        // Blocks are up to a quarter larger than the requested memory, and at least a cache line.
        let (peak, estimate) = (pool.usage().peak, program.memory_estimate().total);
        assert!(estimate > given + made + 4096, "{name}: no scratch memory");
        assert!(peak <= estimate + estimate / 4 + 4096, "{name}: {peak} bytes in use, estimated {estimate}");
        assert!(peak + 4096 >= estimate / 10 * 9, "{name}: only {peak} bytes in use, estimated {estimate}");
    }
}

/// The largest elements are found without sorting the others. The indices of all elements take 400,000 bytes.
#[test]
fn few_largest_elements_need_little_memory() {
    let results = "tensor<10xf32>, tensor<10xi32>";
    let body =
        format!("%0:2 = chlo.top_k(%a, k = 10) : tensor<100000xf32> -> ({results})\n return %0#0, %0#1 : {results}");
    assert!(program("%a: tensor<100000xf32>", results, &body).memory_estimate().temporary < 500_000);
}
