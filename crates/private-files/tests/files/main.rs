//! Tests files and folders that other users control or prepared. Tests with files of other users need root.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]
#![cfg(unix)]

mod create;
mod folder;
mod key;
mod trusted;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// User id of another user. The account does not need to exist.
const OTHER: u32 = 65534;

/// An empty folder of this user, which is removed at the end of a test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("private-files-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        set_mode(&path, 0o755);
        // Links on the way to the temporary folder are not part of the expected paths.
        Self(fs::canonicalize(path).unwrap())
    }

    /// Creates a folder with a mode.
    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        set_mode(&path, mode);
        path
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Returns whether this test can give files to another user.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives a file to another user. Returns `false` and reports that the test is skipped if this process is not root.
fn give_away(path: &Path, test: &str) -> bool {
    if !is_root() {
        println!("SKIPPED {test}: only root can give files to another user");
        return false;
    }
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
    true
}
