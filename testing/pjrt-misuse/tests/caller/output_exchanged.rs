//! `Outputs` only keeps the client of its own buffers alive, so its buffers cannot be swapped with other buffers.

use pjrt::{Buffer, Outputs};

fn exchange(mut outputs: Outputs, other: &mut Buffer) -> Outputs {
    std::mem::swap(&mut outputs[0], other);
    outputs
}

fn main() {}
