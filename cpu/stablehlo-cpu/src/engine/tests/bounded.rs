//! Tests of arrays with bounded dynamic dimensions.

use super::{DType, compile, program, run, tensor};

/// PyTorch/XLA emits `masked_scatter` in this form. The selected positions come first, and only these positions are
/// valid.
#[test]
fn scatter_skips_padding() {
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
fn sums_skip_padding() {
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

/// The dimension that the first reduction keeps is bounded, too.
#[test]
fn kept_dimensions_keep_size() {
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

/// Returns the type of an array with bounded dimensions, such as `?x3` with the bounds `4, ?`.
fn ty(shape: &str, bounds: &str) -> String {
    format!("tensor<{shape}xi32, #stablehlo.bounds<{bounds}>>")
}

/// Returns a program in which `%b` is the first `n` rows of `%x` (4x3), `%c` the first `n` columns, and `%f` the first
/// `n` of all elements. The program runs `body`, which defines the result `%r`.
fn source(body: &str, result: &str) -> String {
    let (rows, columns, flat) = (ty("?x3", "4, ?"), ty("4x?", "?, 3"), ty("?", "12"));
    format!(
        "func.func private @twice(%a: {rows}) -> {rows} {{
           %0 = stablehlo.add %a, %a : {rows}
           return %0 : {rows}
         }}
         func.func @main(%x: tensor<4x3xi32>, %n: tensor<i32>) -> {result} {{
           %b = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4x3xi32>, tensor<i32>) -> {rows}
           %c = stablehlo.set_dimension_size %x, %n, dim = 1 : (tensor<4x3xi32>, tensor<i32>) -> {columns}
           %y = stablehlo.reshape %x : (tensor<4x3xi32>) -> tensor<12xi32>
           %f = stablehlo.set_dimension_size %y, %n, dim = 0 : (tensor<12xi32>, tensor<i32>) -> {flat}
           {body}
           return %r : {result}
         }}"
    )
}

fn parsed(text: &str) -> stablehlo::ir::Module {
    stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::FULL).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the run-time extents of a tensor and the elements inside these extents.
fn contents(tensor: &crate::Tensor) -> (Vec<usize>, Vec<i32>) {
    let extents = tensor.extents();
    let elements = tensor.as_slice().expect("numbers")[..extents.iter().product()].to_vec();
    (extents, elements)
}

/// Runs [`source`] on the integers from 0 to 11, with `n` rows, columns or elements.
fn of(n: i32, body: &str, result: &str) -> (Vec<usize>, Vec<i32>) {
    let text = source(body, result);
    let program = compile(&parsed(&text)).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let x = tensor(DType::I32, &[4, 3], &(0..12).collect::<Vec<i32>>());
    let outputs = program.run(vec![x, tensor(DType::I32, &[], &[n])]).expect("the program runs");
    assert_eq!(outputs.len(), 1, "sizes are not results of their own");
    contents(&outputs[0])
}

#[test]
fn results_skip_padding() {
    let (rows, columns) = (ty("?x3", "4, ?"), ty("4x?", "?, 3"));
    let same = |name: &str, ty: &str| format!("%r = stablehlo.optimization_barrier %{name} : {ty}");
    assert_eq!(of(2, &same("b", &rows), &rows), (vec![2, 3], (0..6).collect()));
    assert_eq!(of(0, &same("b", &rows), &rows), (vec![0, 3], vec![]));
    assert_eq!(of(4, &same("b", &rows), &rows), (vec![4, 3], (0..12).collect()));
    assert_eq!(of(2, &same("c", &columns), &columns), (vec![4, 2], vec![0, 1, 3, 4, 6, 7, 9, 10]));
    let both = ty("?x?", "4, 3");
    let body = format!("%r = stablehlo.set_dimension_size %b, %n, dim = 1 : ({rows}, tensor<i32>) -> {both}");
    assert_eq!(of(2, &body, &both), (vec![2, 2], vec![0, 1, 3, 4]));
}

#[test]
fn elements_move_with_sizes() {
    let (rows, columns, flat) = (ty("?x3", "4, ?"), ty("4x?", "?, 3"), ty("?", "12"));
    let result = ty("3x?", "?, 4");
    let body = format!("%r = stablehlo.transpose %b, dims = [1, 0] : ({rows}) -> {result}");
    assert_eq!(of(2, &body, &result), (vec![3, 2], vec![0, 3, 1, 4, 2, 5]));
    let result = ty("2x?x3", "?, 4, ?");
    let body = format!("%r = stablehlo.broadcast_in_dim %b, dims = [1, 2] : ({rows}) -> {result}");
    assert_eq!(of(1, &body, &result), (vec![2, 1, 3], vec![0, 1, 2, 0, 1, 2]));
    let result = ty("?x3", "3, ?");
    let body = format!("%r = stablehlo.slice %b [1:4, 0:3] : ({rows}) -> {result}");
    assert_eq!(of(3, &body, &result), (vec![2, 3], (3..9).collect()));
    assert_eq!(of(0, &body, &result), (vec![0, 3], vec![]));
    let result = ty("?x3", "2, ?");
    let body = format!("%r = stablehlo.slice %b [0:4:2, 0:3] : ({rows}) -> {result}");
    assert_eq!(of(3, &body, &result), (vec![2, 3], vec![0, 1, 2, 6, 7, 8]));
    assert_eq!(of(2, &body, &result), (vec![1, 3], vec![0, 1, 2]));
    let result = ty("?x3", "9, ?");
    let body = format!(
        "%p = stablehlo.constant dense<-1> : tensor<i32>
         %r = stablehlo.pad %b, %p, low = [1, 0], high = [1, 0], interior = [1, 0] : ({rows}, tensor<i32>) -> {result}"
    );
    let expected = vec![-1, -1, -1, 0, 1, 2, -1, -1, -1, 3, 4, 5, -1, -1, -1];
    assert_eq!(of(2, &body, &result), (vec![5, 3], expected));
    assert_eq!(of(0, &body, &result), (vec![2, 3], vec![-1; 6]));
    let result = ty("?x3", "8, ?");
    let body = format!("%r = stablehlo.concatenate %b, %b, dim = 0 : ({rows}, {rows}) -> {result}");
    assert_eq!(of(1, &body, &result), (vec![2, 3], vec![0, 1, 2, 0, 1, 2]));
    let result = ty("4x?", "?, 6");
    let body = format!("%r = stablehlo.concatenate %c, %x, dim = 1 : ({columns}, tensor<4x3xi32>) -> {result}");
    assert_eq!(of(1, &body, &result), (vec![4, 4], vec![0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11]));
    let body = format!("%r = stablehlo.reverse %f, dims = [0] : {flat}");
    assert_eq!(of(5, &body, &flat), (vec![5], vec![4, 3, 2, 1, 0]));
}

#[test]
fn reshape_keeps_order() {
    let (rows, columns, flat) = (ty("?x3", "4, ?"), ty("4x?", "?, 3"), ty("?", "12"));
    let reshape = |from: &str, ty: &str, result: &str| format!("%r = stablehlo.reshape %{from} : ({ty}) -> {result}");
    assert_eq!(of(2, &reshape("b", &rows, &flat), &flat), (vec![6], (0..6).collect()));
    assert_eq!(of(2, &reshape("c", &columns, &flat), &flat), (vec![8], vec![0, 1, 3, 4, 6, 7, 9, 10]));
    assert_eq!(of(0, &reshape("c", &columns, &flat), &flat), (vec![0], vec![]));
    let one = ty("1x?x3", "?, 4, ?");
    assert_eq!(of(2, &reshape("b", &rows, &one), &one), (vec![1, 2, 3], (0..6).collect()));
    assert_eq!(of(6, &reshape("f", &flat, &rows), &rows), (vec![2, 3], (0..6).collect()));
    assert_eq!(of(8, &reshape("f", &flat, &columns), &columns), (vec![4, 2], (0..8).collect()));
    let split = ty("2x2x?", "?, ?, 3");
    assert_eq!(of(1, &reshape("c", &columns, &split), &split), (vec![2, 2, 1], vec![0, 3, 6, 9]));
}

#[test]
fn shape_operands() {
    let (rows, flat) = (ty("?x3", "4, ?"), ty("?", "12"));
    let shape = |first: &str, rest: &str, count: usize| {
        format!(
            "%1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
             %3 = stablehlo.constant dense<3> : tensor<1xi32>
             %s = stablehlo.concatenate {first}{rest}, dim = 0 : ({}) -> tensor<{count}xi32>",
            vec!["tensor<1xi32>"; count].join(", ")
        )
    };
    let body = shape("%1", ", %3", 2)
        + &format!(
            "%k = stablehlo.constant dense<7> : tensor<i32>
             %r = stablehlo.dynamic_broadcast_in_dim %k, %s, dims = [] : (tensor<i32>, tensor<2xi32>) -> {rows}"
        );
    assert_eq!(of(2, &body, &rows), (vec![2, 3], vec![7; 6]));
    let body = shape("%1", "", 1) + &format!("%r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> {flat}");
    assert_eq!(of(3, &body, &flat), (vec![3], vec![0, 1, 2]));
    let body =
        shape("%1", ", %3", 2) + &format!("%r = stablehlo.dynamic_reshape %b, %s : ({rows}, tensor<2xi32>) -> {rows}");
    assert_eq!(of(2, &body, &rows), (vec![2, 3], (0..6).collect()));
}

#[test]
fn combining_skips_padding() {
    let (rows, columns, flat) = (ty("?x3", "4, ?"), ty("4x?", "?, 3"), ty("?", "12"));
    let body = format!(
        "%r = stablehlo.dot_general %c, %c, contracting_dims = [1] x [1] : ({columns}, {columns}) -> tensor<4x4xi32>"
    );
    let expected = vec![1, 4, 7, 10, 4, 25, 46, 67, 7, 46, 85, 124, 10, 67, 124, 181];
    assert_eq!(of(2, &body, "tensor<4x4xi32>"), (vec![4, 4], expected));
    let result = ty("?x4", "4, ?");
    let body = format!(
        "%t = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x3xi32>) -> tensor<3x4xi32>
         %r = stablehlo.dot_general %b, %t, contracting_dims = [1] x [0] : ({rows}, tensor<3x4xi32>) -> {result}"
    );
    assert_eq!(of(1, &body, &result), (vec![1, 4], vec![5, 14, 23, 32]));
    let body = format!(
        "%r = \"stablehlo.sort\"(%f) <{{dimension = 0 : i64, is_stable = true}}> ({{
           ^bb0(%p: tensor<i32>, %q: tensor<i32>):
             %g = stablehlo.compare GT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %g : tensor<i1>
         }}) : ({flat}) -> {flat}"
    );
    assert_eq!(of(4, &body, &flat), (vec![4], vec![3, 2, 1, 0]));
    let result = ty("?", "6");
    let body = format!(
        "%z = stablehlo.constant dense<0> : tensor<i32>
         %r = \"stablehlo.reduce_window\"(%f, %z) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}> ({{
           ^bb0(%p: tensor<i32>, %q: tensor<i32>):
             %g = stablehlo.add %p, %q : tensor<i32>
             stablehlo.return %g : tensor<i32>
         }}) : ({flat}, tensor<i32>) -> {result}"
    );
    assert_eq!(of(5, &body, &result), (vec![2], vec![1, 5]));
    assert_eq!(of(1, &body, &result), (vec![0], vec![]));
}

#[test]
fn gather_and_scatter_positions() {
    let (rows, columns) = (ty("?x3", "4, ?"), ty("4x?", "?, 3"));
    let result = ty("2x?", "?, 3");
    let body = format!(
        "%z = stablehlo.constant dense<0> : tensor<i32>
         %o = stablehlo.constant dense<1> : tensor<i32>
         %r = stablehlo.dynamic_slice %c, %o, %z, sizes = [2, 3] : ({columns}, tensor<i32>, tensor<i32>) -> {result}"
    );
    assert_eq!(of(2, &body, &result), (vec![2, 2], vec![3, 4, 6, 7]));
    let body = format!(
        "%z = stablehlo.constant dense<0> : tensor<i32>
         %k = stablehlo.constant dense<-1> : tensor<4x3xi32>
         %r = stablehlo.dynamic_update_slice %k, %b, %z, %z : (tensor<4x3xi32>, {rows}, tensor<i32>, tensor<i32>) -> tensor<4x3xi32>"
    );
    assert_eq!(of(1, &body, "tensor<4x3xi32>").1, [0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1]);
    let indices = ty("?x1", "3, ?");
    let result = ty("?x3", "3, ?");
    let body = format!(
        "%i = stablehlo.constant dense<[[3], [0], [2]]> : tensor<3x1xi32>
         %j = stablehlo.set_dimension_size %i, %n, dim = 0 : (tensor<3x1xi32>, tensor<i32>) -> {indices}
         %r = \"stablehlo.gather\"(%x, %j) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>, indices_are_sorted = false}}> : (tensor<4x3xi32>, {indices}) -> {result}"
    );
    assert_eq!(of(2, &body, &result), (vec![2, 3], vec![9, 10, 11, 0, 1, 2]));
}

#[test]
fn control_flow_passes_sizes() {
    let rows = ty("?x3", "4, ?");
    let body = format!("%r = func.call @twice(%b) : ({rows}) -> {rows}");
    assert_eq!(of(1, &body, &rows), (vec![1, 3], vec![0, 2, 4]));
    let body = format!(
        "%o = stablehlo.constant dense<1> : tensor<i32>
         %g = stablehlo.compare GT, %n, %o : (tensor<i32>, tensor<i32>) -> tensor<i1>
         %r = \"stablehlo.if\"(%g) ({{
             stablehlo.return %b : {rows}
         }}, {{
             %t = func.call @twice(%b) : ({rows}) -> {rows}
             stablehlo.return %t : {rows}
         }}) : (tensor<i1>) -> {rows}"
    );
    assert_eq!(of(1, &body, &rows), (vec![1, 3], vec![0, 2, 4]));
    assert_eq!(of(2, &body, &rows), (vec![2, 3], (0..6).collect()));
    // The loop removes a row in each iteration until at most two rows are left.
    let body = format!(
        "%o = stablehlo.constant dense<1> : tensor<i32>
         %t = stablehlo.constant dense<2> : tensor<i32>
         %r = stablehlo.while(%a = %b) : {rows}
           cond {{ %s = stablehlo.get_dimension_size %a, dim = 0 : ({rows}) -> tensor<i32>
                  %g = stablehlo.compare GT, %s, %t : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %g : tensor<i1> }}
           do {{ %s = stablehlo.get_dimension_size %a, dim = 0 : ({rows}) -> tensor<i32>
                %m = stablehlo.subtract %s, %o : tensor<i32>
                %d = stablehlo.set_dimension_size %a, %m, dim = 0 : ({rows}, tensor<i32>) -> {rows}
                stablehlo.return %d : {rows} }}"
    );
    assert_eq!(of(4, &body, &rows), (vec![2, 3], (0..6).collect()));
    assert_eq!(of(1, &body, &rows), (vec![1, 3], (0..3).collect()));
}

#[test]
fn argument_sizes() {
    let columns = ty("2x?", "?, 3");
    let set = |n: &str| {
        format!("stablehlo.set_dimension_size %x, {n}, dim = 1 : (tensor<2x3xi32>, tensor<i32>) -> {columns}")
    };
    let make = compile(&parsed(&format!(
        "func.func @main(%x: tensor<2x3xi32>, %n: tensor<i32>) -> {columns} {{ %0 = {} return %0 : {columns} }}",
        set("%n")
    )))
    .expect("it compiles");
    let double = compile(&parsed(&format!(
        "func.func @main(%x: {columns}) -> {columns} {{ %0 = stablehlo.add %x, %x : {columns} return %0 : {columns} }}"
    )))
    .expect("it compiles");
    assert_eq!((double.parameters().len(), double.outputs().len()), (1, 1));
    assert!(double.is_bounded_parameter(0) && double.is_bounded_output(0) && !make.is_bounded_parameter(0));
    let x = tensor(DType::I32, &[2, 3], &[0, 1, 2, 3, 4, 5]);
    let of = |n: i32| make.run(vec![x.clone(), tensor(DType::I32, &[], &[n])]);
    let two = of(2).expect("it runs").remove(0);
    assert_eq!(two.dynamic_dimensions(), [(1, 2)]);
    let doubled = double.run(vec![two.clone()]).expect("it runs").remove(0);
    assert_eq!(contents(&doubled), (vec![2, 2], vec![0, 2, 6, 8]));
    let doubled = double.run(vec![x.clone()]).expect("an array of one size has the maximum size").remove(0);
    assert_eq!(contents(&doubled), (vec![2, 3], vec![0, 2, 4, 6, 8, 10]));
    // Sizes belong to dimensions, so an array with another dimension of extent 1 has the maximum size or none.
    let one = ty("?", "8");
    let echo = compile(&parsed(&format!("func.func @main(%x: {one}) -> {one} {{ return %x : {one} }}"))).unwrap();
    let echoed = echo.run(vec![tensor(DType::I32, &[1, 8], &[0, 1, 2, 3, 4, 5, 6, 7])]).unwrap().remove(0);
    assert_eq!(contents(&echoed), (vec![8], vec![0, 1, 2, 3, 4, 5, 6, 7]));
    let error = echo.run(vec![two.clone()]).unwrap_err();
    assert!(matches!(error, crate::RunError::Input(_)), "{error}");
    // A parameter with a static shape does not accept an array with dynamic dimensions.
    let error = make.run(vec![two, tensor(DType::I32, &[], &[2])]).unwrap_err();
    assert!(matches!(error, crate::RunError::Input(_)), "{error}");
    let error = double.run(Vec::new()).unwrap_err();
    assert!(matches!(error, crate::RunError::Input(_)), "{error}");
    for n in [-1, 4] {
        let error = of(n).unwrap_err();
        assert!(matches!(error, crate::RunError::Size(_)), "{error}");
    }
}

#[test]
fn other_uses_are_rejected() {
    let (rows, both) = (ty("?x3", "4, ?"), ty("?x?", "4, 3"));
    let refused = |body: &str, result: &str| {
        let text = source(body, result);
        compile(&parsed(&text)).unwrap_err()
    };
    let body = format!("%r = stablehlo.custom_call @Sharding(%b) : ({rows}) -> {rows}");
    let error = refused(&body, &rows);
    assert_eq!(error.kind(), crate::CompileErrorKind::Unsupported, "{error}");
    let other = ty("?x?", "3, 4");
    let body = format!(
        "%d = stablehlo.set_dimension_size %b, %n, dim = 1 : ({rows}, tensor<i32>) -> {both}
         %r = stablehlo.reshape %d : ({both}) -> {other}"
    );
    let error = refused(&body, &other);
    assert_eq!(error.kind(), crate::CompileErrorKind::Unsupported, "{error}");
    let text = format!("func.func @main(%x: {rows}) -> {rows} {{ return %x : {rows} }}");
    let mut settings = crate::CompileSettings::new(1, 2);
    settings.use_spmd = true;
    let error = crate::compile_with(&parsed(&text), &settings, &crate::Pool::new(usize::MAX)).unwrap_err();
    assert_eq!(error.kind(), crate::CompileErrorKind::Unsupported, "{error}");
}
