//! Copies between the host and devices, and between devices.

use std::sync::Arc;

use device_plugin::__private::zeroed;
use device_plugin::{Error, ErrorCode, Event, Result};

use crate::buffer::Buffer;
use crate::device::Device;
use crate::driver::{Driver, QueueId};
use crate::host_memory::{HostSource, HostTarget};
use crate::operation::Operation;
use crate::queue::{Object, Submission};

/// Begins to copy host data to a new buffer in a memory of a device.
pub(crate) fn upload<D: Driver>((device, memory): (&Device<D>, usize), source: HostSource) -> Result<Buffer<D>> {
    if source.is_empty() {
        return device.ready_buffer(memory, 0);
    }
    let (buffer, completer) = device.pending_buffer(memory, source.len())?;
    let (to, operation) = (buffer.block(), Operation::Upload(source.len()));
    let (writes, object) = ([to], Object::Source(source.clone()));
    let submission = Submission::copy(operation, &[], &writes, object, completer);
    let begin = |driver: &D, queue, after: &_| driver.copy_from_host(queue, &source, to.memory(), after);
    device.transfer.submit(submission, begin)?;
    Ok(buffer)
}

/// Begins to copy bytes to a buffer, from byte `offset` on. `begin` calls the driver. Returns the event of the copy.
pub(crate) fn write_part<D: Driver>(
    device: &Device<D>,
    buffer: &Buffer<D>,
    offset: usize,
    bytes: &[u8],
    begin: impl FnOnce(&D, QueueId, &HostSource, &[Arc<D::Completion>]) -> Result<D::Completion>,
) -> Result<Event> {
    check_part(buffer, offset, bytes.len())?;
    if bytes.is_empty() {
        return Ok(Event::ready());
    }
    let mut copied = zeroed(bytes.len())?;
    copied.copy_from_slice(bytes);
    let (source, to) = (HostSource::copied(copied), buffer.block());
    let (event, completer) = Event::pending();
    let (operation, writes, object) = (Operation::Upload(bytes.len()), [to], Object::Source(source.clone()));
    let submission = Submission::copy(operation, &[], &writes, object, completer);
    device.transfer.submit(submission, |driver, queue, after| begin(driver, queue, &source, after))?;
    Ok(event)
}

/// Copies the bytes of a buffer from byte `offset` on to the host, and waits for the copy. `begin` calls the driver.
pub(crate) fn read_part<D: Driver>(
    device: &Device<D>,
    buffer: &Buffer<D>,
    offset: usize,
    bytes: &mut [u8],
    begin: impl FnOnce(&D, QueueId, &HostTarget, &[Arc<D::Completion>]) -> Result<D::Completion>,
) -> Result<()> {
    check_part(buffer, offset, bytes.len())?;
    if bytes.is_empty() {
        return Ok(());
    }
    let (target, from) = (HostTarget::owned(zeroed(bytes.len())?), buffer.block());
    let (event, completer) = Event::pending();
    let (operation, reads, object) = (Operation::Download(bytes.len()), [from], Object::Target(target.clone()));
    let submission = Submission::copy(operation, &reads, &[], object, completer);
    device.transfer.submit(submission, |driver, queue, after| begin(driver, queue, &target, after))?;
    event.wait()?;
    bytes.copy_from_slice(&target.take_bytes().ok_or_else(missing)?);
    Ok(())
}

fn check_part<D: Driver>(buffer: &Buffer<D>, offset: usize, len: usize) -> Result<()> {
    let bytes = buffer.contents().bytes;
    match offset.checked_add(len) {
        Some(end) if end <= bytes => Ok(()),
        _ => Err(Error::invalid_argument(format!("{len} bytes at byte {offset} of a buffer of {bytes} bytes"))),
    }
}

fn missing() -> Error {
    Error::internal("the bytes of a read are missing")
}

/// Begins to copy the first bytes of a buffer to the host. Returns the event of the copy.
pub(crate) fn download<D: Driver>(device: &Device<D>, buffer: &Buffer<D>, target: HostTarget) -> Result<Event> {
    let (len, bytes, from) = (target.len(), buffer.contents().bytes, buffer.block());
    if len == 0 {
        return Ok(Event::ready());
    }
    if len > bytes {
        return Err(Error::internal(format!("{len} bytes were requested from a buffer of {bytes} bytes")));
    }
    let (event, completer) = Event::pending();
    let (operation, reads, object) = (Operation::Download(len), [from], Object::Target(target.clone()));
    let submission = Submission::copy(operation, &reads, &[], object, completer);
    let begin = |driver: &D, queue, after: &_| driver.copy_to_host(queue, from.memory(), &target, after);
    device.transfer.submit(submission, begin)?;
    Ok(event)
}

/// Copies the first bytes of a buffer to the host, and waits for the copy.
pub(crate) fn read<D: Driver>(device: &Device<D>, buffer: &Buffer<D>, len: usize) -> Result<Vec<u8>> {
    // The queue releases its target when the copy has ended, so this clone must own the bytes.
    let target = HostTarget::owned(zeroed(len)?);
    download(device, buffer, target.clone())?.wait()?;
    target.take_bytes().ok_or_else(missing)
}

/// Begins to copy a buffer to a new buffer in a memory of the device `to`. `from` is the device of the buffer.
pub(crate) fn copy<D: Driver>(
    buffer: &Buffer<D>,
    from: &Device<D>,
    (to, memory): (&Device<D>, usize),
) -> Result<Buffer<D>> {
    from.health.check()?;
    let (bytes, source) = (buffer.contents().bytes, buffer.block());
    if bytes == 0 {
        return to.ready_buffer(memory, 0);
    }
    let (copy, completer) = to.pending_buffer(memory, bytes)?;
    let (target, operation) = (copy.block(), Operation::Copy(bytes, from.health.device()));
    let (reads, writes) = ([source], [target]);
    let submission = Submission::copy(operation, &reads, &writes, Object::None, completer);
    let begun = to.transfer.submit(submission, |driver, queue, after| {
        // The device may be lost since the call, if the queue was full.
        from.health.check()?;
        driver.copy(queue, (source.device(), source.memory()), target.memory(), bytes, after)
    });
    match begun {
        Ok(()) => Ok(copy),
        Err(error) if error.code() == ErrorCode::UNIMPLEMENTED => {
            drop(copy);
            upload((to, memory), HostSource::copied(read(from, buffer, bytes)?))
        }
        Err(error) => Err(error),
    }
}
