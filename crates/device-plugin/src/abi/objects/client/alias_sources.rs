//! The alias buffers that wait for other buffers, so that they do not wait for each other.

use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// For each alias buffer that waits for the data of another buffer, the cells of both values. A cell is identified by
/// its address, because the callback that removes an entry keeps both cells alive until then. The list is sorted, and
/// replaces a map, because it takes much less code.
#[derive(Default)]
pub(crate) struct AliasSources(Mutex<Vec<(usize, usize)>>);

impl AliasSources {
    /// Records that `alias` waits for `source`.
    ///
    /// # Errors
    ///
    /// Returns an error and records nothing if `source` is `alias`, or waits for it.
    pub(crate) fn add(&self, alias: usize, source: usize) -> Result<()> {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        match find(&sources, alias) {
            Ok(at) => sources[at].1 = source,
            Err(at) => sources.insert(at, (alias, source)),
        }
        Ok(())
    }

    /// Removes the entry of an alias that no longer waits.
    pub(crate) fn remove(&self, alias: usize) {
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(at) = find(&sources, alias) {
            sources.remove(at);
        }
    }
}

/// Returns the index of an alias, or the index at which it belongs.
fn find(sources: &[(usize, usize)], alias: usize) -> std::result::Result<usize, usize> {
    sources.binary_search_by_key(&alias, |(alias, _)| *alias)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_of_any_length_are_errors() {
        let sources = AliasSources::default();
        assert!(sources.add(1, 1).is_err());
        sources.add(1, 2).unwrap();
        sources.add(2, 3).unwrap();
        assert!(sources.add(3, 1).is_err());
        sources.remove(2);
        sources.add(3, 1).unwrap();
        assert!(sources.add(2, 3).is_err());
    }
}
