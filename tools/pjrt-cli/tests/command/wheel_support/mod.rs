//! Helpers for the tests of `pjrt package`: a temporary folder, small libraries, and the command.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(unreachable_pub, reason = "the tests share it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Source of the smallest library that `pjrt package` accepts as a plugin. The library must not be loaded, because its
/// function table is null.
pub const PLUGIN: &str = "#[unsafe(no_mangle)]\npub extern \"C\" fn GetPjrtApi() -> *const u8 { std::ptr::null() }\n";

pub fn pjrt(args: &[&str]) -> Output {
    // Unset `CARGO_TARGET_DIR`, so that Cargo builds the crates of these tests in their own folders.
    Command::new(env!("CARGO_BIN_EXE_pjrt")).args(args).env_remove("CARGO_TARGET_DIR").output().unwrap()
}

/// A folder that is removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("package-{name}-{}", std::process::id()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Compiles a shared library, and returns its path.
    pub fn library(&self, name: &str, source: &str) -> PathBuf {
        let (input, output) = (self.path(&format!("{name}.rs")), self.path(name));
        std::fs::write(&input, source).unwrap();
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--crate-type=cdylib", "--crate-name=example", "--edition=2024", "-o"]).arg(&output).arg(&input);
        let done = rustc.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        output
    }

    /// Writes a wheel into the folder `out`, and returns the wheel's path.
    pub fn package(&self, args: &[&str]) -> PathBuf {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        PathBuf::from(text.lines().next().unwrap().strip_prefix("wrote ").unwrap())
    }

    /// Runs a command that must fail without a crash, and returns its error message.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let reason = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {:?}, {reason}", output.status);
        reason
    }

    fn run(&self, args: &[&str]) -> Output {
        let out = self.path("out");
        pjrt(&[&["package", "--output", out.to_str().unwrap()], args].concat())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Ignore an error, because a leftover folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
