//! Tests that the command with elevated privileges loads no library that an ordinary user names, either directly or as
//! the plugin behind layers.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::MutexGuard;

use device_plugin_testing::Exclusive;

/// User id of an ordinary user. The account does not need to exist.
const NOBODY: &str = "65534";

/// Lets only one test at a time copy and run the command. The system refuses to run a file that is open for writing.
/// While one test writes its copy, a process that another test starts would inherit the open file until it executes its
/// own program.
static EXCLUSIVE: Exclusive = Exclusive::new();

/// A folder that the ordinary user may enter. It contains a copy of the command, a plugin library that the user owns,
/// and the layers' library, which root owns.
struct Setup {
    folder: PathBuf,
    library: PathBuf,
    layers: PathBuf,
    command: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

/// Creates the files of a [`Setup`], or returns the reason why the test cannot run.
fn setup(test: &str) -> Result<Setup, String> {
    let turn = EXCLUSIVE.turn();
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
    // Other users may not have access to the build folder, so use a temporary folder.
    let folder = std::env::temp_dir().join(format!("pjrt-privileges-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let (library, command) = (folder.join("libmine.so"), folder.join("pjrt"));
    fs::copy(device_plugin_testing::library("odd_plugin"), &library).unwrap();
    let layers = folder.join("liblayers.so");
    fs::copy(device_plugin_testing::library("layers_plugin"), &layers).unwrap();
    std::os::unix::fs::chown(&library, Some(65534), Some(65534)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_pjrt"), &command).unwrap();
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    Ok(Setup { folder, library, layers, command, _turn: turn })
}

impl Setup {
    fn run(&self, args: &[&str]) -> Output {
        self.as_nobody(args).output().unwrap()
    }

    fn as_nobody(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(&self.command).args(args);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("PJRT_PLUGIN_PATH", &self.library);
        command.current_dir("/");
        command
    }

    /// Runs the command on the layers' library, with environment variables that name the user's library as the plugin
    /// behind the layers. Returns the command's output.
    fn answer_of_layers(&self) -> String {
        let mut command = self.as_nobody(&["devices", "-p", self.layers.to_str().unwrap()]);
        command.env("PJRT_LAYERS", "trace").env("PJRT_LAYERS_PLUGIN", &self.library);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    fn ignores_the_users_layers(&self) {
        let answer = self.answer_of_layers();
        let refused = "this process has elevated privileges, so PJRT_LAYERS_PLUGIN and PJRT_LAYERS have no effect";
        assert!(answer.contains(refused), "{answer}");
        assert!(!answer.contains("device 0: odd") && !answer.contains("PJRT calls of process"), "{answer}");
    }

    /// Returns the command's output for a library that the user names in an environment variable, and its output for a
    /// library that the user names on the command line.
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
    let answer = setup.answer_of_layers();
    assert!(answer.contains("device 0: odd") && answer.contains("PJRT calls of process"), "{answer}");
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
    setup.ignores_the_users_layers();
}

#[test]
fn set_user_id_rejects_users_library() {
    let setup = match setup("setuid") {
        Ok(setup) => setup,
        Err(reason) => return println!("SKIPPED set_user_id_rejects_users_library: {reason}"),
    };
    fs::set_permissions(&setup.command, fs::Permissions::from_mode(0o4755)).unwrap();
    setup.refuses_the_users_library();
    setup.ignores_the_users_layers();
}
