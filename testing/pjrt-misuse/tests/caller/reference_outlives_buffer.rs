//! An external reference borrows its buffer, so the buffer cannot be dropped first.

use pjrt::{Buffer, Error};

fn address(buffer: Buffer) -> Result<(), Error> {
    let reference = buffer.external_reference()?;
    drop(buffer);
    reference.address().map(drop)
}

fn main() {}
