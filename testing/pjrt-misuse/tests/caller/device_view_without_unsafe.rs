//! A view of another library's memory needs `unsafe`, because only the caller knows whether the memory stays allocated.

use pjrt::{Buffer, Error, Memory, Shape};

fn view(memory: &Memory, shape: &Shape) -> Result<Buffer, Error> {
    memory.buffer(shape).view(std::ptr::null_mut(), None, ())
}

fn main() {}
