//! An ordinary user runs the command with elevated privileges. It loads no library that this user names.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// An ordinary user. The account need not exist.
const NOBODY: &str = "65534";

/// A folder that the user may enter, with a copy of the command and a plugin library that the user owns.
struct Setup {
    folder: PathBuf,
    library: PathBuf,
    command: PathBuf,
}

/// Creates the set-up, or returns the reason why the test cannot run.
fn setup(test: &str) -> Result<Setup, String> {
    for (program, package) in [("setcap", "libcap2-bin"), ("setpriv", "util-linux")] {
        if Command::new(program).arg("--version").output().is_err() && Command::new(program).arg("-h").output().is_err()
        {
            return Err(format!("{program} is missing: install {package}"));
        }
    }
    let user = Command::new("id").arg("-u").output().unwrap().stdout;
    if user.trim_ascii() != b"0" {
        return Err("only root can make a command with elevated privileges".to_owned());
    }
    // Other users may not have access to the build's folder.
    let folder = std::env::temp_dir().join(format!("pjrt-privileges-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let (library, command) = (folder.join("libmine.so"), folder.join("pjrt"));
    fs::copy(device_plugin_testing::library("odd_plugin"), &library).unwrap();
    std::os::unix::fs::chown(&library, Some(65534), Some(65534)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_pjrt"), &command).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    Ok(Setup { folder, library, command })
}

impl Setup {
    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(&self.command).args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("PJRT_PLUGIN_PATH", &self.library);
        command.current_dir("/").output().unwrap()
    }

    /// Returns the command's output for a library that the user named in a variable, and for one named on the command
    /// line.
    fn answers(&self) -> (String, String) {
        let listed = self.run(&["list", "--all", "--json"]);
        assert!(listed.status.success(), "{listed:?}");
        let named = self.run(&["inspect", "-p", self.library.to_str().unwrap()]);
        let said =
            |output: Output| String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (said(listed), said(named))
    }

    fn refuses_the_users_library(&self) {
        let (listed, named) = self.answers();
        assert!(!listed.contains("libmine.so"), "{listed}");
        assert!(
            listed.contains("PJRT_PLUGIN_PATH: ignored, because this process runs with elevated privileges"),
            "{listed}"
        );
        assert!(named.contains("does not belong to root, and this process runs with elevated privileges"), "{named}");
        assert!(!named.contains("API version"), "{named}");
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn ordinary_copy_loads_users_library() {
    let setup = match setup("ordinary") {
        Ok(setup) => setup,
        Err(reason) => return println!("SKIPPED ordinary_copy_loads_users_library: {reason}"),
    };
    let (listed, named) = setup.answers();
    assert!(listed.contains("libmine.so"), "{listed}");
    assert!(named.contains("API version"), "{named}");
}

#[test]
fn file_capabilities_reject_users_library() {
    let setup = match setup("setcap") {
        Ok(setup) => setup,
        Err(reason) => {
            return println!("SKIPPED file_capabilities_reject_users_library: {reason}");
        }
    };
    let set = Command::new("setcap").arg("cap_net_raw+ep").arg(&setup.command).output().unwrap();
    if !set.status.success() {
        let reason = String::from_utf8_lossy(&set.stderr).into_owned();
        return println!("SKIPPED file_capabilities_reject_users_library: {}", reason.trim());
    }
    setup.refuses_the_users_library();
}

#[test]
fn set_user_id_rejects_users_library() {
    let setup = match setup("setuid") {
        Ok(setup) => setup,
        Err(reason) => return println!("SKIPPED set_user_id_rejects_users_library: {reason}"),
    };
    fs::set_permissions(&setup.command, fs::Permissions::from_mode(0o4755)).unwrap();
    setup.refuses_the_users_library();
}
