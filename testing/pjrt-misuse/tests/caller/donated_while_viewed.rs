//! A program may write to the memory of a donated buffer, so a buffer with a view cannot be donated.

use pjrt::{Buffer, Error, ExecuteOptions, Input, LoadedExecutable};

fn run(program: &LoadedExecutable, buffer: Buffer) -> Result<f32, Error> {
    let view = buffer.host_view::<f32>()?;
    program.execute_with([Input::Donate(buffer)], &ExecuteOptions::new())?;
    Ok(view[0])
}

fn main() {}
