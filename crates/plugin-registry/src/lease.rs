//! Leases on devices that support one client in a process, or one client on the whole machine.
//!
//! A lease within a process is an entry in a table that all registries share. The key of the entry is the plugin's
//! name. A lease on the machine also locks the file `<name>.lock`. This file contains a note that describes the holder.
//! On Windows, the note is in `<name>.holder`, because other processes cannot read a locked file. The operating system
//! releases the lock when the process ends, even after a crash. The files are not deleted.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
#[cfg(any(windows, test))]
use std::fs;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use plugin_manifest::Ownership;
use private_files::{Folder, PathError};

use crate::variables::LOCK_DIR;

/// The client that holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// The process id, or `None` if the lock file does not name the holder.
    pub process: Option<u32>,
    /// Path of the process's program.
    pub program: String,
    /// Label of the client. By default, the source location that created the client.
    pub label: String,
    /// Whether the holder is a client of this process.
    pub here: bool,
}

impl fmt::Display for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            _ if self.here => write!(f, "a client of this process, created at {}", self.label),
            Some(process) if self.label.is_empty() => write!(f, "process {process} ({})", self.program),
            Some(process) => write!(f, "process {process} ({}), created at {}", self.program, self.label),
            None => f.write_str("another process (the lock file does not name it)"),
        }
    }
}

/// The error for a client that was rejected because another client holds the lease on the devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct LeaseConflict {
    /// Name of the plugin.
    pub plugin: String,
    /// Whether the plugin's devices support one client in each process or one client on the machine.
    pub ownership: Ownership,
    /// The client that holds the lease.
    pub holder: LeaseHolder,
    /// Path of the lock file, if the error is about a lease on the machine.
    pub lock: Option<PathBuf>,
}

impl fmt::Display for LeaseConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, ownership, holder, lock } = self;
        let supported = match ownership {
            Ownership::PerProcess => "one client in each process",
            _ => "one client on the machine",
        };
        write!(f, "{plugin} supports {supported}, and {holder} is using the devices")?;
        if let Some(lock) = lock {
            write!(f, " (lock {})", lock.display())?;
        }
        f.write_str(if holder.here { ": drop that client first" } else { ": end that process first" })
    }
}

/// The folder with the lock files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFolder {
    path: PathBuf,
    /// Whether the folder must belong to the effective user and must not be writable by other users.
    must_be_own: bool,
}

impl LockFolder {
    /// Uses this folder for lock files. The folder is created if it does not exist. Processes see each other's leases
    /// only if they use the same folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { path: folder.into(), must_be_own: false }
    }

    /// Uses the folder in `PJRT_REGISTRY_LOCK_DIR`. If this variable is not set, uses `pjrt` in `XDG_RUNTIME_DIR`, or
    /// `pjrt-<user>` in the system's folder for temporary files.
    ///
    /// By default, every user has a separate folder, because anyone who can write to the folder can hold all locks. If
    /// several users share a machine's devices, set `PJRT_REGISTRY_LOCK_DIR` to a common folder.
    ///
    /// A process with elevated privileges ignores these variables, so that the user cannot make it write files to any
    /// folder. Its locks are in `/run/pjrt`, which must belong to its effective user.
    pub fn of_this_user() -> Self {
        Self::chosen(private_files::elevated(), |name| std::env::var_os(name))
    }

    fn chosen(elevated: bool, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        if elevated {
            return Self { path: PathBuf::from("/run/pjrt"), must_be_own: true };
        }
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        match (variable(LOCK_DIR), variable("XDG_RUNTIME_DIR")) {
            (Some(folder), _) => Self::at(folder),
            (None, Some(folder)) => Self::at(folder.join("pjrt")),
            (None, None) => Self { path: std::env::temp_dir().join(format!("pjrt-{}", user())), must_be_own: true },
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the client that holds the lease on a plugin's devices on this machine, as described in the lock file.
    /// Returns `None` if no process holds the lock, or if the lock file is not a regular file or cannot be opened.
    pub fn holder(&self, plugin: &str) -> Option<LeaseHolder> {
        // Do not create the folder for a query.
        let folder = self.path.is_dir().then(|| self.open().ok()).flatten()?;
        let file = folder.read(file_name(plugin)).ok()?;
        match file.try_lock_shared() {
            Ok(()) | Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => Some(read_note(note_of(file, &self.file(plugin)))),
        }
    }

    fn file(&self, plugin: &str) -> PathBuf {
        self.path.join(file_name(plugin))
    }

    /// Opens the folder, and creates it if it does not exist.
    fn open(&self) -> io::Result<Folder> {
        let opened = if self.must_be_own { Folder::private(&self.path) } else { Folder::shared(&self.path) };
        opened.map_err(|error| match error {
            PathError::Io { error, .. } => error,
            // Another user could have created the folder first, with links that redirect lock files to other files.
            error => {
                io::Error::new(io::ErrorKind::PermissionDenied, format!("{error}. {LOCK_DIR} can name the folder"))
            }
        })
    }
}

/// Returns the name of the lock file of a plugin.
fn file_name(plugin: &str) -> String {
    format!("{plugin}.lock")
}

/// Returns the id of the effective user, for the name of the folder.
#[cfg(unix)]
fn user() -> String {
    rustix::process::geteuid().as_raw().to_string()
}

#[cfg(not(unix))]
fn user() -> String {
    "user".to_owned()
}

/// The reason why a lease was not granted.
pub(crate) enum LeaseError {
    Conflict(LeaseConflict),
    Lock { path: PathBuf, error: io::Error },
}

/// The right to create a client of a plugin. Dropping the value releases the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    plugin: String,
    /// The locked file, if the lease is on the machine.
    file: Option<File>,
}

/// Locks and returns the labels of this process's clients that hold a lease, by the plugin's name.
fn labels() -> MutexGuard<'static, HashMap<String, String>> {
    static LABELS: OnceLock<Mutex<HashMap<String, String>>> = OnceLock::new();
    LABELS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lease {
    /// Acquires a lease. Fails if another client holds the lease, or if the lock file cannot be opened, locked or
    /// written. Returns `None` if the plugin supports any number of clients.
    pub(crate) fn acquire(
        plugin: &str,
        ownership: Ownership,
        label: &str,
        folder: &LockFolder,
    ) -> Result<Option<Self>, LeaseError> {
        if ownership == Ownership::Shared {
            return Ok(None);
        }
        let mut labels = labels();
        if let Some(label) = labels.get(plugin) {
            let holder =
                LeaseHolder { process: Some(std::process::id()), program: program(), label: label.clone(), here: true };
            let plugin = plugin.to_owned();
            return Err(LeaseError::Conflict(LeaseConflict { plugin, ownership, holder, lock: None }));
        }
        let file = match ownership {
            Ownership::PerProcess => None,
            _ => Some(lock(plugin, ownership, label, folder)?),
        };
        labels.insert(plugin.to_owned(), label.to_owned());
        Ok(Some(Self { plugin: plugin.to_owned(), file }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut labels = labels();
        // Unlock the file before the label is removed, because a thread that finds no label must find the file
        // unlocked.
        if let Some(file) = self.file.take() {
            // If truncating fails, the old note remains. This is harmless, because only the lock counts.
            let _ = file.set_len(0);
            // Closing the file does not always release the lock, because a child process that is being started has the
            // same open file until its program begins.
            let _ = file.unlock();
        }
        labels.remove(&self.plugin);
    }
}

fn lock(plugin: &str, ownership: Ownership, label: &str, folder: &LockFolder) -> Result<File, LeaseError> {
    let path = folder.file(plugin);
    let fail = |error| LeaseError::Lock { path: path.clone(), error };
    let (mut file, is_writable) = folder.open().and_then(|folder| open(&folder, plugin)).map_err(fail)?;
    match lock_soon(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = read_note(note_of(file, &path));
            let plugin = plugin.to_owned();
            return Err(LeaseError::Conflict(LeaseConflict { plugin, ownership, holder, lock: Some(path) }));
        }
        Err(TryLockError::Error(error)) => return Err(fail(error)),
    }
    if !is_writable {
        return Ok(file);
    }
    let note = format!("{}\n{}\n{label}\n", std::process::id(), program());
    write_note(&mut file, &path, &note).map_err(fail)?;
    Ok(file)
}

/// Locks a file. Tries again for about 50 ms, because [`LockFolder::holder`] locks the file for a moment.
fn lock_soon(file: &File) -> Result<(), TryLockError> {
    for _ in 0..50 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            outcome => return outcome,
        }
    }
    file.try_lock()
}

/// Writes the note about the holder into the lock file.
#[cfg(not(windows))]
fn write_note(file: &mut File, _: &Path, note: &str) -> io::Result<()> {
    use std::io::Write;

    file.set_len(0).and_then(|()| file.write_all(note.as_bytes())).and_then(|()| file.flush())
}

/// Writes the note into a file beside the lock file, because on Windows no other process can read a locked file.
#[cfg(windows)]
fn write_note(_: &mut File, lock: &Path, note: &str) -> io::Result<()> {
    fs::write(lock.with_extension("holder"), note)
}

/// Returns the file that contains the note about the holder of a lock.
#[cfg(not(windows))]
fn note_of(file: File, _: &Path) -> io::Result<File> {
    Ok(file)
}

#[cfg(windows)]
fn note_of(_: File, lock: &Path) -> io::Result<File> {
    File::open(lock.with_extension("holder"))
}

/// Opens or creates a lock file. Also returns whether the file is writable, because a file of another user can be
/// locked even if the note cannot be written. Rejects a file that another user may have prepared in a shared folder: a
/// link that redirects the note into another file, or a pipe that blocks.
fn open(folder: &Folder, plugin: &str) -> io::Result<(File, bool)> {
    match folder.open_or_create(file_name(plugin)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok((folder.read(file_name(plugin))?, false)),
        opened => Ok((opened?, true)),
    }
}

fn read_note(file: io::Result<File>) -> LeaseHolder {
    let mut note = String::new();
    // Treat an unreadable note as empty.
    let _ = file.and_then(|file| file.take(4096).read_to_string(&mut note));
    // Another user may have written the note. Remove control characters and characters that change the direction of
    // text, because the note may be shown in a terminal.
    let directs =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let note: String = note.chars().filter(|c| *c == '\n' || !(c.is_control() || directs(*c))).collect();
    let mut lines = note.lines();
    let process: Option<u32> = lines.next().and_then(|line| line.parse().ok());
    let program = lines.next().unwrap_or_default().to_owned();
    let label = lines.next().unwrap_or_default().to_owned();
    LeaseHolder { process, program, label, here: process == Some(std::process::id()) }
}

fn program() -> String {
    std::env::current_exe().map_or_else(|_| "unknown program".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use expect_test::expect;

    /// Creates an empty folder for one test.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pjrt-lease-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn variables_select_folder_unless_elevated() {
        let all = |name: &str| match name {
            LOCK_DIR => Some("/locks".into()),
            "XDG_RUNTIME_DIR" => Some("/run/user/1".into()),
            _ => None,
        };
        assert_eq!(LockFolder::chosen(false, all), LockFolder::at("/locks"));
        assert_eq!(
            LockFolder::chosen(false, |name| all(name).filter(|_| name != LOCK_DIR)),
            LockFolder::at("/run/user/1/pjrt")
        );
        let fixed = LockFolder { path: "/run/pjrt".into(), must_be_own: true };
        assert_eq!(LockFolder::chosen(true, all), fixed);
    }

    #[cfg(unix)]
    #[test]
    fn rejects_traps_in_lock_folder() {
        use std::os::unix::fs::symlink;
        let folder = folder("traps");
        let treasure = folder.join("treasure");
        fs::write(&treasure, "precious").unwrap();
        symlink(&treasure, folder.join("linked.lock")).unwrap();
        symlink(folder.join("absent"), folder.join("dangling.lock")).unwrap();
        fs::hard_link(&treasure, folder.join("hard.lock")).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(folder.join("pipe.lock")).status().unwrap();
        assert!(pipe.success());
        fs::create_dir(folder.join("folder.lock")).unwrap();
        let locks = LockFolder::at(&folder);
        let mut messages = String::new();
        for plugin in ["linked", "dangling", "hard", "pipe", "folder"] {
            let refused = Lease::acquire(plugin, Ownership::Exclusive, "x", &locks);
            let Err(LeaseError::Lock { path, error }) = refused else { panic!("{plugin}") };
            assert_eq!(path, folder.join(format!("{plugin}.lock")));
            messages += &format!("{plugin}: {error}\n");
            assert_eq!(locks.holder(plugin), None);
        }
        expect![[r#"
            linked: it is a link; delete the file
            dangling: it is a link; delete the file
            hard: it has another name, through which it may be changed; delete the file
            pipe: it is not a regular file; delete the file
            folder: it is not a regular file; delete the file
        "#]]
        .assert_eq(&messages);
        assert_eq!(fs::read_to_string(&treasure).unwrap(), "precious");
        assert!(!folder.join("absent").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A query of the holder locks the file for a moment, which must not look like another holder.
    #[test]
    fn queries_do_not_prevent_leases() {
        let folder = folder("queries");
        let locks = LockFolder::at(&folder);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    locks.holder("queried");
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            for _ in 0..500 {
                let lease = Lease::acquire("queried", Ownership::Exclusive, "x", &locks);
                assert!(matches!(lease, Ok(Some(_))), "a query was taken for a holder");
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn rejects_lock_folder_writable_by_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("open");
        let locks = LockFolder { path: folder.clone(), must_be_own: true };
        locks.open().unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = locks.open().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let error = error.to_string().replace(&*folder.to_string_lossy(), "FOLDER");
        expect!["other users can write to FOLDER (mode 777), so its files may be theirs; use another folder, or delete this one. PJRT_REGISTRY_LOCK_DIR can name the folder"]
            .assert_eq(&error);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn notes_contain_no_control_characters() {
        let folder = folder("note");
        let path = folder.join("x.lock");
        fs::write(&path, "12\nprogram\u{1b}[2J\n\u{202e}label\u{7}\n").unwrap();
        let holder = read_note(File::open(&path));
        assert_eq!((holder.process, &*holder.program, &*holder.label), (Some(12), "program[2J", "label"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
