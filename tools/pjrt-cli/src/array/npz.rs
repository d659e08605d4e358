//! Reads and writes NumPy's `.npz` files, which are zip archives of `.npy` files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use pjrt::HostArray;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::npy;

/// Maximum size in bytes of an array that is read. Without this limit, a small archive could expand to any size.
const MAX_ENTRY: u64 = 1 << 36;

/// Writes arrays as `out0`, `out1`, … into a `.npz` file.
pub(super) fn write(path: &Path, arrays: &[HostArray]) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let mut archive = ZipWriter::new(File::create(path).map_err(|error| error.to_string())?);
    for (index, array) in arrays.iter().enumerate() {
        let mut file = Vec::new();
        npy::serialize(array, &mut file).map_err(|error| error.to_string())?;
        // Like `numpy.savez`, do not compress the arrays, because numeric data compresses badly.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(u32::try_from(file.len()).is_err());
        archive.start_file(format!("out{index}.npy"), options).map_err(|error| error.to_string())?;
        archive.write_all(&file).map_err(|error| error.to_string())?;
    }
    archive.finish().map(drop).map_err(|error| error.to_string())
}

/// Reads the array with the given name. The name of the file in the archive may also end in `.npy`.
pub(super) fn read(path: &Path, name: &str) -> Result<HostArray, String> {
    let fault = |error: String| format!("{}: {error}", path.display());
    let mut archive = open(path)?;
    let index = archive.index_for_name(&format!("{name}.npy")).or_else(|| archive.index_for_name(name));
    let Some(index) = index else {
        return Err(fault(format!("the file does not contain an array {name:?}; it contains {}", list(&archive))));
    };
    let entry = archive.by_index(index).map_err(|error| fault(error.to_string()))?;
    let mut bytes = Vec::new();
    entry.take(MAX_ENTRY).read_to_end(&mut bytes).map_err(|error| fault(error.to_string()))?;
    npy::parse(&bytes, None).map_err(|error| fault(format!("array {name:?}: {error}")))
}

/// Returns the names of the arrays in a `.npz` file, separated by commas.
pub(super) fn names(path: &Path) -> Result<String, String> {
    open(path).map(|archive| list(&archive))
}

fn open(path: &Path) -> Result<ZipArchive<File>, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    ZipArchive::new(file).map_err(|error| format!("{}: not a .npz file: {error}", path.display()))
}

fn list(archive: &ZipArchive<File>) -> String {
    let names = archive.file_names().map(|name| match name {
        Ok(name) => name.strip_suffix(".npy").unwrap_or(&name).to_owned(),
        Err(error) => format!("(a damaged name: {error})"),
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use pjrt::{ElementType, Shape};

    use super::*;

    #[test]
    fn arrays_are_read_as_saved() {
        let folder = std::env::temp_dir().join(format!("pjrt-npz-{}", std::process::id()));
        let path = folder.join("results.npz");
        let arrays = [(ElementType::F32, vec![2]), (ElementType::S8, vec![])].map(|(ty, dimensions)| {
            let shape = Shape::new(ty, dimensions);
            let size = shape.host_size().unwrap();
            super::super::new(shape, vec![1; size]).unwrap()
        });
        write(&path, &arrays).unwrap();
        assert_eq!(read(&path, "out0").unwrap(), arrays[0]);
        assert_eq!(read(&path, "out1").unwrap(), arrays[1]);
        assert!(read(&path, "out2").unwrap_err().contains("it contains out0, out1"));
        assert_eq!(names(&path).unwrap(), "out0, out1");
        fs::write(&path, "no archive").unwrap();
        assert!(read(&path, "out0").unwrap_err().contains("not a .npz file"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
