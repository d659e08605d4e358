//! The platforms, and the emulators that run their programs here.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolchain::Toolchain;
use crate::{Error, sh};

/// A platform whose programs are built here.
pub(super) struct Platform {
    /// The argument of `cargo xtask cross`.
    pub(super) name: &'static str,
    triple: &'static str,
    linker: &'static str,
    /// The words of a command that runs a program.
    emulator: &'static [&'static str],
    /// The files that the linker and the emulator need.
    needs: &'static [Need],
    /// The tests that cannot pass here, by a part of their path, and the reason.
    pub(super) skipped: &'static [(&'static str, &'static str)],
}

/// A file, and the Debian package that contains it.
struct Need {
    file: &'static str,
    package: &'static str,
}

const EXHAUSTIVE: &str = "it tries millions of numbers, which takes minutes in an emulator";
const NO_CHILDREN: &str = "it starts itself again, and an emulated process cannot start another one";

pub(super) const PLATFORMS: &[Platform] = &[Platform {
    name: "aarch64",
    triple: "aarch64-unknown-linux-gnu",
    linker: "/usr/bin/aarch64-linux-gnu-gcc",
    emulator: &["/usr/bin/qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
    needs: &[
        Need { file: "/usr/bin/aarch64-linux-gnu-gcc", package: "gcc-aarch64-linux-gnu" },
        Need { file: "/usr/aarch64-linux-gnu/lib/crt1.o", package: "libc6-dev-arm64-cross" },
        Need { file: "/usr/bin/qemu-aarch64", package: "qemu-user" },
    ],
    skipped: &[
        ("abi::objects::client::at_exit::tests", NO_CHILDREN),
        ("deferred_launch::end_of_the_process", NO_CHILDREN),
        ("history::", "it makes a call for each older version of each struct, which takes minutes in an emulator"),
        ("print::float::tests::every_pattern_round_trips", EXHAUSTIVE),
        ("print::float::tests::text_round_trip", EXHAUSTIVE),
    ],
}];

impl Platform {
    pub(super) fn named(name: &str) -> Result<&'static Self, Error> {
        let platform = PLATFORMS.iter().find(|platform| platform.name == name);
        let names = || PLATFORMS.iter().map(|platform| platform.name).collect::<Vec<_>>().join(", ");
        Ok(platform.ok_or_else(|| format!("unknown platform {name:?}; the platforms are {}", names()))?)
    }

    /// Checks that the linker and the emulator are installed.
    pub(super) fn check_installed(&self) -> Result<(), Error> {
        let missing = self.needs.iter().filter(|need| !Path::new(need.file).exists());
        let missing: Vec<&str> = missing.map(|need| need.package).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let packages = missing.join(" ");
        Err(format!("packages are missing; `apt-get install --no-install-recommends {packages}` as root").into())
    }

    /// Returns a command of cargo that builds for this platform.
    pub(super) fn cargo(&self, toolchain: &Toolchain, task: &str) -> Command {
        let mut cargo = sh::cargo();
        cargo.args([task, "--target", self.triple]).env("RUSTC", toolchain.rustc());
        cargo.env("CARGO_TARGET_DIR", target()).env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "none");
        cargo.env(self.variable("LINKER"), self.linker);
        // A test program that hangs must not use up the time of all others.
        let words: Vec<&str> = ["timeout", "600"].iter().chain(self.emulator).copied().collect();
        cargo.env(self.variable("RUNNER"), words.join(" "));
        cargo
    }

    /// The name of a variable of cargo for this target.
    fn variable(&self, name: &str) -> String {
        format!("CARGO_TARGET_{}_{name}", self.triple.replace('-', "_").to_uppercase())
    }
}

/// Cargo's target folder for all other platforms.
fn target() -> PathBuf {
    sh::target().join("cross")
}
