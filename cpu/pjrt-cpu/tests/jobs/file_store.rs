//! A key-value store whose keys are files in a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pjrt::{ErrorCode, KeyValueStore};

pub(crate) struct FileStore(PathBuf);

impl FileStore {
    pub(crate) fn open(folder: impl Into<PathBuf>) -> Arc<Self> {
        Arc::new(Self(folder.into()))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.0.join(key.replace('/', "+"))
    }
}

impl KeyValueStore for FileStore {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, (ErrorCode, String)> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(value) = self.try_get(key)? {
                return Ok(value);
            }
            if Instant::now() >= deadline {
                return Err((ErrorCode::DEADLINE_EXCEEDED, format!("no file for {key}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
        match fs::read(self.path(key)) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err((ErrorCode::INTERNAL, error.to_string())),
        }
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), (ErrorCode, String)> {
        // Renaming is atomic, so no other process reads an incomplete value.
        let new = self.0.join(format!("new.{}.{:?}", std::process::id(), std::thread::current().id()));
        let written = fs::write(&new, value).and_then(|()| fs::rename(&new, self.path(key)));
        written.map_err(|error| (ErrorCode::INTERNAL, error.to_string()))
    }
}

/// A directory that is removed when this value is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a store in a new directory.
pub(crate) fn temporary(name: &str) -> (Folder, Arc<FileStore>) {
    let folder = std::env::temp_dir().join(format!("pjrt-cpu-jobs-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    (Folder(folder.clone()), FileStore::open(folder))
}
