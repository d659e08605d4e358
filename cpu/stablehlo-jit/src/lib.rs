//! Compiles loops over scalars and small arrays to machine code.
//!
//! `stablehlo-cpu` interprets a program step by step, and each step takes 100 ns or more. This is too long for the body
//! of a loop whose steps each compute one number. This crate compiles such loops with Cranelift.
//!
//! # From a loop to code
//!
//! A [`Program`] consists of values, arrays and statements. A [value](Value) is a typed scalar that is defined once. An
//! [array](Array) consists of bytes that the caller passes to each run. Statements load and store elements, compute
//! values, repeat blocks, choose between blocks, and call the caller's [`Host`] for steps that a program cannot
//! express. The caller translates its own representation to a program. `stablehlo-cpu` does this after it has resolved
//! shapes and inlined calls. [`Code::compile`] verifies a program, translates it, and returns [`Code`] to run. It
//! rejects programs that exceed one of the [limits], because the compilation could take long.
//!
//! Ops have the semantics of StableHLO. The results of divisions by zero, of shifts by more bits than the operand has,
//! and of conversions of numbers that do not fit are defined. Functions such as `sine` are [calls](Function) of the
//! caller's functions, so that compiled and interpreted code compute the same bits. Only the sign and the payload of a
//! NaN are not specified.
//!
//! A loop with a constant count whose body computes one element of each array from elements at the same position is
//! computed with vectors of 128 bits, which have the same semantics.
//!
//! # Safety
//!
//! The verifier proves that every access lies in its array. An index is a counter of a loop with a constant count, an
//! integer that the generated code clamps to a constant range, or a digit of such an index. Generated code therefore
//! contains no other checks, and no program that the verifier accepts can read or write other memory. The verifier
//! computes without overflow, and the [limits] bound what it accepts. A vector consists of elements that iterations of
//! its loop access, and a loop has vectors only if no iteration accesses what another one writes. [`Code::run`]
//! compares the lengths of the slices with the verified lengths. The generated function occupies at most
//! [`limits::STACK`] bytes of the stack, and probes the stack. All unsafe code is in `code.rs`, whose first comment
//! lists what the call of generated code relies on.
//!
//! # Platforms
//!
//! Code is generated for x86-64 and AArch64. On other processors, [`Code::compile`] returns [`Error::Platform`], and
//! callers interpret the loop instead.

#[cfg(all(
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod code;
#[cfg(not(all(
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "no_code.rs"]
mod code;
mod error;
mod ir;
pub mod limits;
#[cfg(all(
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod ops;
#[cfg(all(
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod translate;
mod verify;

pub use code::Code;
pub use error::Error;
pub use ir::{
    Access, Array, Block, Element, Expression, Function, Host, HostStep, Part, Program, Selector, Statement, Value,
    has_binary, has_compare, has_fused_multiply_add, has_unary,
};

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
