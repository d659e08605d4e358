//! Reads of buffers, in a thread of their own, so that later requests of the client do not wait for them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pjrt::{Buffer, Error};

use crate::server::replies::Replies;
use crate::wire::messages::{Data, Failure, Reply};

/// Maximum size of a buffer that the session's thread reads itself if it is ready.
pub(crate) const SMALL: usize = 64 << 10;

/// A buffer to be read. It is ready, or waits for nothing but the device.
struct Job {
    ticket: u64,
    buffer: Arc<Buffer>,
}

/// Sends buffers to the thread that reads them. The thread ends when all senders are dropped.
pub(crate) struct Reader {
    jobs: Sender<Job>,
    replies: Arc<Replies>,
}

impl Reader {
    pub(crate) fn start(replies: Arc<Replies>) -> std::io::Result<Self> {
        let (jobs, received) = channel();
        let theirs = Arc::clone(&replies);
        std::thread::Builder::new().name("pjrt remote read".to_owned()).spawn(move || read_all(&received, &theirs))?;
        Ok(Self { jobs, replies })
    }

    /// Reads a buffer when it is ready.
    pub(crate) fn read(&self, ticket: u64, buffer: Arc<Buffer>) {
        let (jobs, replies) = (self.jobs.clone(), Arc::clone(&self.replies));
        let start = |buffer: Arc<Buffer>| -> Result<(), Error> {
            buffer.ready_event()?.on_ready(move |result| match result {
                // The thread ends only after all senders.
                Ok(()) => drop(jobs.send(Job { ticket, buffer })),
                Err(error) => replies.fail(ticket, &Failure::from(&error)),
            })
        };
        if let Err(error) = start(buffer) {
            self.replies.fail(ticket, &Failure::from(&error));
        }
    }
}

fn read_all(jobs: &Receiver<Job>, replies: &Replies) {
    for Job { ticket, buffer } in jobs {
        replies.outbox.wait_for_space();
        match buffer.download().bytes() {
            Ok(bytes) => {
                replies.answered(1);
                replies.outbox.send_owned(&Reply::from(Data { ticket, bytes: bytes.len() as u64 }), bytes);
            }
            Err(error) => replies.fail(ticket, &Failure::from(&error)),
        }
    }
}
