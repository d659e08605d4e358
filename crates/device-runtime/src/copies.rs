//! Copies between the host and devices, and between devices.

use std::sync::Arc;

use device_plugin::__private::zeroed;
use device_plugin::{Error, ErrorCode, Event, Result};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::Driver;
use crate::host_memory::{HostSource, HostTarget};
use crate::operation::Operation;
use crate::queue::Submission;

/// Begins to copy host data to a new buffer.
pub(crate) fn upload<D: Driver>(driver: &Arc<D>, device: &Device<D>, source: HostSource) -> Result<Buffer<D>> {
    let queue = &device.transfer;
    if source.is_empty() {
        return Ok(device.buffer(device.pool.allocate(0, queue.timeline())?, 0, Event::ready()));
    }
    let (buffer, completer) = device.pending_buffer(source.len(), queue.timeline())?;
    let contents = buffer.contents();
    let (reads, writes) = (Vec::new(), vec![&contents.block]);
    let (operation, lent) = (Operation::Upload(source.len()), Some(source.clone()));
    let (check, executable, target) = (&|| Ok(()), None, None);
    let submission = Submission { operation, check, reads, writes, executable, source: lent, target, completer };
    queue.submit(submission, |after| driver.copy_from_host(queue.id(), &source, contents.block.memory(), after))?;
    Ok(buffer)
}

/// Begins to copy the first bytes of a buffer to the host. Returns the event of the copy.
pub(crate) fn download<D: Driver>(
    driver: &Arc<D>,
    device: &Device<D>,
    buffer: &Buffer<D>,
    target: HostTarget,
) -> Result<Event> {
    if target.is_empty() {
        target.release();
        return Ok(Event::ready());
    }
    let (contents, queue) = (buffer.contents(), &device.transfer);
    if target.len() > contents.bytes {
        let (len, bytes) = (target.len(), contents.bytes);
        return Err(Error::internal(format!("{len} bytes were requested from a buffer of {bytes} bytes")));
    }
    let (event, completer) = Event::pending();
    let (reads, writes) = (vec![&contents.block], Vec::new());
    let (operation, filled) = (Operation::Download(target.len()), Some(target.clone()));
    let (check, executable, source) = (&|| Ok(()), None, None);
    let submission = Submission { operation, check, reads, writes, executable, source, target: filled, completer };
    queue.submit(submission, |after| driver.copy_to_host(queue.id(), contents.block.memory(), &target, after))?;
    Ok(event)
}

/// Copies the first bytes of a buffer to the host, and waits for the copy.
pub(crate) fn read<D: Driver>(driver: &Arc<D>, device: &Device<D>, buffer: &Buffer<D>, len: usize) -> Result<Vec<u8>> {
    // The queue releases its target when the copy has ended, so this clone must own the bytes.
    let target = HostTarget::owned(zeroed(len)?);
    download(driver, device, buffer, target.clone())?.wait()?;
    target.take_bytes().ok_or_else(|| Error::internal("the bytes of a read are missing"))
}

/// Begins to copy a buffer to a new buffer of the device `to`. `from` is the device of the buffer.
pub(crate) fn copy<D: Driver>(
    driver: &Arc<D>,
    buffer: &Buffer<D>,
    from: &Device<D>,
    to: &Device<D>,
) -> Result<Buffer<D>> {
    from.health.check()?;
    let (contents, queue) = (buffer.contents(), &to.transfer);
    if contents.bytes == 0 {
        return Ok(to.buffer(to.pool.allocate(0, queue.timeline())?, 0, Event::ready()));
    }
    let (copy, completer) = to.pending_buffer(contents.bytes, queue.timeline())?;
    let target = &copy.contents().block;
    let (reads, writes) = (vec![&contents.block], vec![target]);
    let operation = Operation::Copy(contents.bytes, from.health.device());
    let (check, executable) = (&|| from.health.check(), None);
    let submission = Submission { operation, check, reads, writes, executable, source: None, target: None, completer };
    let begun = queue.submit(submission, |after| {
        driver.copy(queue.id(), (from.index, contents.block.memory()), target.memory(), contents.bytes, after)
    });
    match begun {
        Ok(()) => Ok(copy),
        Err(error) if error.code() == ErrorCode::UNIMPLEMENTED => {
            drop(copy);
            upload(driver, to, HostSource::copied(read(driver, from, buffer, contents.bytes)?))
        }
        Err(error) => Err(error),
    }
}
