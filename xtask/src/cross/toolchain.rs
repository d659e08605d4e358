//! The Rust toolchain that Debian maintains for web browsers. Unlike a toolchain of rustup, it consists of packages of
//! the distribution. They include the standard library for 64-bit ARM, and the source of the standard library.
//!
//! `apt-get download` downloads the packages, checks their signatures, and needs no privileges. The task unpacks the
//! packages under `target/parts`, and does not install them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, sh};

/// Origin of the standard library of a platform.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardLibrary {
    /// The standard library is in a Debian package.
    Packaged,
    /// Cargo builds the standard library from its source.
    Built,
}

/// A Debian package, and the paths that are unpacked from it.
struct Part {
    package: &'static str,
    architecture: &'static str,
    paths: &'static [&'static str],
}

const VERSION: &str = "1.96.0";

/// Packages of the compiler. Their names and paths contain versions, so change them together with [`VERSION`].
const PARTS: &[Part] = &[
    Part { package: "rustc-web", architecture: "amd64", paths: &["./usr/bin/rustc"] },
    Part { package: "libstd-rust-web-1.96", architecture: "amd64", paths: &["./usr/lib"] },
    Part { package: "libllvm22", architecture: "amd64", paths: &["./usr/lib/x86_64-linux-gnu"] },
    Part { package: "libstd-rust-web-dev", architecture: "amd64", paths: &["./usr/lib/rustlib"] },
    Part { package: "libstd-rust-web-dev", architecture: "arm64", paths: &["./usr/lib/rustlib"] },
];

/// Package with the runtime library of the thread sanitizer.
const THREAD_SANITIZER: &[Part] =
    &[Part { package: "libclang-rt-19-dev", architecture: "amd64", paths: &["./usr/lib/llvm-19/lib/clang"] }];

const SOURCE: &[Part] = &[Part {
    package: "rust-web-src",
    architecture: "all",
    paths: &["./usr/lib/rustlib/src", "./usr/src/rustc-1.96.0/library"],
}];

/// An unpacked toolchain.
pub(crate) struct Toolchain {
    folder: PathBuf,
}

impl Toolchain {
    /// Returns the toolchain. Downloads the compiler if it is missing. For [`StandardLibrary::Built`], also downloads
    /// the source of the standard library if it is missing.
    pub(crate) fn fetch(standard_library: StandardLibrary) -> Result<Self, Error> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("cross builds are set up for Debian on x86-64".into());
        }
        let parts = sh::root().join("target/parts");
        let toolchain = Self { folder: parts.join(format!("debian-rust-{VERSION}")) };
        let download = parts.join("debian-rust.download");
        if !toolchain.folder.join(".complete").is_file() {
            if toolchain.folder.exists() {
                fs::remove_dir_all(&toolchain.folder)?;
            }
            toolchain.add(PARTS, &download, ".complete")?;
        }
        if standard_library == StandardLibrary::Built && !toolchain.folder.join(".source").is_file() {
            toolchain.add(SOURCE, &download, ".source")?;
        }
        Ok(toolchain)
    }

    /// Returns the runtime library of the thread sanitizer. Downloads it if needed.
    pub(crate) fn thread_sanitizer(&self) -> Result<PathBuf, Error> {
        if !self.folder.join(".thread-sanitizer").is_file() {
            let download = sh::root().join("target/parts/thread-sanitizer.download");
            self.add(THREAD_SANITIZER, &download, ".thread-sanitizer")?;
        }
        Ok(self.folder.join("usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.tsan-x86_64.a"))
    }

    /// Downloads and unpacks packages, and checks that the compiler has the version [`VERSION`]. Then creates an empty
    /// file whose name is `complete`.
    fn add(&self, parts: &[Part], download: &Path, complete: &str) -> Result<(), Error> {
        if download.exists() {
            fs::remove_dir_all(download)?;
        }
        download_into(download, parts)?;
        fs::create_dir_all(&self.folder)?;
        for part in parts {
            unpack(&part.file(download)?, &self.folder, part.paths)?;
        }
        self.write_rustc()?;
        fs::remove_dir_all(download)?;
        fs::write(self.folder.join(complete), "")?;
        Ok(())
    }

    /// Returns the path of the script that starts the compiler.
    pub(crate) fn rustc(&self) -> PathBuf {
        self.folder.join("rustc")
    }

    /// Writes a script that starts the compiler with its libraries.
    fn write_rustc(&self) -> Result<(), Error> {
        // The script finds the libraries relative to its own path, because the folder may be moved.
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
    /// Returns the path of the downloaded package.
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

/// Downloads the packages. Uses separate package lists, because the lists of this computer may not include 64-bit ARM,
/// and only the administrator can update them.
fn download_into(folder: &Path, parts: &[Part]) -> Result<(), Error> {
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(folder).arg("-qq");
        apt.arg("-o").arg(format!("Dir::State::lists={}", lists.display()));
        apt.arg("-o").arg(format!("Dir::Cache={}", folder.join("cache").display()));
        // Disable apt's own user, because the user who runs this task owns the folders.
        for option in ["APT::Architectures=amd64,arm64", "APT::Sandbox::User="] {
            apt.args(["-o", option]);
        }
        apt
    };
    let packages = parts.iter().map(|part| part.package).collect::<Vec<_>>().join(", ");
    eprintln!("fetching Rust {VERSION} from Debian's packages: {packages}");
    sh::shown(apt().arg("update"))?;
    let names = parts.iter().map(|part| format!("{}:{}", part.package, part.architecture));
    sh::shown(apt().arg("download").args(names))
}

/// Unpacks paths of a package into a folder.
fn unpack(package: &Path, folder: &Path, paths: &[&str]) -> Result<(), Error> {
    let mut tar = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let stdout = tar.stdout.take().ok_or("no pipe to dpkg-deb")?;
    let unpacked = Command::new("tar").arg("-x").arg("-C").arg(folder).args(paths).stdin(stdout).status()?;
    if tar.wait()?.success() && unpacked.success() {
        return Ok(());
    }
    Err(format!("cannot unpack {}", package.display()).into())
}
