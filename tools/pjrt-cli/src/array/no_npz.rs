//! The errors of a build that does not read or write `.npz` files.

use std::path::Path;

use pjrt::HostArray;

fn lacking<T>() -> Result<T, String> {
    Err("this build has no .npz files; use .npy files, or build the package pjrt-cli with its feature `full`"
        .to_owned())
}

pub(super) fn write(_path: &Path, _arrays: &[HostArray]) -> Result<(), String> {
    lacking()
}

pub(super) fn read(_path: &Path, _name: &str) -> Result<HostArray, String> {
    lacking()
}

pub(super) fn names(_path: &Path) -> Result<String, String> {
    lacking()
}
