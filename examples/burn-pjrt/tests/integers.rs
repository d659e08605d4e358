//! Tests indexing and operations on integers and booleans, and compares the results with Burn's CPU backend.

mod common;

use burn_tensor::backend::Backend;
use burn_tensor::{Bool, DType, ElementConversion, IndexingUpdateOp, Int, Tensor, TensorData, s};
use common::Results;

fn numbers<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D, Int> {
    let count: usize = shape.iter().product();
    let values: Vec<i32> = (0..count as i32).map(|i| (i * 37 + 11) % 23 - 9).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn integers<B: Backend>(r: &mut Results, device: &B::Device) {
    let x = numbers::<B, 2>([4, 5], device);
    let y = numbers::<B, 2>([4, 5], device).flip([0]).abs() + 1;
    r.int("add", x.clone() + y.clone());
    r.int("sub", x.clone() - y.clone());
    r.int("mul", x.clone() * y.clone());
    r.int("div", x.clone() / y.clone());
    r.int("remainder", x.clone().remainder(y.clone()));
    r.int("scalars", (x.clone() + 3) * 2 - 1);
    r.int("div_scalar", x.clone() / 4);
    r.int("remainder_scalar", x.clone().remainder_scalar(5));
    r.int("powi_scalar", x.clone().powi_scalar(3));
    r.int("abs", x.clone().abs());
    r.int("clamp", x.clone().clamp(-2, 3));
    r.int("sum", x.clone().sum());
    r.int("mean", x.clone().mean());
    r.int("max", x.clone().max());
    r.int("argmax", x.clone().argmax(1));
    r.int("cumsum", x.clone().cumsum(0));
    r.int("sort", x.clone().sort(1));
    r.int("argsort", x.clone().argsort(1));
    r.int("matmul", x.clone().matmul(y.clone().transpose()));
    r.int("and", x.clone().bitwise_and(y.clone()));
    r.int("or", x.clone().bitwise_or_scalar(5.elem()));
    r.int("xor", x.clone().bitwise_xor(y.clone()));
    r.int("not", x.clone().bitwise_not());
    r.int("left", x.clone().bitwise_left_shift_scalar(2.elem()));
    r.int("right", x.clone().bitwise_right_shift_scalar(1.elem()));
    r.bool("greater", x.clone().greater(y.clone()));
    r.bool("equal_elem", x.clone().equal_elem(2));
    r.float("float", x.clone().float() / 3.0);
    for dtype in [DType::I64, DType::I16, DType::I8, DType::U8, DType::U32, DType::U64] {
        r.int("cast", (y.clone().cast(dtype) + 1) * 2);
    }
    r.int("arange", Tensor::<B, 1, Int>::arange(2..9, device));
}

fn booleans<B: Backend>(r: &mut Results, device: &B::Device) {
    let x = numbers::<B, 2>([4, 5], device).greater_elem(0);
    let y = numbers::<B, 2>([4, 5], device).lower_elem(5);
    r.bool("and", x.clone().bool_and(y.clone()));
    r.bool("or", x.clone().bool_or(y.clone()));
    r.bool("xor", x.clone().bool_xor(y.clone()));
    r.bool("not", x.clone().bool_not());
    r.bool("equal", x.clone().equal(y.clone()));
    r.int("int", x.clone().int());
    r.float("float", x.clone().float());
    r.bool("any", x.clone().any());
    r.bool("all_dim", x.clone().all_dim(1));
    r.bool("cat", Tensor::cat(vec![x.clone(), y.clone()], 0));
    r.bool("slice", x.clone().slice(s![1..3, ..;2]));
    r.int("argwhere", x.clone().argwhere());
    r.bool("transpose", x.transpose());
    r.bool("data", Tensor::<B, 1, Bool>::from_data([true, false, true], device).flip([0]));
}

fn indexing<B: Backend>(r: &mut Results, device: &B::Device) {
    let x = numbers::<B, 3>([3, 4, 5], device).float();
    let rows = Tensor::<B, 1, Int>::from_data([2, 0, 2, 1], device);
    r.float("select", x.clone().select(1, rows.clone()));
    let values = numbers::<B, 3>([3, 4, 5], device).float();
    r.float("select_assign", x.clone().select_assign(1, rows, values, IndexingUpdateOp::Add));
    let indices = Tensor::<B, 3, Int>::from_data([[[0, 3, 1, 2, 2], [1, 1, 0, 3, 2]]], device).repeat_dim(0, 3);
    r.float("gather", x.clone().gather(1, indices.clone()));
    let values = numbers::<B, 3>([3, 2, 5], device).float();
    r.float("scatter", x.clone().scatter(1, indices, values, IndexingUpdateOp::Add));
    let points = Tensor::<B, 2, Int>::from_data([[0, 1], [2, 3], [1, 0]], device);
    r.float("gather_nd", x.clone().gather_nd::<2, 2>(points.clone()));
    let values = numbers::<B, 2>([3, 5], device).float();
    for update in [IndexingUpdateOp::Add, IndexingUpdateOp::Assign, IndexingUpdateOp::Mul, IndexingUpdateOp::Max] {
        r.float("scatter_nd", x.clone().scatter_nd::<2, 2>(points.clone(), values.clone(), update));
    }
    r.float("one_hot", Tensor::<B, 1, Int>::from_data([1, 0, 3], device).one_hot::<2>(4).float());
    let bools = x.clone().greater_elem(0.0);
    r.bool("bool select", bools.select(2, Tensor::from_data([4, 0], device)));
    r.int("int gather", x.int().gather(2, Tensor::from_data([[[1], [0], [4], [2]]], device).repeat_dim(0, 3)));
}

#[test]
fn integers_match() {
    compare!(integers, 1e-6);
}

#[test]
fn booleans_match() {
    compare!(booleans, 0.0);
}

#[test]
fn indexing_matches() {
    compare!(indexing, 0.0);
}
