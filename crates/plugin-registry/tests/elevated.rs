//! Tests that a program with elevated privileges, which contains the registry and the layers, loads no code and reads
//! no file of the user who started it.
//!
//! The program is a copy of this test. Root starts the copy as an ordinary user, and chooses `argv[0]` as an attacker
//! would.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]
#![cfg(target_os = "linux")]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::MutexGuard;
use std::{env, fs};

use device_plugin::{DevicePlugin, Library};
use device_plugin_testing::Exclusive;
use plugin_manifest::StaticApi;
use plugin_registry::PluginRegistry;

/// User id of the attacker. The account does not need to exist.
const ATTACKER: u32 = 65534;
/// Environment variable that makes the copy act as the program. Its value is the attacker's folder.
const FOLDER: &str = "PJRT_TEST_ELEVATED";
/// Name of the library that must not be loaded.
const LIBRARY: &str = "libmine.so";

/// Lets only one test at a time copy and run the program, because the system does not run a file that is open for
/// writing in a process that another test is starting.
static EXCLUSIVE: Exclusive = Exclusive::new();

pjrt_layers::instance!(Stack);

/// A plugin whose library is beside the program.
struct Beside;

#[device_plugin::device_plugin]
impl DevicePlugin for Beside {
    const NAME: &'static str = "beside";

    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::beside(LIBRARY) }
    }
}

/// The steps of the program. Each prints a line with its name and its outcome.
#[test]
fn program() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let library = folder.join(LIBRARY);
    let tell = |step: &str, outcome: &dyn std::fmt::Debug| {
        let loaded = fs::read_to_string("/proc/self/maps").unwrap().contains(LIBRARY);
        println!("step {step}: {} {outcome:?}", if loaded { "LOADED" } else { "safe" });
    };
    let registry = PluginRegistry::builder().build();
    // SAFETY: R1 (the library is trusted): the attacker's file is no library, so that a load would fail.
    let manifest = unsafe { registry.register_library(&library, None) }.map(|entry| entry.name().to_owned());
    tell("manifest", &manifest.map_err(|error| error.to_string()));
    // SAFETY: R1 (the library is trusted): as above.
    let described = unsafe { plugin_registry::describe(&library) };
    tell("describe", &described.map(drop).map_err(|error| error.to_string()));
    // SAFETY: R1 (the library is trusted): as above.
    let opened = unsafe { plugin_registry::open_path(&library) };
    tell("open", &opened.map(drop).map_err(|error| error.to_string()));
    let beside = registry.register::<Beside>().and_then(|entry| entry.load());
    tell("beside", &beside.map(drop).map_err(|error| error.to_string()));
    let table = pjrt_layers::api::<Stack>(Vec::new);
    // SAFETY: C1 (table): the layers' table is valid and lives until the process ends.
    let table = unsafe { StaticApi::new(table.cast()) };
    tell("layers", &pjrt::Plugin::from_static(table).map(drop).map_err(|error| error.to_string()));
}

struct Setup {
    /// A folder of root that everyone may enter.
    root: PathBuf,
    /// A folder of the attacker, with a library, settings of layers and a manifest.
    attacker: PathBuf,
    /// A copy of this test in the folder of root.
    program: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Setup {
    /// Creates the files, or reports why the test is skipped.
    fn new(test: &str) -> Option<Self> {
        let turn = EXCLUSIVE.turn();
        let root = env::temp_dir().join(format!("pjrt-elevated-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let attacker = root.join("attacker");
        fs::create_dir_all(&attacker).unwrap();
        let setup = Self { attacker, program: root.join("program"), root, _turn: turn };
        for folder in [&setup.root, &setup.attacker] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::copy(env::current_exe().unwrap(), &setup.program).unwrap();
        setup.fill(&setup.attacker);
        if !setup.give(&setup.attacker) {
            println!("SKIPPED {test}: only root can make a program with elevated privileges");
            return None;
        }
        Some(setup)
    }

    /// Writes a library with settings and a manifest.
    fn fill(&self, folder: &Path) {
        fs::copy(device_plugin_testing::library("odd_plugin"), folder.join(LIBRARY)).unwrap();
        fs::write(folder.join("pjrt_layers.json"), format!(r#"{{"PJRT_LAYERS_PLUGIN": "{LIBRARY}"}}"#)).unwrap();
        fs::write(folder.join("pjrt_plugin.json"), r#"{"format_version": "1.1", "name": "mine"}"#).unwrap();
    }

    /// Gives a folder and its files to the attacker.
    fn give(&self, folder: &Path) -> bool {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.chain([folder.to_owned()]).all(|path| chown(path, Some(ATTACKER), Some(ATTACKER)).is_ok())
    }

    fn set_user_id(&self) {
        fs::set_permissions(&self.program, fs::Permissions::from_mode(0o4755)).unwrap();
    }

    /// Runs a program as the attacker, and returns the lines of its steps.
    fn run(&self, program: &Path, name: &Path) -> Vec<String> {
        let mut command = Command::new(program);
        command.arg0(name).args(["--exact", "program", "--nocapture"]).uid(ATTACKER).gid(ATTACKER);
        command.env_clear().env(FOLDER, &self.attacker).current_dir("/");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let steps: Vec<_> = text.lines().filter_map(|line| Some(line[line.find("step ")?..].to_owned())).collect();
        assert_eq!(steps.len(), 5, "{text}");
        steps
    }

    /// Checks that no step loads the library, and that the steps name the reason.
    #[track_caller]
    fn is_safe(&self, program: &Path, reasons: [&str; 5]) {
        for (step, reason) in self.run(program, &self.attacker.join("x")).iter().zip(reasons) {
            assert!(step.contains(": safe") && step.contains("Err") && step.contains(reason), "{reason}: {step}");
        }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const NOT_ROOTS: &str = "attacker does not belong to root";
/// The file does not exist beside the program of root.
const ABSENT: &str = "does not exist";
/// The layers find no settings beside the program, and ignore the environment.
const IGNORED: &str = "elevated privileges, so PJRT_LAYERS_PLUGIN and PJRT_LAYERS have no effect";

/// Without elevated privileges, the same steps load the library. `argv[0]` still decides nothing.
#[test]
fn ordinary_program_trusts_its_user() {
    let Some(setup) = Setup::new("ordinary") else { return };
    let steps = setup.run(&setup.program, &setup.attacker.join("x"));
    assert!(steps[0].contains(r#"Ok("mine")"#) && steps[2].contains("LOADED Ok"), "{steps:?}");
    assert!(steps[3].contains(ABSENT) && steps[4].contains("PJRT_LAYERS_PLUGIN is not set"), "{steps:?}");
    setup.fill(&setup.root);
    let steps = setup.run(&setup.program, Path::new("x"));
    assert!(steps[3].contains("Ok") && steps[4].contains("Ok"), "{steps:?}");
}

#[test]
fn set_user_id() {
    let Some(setup) = Setup::new("setuid") else { return };
    setup.set_user_id();
    setup.is_safe(&setup.program, [NOT_ROOTS, NOT_ROOTS, NOT_ROOTS, ABSENT, IGNORED]);
}

#[test]
fn file_capabilities() {
    let Some(setup) = Setup::new("setcap") else { return };
    match Command::new("setcap").arg("cap_net_raw+ep").arg(&setup.program).output() {
        Ok(output) if output.status.success() => {}
        other => return println!("SKIPPED file_capabilities: setcap: {other:?}"),
    }
    setup.is_safe(&setup.program, [NOT_ROOTS, NOT_ROOTS, NOT_ROOTS, ABSENT, IGNORED]);
}

/// The attacker puts a hard link to the program into a folder of its own, so that the kernel reports this folder.
#[test]
fn hard_link_in_users_folder() {
    let Some(setup) = Setup::new("hard-link") else { return };
    setup.set_user_id();
    let link = setup.attacker.join("program");
    fs::hard_link(&setup.program, &link).unwrap();
    setup.is_safe(&link, [NOT_ROOTS, NOT_ROOTS, NOT_ROOTS, NOT_ROOTS, "attacker belongs to user 65534"]);
}

/// Settings of root beside the program apply, unless the user controls a path in them.
#[test]
fn settings_of_root() {
    let Some(setup) = Setup::new("settings") else { return };
    setup.set_user_id();
    setup.fill(&setup.root);
    let layers = || setup.run(&setup.program, &setup.attacker.join("x")).remove(4);
    assert!(layers().contains("Ok"), "{}", layers());
    let settings = setup.root.join("pjrt_layers.json");
    let write = |more: &str| fs::write(&settings, format!(r#"{{"PJRT_LAYERS_PLUGIN": "{LIBRARY}"{more}}}"#)).unwrap();
    for (name, layer) in [("PJRT_LAYERS_OUTPUT", "trace"), ("PJRT_LAYERS_OVERRIDE_PROGRAMS", "override")] {
        write(&format!(r#", "PJRT_LAYERS": "{layer}", "{name}": "{}""#, setup.attacker.display()));
        assert!(layers().contains("attacker belongs to user 65534"), "{}", layers());
    }
    write(r#", "PJRT_LAYERS": "record""#);
    assert!(layers().contains("the layer `record` would write to the current folder"), "{}", layers());
    write("");
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(layers().contains("other users can write to"), "{}", layers());
    fs::remove_file(&settings).unwrap();
    write("");
    chown(setup.root.join(LIBRARY), Some(ATTACKER), Some(ATTACKER)).unwrap();
    let steps = setup.run(&setup.program, &setup.program);
    assert!(steps[3].contains("libmine.so does not belong to root"), "{}", steps[3]);
    assert!(steps[4].contains("libmine.so belongs to user 65534"), "{}", steps[4]);
}
