//! `Outputs` lends its buffers, so a reference to a buffer cannot outlive the `Outputs`.

use pjrt::{Buffer, Error, LoadedExecutable};

fn first<'a>(program: &LoadedExecutable, input: &Buffer) -> Result<&'a Buffer, Error> {
    let outputs = program.execute(&[input])?;
    Ok(&outputs[0])
}

fn main() {}
