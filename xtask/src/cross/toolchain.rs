//! The Rust toolchain that Debian maintains for web browsers. Unlike a toolchain of rustup, it is a package of the
//! distribution, and it comes with the standard library for 64-bit ARM.
//!
//! The packages are downloaded with `apt-get download`, which checks their signatures and needs no privileges, and
//! unpacked under `target/parts`. Nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, sh};

/// A package and the paths in it that are needed.
struct Part {
    package: &'static str,
    architecture: &'static str,
    paths: &'static [&'static str],
}

const VERSION: &str = "1.96.0";

/// The names of two packages contain versions, so change them together with [`VERSION`].
const PARTS: &[Part] = &[
    Part { package: "rustc-web", architecture: "amd64", paths: &["./usr/bin/rustc"] },
    Part { package: "libstd-rust-web-1.96", architecture: "amd64", paths: &["./usr/lib"] },
    Part { package: "libllvm22", architecture: "amd64", paths: &["./usr/lib/x86_64-linux-gnu"] },
    Part { package: "libstd-rust-web-dev", architecture: "amd64", paths: &["./usr/lib/rustlib"] },
    Part { package: "libstd-rust-web-dev", architecture: "arm64", paths: &["./usr/lib/rustlib"] },
];

/// An unpacked toolchain.
pub(super) struct Toolchain {
    folder: PathBuf,
}

impl Toolchain {
    /// Returns the toolchain. Downloads it if needed.
    pub(super) fn fetch() -> Result<Self, Error> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("cross builds are set up for Debian on x86-64".into());
        }
        let parts = sh::root().join("target/parts");
        let toolchain = Self { folder: parts.join(format!("debian-rust-{VERSION}")) };
        let complete = toolchain.folder.join(".complete");
        if !complete.is_file() {
            let download = parts.join("debian-rust.download");
            for stale in [&toolchain.folder, &download] {
                if stale.exists() {
                    fs::remove_dir_all(stale)?;
                }
            }
            download_into(&download)?;
            fs::create_dir_all(&toolchain.folder)?;
            for part in PARTS {
                unpack(&part.file(&download)?, &toolchain.folder, part.paths)?;
            }
            toolchain.write_rustc()?;
            fs::remove_dir_all(&download)?;
            fs::write(complete, "")?;
        }
        Ok(toolchain)
    }

    /// The compiler.
    pub(super) fn rustc(&self) -> PathBuf {
        self.folder.join("rustc")
    }

    /// Writes a script that starts the compiler with its libraries.
    fn write_rustc(&self) -> Result<(), Error> {
        // The folder may be moved.
        let script = "#!/bin/sh\nusr=$(dirname \"$0\")/usr\n\
                      LD_LIBRARY_PATH=$usr/lib/x86_64-linux-gnu exec \"$usr/bin/rustc\" \"$@\"\n";
        fs::write(self.rustc(), script)?;
        sh::output(Command::new("chmod").arg("+x").arg(self.rustc()))?;
        let said = sh::output(Command::new(self.rustc()).arg("--version"))?;
        if said.starts_with(&format!("rustc {VERSION} ")) {
            return Ok(());
        }
        Err(format!(
            "Debian has {} instead of {VERSION}; change the version in xtask/src/cross/toolchain.rs",
            said.trim()
        )
        .into())
    }
}

impl Part {
    /// Returns the downloaded file.
    fn file(&self, folder: &Path) -> Result<PathBuf, Error> {
        let (start, end) = (format!("{}_", self.package), format!("_{}.deb", self.architecture));
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(&start) && name.ends_with(&end) {
                return Ok(path);
            }
        }
        Err(format!("apt-get downloaded no {}:{}", self.package, self.architecture).into())
    }
}

/// Downloads the packages. Uses package lists of its own, because those of this computer may lack 64-bit ARM, and only
/// the administrator can update them.
fn download_into(folder: &Path) -> Result<(), Error> {
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(folder).arg("-qq");
        apt.arg("-o").arg(format!("Dir::State::lists={}", lists.display()));
        apt.arg("-o").arg(format!("Dir::Cache={}", folder.join("cache").display()));
        // The user who runs this task owns the folders, and not apt's own user.
        for option in ["APT::Architectures=amd64,arm64", "APT::Sandbox::User="] {
            apt.args(["-o", option]);
        }
        apt
    };
    eprintln!("fetching Rust {VERSION} from Debian's packages");
    sh::shown(apt().arg("update"))?;
    let names = PARTS.iter().map(|part| format!("{}:{}", part.package, part.architecture));
    sh::shown(apt().arg("download").args(names))
}

/// Unpacks files of a package.
fn unpack(package: &Path, folder: &Path, paths: &[&str]) -> Result<(), Error> {
    let mut tar = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let stdout = tar.stdout.take().ok_or("no pipe to dpkg-deb")?;
    let unpacked = Command::new("tar").arg("-x").arg("-C").arg(folder).args(paths).stdin(stdout).status()?;
    if tar.wait()?.success() && unpacked.success() {
        return Ok(());
    }
    Err(format!("cannot unpack {}", package.display()).into())
}
