//! Detects alias buffers that would wait for each other for ever.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// An alias buffer in a chain of alias buffers. Each alias waits for the buffer that provides its contents, which may
/// be an alias, too.
#[derive(Default)]
pub(crate) struct AliasChain {
    /// The alias buffer that provides the contents. Unset if the contents come from another buffer, or are still to be
    /// provided.
    source: OnceLock<Arc<AliasChain>>,
}

/// Held while a link is added. Otherwise, two threads could close a circle together.
static ADDING: Mutex<()> = Mutex::new(());

impl AliasChain {
    /// Records that this alias waits for `source`. Returns `false` and records nothing if `source` waits for this
    /// alias, directly or through other aliases.
    pub(crate) fn wait_for(self: &Arc<Self>, source: &Arc<Self>) -> bool {
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = source;
        loop {
            if Arc::ptr_eq(last, self) {
                return false;
            }
            match last.source.get() {
                Some(next) => last = next,
                None => break,
            }
        }
        drop(self.source.set(Arc::clone(source)));
        true
    }
}

impl Drop for AliasChain {
    /// Drops a chain in a loop, because recursion would overflow the stack for a long one.
    fn drop(&mut self) {
        let mut next = self.source.take();
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.source.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_of_any_length_are_found() {
        for len in [1, 2, 3, 100_000] {
            let aliases: Vec<_> = (0..len).map(|_| Arc::new(AliasChain::default())).collect();
            for pair in aliases.windows(2) {
                assert!(pair[0].wait_for(&pair[1]));
            }
            assert!(!aliases[len - 1].wait_for(&aliases[0]), "{len}");
            // The refused link does not exist, so the chain can still end.
            assert!(aliases[len - 1].wait_for(&Arc::default()), "{len}");
        }
    }
}
