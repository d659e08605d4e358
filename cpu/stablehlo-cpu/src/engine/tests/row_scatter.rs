//! Tests of scatters that are fused with the ops that read their results.

use super::{DType, program, run, tensor};
use crate::Tensor;

/// An update `p - 0.1 * scatter(start, i, u)` of an array of extents `dims`. If the scatter's input is a constant, the
/// scatter is fused with the ops that follow. If its input is the argument `%z`, it is not fused. If the array has one
/// dimension, each update window is one element. Otherwise, each update window covers the innermost dimension.
struct Update {
    dims: Vec<usize>,
    indices: Vec<i32>,
    /// The body of the scatter.
    body: &'static str,
    start: f32,
}

impl Update {
    fn program(&self, is_fused: bool) -> crate::Program {
        let extents = |dims: &[usize]| dims.iter().map(|d| format!("{d}x")).collect::<String>();
        let (outer, columns) = self.split();
        let (rank, count) = (outer.len(), self.count());
        let full = format!("tensor<{}f32>", extents(&self.dims));
        let (i, u) = (format!("tensor<{count}x{rank}xi32>"), format!("tensor<{count}x{}f32>", extents(columns)));
        let list: Vec<usize> = (0..rank).collect();
        let window = if columns.is_empty() { "" } else { "1" };
        let start = if is_fused { "%c" } else { "%z" };
        let (body, element) = (self.body, self.start);
        program(
            &format!("%p: {full}, %i: {i}, %u: {u}, %z: {full}"),
            &full,
            &format!(
                "%c = stablehlo.constant dense<{element:?}> : {full}
                 %g = \"stablehlo.scatter\"({start}, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
                     update_window_dims = [{window}], inserted_window_dims = {list:?},
                     scatter_dims_to_operand_dims = {list:?}, index_vector_dim = 1>}}> ({{
                   ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                     {body}
                 }}) : ({full}, {i}, {u}) -> {full}
                 %lr = stablehlo.constant dense<0.1> : {full}
                 %0 = stablehlo.multiply %lr, %g : {full}
                 %1 = stablehlo.subtract %p, %0 : {full}
                 return %1 : {full}"
            ),
        )
    }

    /// Returns the extents of the dimensions that the scatter indices select, and the extent of the window dimension.
    /// If the array has one dimension, there is no window dimension.
    fn split(&self) -> (&[usize], &[usize]) {
        self.dims.split_at(self.dims.len().saturating_sub(1).max(1))
    }

    fn count(&self) -> usize {
        self.indices.len() / self.split().0.len()
    }

    fn inputs(&self) -> Vec<Tensor> {
        let (outer, columns) = self.split();
        let count = self.count();
        let n = self.dims.iter().product();
        let update_dims = [&[count], columns].concat();
        vec![
            tensor(DType::F32, &self.dims, &numbers(n, 1)),
            tensor(DType::I32, &[count, outer.len()], &self.indices),
            tensor(DType::F32, &update_dims, &numbers(update_dims.iter().product(), 2)),
            tensor(DType::F32, &self.dims, &vec![self.start; n]),
        ]
    }

    /// Checks that the fused program has one step and the unfused program has two steps. Also checks that both programs
    /// return the same bits.
    fn check(&self) {
        let (fused, unfused) = (self.program(true), self.program(false));
        assert_eq!((fused.step_count(), unfused.step_count()), (1, 2), "{:?}", self.dims);
        let bits = |program| run::<u32>(program, self.inputs());
        assert!(bits(&fused) == bits(&unfused), "{:?} {}", self.dims, self.body);
    }
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| f32::from(u16::try_from(((i + seed) * 40503) % 4001).unwrap()) / 500.0 - 4.0).collect()
}

/// Returns `count` indices that repeat at most 40 different values from -3 to `extent + 3`.
fn indices(count: usize, extent: usize) -> Vec<i32> {
    (0..count).map(|i| i32::try_from((i * 17) % 40 * (extent + 6) / 39).unwrap() - 3).collect()
}

const BODIES: [&str; 4] = [
    "%r = stablehlo.add %a, %b : tensor<f32>\n stablehlo.return %r : tensor<f32>",
    "%r = stablehlo.multiply %a, %b : tensor<f32>\n stablehlo.return %r : tensor<f32>",
    "%r = stablehlo.maximum %a, %b : tensor<f32>\n stablehlo.return %r : tensor<f32>",
    "stablehlo.return %b : tensor<f32>",
];

#[test]
fn rows_with_repeated_and_outside_indices() {
    for (rows, columns) in [(4096, 64), (1025, 67), (17, 5001), (66000, 1)] {
        for body in BODIES {
            Update { dims: vec![rows, columns], indices: indices(300, rows), body, start: 1.5 }.check();
        }
    }
}

#[test]
fn elements_and_rows_of_several_dimensions() {
    for body in BODIES {
        Update { dims: vec![100_003], indices: indices(6000, 100_003), body, start: 0.0 }.check();
        let pairs = indices(300, 50).into_iter().zip(indices(299, 60)).flat_map(|(i, j)| [i, j]);
        Update { dims: vec![50, 60, 32], indices: pairs.collect(), body, start: -0.0 }.check();
    }
}

#[test]
fn single_update_and_none_inside() {
    for indices in [vec![4095], vec![-1, 4096, i32::MIN, i32::MAX]] {
        Update { dims: vec![4096, 64], indices, body: BODIES[0], start: 0.0 }.check();
    }
}

/// The loop that computes the updates has as many elements as the result. It must end before the scatter starts.
#[test]
fn updates_from_values_of_same_size() {
    let (rows, columns) = (1024, 128);
    let (full, ids) = (format!("tensor<{rows}x{columns}xi32>"), format!("tensor<{rows}x1xi32>"));
    let program = program(
        &format!("%x: {full}, %i: {ids}"),
        &format!("{full}, {full}"),
        &format!(
            "%u = stablehlo.add %x, %x : {full}
             %c = stablehlo.constant dense<0> : {full}
             %g = \"stablehlo.scatter\"(%c, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
                 update_window_dims = [1], inserted_window_dims = [0],
                 scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
               ^bb0(%a: tensor<i32>, %b: tensor<i32>):
                 %r = stablehlo.add %a, %b : tensor<i32>
                 stablehlo.return %r : tensor<i32>
             }}) : ({full}, {ids}, {full}) -> {full}
             %0 = stablehlo.subtract %u, %g : {full}
             return %0, %g : {full}, {full}"
        ),
    );
    assert_eq!(program.step_count(), 2);
    let x: Vec<i32> = (0..rows * columns).collect();
    let i: Vec<i32> = (0..rows).map(|i| (i * 5) % 512).collect();
    let dims = [1024, 128];
    let out = program.run(vec![tensor(DType::I32, &dims, &x), tensor(DType::I32, &[1024, 1], &i)]).unwrap();
    let mut g = vec![0; x.len()];
    for (row, &to) in x.chunks(128).zip(&i) {
        let to = usize::try_from(to).unwrap() * 128;
        g[to..to + 128].iter_mut().zip(row).for_each(|(g, x)| *g += 2 * x);
    }
    let want: Vec<i32> = x.iter().zip(&g).map(|(x, g)| 2 * x - g).collect();
    assert!(out[0].as_slice::<i32>().unwrap() == want && out[1].as_slice::<i32>().unwrap() == g);
}

/// An op on an unrelated scalar, such as a loss, does not prevent the fusion of the scatter with the ops that read its
/// result. An op on an element of the result prevents the fusion.
#[test]
fn scalars_between() {
    let (full, ids, updates) = ("tensor<4096x64xf32>", "tensor<3x1xi32>", "tensor<3x64xf32>");
    let step = |element: &str| {
        program(
            &format!("%p: {full}, %i: {ids}, %u: {updates}, %k: tensor<1x1xf32>"),
            &format!("{full}, tensor<1x1xf32>"),
            &format!(
                "%s = stablehlo.multiply %k, %k : tensor<1x1xf32>
                 %c = stablehlo.constant dense<0.0> : {full}
                 %g = \"stablehlo.scatter\"(%c, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
                     update_window_dims = [1], inserted_window_dims = [0],
                     scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
                   ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                     {}
                 }}) : ({full}, {ids}, {updates}) -> {full}
                 {element}
                 %0 = stablehlo.subtract %p, %g : {full}
                 return %0, %t : {full}, tensor<1x1xf32>",
                BODIES[0]
            ),
        )
    };
    let apart = step("%t = stablehlo.add %s, %s : tensor<1x1xf32>");
    let read = step(
        "%e = stablehlo.slice %g [3:4, 0:1] : (tensor<4096x64xf32>) -> tensor<1x1xf32>
         %t = stablehlo.add %s, %e : tensor<1x1xf32>",
    );
    assert_eq!((apart.step_count(), read.step_count()), (2, 3));
    for (program, want) in [(apart, 18.0), (read, 14.0)] {
        let out = program.run(vec![
            tensor(DType::F32, &[4096, 64], &[1.0f32; 4096 * 64]),
            tensor(DType::I32, &[3, 1], &[3, 9, 3]),
            tensor(DType::F32, &[3, 64], &[2.5f32; 3 * 64]),
            tensor(DType::F32, &[1, 1], &[3.0f32]),
        ]);
        let out = out.unwrap();
        assert_eq!(out[1].as_slice::<f32>().unwrap(), [want]);
        for (row, got) in out[0].as_slice::<f32>().unwrap().chunks(64).enumerate() {
            let want = [1.0, -1.5, -4.0][usize::from(row == 9) + 2 * usize::from(row == 3)];
            assert!(got.iter().all(|&x| x == want), "row {row}");
        }
    }
}

/// A scatter whose windows do not divide its array is not fused, so the elements behind the last whole window are those
/// of the input.
#[test]
fn windows_that_do_not_divide_the_array() {
    let full = "tensor<1x100001xf32>";
    let program = program(
        "%i: tensor<1x1xi32>, %u: tensor<1x1x20000xf32>, %y: tensor<5xf32>",
        &format!("{full}, tensor<5xf32>"),
        &format!(
            "%c = stablehlo.constant dense<0.5> : {full}
             %s = \"stablehlo.scatter\"(%c, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
                 update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
               ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                 {}
             }}) : ({full}, tensor<1x1xi32>, tensor<1x1x20000xf32>) -> {full}
             %t = stablehlo.add %y, %y : tensor<5xf32>
             return %s, %t : {full}, tensor<5xf32>",
            BODIES[0]
        ),
    );
    let out = program.run(vec![
        tensor(DType::I32, &[1, 1], &[0]),
        tensor(DType::F32, &[1, 1, 20000], &[2.0f32; 20000]),
        tensor(DType::F32, &[5], &[3.0f32; 5]),
    ]);
    let out = out.unwrap();
    let (changed, kept) = out[0].as_slice::<f32>().unwrap().split_at(20000);
    assert!(changed.iter().all(|&x| x == 2.5) && kept.iter().all(|&x| x == 0.5));
    assert_eq!(out[1].as_slice::<f32>().unwrap(), [6.0; 5]);
}
