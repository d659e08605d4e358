//! A view of device memory ends before its buffer.

use pjrt::{Buffer, Error};

fn print(buffer: &Buffer) -> Result<(), Error> {
    let view = buffer.host_view::<f32>()?;
    std::thread::spawn(move || println!("{}", view[0]));
    Ok(())
}

fn main() {}
