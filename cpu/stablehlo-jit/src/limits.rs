//! Limits of programs. A program that exceeds one of them is rejected with [`Error::TooLarge`](crate::Error::TooLarge).
//!
//! The limits bound the time and the memory of a compilation, the depth of recursion, and the stack of a run. Sizes of
//! arrays, offsets, strides, divisors and bounds have no limit of their own. They must fit in an `i64`, and so must
//! every sum and product of them that the verifier computes.

/// Maximum number of values. The time and the memory of the code generator grow faster than the program. Programs of
/// this size typically take a second to compile, and up to 10 seconds if all values are needed at the same time.
pub const VALUES: usize = 16_384;

/// Maximum number of arrays.
pub const ARRAYS: usize = 4096;

/// Maximum number of parts of a program: statements, branches, terms of accesses, steps of the host, and parts of
/// arrays that these steps read and write.
pub const PARTS: usize = 1 << 18;

/// Maximum number of blocks that contain each other, below the outermost block. The compiler, and the derived
/// implementations of traits, call themselves for each of these blocks.
pub const DEPTH: usize = 64;

/// Maximum number of iterations of a [`For`](crate::Statement::For) loop, multiplied by those of the `For` loops around
/// it within the same [`While`](crate::Statement::While) loop. A run does not check whether it must stop during these
/// iterations.
pub const ITERATIONS: usize = 1 << 31;

/// Maximum number of instructions of the code generator's representation.
pub const INSTRUCTIONS: usize = 1 << 18;

/// Maximum sum, over all blocks of the code generator's representation, of the number of values and arrays that are
/// defined before the block. Each branch and each loop adds blocks. The code generator considers each value at each
/// block if a later block uses the value.
pub const CROSSINGS: usize = 1 << 24;

/// Maximum number of bytes on the stack that the generated function occupies, besides those of the functions that it
/// calls. It is a quarter of the smallest stack that a common C library gives a thread by default, 128 KiB.
pub const STACK: usize = 32 << 10;
