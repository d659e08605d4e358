//! Upload a large tensor in chunks, with a transfer manager. During the upload, the host holds only a few chunks at a
//! time, and never the whole tensor.
//!
//! The example runs on the embedded CPU device, or on the plugin that the environment variable `PJRT_PLUGIN` names.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the numbers are small constants")]

use std::fs::File;
use std::io::{BufWriter, Read, Write};

use pjrt::{AsyncHostToDeviceTransferManager, ClientOptions, ElementType, InFlightLimiter, Shape};

const ELEMENTS: i64 = 4 << 20;
const PIECE: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Write a file of 16 MiB in which the value of each element is its index.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("numbers.bin");
    let mut file = BufWriter::new(File::create(&path)?);
    for number in 0..ELEMENTS as u32 {
        file.write_all(&number.to_ne_bytes())?;
    }
    file.into_inner()?.sync_data()?;

    let name = std::env::var("PJRT_PLUGIN").unwrap_or_else(|_| "cpu".to_owned());
    let client = plugin_registry::open(&name)?.client(&ClientOptions::new())?;
    let memory = client.default_device()?.default_memory()?;
    let shape = Shape::new(ElementType::U32, [ELEMENTS]);
    let manager = AsyncHostToDeviceTransferManager::new(&memory, &[shape])?;
    // The buffer can be used at once. Programs that read the buffer wait for the last chunk.
    let buffer = manager.retrieve_buffer(0)?;

    // Limit the transfers in flight to 4 chunks.
    let limiter = InFlightLimiter::bytes(4 * PIECE as u64);
    let size = manager.buffer_size(0)?;
    let mut file = File::open(&path)?;
    let mut offset = 0;
    while offset < size {
        let permit = limiter.acquire(PIECE as u64).wait()?;
        let mut piece = vec![0u8; PIECE.min(size - offset)];
        file.read_exact(&mut piece)?;
        let end = offset + piece.len();
        // The transfer owns the chunk, and drops it when the device has received its data.
        let sent = if end == size {
            manager.transfer_last_data(0, offset, piece)?
        } else {
            manager.transfer_data(0, offset, piece)?
        };
        permit.release_after(&sent);
        offset = end;
    }

    let elements = buffer.to_host::<u32>()?;
    assert!(elements.iter().copied().eq(0..ELEMENTS as u32));
    println!("{} pieces of 1 MiB were sent", size / PIECE);
    Ok(())
}
