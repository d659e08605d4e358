//! The bytes of a sent chunk are only valid during the callback, so the callback cannot store the chunk.

use std::sync::Mutex;

use pjrt::{ExecuteOptions, SentChunk};

static KEPT: Mutex<Vec<SentChunk<'static>>> = Mutex::new(Vec::new());

fn options() -> ExecuteOptions {
    ExecuteOptions::new().with_send_callback(1, |chunk| {
        KEPT.lock().map(|mut kept| kept.push(chunk)).map_err(|_| (pjrt::ErrorCode::INTERNAL, String::new()))
    })
}

fn main() {}
