//! The buffers that wait for the data of other buffers, so that an alias buffer does not wait for itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// For each buffer that waits for the data of another buffer, the cells of both values. These buffers are fulfilled
/// alias buffers, and bitcasts, copies and donations of buffers that are not ready. Outputs of runs are not listed, so
/// an alias of an output that the run computes from the alias never becomes ready. A cell is identified by its address,
/// because the callback that owns a [`Waiting`] keeps both cells alive. The list is sorted, and replaces a map, because
/// it takes much less code.
#[derive(Default)]
pub(crate) struct AliasSources(Mutex<Vec<(usize, usize)>>);

/// The entry of a buffer that waits. Dropping it removes the entry.
pub(crate) struct Waiting {
    sources: Arc<AliasSources>,
    buffer: usize,
}

impl AliasSources {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `alias` waits for `source`.
    ///
    /// # Errors
    ///
    /// Returns an error and records nothing if `source` is `alias`, or waits for it.
    pub(crate) fn add(self: &Arc<Self>, alias: usize, source: usize) -> Result<Waiting> {
        let sources = self.lock();
        let mut last = source;
        loop {
            if last == alias {
                return Err(Error::argument("buffer is the alias itself, or waits for it"));
            }
            match find(&sources, last) {
                Ok(at) => last = sources[at].1,
                Err(_) => break,
            }
        }
        Ok(self.insert(sources, alias, source))
    }

    /// Records that a new buffer waits for `source`. No buffer waits for the new buffer yet.
    pub(crate) fn add_new(self: &Arc<Self>, buffer: usize, source: usize) -> Waiting {
        self.insert(self.lock(), buffer, source)
    }

    fn insert(
        self: &Arc<Self>,
        mut sources: MutexGuard<'_, Vec<(usize, usize)>>,
        buffer: usize,
        source: usize,
    ) -> Waiting {
        match find(&sources, buffer) {
            Ok(at) => sources[at].1 = source,
            Err(at) => sources.insert(at, (buffer, source)),
        }
        Waiting { sources: Arc::clone(self), buffer }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut sources = self.sources.lock();
        if let Ok(at) = find(&sources, self.buffer) {
            sources.remove(at);
        }
    }
}

/// Returns the index of a buffer that waits, or the index at which it belongs.
fn find(sources: &[(usize, usize)], buffer: usize) -> std::result::Result<usize, usize> {
    sources.binary_search_by_key(&buffer, |(buffer, _)| *buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_of_any_length_are_errors() {
        let sources = Arc::new(AliasSources::default());
        assert!(sources.add(1, 1).is_err());
        let _first = sources.add(1, 2).unwrap();
        let second = sources.add(2, 3).unwrap();
        assert!(sources.add(3, 1).is_err());
        drop(second);
        let _third = sources.add_new(3, 1);
        assert!(sources.add(2, 3).is_err());
    }
}
