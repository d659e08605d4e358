//! Who holds a device: leases for plugins whose devices bear one client in a process, or one on the machine.
//!
//! Leases within the process are kept by the plugin's name, for all registries together. A lease on the machine is
//! besides a lock on the file `<name>.lock`, whose content tells others who holds it. The lock goes with the process,
//! however it ends; the file stays.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use device_plugin::Ownership;

use crate::discovery::privileges;

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
    ///
    /// A process with elevated privileges takes no variable's word, for files are written there: its locks are in
    /// `/run/pjrt`, which must belong to its effective user.
    pub fn of_this_user() -> Self {
        Self::chosen(privileges::elevated(), |name| std::env::var_os(name))
    }

    fn chosen(elevated: bool, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        if elevated {
            return Self { path: PathBuf::from("/run/pjrt"), own: true };
        }
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
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
        let path = self.file(plugin);
        // A pipe would block.
        fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let mut file = File::open(path).ok()?;
        match file.try_lock_shared() {
            Ok(()) | Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => Some(read_note(&mut file)),
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
            let owner = rustix::process::geteuid().as_raw();
            if !found.is_dir() || found.uid() != owner || found.mode() & 0o022 != 0 {
                let why = "the folder is not this user's, or others can write to it; name another in PJRT_LOCK_DIR";
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }
}

/// The effective user.
#[cfg(unix)]
fn user() -> String {
    rustix::process::geteuid().as_raw().to_string()
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
            // Closing it is not enough: a process that is just being started has the file too, until its program begins.
            let _ = file.unlock();
        }
        here.remove(&self.plugin);
    }
}

fn lock(plugin: &str, ownership: Ownership, label: &str, folder: &LockFolder) -> Result<File, LeaseError> {
    let path = folder.file(plugin);
    let fail = |error| LeaseError::Lock { path: path.clone(), error };
    folder.make().map_err(fail)?;
    let (mut file, ours) = open(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = read_note(&mut file);
            let plugin = plugin.to_owned();
            return Err(LeaseError::Held(Held { plugin, ownership, holder, lock: Some(path) }));
        }
        Err(TryLockError::Error(error)) => return Err(fail(error)),
    }
    if !ours {
        return Ok(file);
    }
    let note = format!("{}\n{}\n{label}\n", std::process::id(), program());
    let written = file.set_len(0).and_then(|()| file.write_all(note.as_bytes())).and_then(|()| file.flush());
    written.map_err(fail)?;
    Ok(file)
}

/// Opens the file of a lock, or makes it. In a folder that others write to, it may be a trap: a link that leads our note
/// into another file, or a pipe to wait on. Says whether a note can be written: another user's file can be locked all
/// the same.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let refuse = || Err(io::Error::other("it is no plain file of its own; delete it"));
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    // Making it anew follows no link.
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return Ok((made?, true)),
    }
    let seen = fs::symlink_metadata(path)?;
    if !seen.is_file() {
        return refuse();
    }
    let (file, ours) = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => (File::open(path)?, false),
        opened => (opened?, true),
    };
    // What was seen is what was opened, whatever happened between the two.
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let opened = file.metadata()?;
        if (opened.dev(), opened.ino()) != (seen.dev(), seen.ino()) || opened.nlink() != 1 {
            return refuse();
        }
    }
    Ok((file, ours))
}

fn read_note(file: &mut File) -> Holder {
    let mut note = String::new();
    // A note that cannot be read is none.
    let _ = file.take(4096).read_to_string(&mut note);
    // Another user may have written it, and it is shown on terminals.
    let note: String = note.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    let mut lines = note.lines();
    let process: Option<u32> = lines.next().and_then(|line| line.parse().ok());
    let program = lines.next().unwrap_or_default().to_owned();
    let label = lines.next().unwrap_or_default().to_owned();
    Holder { process, program, label, here: process == Some(std::process::id()) }
}

fn program() -> String {
    std::env::current_exe().map_or_else(|_| "unknown program".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder for one test.
    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pjrt-lease-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn variables_choose_the_folder_unless_privileges_are_elevated() {
        let all = |name: &str| match name {
            "PJRT_LOCK_DIR" => Some("/locks".into()),
            "XDG_RUNTIME_DIR" => Some("/run/user/1".into()),
            _ => None,
        };
        assert_eq!(LockFolder::chosen(false, all), LockFolder::at("/locks"));
        assert_eq!(
            LockFolder::chosen(false, |name| all(name).filter(|_| name != "PJRT_LOCK_DIR")),
            LockFolder::at("/run/user/1/pjrt")
        );
        let fixed = LockFolder { path: "/run/pjrt".into(), own: true };
        assert_eq!(LockFolder::chosen(true, all), fixed);
    }

    #[cfg(unix)]
    #[test]
    fn traps_in_a_folder_of_locks_are_refused() {
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
        for plugin in ["linked", "dangling", "hard", "pipe", "folder"] {
            let refused = Lease::acquire(plugin, Ownership::Exclusive, "x", &locks);
            let Err(LeaseError::Lock { path, error }) = refused else { panic!("{plugin}") };
            assert_eq!(path, folder.join(format!("{plugin}.lock")));
            assert!(error.to_string().contains("no plain file of its own"), "{plugin}: {error}");
            assert_eq!(locks.holder(plugin), None);
        }
        assert_eq!(fs::read_to_string(&treasure).unwrap(), "precious");
        assert!(!folder.join("absent").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_of_ones_own_that_others_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("open");
        let locks = LockFolder { path: folder.clone(), own: true };
        locks.make().unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(locks.make().unwrap_err().to_string().contains("others can write to it"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn notes_hold_nothing_that_a_terminal_obeys() {
        let folder = folder("note");
        let path = folder.join("x.lock");
        fs::write(&path, "12\nprogram\u{1b}[2J\nlabel\u{7}\n").unwrap();
        let holder = read_note(&mut File::open(&path).unwrap());
        assert_eq!((holder.process, &*holder.program, &*holder.label), (Some(12), "program[2J", "label"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
