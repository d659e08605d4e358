//! Callbacks and the out-of-memory hook may run on any thread, so they cannot capture an `Rc`.

use std::rc::Rc;

use pjrt::{ClientOptions, Event};

fn register(event: &Event, data: Rc<[f32]>) {
    let theirs = data.clone();
    let _ = event.on_ready(move |_| drop(theirs));
    let _ = ClientOptions::new().with_out_of_memory_hook(move |_| data.is_empty());
}

fn main() {}
