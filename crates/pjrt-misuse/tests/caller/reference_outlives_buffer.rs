//! An external reference borrows its buffer.

use pjrt::{Buffer, Error};

fn address(buffer: Buffer) -> Result<(), Error> {
    let reference = buffer.external_reference()?;
    drop(buffer);
    reference.address().map(drop)
}

fn main() {}
