//! The replies to one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pjrt::{Error, Event};

use crate::net::outbox::Outbox;
use crate::server::limits::OUTSTANDING;
use crate::wire::frame::Broken;
use crate::wire::messages::{Done, Failed, Failure, Reply, ReplyKind};

/// Length of an error's text in bytes if the queue is full.
const SHORT: usize = 256;

/// Sends replies to one client, from the thread of the session and from threads of the plugin.
pub(crate) struct Replies {
    pub(crate) outbox: Outbox,
    outstanding: AtomicU32,
}

impl Replies {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { outbox, outstanding: AtomicU32::new(0) }
    }

    /// Counts a request that will be answered.
    ///
    /// # Errors
    ///
    /// The client breaks the protocol if it has too many requests that have not been answered.
    pub(crate) fn begin(&self) -> Result<(), Broken> {
        if self.outstanding.fetch_add(1, Ordering::Relaxed) >= OUTSTANDING {
            let message = format!("the client has more than {OUTSTANDING} requests that have not been answered");
            return Err(Broken::Protocol(message));
        }
        Ok(())
    }

    /// Counts requests that were answered.
    pub(crate) fn answered(&self, count: usize) {
        self.outstanding.fetch_sub(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Sends a reply that has no payload, and answers one request. Does not wait, so it may be called on threads of the
    /// plugin.
    pub(crate) fn send(&self, reply: impl Into<Reply>) {
        self.answered(1);
        self.outbox.send(&reply.into());
    }

    pub(crate) fn fail(&self, ticket: u64, failure: &Failure) {
        self.send(Failed { ticket, failure: Some(failure.clone()) });
    }

    /// Answers a request that failed after the session's thread has handled it. If the client does not read its
    /// replies, sends only the beginning of the error, so that the queue stays short.
    pub(crate) fn fail_later(&self, ticket: u64, error: &Error) {
        let failure = match self.outbox.is_full() {
            true => {
                let text = error.message();
                let text = text.get(..text.floor_char_boundary(SHORT)).unwrap_or_default();
                Failure::of(error.code(), text)
            }
            false => Failure::from(error),
        };
        self.fail(ticket, &failure);
    }

    fn finish(&self, ticket: u64, result: Result<(), Error>) {
        match result {
            Ok(()) => self.send(Done { tickets: vec![ticket] }),
            Err(error) => self.fail_later(ticket, &error),
        }
    }

    /// Sends the reason why the server closes the connection.
    pub(crate) fn close(&self, failure: Failure) {
        let kind = ReplyKind::Closing(failure);
        self.outbox.send(&Reply { kind: Some(kind) });
        self.outbox.finish();
    }
}

impl Drop for Replies {
    /// Ends the thread that sends, also if the session did not begin.
    fn drop(&mut self) {
        self.outbox.join();
    }
}

/// Answers of the session's thread that are sent together.
pub(crate) struct Batch {
    replies: Arc<Replies>,
    done: Vec<u64>,
}

/// Number of tickets in a message.
const BATCH: usize = 256;

impl Batch {
    pub(crate) fn new(replies: Arc<Replies>) -> Self {
        Self { replies, done: Vec::new() }
    }

    /// Answers that an operation failed. Waits while the queue is full.
    pub(crate) fn fail(&self, ticket: u64, failure: &Failure) {
        self.replies.outbox.wait_for_space();
        self.replies.fail(ticket, failure);
    }

    /// Answers that an operation has ended.
    pub(crate) fn done(&mut self, ticket: u64) {
        self.done.push(ticket);
        if self.done.len() >= BATCH {
            self.send();
        }
    }

    /// Answers when an operation ends: in the next batch if it has ended, or else when it does.
    pub(crate) fn when_ready(&mut self, ticket: u64, event: &Event) {
        let result = match event.is_ready() {
            Ok(true) => event.wait(),
            Ok(false) => {
                let replies = Arc::clone(&self.replies);
                match event.on_ready(move |result| replies.finish(ticket, result)) {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => self.done(ticket),
            Err(error) => self.fail(ticket, &Failure::from(&error)),
        }
    }

    fn send(&mut self) {
        if !self.done.is_empty() {
            let tickets = std::mem::take(&mut self.done);
            self.replies.answered(tickets.len());
            self.replies.outbox.send(&Reply::from(Done { tickets }));
        }
    }

    /// Sends the batch and everything else that is queued.
    pub(crate) fn flush(&mut self) {
        self.send();
        self.replies.outbox.flush();
    }
}
