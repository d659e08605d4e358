//! `Outputs` only holds the client of its own buffers, so these cannot be swapped with other buffers.

use pjrt::{Buffer, Outputs};

fn exchange(mut outputs: Outputs, other: &mut Buffer) -> Outputs {
    std::mem::swap(&mut outputs[0], other);
    outputs
}

fn main() {}
