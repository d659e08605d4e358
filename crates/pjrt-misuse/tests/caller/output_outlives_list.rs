//! A list of outputs lends its buffers. One that is needed longer is taken out of it.

use pjrt::{Buffer, Error, LoadedExecutable};

fn first<'a>(program: &LoadedExecutable, input: &Buffer) -> Result<&'a Buffer, Error> {
    let outputs = program.execute(&[input])?;
    Ok(&outputs[0])
}

fn main() {}
