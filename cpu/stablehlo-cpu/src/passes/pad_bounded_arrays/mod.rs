//! The pass `pad_bounded_arrays`: replaces arrays of bounded size with arrays of their maximum size, before a program
//! is partitioned or lowered.
//!
//! An array of bounded size, such as `tensor<?x2xf32, #stablehlo.bounds<6, ?>>`, has a maximum shape. The number of
//! rows of this example is known only at run time. The pass replaces it with two values. The first is an array of the
//! maximum shape, and only its first rows are valid. The second is an `i32` scalar that contains the number of valid
//! rows. It is called the size of the dimension. Before an op combines elements, invalid elements are replaced by
//! values that do not change the result of the op.
//!
//! Functions and control flow pass the sizes as additional arguments and results, after all other arguments and
//! results. For the entry function, [`BoundedArrays`](crate::engine::BoundedArrays) records which parameters and
//! outputs have sizes. Each run converts between dynamic tensors and arrays of the maximum shape.

mod builder;
mod combine;
mod control;
mod elementwise;
mod indexing;
mod reshape;
mod rewrite;
mod shapes;
mod types;

pub(crate) use rewrite::pad_bounded_arrays;
