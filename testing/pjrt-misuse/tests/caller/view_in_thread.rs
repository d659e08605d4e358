//! A view of device memory borrows its buffer, so the view cannot be moved to a thread that may outlive the buffer.

use pjrt::{Buffer, Error};

fn print(buffer: &Buffer) -> Result<(), Error> {
    let view = buffer.host_view::<f32>()?;
    std::thread::spawn(move || println!("{}", view[0]));
    Ok(())
}

fn main() {}
