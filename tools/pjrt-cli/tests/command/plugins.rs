//! Tests the commands that find, check and set up plugins. The commands find only the manifests of the tests.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use device_plugin::process::{EnvRule, SetMode};
use device_plugin::{Capabilities, Manifest, OptionSchema, OptionSpec, OptionType, Ownership};
use serde_json::Value;

/// Runs the command with only the plugins whose manifests are in a folder.
struct Machine {
    folder: PathBuf,
    variables: Vec<(String, String)>,
}

impl Machine {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self { folder, variables: Vec::new() }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn install(&self, name: &str, library: &Path, change: impl FnOnce(&mut Manifest)) {
        let mut manifest = Manifest::new(name);
        manifest.library.push(device_plugin::manifest::LibraryFile::new(library.to_owned()));
        change(&mut manifest);
        fs::write(self.folder.join(format!("{name}.json")), manifest.to_json()).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command
            .args(args)
            .env("PJRT_REGISTRY_MANIFESTS", &self.folder)
            .env("PJRT_REGISTRY_LOCK_DIR", self.folder.join("locks"));
        for variable in ["PJRT_DEVICE", "JAX_PLATFORMS", "ODD_PLUGIN"] {
            command.env_remove(variable);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).output().unwrap()
    }

    fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.run(args).stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {output:?}"))
    }

    /// Returns the verdict and the message of one check of `pjrt doctor`, and the exit code.
    fn check(&self, args: &[&str], check: &str) -> (String, String, Option<i32>) {
        let output = self.run(&[&["doctor", "--json", "-p", "odd"], args].concat());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["plugins"][0]["checks"].as_array().unwrap();
        let found = checks.iter().find(|found| found["check"] == check);
        let found = found.unwrap_or_else(|| panic!("no check {check}: {report:#}"));
        let text = |name: &str| found[name].as_str().unwrap().to_owned();
        (text("verdict"), text("found"), output.status.code())
    }
}

fn odd_plugin() -> PathBuf {
    device_plugin_testing::library("odd_plugin")
}

fn odd(test: &str, mode: &str) -> Machine {
    let machine = Machine::new(test).with("ODD_PLUGIN", mode);
    machine.install("odd", &odd_plugin(), |_| {});
    machine
}

/// A folder whose name is not UTF-8 must not cause any plugin to fail.
#[cfg(unix)]
#[test]
fn non_utf8_path() {
    use std::os::unix::ffi::OsStrExt;

    let mut machine = Machine::new("bytes");
    machine.folder.push(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir_all(&machine.folder).unwrap();
    fs::copy(odd_plugin(), machine.folder.join("libodd.so")).unwrap();
    machine.install("odd", Path::new("./libodd.so"), |_| {});
    let listed = machine.json(&["list", "--json"]);
    assert!(listed["plugins"][0]["library"].as_str().unwrap().contains('\u{fffd}'), "{listed:#}");
    // The child that loads the library receives the exact bytes of the path.
    let inspected = machine.json(&["inspect", "-p", "odd", "--json"]);
    assert!(inspected["error"].is_null() && inspected["api_version"].is_string(), "{inspected:#}");
}

#[test]
fn plugins_are_listed_with_what_cannot_be_used() {
    let machine = Machine::new("list");
    machine.install("odd", &odd_plugin(), |manifest| manifest.aliases.push("npu".to_owned()));
    machine.install("absent", &odd_plugin(), |manifest| manifest.name = "absent".to_owned());
    machine.install("gone", Path::new("/nonexistent/libgone.so"), |_| {});
    fs::write(machine.folder.join("broken.json"), "{").unwrap();
    let text = machine.text(&["list"]);
    assert!(text.starts_with("NAME "), "{text}");
    let line = text.lines().find(|line| line.starts_with("odd ") || line.starts_with("absent ")).unwrap();
    assert!(line.contains(" 400 ") && line.contains(" ok ") && line.contains("libodd_plugin"), "{text}");
    assert!(text.contains("2 more were found and cannot be used; `pjrt list --all` shows the reasons"), "{text}");
    let all = machine.text(&["list", "--all"]);
    assert!(all.contains("/nonexistent/libgone.so does not exist") && all.contains("refused: missing"), "{all}");
    assert!(all.contains("broken.json") && all.contains("searched"), "{all}");
    let json = machine.json(&["list", "--all", "--json"]);
    assert_eq!(json["refused"], 2);
    assert!(json["hints"].is_array() && json["notes"].is_array(), "{json:#}");
    let searched = json["searched"].as_array().unwrap();
    assert!(searched.iter().any(|place| place["exists"] == true && place["source"].is_string()), "{json:#}");
    let plugins = json["plugins"].as_array().unwrap();
    let gone = plugins.iter().find(|plugin| plugin["name"] == "gone").unwrap();
    assert_eq!((&gone["usable"], &gone["refusals"][0]["kind"]), (&Value::Bool(false), &Value::from("missing")));
    // The embedded CPU device is almost last, because the user did not request it. `remote` needs a server.
    let usable: Vec<&Value> = plugins.iter().filter(|plugin| plugin["usable"] == true).collect();
    let [.., cpu, remote] = &usable[..] else { panic!("{json:#}") };
    assert_eq!((&cpu["name"], &remote["name"]), (&"pjrt_cpu".into(), &"remote".into()));
}

#[test]
fn healthy_plugin() {
    let (verdict, found, code) = odd("healthy", "").check(&[], "client");
    assert_eq!((verdict.as_str(), code), ("ok", Some(0)), "{found}");
    assert!(found.contains("platform odd, 1 device, odd"), "{found}");
    let (verdict, found, code) = odd("noise", "noise").check(&[], "client");
    assert_eq!((verdict.as_str(), code), ("ok", Some(0)), "{found}");
}

#[test]
fn real_plugins_are_healthy_beside_each_other() {
    let Ok(paths) = std::env::var("PJRT_TEST_PLUGINS") else {
        println!("SKIPPED real_plugins_are_healthy_beside_each_other: PJRT_TEST_PLUGINS is not set");
        return;
    };
    let machine = Machine::new("real");
    let paths: Vec<&str> = paths.split(':').collect();
    for (index, path) in paths.iter().enumerate() {
        machine.install(&format!("real_{index}"), Path::new(path), |_| {});
    }
    let report = machine.json(&["doctor", "--json", "--timeout", "60s"]);
    assert_eq!(report["faulty"], 0, "{report:#}");
    // The command contains two plugins: the embedded CPU device and `remote`.
    assert_eq!(report["plugins"].as_array().unwrap().len(), paths.len() + 2);
}

#[cfg(unix)]
#[test]
fn crash_reports_signal() {
    let machine = odd("abort", "abort");
    let (verdict, found, code) = machine.check(&[], "client");
    assert_eq!((verdict.as_str(), code), ("fault", Some(1)));
    assert!(found.contains("SIGABRT") && found.contains("odd: the device does not answer"), "{found}");
    // A crash does not prevent the checks of other plugins.
    let text = machine.text(&["doctor"]);
    assert!(text.contains("3 plugins, 2 without fault, 1 with\n  odd "), "{text}");
    assert!(text.contains("platform pjrt_cpu"), "{text}");
}

#[test]
fn hang_reports_time_limit() {
    for (mode, check) in [("hang", "client"), ("hang_in_initialize", "load")] {
        let start = Instant::now();
        let (verdict, found, code) = odd(mode, mode).check(&["--timeout", "700ms"], check);
        assert_eq!((verdict.as_str(), code), ("fault", Some(1)));
        assert!(found.contains("no answer within 700ms"), "{found}");
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn other_ends_are_lines_too() {
    for (mode, check, says) in [
        ("exit", "client", "the process ended with exit code 0"),
        ("panic", "client", "of the test"),
        ("fail_in_initialize", "load", "no driver is installed"),
    ] {
        let (verdict, found, code) = odd(mode, mode).check(&[], check);
        assert_eq!((verdict.as_str(), code), ("fault", Some(1)), "{mode}");
        assert!(found.contains(says), "{mode}: {found}");
    }
}

#[cfg(unix)]
#[test]
fn uncaught_exception() {
    let machine = Machine::new("throws");
    let (source, library) = (machine.folder.join("throws.cc"), machine.folder.join("libthrows.so"));
    let code =
        "#include <stdexcept>\nextern \"C\" const void* GetPjrtApi() { throw std::runtime_error(\"of C++\"); }\n";
    fs::write(&source, code).unwrap();
    let built = Command::new("c++").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("SKIPPED uncaught_exception: no C++ compiler `c++`");
        return;
    }
    machine.install("throws", &library, |_| {});
    let output = machine.run(&["inspect", "-p", "throws"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("name ") && text.contains("FAULT during load: the process ended with SIGABRT"), "{text}");
    let report = machine.json(&["inspect", "-p", "throws", "--json"]);
    assert!(report["error"].as_str().unwrap().contains("SIGABRT"), "{report:#}");
}

#[test]
fn inspect_shows_manifest() {
    let machine = Machine::new("inspect");
    machine.install("odd", &odd_plugin(), |manifest| {
        manifest.vendor = "Example".to_owned();
        let option = OptionSpec::new("size", OptionType::Int64, "how large").with_default(3i64);
        manifest.create_options = OptionSchema::only([option]);
        manifest.capabilities = Capabilities::from_json(r#"{"dense_gather_factor": 8192}"#).unwrap();
        manifest.ownership = Ownership::Exclusive;
    });
    let text = machine.text(&["inspect", "-p", "odd"]);
    for part in
        ["Example", "exclusive", "dense_gather_factor  8192", "size  int64  default 3  how large", "API version 0."]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = machine.json(&["inspect", "-p", "odd", "--json"]);
    assert_eq!(json["manifest"]["vendor"], "Example");
    assert!(json["provenance"][0].as_str().unwrap().contains("odd.json"), "{json:#}");
}

#[test]
fn env_runs_command() {
    let machine = Machine::new("env").with("ODD_SET", "mine");
    machine.install("odd", &odd_plugin(), |manifest| {
        let device = EnvRule {
            set: SetMode::Override,
            reason: "its device".to_owned(),
            ..EnvRule::new("ODD_DEVICE", "{local_rank}")
        };
        manifest.process.environment = vec![device, EnvRule::new("ODD_SET", "plan")];
    });
    let place =
        ["env", "-p", "odd", "--rank", "1", "--world-size", "2", "--local-rank", "1", "--local-world-size", "2"];
    let text = machine.text(&place);
    assert!(
        text.contains("ODD_DEVICE") && text.contains("its device") && text.contains("world size        2"),
        "{text}"
    );
    let json = machine.json(&[&place[..], &["--json"]].concat());
    assert_eq!(json["plan"]["steps"][0]["value"], "1");
    let torchrun = Machine { folder: machine.folder.clone(), variables: machine.variables.clone() };
    let torchrun = [("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "3"), ("LOCAL_WORLD_SIZE", "4")]
        .into_iter()
        .fold(torchrun, |machine, (name, value)| machine.with(name, value));
    assert_eq!(torchrun.json(&["env", "-p", "odd", "--from-env", "--json"])["plan"]["steps"][0]["value"], "3");
    #[cfg(unix)]
    {
        let shell = machine.run(&[&place[..], &["--", "sh", "-c", "echo $ODD_DEVICE-$ODD_SET; exit 7"]].concat());
        assert_eq!(shell.status.code(), Some(7));
        assert_eq!(String::from_utf8(shell.stdout).unwrap(), "1-mine\n");
    }
    let missing = machine.run(&["env", "-p", "odd", "--", "no-such-command"]);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("cannot run no-such-command"));
    // The plugin requires the variable `ODD_DEVICE`. If it is missing, the error reports it to the framework.
    let refused = machine.run(&["devices", "-p", "odd"]);
    let reason = String::from_utf8(refused.stderr).unwrap();
    assert!(reason.contains("ODD_DEVICE=0, its device") && reason.contains("pjrt env --plugin odd --"), "{reason}");
    let pjrt = env!("CARGO_BIN_EXE_pjrt");
    let listed = machine.text(&["env", "-p", "odd", "--", pjrt, "devices", "-p", "odd"]);
    assert!(listed.contains("platform odd"), "{listed}");
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let machine = Machine::new("errors");
    for args in [
        &["devices", "-p", "gpu", "--json"][..],
        &["inspect", "-p", "gpu", "--json"],
        &["doctor", "-p", "gpu", "--json"],
        &["env", "-p", "gpu", "--json"],
    ] {
        let output = machine.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let error: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(error["error"].as_str().unwrap().contains("the plugin \"gpu\""), "{args:?}: {error}");
    }
    assert!(machine.run(&["doctor", "--timeout", "soon"]).status.code() == Some(2));
}

#[test]
fn one_long_name_hides_no_other_plugin() {
    let machine = Machine::new("long");
    machine.install("odd", &odd_plugin(), |_| {});
    let long = "a".repeat(100_000);
    let manifest =
        format!("{{\"format_version\": \"1.0\", \"name\": \"{long}\", \"library\": {{\"path\": \"x.so\"}}}}");
    fs::write(machine.folder.join("long.json"), manifest).unwrap();
    for args in [&["list"][..], &["list", "--all"]] {
        let output = machine.run(args);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().any(|line| line.starts_with("odd ")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 10_000));
    }
    let all = machine.text(&["list", "--all"]);
    assert!(all.contains("has 100000 bytes; write a name of at most 64"), "{all}");
    // Use the same long names in variables, which do not limit the length of names as manifests do.
    for variable in ["PJRT_PLUGIN_PATH", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "PJRT_NAMES_AND_LIBRARY_PATHS"] {
        let value = "b".repeat(70_000) + ":/nowhere/x.so";
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        let output = command.args(["list", "--all"]).env(variable, value).output().unwrap();
        assert!(output.status.success(), "{variable}: {:?}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn control_characters_are_escaped() {
    let machine = Machine::new("escapes");
    let hostile = "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}1m\nFORGED";
    machine.install("odd", &odd_plugin(), |manifest| {
        manifest.description = hostile.to_owned();
        manifest.vendor = hostile.to_owned();
    });
    machine.install("gone", Path::new(&format!("/tmp/{hostile}.so")), |_| {});
    machine.install("zero", Path::new("/tmp/a\0b.so"), |_| {});
    for args in [
        &["list", "--all"][..],
        &["list", "--all", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["inspect", "-p", "odd"],
        &["inspect", "-p", "gone"],
        &["inspect", "-p", "zero"],
        &["env", "-p", "gone"],
    ] {
        let output = machine.run(args);
        let [report, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        for text in [&report, &errors] {
            let raw = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            assert_eq!(raw, None, "{args:?}: {text:?}");
        }
        assert!(!report.lines().any(|line| line.starts_with("FORGED")), "{args:?}: {report:?}");
    }
}

#[test]
fn rejects_library_of_another_system() {
    let machine = Machine::new("foreign");
    let library = machine.folder.join("libforeign.so");
    let mut bytes = fs::read(odd_plugin()).unwrap();
    // Set the machine field in the ELF header to aarch64, or to x86_64 if this machine is aarch64.
    let other: u16 = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    if bytes[..4] != *b"\x7fELF" {
        return println!("SKIPPED rejects_library_of_another_system: not an ELF system");
    }
    bytes[18..20].copy_from_slice(&other.to_le_bytes());
    fs::write(&library, bytes).unwrap();
    let report = machine.json(&["doctor", "--json", "-p", library.to_str().unwrap()]);
    let checks = report["plugins"][0]["checks"].as_array().unwrap();
    let verdict = |check: &str| checks.iter().find(|found| found["check"] == check).map(|found| &found["verdict"]);
    assert_eq!(verdict("architecture"), Some(&Value::from("fault")), "{report:#}");
    assert_eq!((verdict("library"), verdict("load")), (Some(&Value::from("note")), None), "{report:#}");
    let refused = machine.run(&["inspect", "-p", library.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("aarch64") && said.contains("x86_64"), "{said}");
    machine.install("foreign", &library, |_| ());
    let listed = machine.json(&["list", "--json"]);
    let names = |listed: &Value| -> Vec<String> {
        let plugins = listed["plugins"].as_array().unwrap();
        plugins.iter().map(|plugin| plugin["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(!names(&listed).contains(&"foreign".to_owned()), "{listed:#}");
    assert!(listed["refused"].as_u64().unwrap() > 0, "{listed:#}");
    let all = machine.json(&["list", "--all", "--json"]);
    let foreign = names(&all).iter().position(|name| name == "foreign").unwrap();
    assert_eq!(all["plugins"][foreign]["usable"], false, "{all:#}");
}

#[test]
fn package_without_library() {
    let machine = Machine::new("empty");
    fs::write(machine.folder.join("broken.json"), "{").unwrap();
    let text = machine.text(&["doctor"]);
    // The embedded CPU device and `remote`.
    assert_eq!(text.matches("linked into this program").count(), 2, "{text}");
}

/// Creates a pipe that the processes of a plugin hold open. The receiver gets a message when these processes have
/// started, and another one when all of them have ended.
#[cfg(target_os = "linux")]
fn watched(machine: &Machine) -> (PathBuf, std::sync::mpsc::Receiver<&'static str>) {
    use std::io::{BufRead, BufReader, Read};
    let path = machine.folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (tell, told) = std::sync::mpsc::channel();
    let pipe = path.clone();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(fs::File::open(pipe).unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        tell.send("began").unwrap();
        reader.read_to_string(&mut line).unwrap();
        tell.send("ended").unwrap();
    });
    (path, told)
}

/// A time limit that is much longer than any step of these tests.
#[cfg(target_os = "linux")]
const PATIENCE: Duration = Duration::from_secs(120);

#[cfg(target_os = "linux")]
#[test]
fn child_processes_end_with_doctor() {
    let machine = Machine::new("children");
    let (pipe, told) = watched(&machine);
    let output = Command::new(env!("CARGO_BIN_EXE_pjrt"))
        .args(["doctor", "--timeout", "60s", "-p"])
        .arg(odd_plugin())
        .env("ODD_PLUGIN", "children")
        .env("ODD_PIPE", pipe)
        .output()
        .unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok("began"), "{output:?}");
    assert_eq!(told.recv_timeout(PATIENCE), Ok("ended"));
    assert!(output.status.success(), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn child_processes_end_with_killed_doctor() {
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("KILL", 9)] {
        if crate::conform::ignores(number) {
            // Background jobs of a shell and commands under `nohup` ignore this signal. The command would inherit the
            // setting.
            println!("SKIPPED the end of a doctor by {signal}: this process ignores the signal");
            continue;
        }
        let machine = Machine::new(&format!("ended-{signal}"));
        let (pipe, told) = watched(&machine);
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_pjrt"))
            .args(["doctor", "--timeout", "600s", "-p"])
            .arg(odd_plugin())
            .env("ODD_PLUGIN", "children_hang")
            .env("ODD_PIPE", pipe)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok("began"), "{signal}");
        assert!(told.try_recv().is_err(), "{signal}: the processes ended by themselves");
        assert!(Command::new("kill").args(["-s", signal, &doctor.id().to_string()]).status().unwrap().success());
        assert!(!doctor.wait().unwrap().success());
        assert_eq!(told.recv_timeout(PATIENCE), Ok("ended"), "{signal}");
    }
}
