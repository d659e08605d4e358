//! Follows a path from the root folder, and checks who controls each step.
//!
//! Each folder is opened relative to the folder before it, without following links. Links are read and followed here,
//! so that the folders that contain them are checked, too.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat, statat};
use rustix::process::geteuid;

use crate::path_error::PathError;
use crate::writers::{mode, others_can_write};

/// Maximum number of links on a path, as on Linux.
const LINKS: u32 = 40;

/// Flags with which the folders on a path are opened. Linux can open a folder that the process may enter but not list.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const PASS: OFlags = OFlags::RDONLY;

/// The users who may control a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    Root,
    RootAndThisUser,
}

impl Owners {
    fn allow(self, owner: u32) -> bool {
        owner == 0 || (self == Self::RootAndThisUser && owner == geteuid().as_raw())
    }

    fn words(self) -> String {
        match (self, geteuid().as_raw()) {
            (Self::Root, _) | (_, 0) => "root".to_owned(),
            (Self::RootAndThisUser, user) => format!("root or to user {user}"),
        }
    }
}

/// Selects what happens if a folder of the path does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Error,
    /// Create the folder for this user only.
    Create,
}

/// The end of a path.
#[derive(Debug)]
pub(crate) struct Place {
    /// The path without links.
    pub(crate) path: PathBuf,
    /// The folder at the end of the path, or the folder that contains the file.
    pub(crate) folder: OwnedFd,
    /// Whether the path leads to a file.
    pub(crate) is_file: bool,
}

impl Place {
    /// Returns an error if the path leads to a folder in which other users may create files.
    pub(crate) fn check_closed(&self) -> Result<(), PathError> {
        let found = fstat(&self.folder).map_err(|error| io_error(&self.path, error.into()))?;
        if !self.is_file && mode(&found) & 0o022 != 0 {
            return Err(PathError::Writable { path: self.path.clone(), mode: mode(&found) });
        }
        Ok(())
    }
}

/// Follows a path, and checks every folder, link and file on it. With [`Missing::Create`], the caller checks the mode
/// of the last folder.
pub(crate) fn walk(path: &Path, owners: Owners, missing: Missing) -> Result<Place, PathError> {
    let absolute = std::path::absolute(path).map_err(|error| io_error(path, error))?;
    let mut place = root(owners)?;
    // The components that are still to follow. The next one is at the end.
    let mut rest = components(&absolute);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let here = place.path.join(&name);
        let fail = |error: rustix::io::Errno| io_error(&here, error.into());
        if place.is_file {
            return Err(io_error(&place.path, io::ErrorKind::NotADirectory.into()));
        }
        if name == ".." {
            // The parent was checked on the way here, unless a link or the path begins with `..`.
            place.folder = open_folder(&place.folder, &name).map_err(fail)?;
            place.path.pop();
            check_folder(&place.path, &place.folder, owners)?;
            continue;
        }
        let found = match statat(&place.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) if missing == Missing::Create => {
                match mkdirat(&place.folder, &name, Mode::RWXU) {
                    // Another process created the folder.
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(fail(error)),
                }
                statat(&place.folder, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?
            }
            found => found.map_err(fail)?,
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                check_owner(&here, &found, owners)?;
                links += 1;
                if links > LINKS {
                    return Err(fail(rustix::io::Errno::LOOP));
                }
                let target = readlinkat(&place.folder, &name, Vec::new()).map_err(fail)?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    place = root(owners)?;
                }
                rest.extend(components(&target));
            }
            FileType::Directory => {
                place.folder = open_folder(&place.folder, &name).map_err(fail)?;
                // The folder may have been replaced since `statat`, so examine the open one.
                if rest.is_empty() && missing == Missing::Create {
                    check_owner(&here, &fstat(&place.folder).map_err(fail)?, owners)?;
                } else {
                    check_folder(&here, &place.folder, owners)?;
                }
                place.path = here;
            }
            _ => {
                check_owner(&here, &found, owners)?;
                if mode(&found) & 0o022 != 0 {
                    return Err(PathError::Writable { path: here, mode: mode(&found) });
                }
                place.path = here;
                place.is_file = true;
            }
        }
    }
    Ok(place)
}

/// Returns the components of a path in reverse order, without the root folder.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

fn root(owners: Owners) -> Result<Place, PathError> {
    let path = PathBuf::from("/");
    let fail = |error: rustix::io::Errno| io_error(Path::new("/"), error.into());
    let folder = open("/", PASS | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(fail)?;
    check_folder(&path, &folder, owners)?;
    Ok(Place { path, folder, is_file: false })
}

fn open_folder(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Checks the owner and the mode of an open folder.
fn check_folder(path: &Path, folder: &OwnedFd, owners: Owners) -> Result<(), PathError> {
    let found = fstat(folder).map_err(|error| io_error(path, error.into()))?;
    check_owner(path, &found, owners)?;
    let mode = mode(&found);
    let is_writable = match owners {
        Owners::Root => mode & 0o022 != 0,
        Owners::RootAndThisUser => others_can_write(folder, &found),
    };
    // In a folder with the sticky bit, other users cannot replace the entries of this user. The walk checks the owner
    // of the entry.
    if is_writable && mode & 0o1000 == 0 {
        return Err(PathError::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

fn check_owner(path: &Path, found: &Stat, owners: Owners) -> Result<(), PathError> {
    if owners.allow(found.st_uid) {
        return Ok(());
    }
    Err(PathError::Owner { path: path.to_owned(), owner: found.st_uid, allowed: owners.words() })
}

fn io_error(path: &Path, error: io::Error) -> PathError {
    PathError::Io { path: path.to_owned(), error }
}
