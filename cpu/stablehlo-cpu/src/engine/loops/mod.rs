//! Compiles loops over scalars and small arrays to machine code, with `stablehlo-jit`.
//!
//! `compile` translates a loop of the graph to a program of that crate. Scalars and the elements of very small arrays
//! are kept in registers. Each other array has a place in memory, which is a buffer of the run or a part of the loop's
//! frame. The frame is memory for temporary arrays. A step that changes a few elements of an array changes them in
//! place if nothing reads the old array later. The interpreter runs a loop if any part of the loop cannot be
//! translated, or if the compiled loop would have to copy large arrays.

mod arrays;
mod classes;
mod compile;
mod elements;
mod floats;
mod functions;
mod host;
mod indexed;
mod kernel;
mod products;
mod scalars;
mod signature;
mod translator;
mod work;

pub(crate) use compile::{CompiledLoop, compile};
