//! Reads `/etc/ld.so.cache`, in which glibc's dynamic loader looks up libraries, and `/etc/ld.so.conf`, which lists the
//! system's library folders.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use wildmatch::WildMatch;

use crate::discovery::folder;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Size in bytes of the header before the first entry.
const HEADER: usize = 48;
/// Size in bytes of an entry, which consists of flags, the offset of the name, the offset of the path, and 12 bytes
/// that are not used here.
const ENTRY: usize = 24;
/// Maximum size in bytes of a cache that is read.
const LARGEST: u64 = 64 << 20;
/// Maximum nesting of `include` lines. Without a limit, a file that includes itself would cause an endless recursion.
const DEEPEST: usize = 8;

/// Paths of the libraries in the loader's cache, by name. A name may have several paths, for example one for each
/// architecture.
#[derive(Debug, Default)]
pub(super) struct LdCache {
    paths: HashMap<String, Vec<String>>,
}

impl LdCache {
    /// Reads the cache file. The result is empty if the file does not exist or has another format.
    pub(super) fn read(path: &Path) -> Self {
        folder::read(path, LARGEST).map(|bytes| Self::parse(&bytes)).unwrap_or_default()
    }

    /// Parses the current format. Skips the older format, which may precede it in the same file.
    fn parse(bytes: &[u8]) -> Self {
        let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else {
            return Self::default();
        };
        let bytes = &bytes[start..];
        let number = |at: usize| -> Option<usize> {
            let word = u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
            usize::try_from(word).ok()
        };
        let text = |at: usize| -> Option<&str> {
            let rest = bytes.get(at..)?;
            std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
        };
        let mut paths: HashMap<String, Vec<String>> = HashMap::new();
        for i in 0..number(MAGIC.len()).unwrap_or(0) {
            let entry = HEADER + i * ENTRY;
            let (Some(name), Some(path)) = (number(entry + 4), number(entry + 8)) else { break };
            if let (Some(name), Some(path)) = (text(name), text(path)) {
                paths.entry(name.to_owned()).or_default().push(path.to_owned());
            }
        }
        Self { paths }
    }

    /// Returns the paths of the libraries with this name.
    pub(super) fn find(&self, name: &str) -> &[String] {
        self.paths.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns the folders that `/etc/ld.so.conf` and its included files list, in order, below `root`.
pub(super) fn configured(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    read_configuration(root, &root.join("etc/ld.so.conf"), &mut folders, 0);
    folders
}

fn read_configuration(root: &Path, file: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    let Some(text) = folder::read_text(file, folder::LARGEST_SETTINGS) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            if depth < DEEPEST {
                for included in matching(root, file, Path::new(pattern.trim())) {
                    read_configuration(root, &included, folders, depth + 1);
                }
            }
        } else if line.starts_with('/') {
            // In old configuration files, `=` and a library type may follow the folder.
            let folder = line.split('=').next().unwrap_or(line);
            folders.push(root.join(folder.trim_start_matches('/')));
        }
    }
}

/// Returns the files that match the pattern of an `include` line in `file`, sorted. A relative pattern starts at the
/// folder of `file`. Only the file name in the pattern may contain `*` and `?`.
fn matching(root: &Path, file: &Path, pattern: &Path) -> Vec<PathBuf> {
    let pattern = match pattern.strip_prefix("/") {
        Ok(below) => root.join(below),
        Err(_) => file.parent().unwrap_or(root).join(pattern),
    };
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let pattern = WildMatch::new(name);
    folder::files_named(folder, |file| pattern.matches(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let count = u32::try_from(entries.len()).unwrap();
        bytes.extend(count.to_ne_bytes());
        bytes.resize(HEADER, 0);
        let mut strings = Vec::new();
        for (name, path) in entries {
            let mut place = |text: &str| {
                let at = u32::try_from(HEADER + entries.len() * ENTRY + strings.len()).unwrap();
                strings.extend(text.as_bytes());
                strings.push(0);
                at
            };
            let (name, path) = (place(name), place(path));
            bytes.extend(0x0303_u32.to_ne_bytes());
            bytes.extend(name.to_ne_bytes());
            bytes.extend(path.to_ne_bytes());
            bytes.extend([0; 12]);
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn reads_both_layouts() {
        let new =
            cache(&[("libm.so.6", "/lib/libm.so.6"), ("libm.so.6", "/lib32/libm.so.6"), ("liba.so", "/a/liba.so")]);
        let mut old = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
        old.extend(&new);
        for bytes in [new, old] {
            let cache = LdCache::parse(&bytes);
            assert_eq!(cache.find("libm.so.6"), ["/lib/libm.so.6", "/lib32/libm.so.6"]);
            assert_eq!(cache.find("liba.so"), ["/a/liba.so"]);
            assert!(cache.find("libb.so").is_empty());
        }
    }

    #[test]
    fn include_patterns_match_file_names() {
        let folder = std::env::temp_dir().join(format!("ld-cache-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["a.conf", "ab.conf", "B.CONF", "a.conf.old"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = |pattern: &str| {
            let found = matching(Path::new("/nowhere"), &folder.join("ld.so.conf"), Path::new(pattern));
            found.iter().map(|path| folder::name(path).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("*.conf"), ["a.conf", "ab.conf"]);
        assert_eq!(found("a?.conf"), ["ab.conf"]);
        assert_eq!(found("**"), ["B.CONF", "a.conf", "a.conf.old", "ab.conf"]);
        assert_eq!(found("a*o*f"), ["a.conf", "ab.conf"]);
        assert_eq!(found("[ab].conf"), [""; 0]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn survives_damage() {
        let whole = cache(&[("libm.so.6", "/lib/libm.so.6")]);
        for end in 0..whole.len() {
            assert!(LdCache::parse(&whole[..end]).find("libm.so.6").is_empty());
        }
        let mut many = MAGIC.to_vec();
        many.extend(u32::MAX.to_ne_bytes());
        assert!(LdCache::parse(&many).paths.is_empty());
    }
}
