//! Lists and reads the files of a folder, and implements the naming conventions of libraries.

use std::fs::{self, File};
use std::io::{Error, Read};
use std::path::{Path, PathBuf};

/// Returns the paths of all entries in a folder, sorted by name, because the file system's order is arbitrary. Returns
/// an empty list if the folder cannot be read.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Returns the paths of the entries in `folder` whose names satisfy `wanted`, sorted. Checks a name before it builds
/// the path, because folders may be large.
pub(super) fn files_named(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    let mut files: Vec<PathBuf> = wanted.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Opens a regular file, and rejects everything else. Opening a pipe may block, and the content of a device may have no
/// end.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    let plain = |metadata: fs::Metadata| if metadata.is_file() { Ok(()) } else { Err(Error::other("not a file")) };
    plain(fs::metadata(path)?)?;
    let file = File::open(path)?;
    // Another process may have replaced the file between the check and `File::open`.
    plain(file.metadata()?)?;
    Ok(file)
}

/// Reads a file of at most `largest` bytes. Returns an error if the file is larger.
pub(crate) fn read(path: &Path, largest: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Limit the read instead of trusting the size in the metadata, which is too small for some files.
    open(path)?.take(largest.saturating_add(1)).read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|length| length <= largest) {
        return Ok(content);
    }
    Err(Error::other(format!("larger than {largest} bytes")))
}

/// Reads a file of at most `largest` bytes as text. Replaces invalid UTF-8 with U+FFFD. Returns `None` if the file
/// cannot be read or is larger.
pub(super) fn read_text(path: &Path, largest: u64) -> Option<String> {
    read(path, largest).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Maximum size in bytes of a manifest or configuration file that is read. Such files are short, so a longer file is a
/// mistake or an attack.
pub(super) const LARGEST_SETTINGS: u64 = 1 << 20;

/// Returns the file name of a path, or an empty string if the path has no file name or the name is not UTF-8.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the name of a library without its ending (`.so`, `.so.1`, `.dylib`, `.dll`), or `None` if the name has
/// another ending.
fn library_stem(name: &str) -> Option<&str> {
    // A version consists of digits and dots after `.so`.
    let versioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let ends = |name: &str, end: &str| {
        let start = name.len().checked_sub(end.len())?;
        name.get(start..)?.eq_ignore_ascii_case(end).then_some(start)
    };
    let plain = [".so", ".dylib", ".dll"].iter().find_map(|end| ends(name, end));
    let start = plain.or_else(|| {
        let version = &name[versioned.len()..];
        ends(versioned, ".so").filter(|_| version.starts_with('.') && !version.ends_with('.'))
    })?;
    name.get(..start)
}

/// Returns whether a file name is the name of a shared library on any operating system.
pub(crate) fn is_library_name(name: &str) -> bool {
    library_stem(name).is_some()
}

/// Returns whether a library's file name follows a convention of PJRT plugins: `pjrt-plugin-*`, `pjrt_plugin_*`,
/// `pjrt_c_api_*_plugin`, `lib*pjrt*`.
pub(super) fn is_plugin_name(name: &str) -> bool {
    let Some(stem) = library_stem(name) else { return false };
    let stem = stem.to_ascii_lowercase();
    let inner = |start: &str, end: &str| {
        stem.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).is_some_and(|rest| !rest.is_empty())
    };
    inner("pjrt-plugin-", "")
        || inner("pjrt_plugin_", "")
        || inner("pjrt_c_api_", "_plugin")
        || (stem.starts_with("lib") && stem.contains("pjrt"))
}

/// Guesses a plugin's name from the name of its file. For `pjrt_c_api_*_plugin`, `pjrt-plugin-*` and `pjrt_plugin_*`,
/// returns the part that `*` matches, with `_` instead of `-`. For any other name, joins its words with `_`, and omits
/// generic words such as "pjrt" and "plugin" unless all words are generic.
pub(super) fn guess_name(name: &str) -> String {
    let whole = library_stem(name).unwrap_or(name).to_lowercase();
    for (start, end) in [("pjrt_c_api_", "_plugin"), ("pjrt-plugin-", ""), ("pjrt_plugin_", "")] {
        let framed = whole.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        if let Some(framed) = framed.filter(|framed| !framed.is_empty()) {
            return framed.replace('-', "_");
        }
    }
    let rest = whole.strip_prefix("lib").filter(|rest| !rest.is_empty()).unwrap_or(&whole);
    let words = || rest.split(['-', '_', '.']).filter(|word| !word.is_empty());
    let telling: Vec<&str> = words().filter(|word| !["pjrt", "plugin", "c", "api", "xla"].contains(word)).collect();
    if telling.is_empty() { words().collect::<Vec<_>>().join("_") } else { telling.join("_") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (file, guess) in [
            ("pjrt_c_api_cpu_plugin.so", "cpu"),
            ("pjrt_c_api_c_plugin.so", "c"),
            ("pjrt-plugin-cuda.so", "cuda"),
            ("pjrt_plugin_tt.so", "tt"),
            ("libpjrt_cpu.so", "cpu"),
            ("libpjrt_plugin_mps.dylib", "mps"),
            ("xla_cuda_plugin.so", "cuda"),
            ("libtpu.so", "tpu"),
            ("libpjrt.so.1", "pjrt"),
            ("pjrt_plugin_my_device.so", "my_device"),
            ("my.something.so", "my_something"),
        ] {
            assert!(is_library_name(file), "{file}");
            assert_eq!(guess_name(file), guess, "{file}");
        }
        for file in
            ["pjrt_c_api_cpu_plugin.so", "pjrt-plugin-x.dylib", "pjrt_plugin_x.so.2", "libmy_pjrt.so", "libPJRTx.dylib"]
        {
            assert!(is_plugin_name(file), "{file}");
        }
        for file in ["libc.so.6", "pjrt_plugin_.so", "pjrt_plugin_x.json", "my_pjrt.so", "pjrt_c_api__plugin.txt"] {
            assert!(!is_plugin_name(file), "{file}");
        }
        assert!(
            !is_library_name("a.so.bak")
                && !is_library_name("a.sofa")
                && !is_library_name("a.so.")
                && !is_library_name("a1")
        );
    }
}
