//! Tests of tensors of many dimensions, and of programs whose tensors are too large for tables or for the memory.

use super::{DType, program, run, tensor};
use crate::engine::pool::Pool;
use crate::{CompileErrorKind, RunError, compile, compile_in};

/// Returns the type of a tensor of `f32` with these extents.
fn of(extents: &[usize]) -> String {
    extents.iter().map(|extent| format!("{extent}x")).chain(["f32".to_owned()]).collect()
}

/// Writes numbers as a list.
fn list(numbers: impl IntoIterator<Item = usize>) -> String {
    numbers.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
fn twenty_qubits() {
    const QUBITS: usize = 20;
    let ty = of(&[2; QUBITS]);
    let rest = of(&[2; QUBITS - 1]);
    // Apply a gate to qubit 3, reverse all dimensions, and sum over the first one.
    let text = format!(
        "%0 = stablehlo.dot_general %gate, %x, contracting_dims = [1] x [3] : (tensor<2x2xf32>, tensor<{ty}>) -> tensor<{ty}>
         %1 = stablehlo.transpose %0, dims = [{}] : (tensor<{ty}>) -> tensor<{ty}>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<{ty}>, tensor<f32>) -> tensor<{rest}>
         return %2 : tensor<{rest}>",
        list((0..QUBITS).rev())
    );
    let program = program(&format!("%gate: tensor<2x2xf32>, %x: tensor<{ty}>"), &format!("tensor<{rest}>"), &text);
    let x: Vec<f32> = (0..1 << QUBITS).map(|i: usize| (i % 1009) as f32).collect();
    let gate = [2.0f32, 1.0, 0.0, 3.0];
    let got: Vec<f32> = run(&program, vec![tensor(DType::F32, &[2, 2], &gate), tensor(DType::F32, &[2; QUBITS], &x)]);
    let bit = |index: usize, qubit: usize| index >> (QUBITS - 1 - qubit) & 1;
    for (at, got) in got.into_iter().enumerate() {
        // Dimension `d` of the result is dimension `d + 1` of the transpose. The transpose reverses the dimensions of
        // the product, which are the gate's qubit and all other qubits in their order.
        let others: Vec<usize> = (0..QUBITS).filter(|&qubit| qubit != 3).collect();
        let order: Vec<usize> = std::iter::once(3).chain(others).rev().collect();
        let mut want = 0.0;
        for summed in 0..2 {
            let mut index = summed << (QUBITS - 1 - order[0]);
            for (d, &qubit) in order.iter().enumerate().skip(1) {
                index |= (at >> (QUBITS - 1 - d) & 1) << (QUBITS - 1 - qubit);
            }
            let flipped = index ^ (1 << (QUBITS - 1 - 3));
            let row = bit(index, 3);
            want += gate[row * 2 + row] * x[index] + gate[row * 2 + (1 - row)] * x[flipped];
        }
        assert!(got == want, "{at}: {got} is not {want}");
    }
}

#[test]
fn sixty_four_dimensions() {
    // Every eighth dimension has extent two, the others have extent one.
    let extents: Vec<usize> = (0..64).map(|d| if d % 8 == 5 { 2 } else { 1 }).collect();
    let ty = of(&extents);
    let starts: Vec<usize> = vec![0; 64];
    let mut half = extents.clone();
    half[5] = 1;
    let half_ty = of(&half);
    let text = format!(
        "%0 = stablehlo.transpose %x, dims = [{}] : (tensor<{ty}>) -> tensor<{reversed}>
         %1 = stablehlo.transpose %0, dims = [{}] : (tensor<{reversed}>) -> tensor<{ty}>
         %2 = stablehlo.reverse %1, dims = [{}] : tensor<{ty}>
         %3 = stablehlo.slice %2 [{}] : (tensor<{ty}>) -> tensor<{half_ty}>
         %4 = stablehlo.slice %1 [{}] : (tensor<{ty}>) -> tensor<{half_ty}>
         %5 = stablehlo.concatenate %3, %4, dim = 5 : (tensor<{half_ty}>, tensor<{half_ty}>) -> tensor<{ty}>
         return %5 : tensor<{ty}>",
        list((0..64).rev()),
        list((0..64).rev()),
        list(0..64),
        starts.iter().zip(&half).map(|(start, end)| format!("{start}:{end}")).collect::<Vec<_>>().join(", "),
        starts.iter().zip(&half).map(|(start, end)| format!("{start}:{end}")).collect::<Vec<_>>().join(", "),
        reversed = of(&extents.iter().rev().copied().collect::<Vec<_>>()),
    );
    let program = program(&format!("%x: tensor<{ty}>"), &format!("tensor<{ty}>"), &text);
    let x: Vec<f32> = (0u8..=255).map(f32::from).collect();
    let got: Vec<f32> = run(&program, vec![tensor(DType::F32, &extents, &x)]);
    let want: Vec<f32> = (128u8..=255).rev().chain(0..128).map(f32::from).collect();
    assert_eq!(got, want);
}

#[test]
fn more_dimensions_are_refused() {
    let ty = of(&[1; 65]);
    let text = format!("func.func @main(%a: tensor<{ty}>) -> tensor<{ty}> {{ return %a : tensor<{ty}> }}");
    let error = compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap()).unwrap_err();
    assert_eq!(error.kind(), CompileErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("65 dimensions; 64 are supported"), "{error}");
}

/// Compiles programs with more positions than a table of their offsets could have.
#[test]
fn no_table_grows_with_the_data() {
    let n = 1usize << 33;
    let programs = [
        // A product for each element.
        format!(
            "func.func @main(%a: tensor<{n}x2xf32>) -> tensor<{n}xf32> {{
               %0 = stablehlo.dot_general %a, %a, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<{n}x2xf32>, tensor<{n}x2xf32>) -> tensor<{n}xf32>
               return %0 : tensor<{n}xf32> }}"
        ),
        // Rows of a matrix, and columns in a batch.
        format!(
            r#"func.func @main(%a: tensor<4x{n}xf32>, %i: tensor<1xi32>) -> tensor<{n}xf32> {{
               %0 = "stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0]>, slice_sizes = array<i64: 1, {n}>}}> : (tensor<4x{n}xf32>, tensor<1xi32>) -> tensor<{n}xf32>
               return %0 : tensor<{n}xf32> }}"#
        ),
        format!(
            r#"func.func @main(%a: tensor<{n}x4xf32>, %i: tensor<{n}x1xi32>) -> tensor<{n}xf32> {{
               %0 = "stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}> : (tensor<{n}x4xf32>, tensor<{n}x1xi32>) -> tensor<{n}xf32>
               return %0 : tensor<{n}xf32> }}"#
        ),
        // Windows that contain everything.
        format!(
            r#"func.func @main(%a: tensor<{n}x2xf32>, %z: tensor<f32>) -> tensor<1x1xf32> {{
               %0 = "stablehlo.reduce_window"(%a, %z) <{{window_dimensions = array<i64: {n}, 2>}}> ({{
                 ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                   %s = stablehlo.add %x, %y : tensor<f32>
                   stablehlo.return %s : tensor<f32>
               }}) : (tensor<{n}x2xf32>, tensor<f32>) -> tensor<1x1xf32>
               return %0 : tensor<1x1xf32> }}"#
        ),
        format!(
            "func.func @main(%a: tensor<1x{n}x1xf32>, %k: tensor<{n}x1x1xf32>) -> tensor<1x1x1xf32> {{
               %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x{n}x1xf32>, tensor<{n}x1x1xf32>) -> tensor<1x1x1xf32>
               return %0 : tensor<1x1x1xf32> }}"
        ),
    ];
    for text in programs {
        let module =
            stablehlo::parse(text.clone(), stablehlo::VerifyLevel::FULL).unwrap_or_else(|e| panic!("{e}: {text}"));
        compile(&module).unwrap_or_else(|e| panic!("{e}: {text}"));
    }
}

#[test]
fn peak_beyond_the_limit_names_the_largest_values() {
    let text = "func.func @main(%a: tensor<400x400xf32>) -> tensor<400x400xf32> {
           %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<400x400xf32>, tensor<400x400xf32>) -> tensor<400x400xf32> loc(\"model.py\":7:3)
           %1 = stablehlo.dot_general %0, %a, contracting_dims = [0] x [0] : (tensor<400x400xf32>, tensor<400x400xf32>) -> tensor<400x400xf32>
           return %1 : tensor<400x400xf32> }";
    let module = stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap();
    let x = vec![1.0f32; 160_000];
    let fails_in = |pool: &Pool| {
        let input = tensor(DType::F32, &[400, 400], &x);
        let allocations = pool.usage().allocations;
        let result = compile(&module).unwrap().run_in(vec![input], pool, None, None);
        result.map(drop).inspect_err(|_| assert_eq!(pool.usage().allocations, allocations, "the run did not start"))
    };
    let Err(error) = fails_in(&Pool::limited(0, Some(1_120_000))) else { panic!("the limit was not checked") };
    let RunError::TooLarge { wanted, available, largest } = &error else { panic!("{error}") };
    assert_eq!((*wanted, *available), (1_280_000, 1_120_000));
    assert!(
        largest.len() == 2 && largest.iter().all(|(size, op)| *size == 640_000 && op.starts_with("dot_general : "))
    );
    assert!(largest.iter().any(|(_, op)| op.ends_with("of function `main` at model.py:7:3")), "{error}");
    // Blocks of a pool may be a quarter larger than the values.
    fails_in(&Pool::limited(0, Some(1_760_000))).unwrap();
    // What others use counts, too.
    let pool = Pool::limited(0, Some(1_760_000));
    let other = pool.alloc(640_000).unwrap();
    assert!(matches!(fails_in(&pool), Err(RunError::TooLarge { .. })));
    drop(other);
    fails_in(&pool).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn peak_beyond_the_machine_fails_before_the_run() {
    // More than 2^31 elements, whose sum needs no memory, and whose reversal would need more than any machine has.
    let n = 1usize << 46;
    let text = format!(
        "func.func @main() -> tensor<{n}xi8> {{
           %0 = stablehlo.iota dim = 0 : tensor<{n}xi8>
           %1 = stablehlo.reverse %0, dims = [0] : tensor<{n}xi8>
           return %1 : tensor<{n}xi8> }}"
    );
    let pool = Pool::new(0);
    let program = compile_in(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap(), &pool).unwrap();
    let error = program.run(Vec::new()).unwrap_err();
    assert!(matches!(&error, RunError::TooLarge { wanted, .. } if *wanted >= n), "{error}");
    assert_eq!(pool.usage().allocations, 0);
}
