//! Who holds a device: leases for plugins whose devices bear one client in a process, or one on the machine.
//!
//! Leases within the process are kept by the plugin's name, for all registries together. A lease on the machine is
//! besides a lock on the file `<name>.lock`, whose content tells others who holds it. The lock goes with the process,
//! however it ends; the file stays.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use device_plugin::Ownership;

/// Who holds a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process; none where it left no note.
    pub process: Option<u32>,
    /// Its program.
    pub program: String,
    /// The client's label: the place in the program that made it, where no other was given.
    pub label: String,
    /// Whether it is this process.
    pub here: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            _ if self.here => write!(f, "a client of this process, made at {}", self.label),
            Some(process) if self.label.is_empty() => write!(f, "process {process} ({})", self.program),
            Some(process) => write!(f, "process {process} ({}), made at {}", self.program, self.label),
            None => f.write_str("another process, which left no note of itself"),
        }
    }
}

/// A client was refused because another one has the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The plugin.
    pub plugin: String,
    /// What its makers say its devices bear.
    pub ownership: Ownership,
    /// Who holds it.
    pub holder: Holder,
    /// The lock's file, where there is one.
    pub lock: Option<PathBuf>,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, ownership, holder, lock } = self;
        let bears = match ownership {
            Ownership::PerProcess => "one client in each process",
            _ => "one client on the machine",
        };
        write!(f, "{plugin} bears {bears}, and is held by {holder}")?;
        if let Some(lock) = lock {
            write!(f, " (lock {})", lock.display())?;
        }
        f.write_str(if holder.here { ": let that client go first" } else { ": end that process first" })
    }
}

impl std::error::Error for Held {}

/// Where lock files lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFolder {
    path: PathBuf,
    /// Whether it must belong to this user.
    own: bool,
}

impl LockFolder {
    /// That folder, which is made where it does not exist. Only processes that use the same folder see each other.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { path: folder.into(), own: false }
    }

    /// The folder of this user: `PJRT_LOCK_DIR`, else `pjrt` in `XDG_RUNTIME_DIR`, else `pjrt-<user>` in the system's
    /// folder for temporary files.
    ///
    /// It is the user's own, because whoever can write to a folder of locks can hold all of them. Name a common one in
    /// `PJRT_LOCK_DIR` where several users share a machine's devices.
    pub fn of_this_user() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        match (variable("PJRT_LOCK_DIR"), variable("XDG_RUNTIME_DIR")) {
            (Some(folder), _) => Self::at(folder),
            (None, Some(folder)) => Self::at(folder.join("pjrt")),
            (None, None) => Self { path: std::env::temp_dir().join(format!("pjrt-{}", user())), own: true },
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who holds a plugin's device on this machine, as far as its lock tells. Nothing is taken.
    pub fn holder(&self, plugin: &str) -> Option<Holder> {
        let mut file = File::open(self.file(plugin)).ok()?;
        match file.try_lock_shared() {
            Ok(()) => None,
            Err(_) => Some(read_note(&mut file)),
        }
    }

    fn file(&self, plugin: &str) -> PathBuf {
        self.path.join(format!("{plugin}.lock"))
    }

    fn make(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.path)?;
        #[cfg(unix)]
        if self.own {
            use std::os::unix::fs::MetadataExt;
            // Somebody else could have made it first, with links in it to lead our writes astray.
            let found = fs::symlink_metadata(&self.path)?;
            let owner = fs::metadata("/proc/self").map_or(found.uid(), |own| own.uid());
            if !found.is_dir() || found.uid() != owner {
                return Err(io::Error::other("it is not a folder of this user; name another in PJRT_LOCK_DIR"));
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn user() -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or_else(|_| "user".to_owned(), |own| own.uid().to_string())
}

#[cfg(not(unix))]
fn user() -> String {
    "user".to_owned()
}

/// Why a lease was not given.
pub(crate) enum LeaseError {
    Held(Held),
    Lock { path: PathBuf, error: io::Error },
}

/// The right to have a client; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    plugin: String,
    /// Its lock goes when it is closed.
    file: Option<File>,
}

/// Labels of this process's clients, by plugin.
fn here() -> MutexGuard<'static, HashMap<String, String>> {
    static HERE: OnceLock<Mutex<HashMap<String, String>>> = OnceLock::new();
    HERE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lease {
    /// The right to have a client, where its devices bear another one. None where they bear any number.
    pub(crate) fn acquire(
        plugin: &str,
        ownership: Ownership,
        label: &str,
        folder: &LockFolder,
    ) -> Result<Option<Self>, LeaseError> {
        if ownership == Ownership::Shared {
            return Ok(None);
        }
        let mut here = here();
        if let Some(label) = here.get(plugin) {
            let holder =
                Holder { process: Some(std::process::id()), program: program(), label: label.clone(), here: true };
            return Err(LeaseError::Held(Held { plugin: plugin.to_owned(), ownership, holder, lock: None }));
        }
        let file = match ownership {
            Ownership::PerProcess => None,
            _ => Some(lock(plugin, ownership, label, folder)?),
        };
        here.insert(plugin.to_owned(), label.to_owned());
        Ok(Some(Self { plugin: plugin.to_owned(), file }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut here = here();
        // The file first: who finds the name free here must find the lock free too.
        if let Some(file) = self.file.take() {
            // What a process that ended left there is told apart by the lock, so a failure here harms nobody.
            let _ = file.set_len(0);
        }
        here.remove(&self.plugin);
    }
}

fn lock(plugin: &str, ownership: Ownership, label: &str, folder: &LockFolder) -> Result<File, LeaseError> {
    let path = folder.file(plugin);
    let fail = |error| LeaseError::Lock { path: path.clone(), error };
    folder.make().map_err(fail)?;
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = read_note(&mut file);
            let plugin = plugin.to_owned();
            return Err(LeaseError::Held(Held { plugin, ownership, holder, lock: Some(path) }));
        }
        Err(TryLockError::Error(error)) => return Err(fail(error)),
    }
    let note = format!("{}\n{}\n{label}\n", std::process::id(), program());
    let written = file.set_len(0).and_then(|()| file.write_all(note.as_bytes())).and_then(|()| file.flush());
    written.map_err(fail)?;
    Ok(file)
}

fn read_note(file: &mut File) -> Holder {
    let mut note = String::new();
    // A note that cannot be read is none.
    let _ = file.take(4096).read_to_string(&mut note);
    let mut lines = note.lines();
    let process: Option<u32> = lines.next().and_then(|line| line.parse().ok());
    let program = lines.next().unwrap_or_default().to_owned();
    let label = lines.next().unwrap_or_default().to_owned();
    Holder { process, program, label, here: process == Some(std::process::id()) }
}

fn program() -> String {
    std::env::current_exe().map_or_else(|_| "unknown program".to_owned(), |path| path.display().to_string())
}
