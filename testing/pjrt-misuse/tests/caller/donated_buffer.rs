//! A donated buffer cannot be used again.

use pjrt::{Buffer, Error, ExecuteOptions, Input, LoadedExecutable};

fn run(program: &LoadedExecutable, buffer: Buffer) -> Result<(), Error> {
    program.execute_with([Input::Donate(buffer)], &ExecuteOptions::new())?;
    buffer.wait()
}

fn main() {}
