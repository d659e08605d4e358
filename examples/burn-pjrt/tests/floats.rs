//! Tests operations on floats, and compares the results with Burn's CPU backend.

mod common;

use burn_tensor::backend::Backend;
use burn_tensor::{DType, Distribution, Shape, Tensor, TensorData, activation, s};
use common::Results;

/// Returns a tensor of positive and negative values from a repeating sequence.
fn numbers<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 25.0 - 2.0).collect();
    Tensor::from_data(TensorData::new(values, Shape::new(shape)), device)
}

fn functions<B: Backend>(r: &mut Results, device: &B::Device) {
    let x = numbers::<B, 2>([5, 7], device);
    let positive = x.clone().abs() + 0.1;
    let small = x.clone() / 2.1;
    r.float("exp", x.clone().exp());
    r.float("log", positive.clone().log());
    r.float("log1p", positive.clone().log1p());
    r.float("sqrt", positive.clone().sqrt());
    r.float("cos", x.clone().cos());
    r.float("sin", x.clone().sin());
    r.float("tan", small.clone().tan());
    r.float("tanh", x.clone().tanh());
    r.float("cosh", x.clone().cosh());
    r.float("sinh", x.clone().sinh());
    r.float("acos", small.clone().acos());
    r.float("asin", small.clone().asin());
    r.float("atan", x.clone().atan());
    r.float("acosh", (positive.clone() + 1.0).acosh());
    r.float("asinh", x.clone().asinh());
    r.float("atanh", small.atanh());
    r.float("atan2", x.clone().atan2(positive.clone()));
    r.float("erf", x.clone().erf());
    r.float("round", x.clone().round());
    r.float("floor", x.clone().floor());
    r.float("ceil", x.clone().ceil());
    r.float("trunc", x.clone().trunc());
    r.float("recip", positive.clone().recip());
    r.float("powf_scalar", positive.clone().powf_scalar(1.7));
    r.float("powi_scalar", x.clone().powi_scalar(3));
    r.float("powi_scalar negative", positive.clone().powi_scalar(-2));
    r.float("powf", positive.clone().powf(x.clone()));
    r.float("abs", x.clone().abs());
    r.float("sign", x.clone().sign());
    r.float("neg", x.clone().neg());
    r.float("clamp", x.clone().clamp(-0.5, 0.7));
    r.int("int", x.clone().int());
    r.bool("is_nan", (x.clone() / 0.0 * 0.0).is_nan());
    r.bool("is_inf", (positive / 0.0).is_inf());
    r.float("relu", activation::relu(x.clone()));
    r.float("gelu", activation::gelu(x.clone()));
    r.float("sigmoid", activation::sigmoid(x.clone()));
    r.float("log_sigmoid", activation::log_sigmoid(x.clone()));
    r.float("softmax", activation::softmax(x.clone(), 1));
    r.float("log_softmax", activation::log_softmax(x.clone(), 0));
    r.float("silu", activation::silu(x));
}

fn arithmetic<B: Backend>(r: &mut Results, device: &B::Device) {
    let (x, y) = (numbers::<B, 3>([2, 3, 4], device), numbers::<B, 3>([2, 3, 4], device).flip([0, 2]) + 3.0);
    let row = numbers::<B, 3>([1, 1, 4], device);
    r.float("add", x.clone() + y.clone());
    r.float("sub", x.clone() - y.clone());
    r.float("mul", x.clone() * y.clone());
    r.float("div", x.clone() / y.clone());
    r.float("remainder", x.clone().remainder(y.clone()));
    r.float("broadcast", x.clone() * row.clone());
    r.float("scalars", ((x.clone() + 1.5) * 2.5 - 0.5) / 3.0);
    r.float("remainder_scalar", x.clone().remainder_scalar(0.7));
    r.bool("greater", x.clone().greater(y.clone()));
    r.bool("lower_equal", x.clone().lower_equal(row));
    r.bool("equal", x.clone().equal(x.clone()));
    r.bool("greater_elem", x.clone().greater_elem(0.3));
    r.bool("lower_equal_elem", x.clone().lower_equal_elem(0.3));
    r.bool("not_equal_elem", x.clone().not_equal_elem(-2.0));
    let a = numbers::<B, 3>([2, 3, 5], device);
    let b = numbers::<B, 3>([1, 5, 4], device);
    r.float("matmul", a.matmul(b));
    r.float("cross", numbers::<B, 2>([4, 3], device).cross(numbers::<B, 2>([4, 3], device).flip([0]), 1));
    r.float("f64", x.clone().cast(DType::F64).exp());
    r.float("to f16", (x.clone().cast(DType::F16) * 2.0).cast(DType::F32));
    r.float("to bf16", x.cast(DType::BF16).sum_dim(2).cast(DType::F32));
}

fn reductions<B: Backend>(r: &mut Results, device: &B::Device) {
    let x = numbers::<B, 3>([3, 4, 5], device);
    r.float("sum", x.clone().sum());
    r.float("mean", x.clone().mean());
    r.float("prod", x.clone().slice(s![0..1, .., 0..2]).prod());
    r.float("max", x.clone().max());
    r.float("min", x.clone().min());
    r.float("max_abs", x.clone().max_abs());
    for d in 0..3 {
        r.float("sum_dim", x.clone().sum_dim(d));
        r.float("mean_dim", x.clone().mean_dim(d));
        r.float("prod_dim", x.clone().prod_dim(d));
        r.float("max_dim", x.clone().max_dim(d));
        r.float("min_dim", x.clone().min_dim(d));
        r.int("argmax", x.clone().argmax(d));
        r.int("argmin", x.clone().argmin(d));
        let (values, positions) = x.clone().max_dim_with_indices(d);
        r.float("max_dim_with_indices", values);
        r.int("max_dim_with_indices", positions);
        r.float("cumsum", x.clone().cumsum(d));
        r.float("cumprod", x.clone().cumprod(d));
        r.float("cummax", x.clone().cummax(d));
        r.float("cummin", x.clone().cummin(d));
        r.float("topk", x.clone().topk(2, d));
        r.float("sort", x.clone().sort(d));
        r.float("var", x.clone().var(d));
    }
}

fn shapes<B: Backend>(r: &mut Results, device: &B::Device) {
    let x = numbers::<B, 3>([3, 4, 6], device);
    r.float("reshape", x.clone().reshape([6, 12]));
    r.float("transpose", x.clone().transpose());
    r.float("permute", x.clone().permute([2, 0, 1]));
    r.float("swap_dims", x.clone().swap_dims(0, 1));
    r.float("flip", x.clone().flip([0, 2]));
    r.float("expand", numbers::<B, 2>([1, 4], device).expand([3, 4]));
    r.float("unfold", x.clone().unfold::<4, _>(2, 3, 2));
    r.float("slice", x.clone().slice(s![1.., 0..3, ..-1]));
    r.float("slice steps", x.clone().slice(s![.., ..;2, ..;-2]));
    let value = numbers::<B, 3>([2, 2, 6], device);
    r.float("slice_assign", x.clone().slice_assign(s![1..3, 1..3, ..], value));
    let value = numbers::<B, 3>([3, 2, 3], device);
    r.float("slice_assign steps", x.clone().slice_assign(s![.., ..;2, ..;-2], value));
    r.float("slice_fill", x.clone().slice_fill(s![0..1, .., 2..4], 9.0));
    r.float("repeat", x.clone().repeat_dim(1, 3));
    r.float("cat", Tensor::cat(vec![x.clone(), x.clone().flip([1])], 2));
    r.float("stack", Tensor::stack::<4>(vec![x.clone(), x.clone()], 1));
    let mask = x.clone().greater_elem(0.0);
    r.float("mask_where", x.clone().mask_where(mask.clone(), x.clone() * 10.0));
    r.float("mask_fill", x.clone().mask_fill(mask, -7.0));
    r.float("tril", numbers::<B, 2>([4, 4], device).tril(0));
    r.float("zeros", Tensor::<B, 2>::zeros([2, 3], device));
    r.float("ones", Tensor::<B, 2>::ones([2, 3], device));
    r.float("full", Tensor::<B, 2>::full([2, 3], 2.5, device));
}

#[test]
fn functions_match() {
    compare!(functions, 2e-5);
}

#[test]
fn arithmetic_matches() {
    compare!(arithmetic, 1e-5);
}

#[test]
fn reductions_match() {
    compare!(reductions, 1e-5);
}

#[test]
fn shapes_match() {
    compare!(shapes, 0.0);
}

#[test]
fn random_numbers_have_their_distribution() {
    use burn_pjrt::{Pjrt, PjrtDevice};
    let device = PjrtDevice::default();
    let draw = |distribution| {
        let tensor = Tensor::<Pjrt, 1>::random([20_000], distribution, &device);
        tensor.into_data().to_vec::<f32>().expect("f32")
    };
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    let uniform = draw(Distribution::Uniform(-2.0, 4.0));
    assert!(uniform.iter().all(|x| (-2.0..4.0).contains(x)));
    assert!((mean(&uniform) - 1.0).abs() < 0.1);
    let normal = draw(Distribution::Normal(3.0, 2.0));
    let deviation = normal.iter().map(|x| (x - 3.0).powi(2)).sum::<f32>() / normal.len() as f32;
    assert!((mean(&normal) - 3.0).abs() < 0.1 && (deviation - 4.0).abs() < 0.3, "{} {deviation}", mean(&normal));
    let bernoulli = draw(Distribution::Bernoulli(0.25));
    assert!(bernoulli.iter().all(|x| *x == 0.0 || *x == 1.0) && (mean(&bernoulli) - 0.25).abs() < 0.02);
    assert_ne!(draw(Distribution::Default), draw(Distribution::Default));
    let ints = Tensor::<Pjrt, 1, burn_tensor::Int>::random([1000], Distribution::Uniform(-3.0, 5.0), &device);
    let ints = ints.into_data().to_vec::<i32>().expect("i32");
    assert!((-3..5).all(|value| ints.contains(&value)) && ints.iter().all(|value| (-3..5).contains(value)));
}
