//! Reads the output of a worker.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::process::lines;

/// Maximum size in bytes of the kept diagnostics, and of the text that is read as one line. The limit bounds the memory
/// if a plugin writes much output.
const MOST: usize = 256 << 10;
/// Maximum length of a reported line, in characters.
const LONGEST: usize = 400;

/// The diagnostics of a worker: the last bytes of its standard error, and of its standard output without the
/// [messages](lines) for the runner.
#[derive(Clone, Default)]
pub(super) struct Diagnostics(Arc<Mutex<Vec<u8>>>);

impl Diagnostics {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        if kept.len() > MOST {
            let cut = kept.len() - MOST / 2;
            kept.drain(..cut);
        }
    }

    /// Returns the last `count` lines that the worker wrote since the start of the case with this id. Omits empty
    /// lines.
    pub(super) fn of_case(&self, id: &str, count: usize) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let mark = format!("{}{id}\n", lines::MARK);
        // The mark may be missing, because `push` drops the oldest bytes. In this case, use all lines that are left.
        last_lines(text.rsplit_once(mark.as_str()).map_or(&*text, |(_, rest)| rest), count)
    }

    /// Returns the last `count` lines of the diagnostics. Omits empty lines.
    pub(super) fn tail(&self, count: usize) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last_lines(&String::from_utf8_lossy(&bytes), count)
    }

    /// Copies a pipe to the diagnostics on a new thread. The receiver disconnects when the pipe is closed.
    pub(super) fn follow(&self, mut pipe: impl Read + Send + 'static) -> Receiver<()> {
        let (open, closed) = channel::<()>();
        let kept = self.clone();
        std::thread::spawn(move || {
            let _open: Sender<()> = open;
            let mut chunk = vec![0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                kept.push(chunk.get(..count).unwrap_or_default());
            }
        });
        closed
    }

    /// Reads a pipe on a new thread until it is closed. Returns the receiver of the messages that the worker and its
    /// guard write, and adds all other output to the diagnostics.
    pub(super) fn lines(&self, pipe: impl Read + Send + 'static) -> Receiver<Value> {
        let (send, receive) = channel();
        let kept = self.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            loop {
                line.clear();
                // Limit the length, because a plugin may write a very long line.
                let limit = u64::try_from(MOST).unwrap_or(u64::MAX);
                match reader.by_ref().take(limit).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => match lines::read(&String::from_utf8_lossy(&line)) {
                        Some(value) => {
                            if send.send(value).is_err() {
                                break;
                            }
                        }
                        None => kept.push(&line),
                    },
                }
            }
        });
        receive
    }
}

fn last_lines(text: &str, count: usize) -> Vec<String> {
    let own = |line: &&str| !line.trim().is_empty() && !line.starts_with(lines::MARK);
    let all: Vec<&str> = text.lines().filter(own).collect();
    let last = &all[all.len().saturating_sub(count)..];
    last.iter().map(|line| line.chars().take(LONGEST).collect()).collect()
}
