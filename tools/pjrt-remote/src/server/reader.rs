//! Reads of buffers, in a thread of their own, so that later requests of the client do not wait for them.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, channel};

use bytemuck::AnyBitPattern;
use half::{bf16, f16};
use pjrt::{Buffer, Element, ElementType, Error};

use crate::server::failure::{Outcome, fail, no_memory};
use crate::server::limits::STALLED;
use crate::server::replies::Replies;
use crate::server::table::Counted;
use crate::shared::outgoing::Outgoing;
use crate::wire::frame::{Payload, Spare};
use crate::wire::messages::{Data, Reply};

/// Maximum size of a buffer that the session's thread reads itself if it is ready.
pub(crate) const SMALL: usize = 64 << 10;
/// Maximum size of the memory that is kept for the next reads of a client. Other clients do not get it, because plugins
/// write only a part of it if the buffer has dynamic dimensions.
const SPARE: usize = 64 << 20;

/// A buffer to be read. It is ready, or waits for nothing but the device.
struct Job {
    ticket: u64,
    buffer: Arc<Counted>,
}

/// Sends buffers to the thread that reads them. The thread ends when all senders are dropped or the connection is
/// closed.
pub(crate) struct Reader {
    jobs: mpsc::Sender<Job>,
    replies: Arc<Replies>,
}

impl Reader {
    pub(crate) fn start(replies: Arc<Replies>, shares_memory: bool) -> std::io::Result<Self> {
        let (jobs, received) = channel();
        let theirs = Arc::clone(&replies);
        let read = move || {
            let spare = Arc::new(Spare::new(SPARE));
            read_all(
                &received,
                &Sink { replies: &theirs, outgoing: Outgoing::new(shares_memory, Some(STALLED)), spare },
            );
        };
        std::thread::Builder::new().name("pjrt remote read".to_owned()).spawn(read)?;
        Ok(Self { jobs, replies })
    }

    /// Reads a buffer when it is ready.
    pub(crate) fn read(&self, ticket: u64, buffer: Arc<Counted>) {
        let (jobs, replies) = (self.jobs.clone(), Arc::clone(&self.replies));
        let start = |buffer: Arc<Counted>| -> Result<(), Error> {
            buffer.ready_event()?.on_ready(move |result| match result {
                // The thread has ended if the connection is closed.
                Ok(()) => drop(jobs.send(Job { ticket, buffer })),
                Err(error) => replies.fail_later(ticket, &error),
            })
        };
        if let Err(error) = start(buffer) {
            self.replies.fail_later(ticket, &error);
        }
    }
}

/// Sends the contents of buffers to the client.
struct Sink<'a> {
    replies: &'a Replies,
    outgoing: Outgoing,
    /// Memory to which buffers are read.
    spare: Arc<Spare>,
}

impl Sink<'_> {
    /// Sends the contents of a buffer. Waits until the connection or the ring has taken them, so that they are in
    /// memory only once.
    fn send(&self, ticket: u64, bytes: &[u8]) {
        self.replies.answered(1);
        let data = Data { ticket, bytes: bytes.len() as u64, ..Data::default() };
        let outbox = &self.replies.outbox;
        let through_ring = |new_ring| Reply::from(Data { in_ring: true, new_ring, ..data.clone() });
        if !self.outgoing.send(outbox, bytes, through_ring) {
            outbox.write(&Reply::from(data), bytes);
        }
    }
}

fn read_all(jobs: &Receiver<Job>, sink: &Sink<'_>) {
    for Job { ticket, buffer } in jobs {
        if sink.replies.outbox.is_closed() {
            return;
        }
        if send_in_place(&buffer, |bytes| sink.send(ticket, bytes)) {
            continue;
        }
        match fetch(&buffer, &sink.spare) {
            Ok(payload) => sink.send(ticket, payload.as_ref()),
            Err(failure) => sink.replies.fail(ticket, &failure),
        }
    }
}

/// Passes the contents of a buffer to `send` if the host can read them in place. Returns whether it can.
fn send_in_place(buffer: &Buffer, send: impl FnOnce(&[u8])) -> bool {
    fn of<T: Element + AnyBitPattern>(buffer: &Buffer, send: impl FnOnce(&[u8])) -> bool {
        buffer.host_view::<T>().map(|view| send(bytemuck::cast_slice(&view))).is_ok()
    }
    if !buffer.is_on_cpu().unwrap_or(false) {
        return false;
    }
    match buffer.element_type() {
        Ok(ElementType::S8) => of::<i8>(buffer, send),
        Ok(ElementType::S16) => of::<i16>(buffer, send),
        Ok(ElementType::S32) => of::<i32>(buffer, send),
        Ok(ElementType::S64) => of::<i64>(buffer, send),
        Ok(ElementType::U8) => of::<u8>(buffer, send),
        Ok(ElementType::U16) => of::<u16>(buffer, send),
        Ok(ElementType::U32) => of::<u32>(buffer, send),
        Ok(ElementType::U64) => of::<u64>(buffer, send),
        Ok(ElementType::F16) => of::<f16>(buffer, send),
        Ok(ElementType::Bf16) => of::<bf16>(buffer, send),
        Ok(ElementType::F32) => of::<f32>(buffer, send),
        Ok(ElementType::F64) => of::<f64>(buffer, send),
        _ => false,
    }
}

/// Reads a buffer to memory of `spare`.
fn fetch(buffer: &Buffer, spare: &Arc<Spare>) -> Outcome<Payload> {
    let size = buffer.shape().map_err(fail)?.host_size().map_or(u64::MAX, |size| size as u64);
    let payload = spare.memory(size).ok_or_else(|| no_memory(size))?;
    buffer.download().start_into(payload).and_then(|read| read.wait()).map_err(fail)
}
