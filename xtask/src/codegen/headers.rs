//! Creates the folder of PJRT headers. It contains the headers of API 0.117, and the headers of extensions that only an
//! older package contains.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::package::{HEADERS, NEWER_HEADERS};
use crate::{Error, sh};

/// Headers of extensions that include C++ headers of XLA. [`plain`] removes these includes.
const EXTENSIONS: &[&str] = &[
    "xla/pjrt/extensions/cross_host_transfers/pjrt_c_api_cross_host_transfers_extension.h",
    "xla/pjrt/extensions/executable_metadata/executable_metadata_extension.h",
    "xla/pjrt/extensions/host_memory_allocator/host_memory_allocator_extension.h",
];

/// C++ headers of XLA that the headers in [`EXTENSIONS`] include.
const CPP_INCLUDES: &[&str] = &["#include \"xla/pjrt/pjrt_client.h\"", "#include \"xla/pjrt/pjrt_common.h\""];

/// C++ types of XLA that the headers in [`EXTENSIONS`] use. Each element also contains the C type with the same
/// representation.
const CPP_TYPES: &[(&str, &str)] = &[("xla::GlobalDeviceId", "int32_t"), ("xla::CrossHostTransferKey", "int64_t")];

/// Name of the generated header that includes all PJRT headers of the folder.
const ALL: &str = "pjrt_all.h";

/// Creates a folder with the PJRT headers, the API's CHANGELOG, and `pjrt_all.h`, which includes all PJRT headers.
pub(crate) fn headers() -> Result<PathBuf, Error> {
    let older = HEADERS.unpacked()?.join(format!("{}-{}", HEADERS.name, HEADERS.version)).join("vendor");
    let newer = NEWER_HEADERS.unpacked()?.join("tensorflow/include");
    let mut files = BTreeMap::new();
    collect(&older, Path::new(""), &mut files)?;
    for (name, text) in &mut files {
        let newer = newer.join(name);
        // Do not replace the headers of XLA's FFI, which has version numbers of its own.
        if name.starts_with("xla/pjrt/c/") && newer.is_file() {
            *text = fs::read_to_string(newer)?;
        }
    }
    for name in EXTENSIONS {
        files.insert((*name).to_owned(), plain(&fs::read_to_string(newer.join(name))?));
    }
    let mut all = String::new();
    for name in files.keys().filter(|name| name.starts_with("xla/pjrt/") && name.ends_with(".h")) {
        writeln!(all, "#include \"{name}\"")?;
    }
    if !all.contains("xla/pjrt/c/pjrt_c_api.h") {
        return Err(format!("no PJRT headers in {}", older.display()).into());
    }
    files.insert(ALL.to_owned(), all);
    let folder = sh::root().join(format!("target/parts/pjrt-headers-{}", NEWER_HEADERS.version));
    sh::remove(&folder)?;
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(folder)
}

/// Adds the contents of all files below `root/folder` to `files`. The keys are paths relative to `root`.
fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> Result<(), Error> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(path.display().to_string(), fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// Removes the C++ includes and the C++ namespace from an extension's header, and replaces C++ classes by C types.
fn plain(header: &str) -> String {
    let mut text = String::new();
    let mut is_cpp = false;
    for line in header.lines() {
        is_cpp |= line == "namespace pjrt {";
        if !is_cpp && !CPP_INCLUDES.contains(&line) {
            text.push_str(line);
            text.push('\n');
        }
        is_cpp &= line != "}  // namespace pjrt";
    }
    CPP_TYPES.iter().fold(text, |text, (class, plain)| text.replace(class, plain))
}
