//! An event can be completed only once, and a deferred copy can be started only once.

use pjrt::{DeferredCopy, Error, SettableEvent};

fn complete(event: SettableEvent, copy: DeferredCopy) -> Result<(), Error> {
    event.set()?;
    event.set()?;
    copy.start(vec![0; 4])?.wait()?;
    copy.start(vec![0; 4])?.wait()?;
    Ok(())
}

fn main() {}
