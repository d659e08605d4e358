//! Writes a wheel: a zip archive with Python modules, a library, and the metadata that pip checks. The same input
//! always produces the same bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

use crate::full::progress::Progress;

/// Content of a file in the wheel.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(String),
    /// The content of a file on disk. Libraries are executable.
    File {
        path: PathBuf,
        executable: bool,
    },
}

/// A wheel to be written.
pub(crate) struct Wheel {
    /// Name of the distribution, as spelled in file names.
    pub(crate) name: String,
    pub(crate) version: String,
    /// Platform tag.
    pub(crate) platform: String,
    /// Files by their path within the wheel, except those in the `*.dist-info` folder.
    pub(crate) files: BTreeMap<String, Content>,
    /// Contents of `METADATA` and `entry_points.txt`, by file name.
    pub(crate) records: BTreeMap<String, String>,
}

impl Wheel {
    fn tag(&self) -> String {
        // The wheel depends neither on a Python version nor on its ABI.
        format!("py3-none-{}", self.platform)
    }

    /// Returns the file name of the wheel.
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}-{}.whl", self.name, self.version, self.tag())
    }

    /// Writes the wheel into a folder. Fails if the file exists, unless `replace` is set.
    pub(crate) fn write(&self, folder: &Path, replace: bool) -> Result<PathBuf, String> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("--output {}: cannot create this folder: {error}", folder.display()))?;
        let path = folder.join(self.file_name());
        if path.exists() && !replace {
            return Err(format!("{} exists; --force replaces it", path.display()));
        }
        // Write to a temporary file and rename it, so that a file with the wheel's name is always complete.
        let unfinished = folder.join(format!(".{}.{}", self.file_name(), std::process::id()));
        // Require a new file, because another user of a shared folder may have created a link with this name.
        let progress = Progress::bytes(self.size(), format!("writing {}", self.file_name()));
        let file = File::create_new(&unfinished).map_err(|error| format!("{}: {error}", unfinished.display()))?;
        let written = self
            .write_to(file, &progress)
            .and_then(|()| std::fs::rename(&unfinished, &path).map_err(|error| error.to_string()));
        if let Err(error) = written {
            // Return the first error, not an error of the clean-up.
            let _ = std::fs::remove_file(&unfinished);
            return Err(format!("{}: {error}", path.display()));
        }
        Ok(path)
    }

    /// Returns the total size of the files that are read from disk, which make up most of the wheel.
    fn size(&self) -> u64 {
        let size = |content: &Content| match content {
            Content::Text(_) => 0,
            // If the file cannot be read, writing it reports the error.
            Content::File { path, .. } => path.metadata().map_or(0, |metadata| metadata.len()),
        };
        self.files.values().map(size).sum()
    }

    fn write_to(&self, file: File, progress: &Progress) -> Result<(), String> {
        let mut archive = Archive { zip: ZipWriter::new(file), record: String::new(), progress };
        for (name, content) in &self.files {
            archive.add(name, content)?;
        }
        let info = format!("{}-{}.dist-info", self.name, self.version);
        let mut records = self.records.clone();
        let generator = concat!("pjrt ", env!("CARGO_PKG_VERSION"));
        records.insert(
            "WHEEL".to_owned(),
            format!("Wheel-Version: 1.0\nGenerator: {generator}\nRoot-Is-Purelib: false\nTag: {}\n", self.tag()),
        );
        for (name, text) in records {
            archive.add(&format!("{info}/{name}"), &Content::Text(text))?;
        }
        archive.finish(&format!("{info}/RECORD"))
    }
}

struct Archive<'a> {
    zip: ZipWriter<File>,
    record: String,
    progress: &'a Progress,
}

impl Archive<'_> {
    fn start(&mut self, name: &str, executable: bool, size: u64) -> Result<(), String> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(6))
            .system(System::Unix)
            .last_modified_time(DateTime::default())
            .unix_permissions(if executable { 0o755 } else { 0o644 })
            .large_file(size >= u64::from(u32::MAX));
        self.zip.start_file(name, options).map_err(|error| format!("{name}: {error}"))
    }

    fn add(&mut self, name: &str, content: &Content) -> Result<(), String> {
        let mut hash = Sha256::new();
        let mut size: u64 = 0;
        match content {
            Content::Text(text) => {
                size = u64::try_from(text.len()).map_err(|error| error.to_string())?;
                self.start(name, false, size)?;
                hash.update(text);
                self.zip.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
            }
            Content::File { path, executable } => {
                let fault = |error: std::io::Error| format!("{}: {error}", path.display());
                let mut file = File::open(path).map_err(fault)?;
                self.start(name, *executable, file.metadata().map_err(fault)?.len())?;
                let mut part = vec![0; 1 << 20];
                loop {
                    let read = file.read(&mut part).map_err(fault)?;
                    if read == 0 {
                        break;
                    }
                    hash.update(&part[..read]);
                    self.zip.write_all(&part[..read]).map_err(|error| error.to_string())?;
                    let read = u64::try_from(read).map_err(|error| error.to_string())?;
                    size += read;
                    self.progress.advance(read);
                }
            }
        }
        let hash = URL_SAFE_NO_PAD.encode(hash.finalize());
        self.record.push_str(&format!("{},sha256={hash},{size}\n", csv(name)));
        Ok(())
    }

    fn finish(mut self, name: &str) -> Result<(), String> {
        self.record.push_str(&format!("{},,\n", csv(name)));
        self.start(name, false, 0)?;
        self.zip.write_all(self.record.as_bytes()).map_err(|error| error.to_string())?;
        self.zip.finish().map_err(|error| error.to_string())?.sync_all().map_err(|error| error.to_string())
    }
}

/// Formats a field of `RECORD`, with quotes if necessary.
fn csv(field: &str) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

/// Returns the file name of `path`, after checking that a wheel may contain a file with this name. The name must be
/// valid on every system, and must not be that of a Python module or of the manifest.
pub(crate) fn file_name(path: &Path) -> Result<String, String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let module = path.extension().is_some_and(|extension| extension == "py");
    if name.is_empty() || !name.chars().all(fits) || module || name == device_plugin::manifest::FILE_NAME {
        return Err(format!(
            "{}: not a name for a file of a wheel; rename it to letters, digits, `.`, `-`, `_` and `+`",
            path.display()
        ));
    }
    Ok(name.to_owned())
}

/// Returns the SHA-256 hash of a file in lowercase hexadecimal.
pub(crate) fn sha256(path: &Path) -> Result<String, String> {
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut hash = Sha256::new();
    std::io::copy(&mut File::open(path).map_err(fault)?, &mut hash).map_err(fault)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use super::{Content, Wheel};
    use crate::full::progress::Progress;

    #[test]
    fn progress_reaches_the_size() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let size = path.metadata().unwrap().len();
        let files = [
            ("example/library.so".to_owned(), Content::File { path, executable: true }),
            ("example/__init__.py".to_owned(), Content::Text("one = 1\n".to_owned())),
        ];
        let wheel = Wheel {
            name: "example".to_owned(),
            version: "1".to_owned(),
            platform: "any".to_owned(),
            files: files.into(),
            records: [].into(),
        };
        assert_eq!(wheel.size(), size);
        let progress = Progress::bytes(wheel.size(), "writing");
        let output = std::env::temp_dir().join(format!("pjrt-wheel-{}.whl", std::process::id()));
        wheel.write_to(File::create(&output).unwrap(), &progress).unwrap();
        assert_eq!(progress.position(), size);
        std::fs::remove_file(output).unwrap();
    }
}
