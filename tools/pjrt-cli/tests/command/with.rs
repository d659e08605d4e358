//! Tests `pjrt with`. The `pjrt` command itself is the framework, and the layers are in front of a plugin.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use device_plugin_testing::library;
use serde_json::Value;

const PJRT: &str = env!("CARGO_BIN_EXE_pjrt");

/// A shell command that lists the devices of the plugin in `PYPJRT_PLUGIN`, a variable that `pjrt with` sets.
const DEVICES: &str = r#"exec "$0" devices --json --plugin "$PYPJRT_PLUGIN""#;

/// A run of `pjrt with`, and the folder for its files.
struct Run {
    folder: PathBuf,
    variables: Vec<(&'static str, &'static str)>,
}

impl Run {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("with-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self { folder, variables: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    fn command(&self, layers: &str) -> Command {
        let mut command = Command::new(PJRT);
        command.arg("with").arg("--plugin").arg(library("odd_plugin")).args(["--layers", layers]);
        command.env("PJRT_LAYERS_LIBRARY", library("layers_plugin"));
        let variables = ["PJRT_LAYERS_FAULT", "PJRT_LAYERS_FAULT_SEED", "PJRT_LAYERS_TRACE_CALLS", "ODD_PLUGIN"];
        for name in variables {
            command.env_remove(name);
        }
        command.env("PJRT_REGISTRY_LOCK_DIR", self.folder.join("locks")).envs(self.variables.iter().copied());
        command
    }

    /// Runs a shell command under `pjrt with`. The layers write their files into the folder [`Self::calls`].
    fn shell(&self, layers: &str, script: &str) -> Output {
        let mut command = self.command(layers);
        command.arg("--output").arg(self.calls()).args(["--", "sh", "-c", script, PJRT]);
        command.output().unwrap()
    }

    fn calls(&self) -> PathBuf {
        self.folder.join("calls")
    }

    /// Returns the content of the only file whose name has this start and end.
    fn file(&self, start: &str, end: &str) -> String {
        let names = fs::read_dir(self.calls()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let found: Vec<String> = names.filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
        let [name] = &found[..] else { panic!("{start}...{end}: {found:?}") };
        fs::read_to_string(self.calls().join(name)).unwrap()
    }

    /// Returns the number of calls and of failed calls of each function, from the tally.
    fn tally(&self) -> BTreeMap<String, (u64, u64)> {
        let tally: Value = serde_json::from_str(&self.file("tally-", ".json")).unwrap();
        let functions = tally["functions"].as_array().unwrap().iter();
        let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
        functions
            .map(|row| (row["function"].as_str().unwrap().to_owned(), (number(row, "calls"), number(row, "failed"))))
            .collect()
    }

    /// Returns the lines of the timeline.
    fn lines(&self) -> Vec<Value> {
        self.file("trace-", ".jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

mod trace {
    use super::*;

    #[test]
    fn tally_and_lines_have_every_call() {
        let run = Run::new("tally");
        let output = run.shell("trace", DEVICES);
        assert!(output.status.success(), "{output:?}");
        let devices: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(devices["devices"][0]["kind"], "odd");

        let tally = run.tally();
        for name in ["PJRT_Plugin_Initialize", "PJRT_Client_Create", "PJRT_Client_Destroy"] {
            assert_eq!(tally.get(name), Some(&(1, 0)), "{name}: {tally:?}");
        }
        assert!(tally["PJRT_Client_PlatformName"].0 >= 1, "{tally:?}");
        let text = run.file("tally-", ".txt");
        let row = text.lines().find(|line| line.starts_with("PJRT_Client_Create ")).unwrap();
        assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), ["PJRT_Client_Create", "1", "0"]);

        let lines = run.lines();
        let mut counted = BTreeMap::new();
        for line in lines.iter().filter(|line| line["function"].is_string()) {
            let (calls, failed) = counted.entry(line["function"].as_str().unwrap().to_owned()).or_insert((0, 0));
            *calls += 1;
            *failed += u64::from(line["failed"].as_bool().unwrap());
            assert!(line["start_ns"].is_u64() && line["duration_ns"].is_u64(), "{line}");
            assert!(line["process"].is_u64() && line["thread"].is_u64() && line["args"].is_object(), "{line}");
        }
        assert_eq!(counted, tally);
        let starts: Vec<u64> = lines.iter().map(|line| line["start_ns"].as_u64().unwrap()).collect();
        assert!(starts.is_sorted(), "{starts:?}");
        // Check that later calls use the client that `PJRT_Client_Create` returned.
        let client = |name: &str| lines.iter().find(|line| line["function"] == name).unwrap()["args"]["client"].clone();
        assert!(client("PJRT_Client_Create").as_str().unwrap().starts_with("0x"));
        assert_eq!(client("PJRT_Client_Create"), client("PJRT_Client_PlatformName"));
        assert_eq!(client("PJRT_Client_Create"), client("PJRT_Client_Destroy"));

        let merged = Command::new(PJRT).arg("trace").arg(run.calls()).output().unwrap();
        let merged = String::from_utf8(merged.stdout).unwrap();
        assert!(merged.starts_with("PJRT calls of 1 process\n") && merged.contains("PJRT_Client_Create"), "{merged}");
    }

    #[test]
    fn failed_call_has_its_error() {
        let run = Run::new("failed").with("ODD_PLUGIN", "fail_in_initialize");
        let output = run.shell("trace", DEVICES);
        assert!(!output.status.success() && stderr(&output).contains("no driver is installed"), "{output:?}");
        assert_eq!(run.tally()["PJRT_Plugin_Initialize"], (1, 1));
        let lines = run.lines();
        let line = lines.iter().find(|line| line["function"] == "PJRT_Plugin_Initialize").unwrap();
        assert_eq!(line["failed"], true);
        assert_eq!(line["error"]["code"], "FAILED_PRECONDITION");
        assert!(line["error"]["message"].as_str().unwrap().contains("no driver is installed"), "{line}");
    }

    #[test]
    fn without_folder_the_tally_goes_to_standard_error() {
        let run = Run::new("stderr");
        let output = run.command("trace").args(["--", "sh", "-c", DEVICES, PJRT]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = stderr(&output);
        assert!(text.contains("PJRT calls of process ") && text.contains("PJRT_Client_Create "), "{text}");
        assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "{output:?}");
    }
}

mod own_layer {
    use super::*;

    #[test]
    fn stands_in_a_stack_with_others() {
        let run = Run::new("own").with("PJRT_LAYERS_FAULT", "PJRT_Client_Create oom");
        let mut command = run.command("errors,fault");
        command.arg("--library").arg(library("errors_layer")).args(["--", "sh", "-c", DEVICES, PJRT]);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        let line = "PJRT_Client_Create failed: Out of memory";
        assert!(stderr(&output).lines().any(|found| found.starts_with(line)), "{output:?}");
    }

    #[test]
    fn is_absent_if_it_is_not_named() {
        let run = Run::new("own-absent").with("PJRT_LAYERS_FAULT", "PJRT_Client_Create oom");
        let mut command = run.command("fault");
        command.arg("--library").arg(library("errors_layer")).args(["--", "sh", "-c", DEVICES, PJRT]);
        let output = command.output().unwrap();
        assert!(!stderr(&output).contains("PJRT_Client_Create failed: "), "{output:?}");
    }

    #[test]
    fn book_shows_its_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let code = fs::read_to_string(root.join("../../testing/device-plugin-testing/plugins/errors.rs")).unwrap();
        let book = fs::read_to_string(root.join("../../book/src/layers.md")).unwrap();
        let shown = &code[code.find("use pjrt_layers").unwrap()..];
        assert!(book.contains(shown), "the chapter shows another text than plugins/errors.rs");
    }
}

mod fault {
    use super::*;

    #[test]
    fn injected_error_reaches_the_framework_and_the_trace() {
        let rule = "PJRT_Client_Create call=1 error=UNAVAILABLE; transfer oom";
        let run = Run::new("fault").with("PJRT_LAYERS_FAULT", rule);
        let output = run.shell("trace,fault", DEVICES);
        let message = "Injected into PJRT_Client_Create by the layer `fault`, rule 1 \
                       `PJRT_Client_Create call=1 error=UNAVAILABLE`, at its call 1";
        assert!(!output.status.success() && stderr(&output).contains(message), "{output:?}");
        assert_eq!(run.tally()["PJRT_Client_Create"], (1, 1));
        let lines = run.lines();
        let line = lines.iter().find(|line| line["function"] == "PJRT_Client_Create").unwrap();
        assert_eq!(line["error"]["code"], "UNAVAILABLE");
        let summary = run.file("fault-", ".txt");
        let rows: Vec<&str> = summary.lines().skip(1).collect();
        let expected = [
            "  1 `PJRT_Client_Create call=1 error=UNAVAILABLE`: 1 calls, 1 failed, 0 delayed",
            "  2 `transfer oom`: 0 calls, 0 failed, 0 delayed",
        ];
        assert_eq!(rows, expected);
    }
}

mod settings {
    use super::*;

    #[test]
    fn faults_reach_the_framework() {
        let message = |run: &Run, layers: &str| {
            let output = run.shell(layers, DEVICES);
            assert!(!output.status.success(), "{output:?}");
            stderr(&output)
        };
        let text = message(&Run::new("layer"), "tracy");
        assert!(text.contains("PJRT_LAYERS names `tracy`, which is not a layer; the layers are trace, "), "{text}");
        let text = message(&Run::new("rule").with("PJRT_LAYERS_FAULT", "PJRT_Client_Creat oom"), "fault");
        assert!(text.contains("PJRT_LAYERS_FAULT: rule 1 `PJRT_Client_Creat oom`: unknown function"), "{text}");
        assert!(text.contains("the nearest one is PJRT_Client_Create;"), "{text}");
    }

    #[test]
    fn missing_library_names_the_remedy() {
        let mut command = Command::new(PJRT);
        command.args(["with", "--plugin", "cpu", "--layers", "trace", "--library", "/nonexistent.so", "--", "true"]);
        let output = command.output().unwrap();
        let text = stderr(&output);
        assert!(
            !output.status.success() && text.contains("/nonexistent.so is not a file: pass the path of "),
            "{text}"
        );
    }

    #[test]
    fn exit_code_is_the_commands() {
        let output = Run::new("code").shell("trace", "exit 7");
        assert_eq!(output.status.code(), Some(7), "{output:?}");
    }
}

/// Another user prepares links with the names of all files in the folder of `--output`.
#[test]
fn prepared_output_files_are_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let run = Run::new("links").with("PJRT_LAYERS_FAULT", "PJRT_Client_PlatformName delay=1ms");
    let victim = run.folder.join("victim");
    fs::write(&victim, "data").unwrap();
    // `exec` keeps the id of the process.
    let names = [
        "tally-$$.txt",
        "tally-$$.json",
        "trace-$$.pftrace",
        "trace-$$.jsonl",
        "validate-$$.txt",
        "fault-$$.txt",
        "record-$$.pjrt",
    ];
    let script = format!(
        r#"for name in {}; do ln -s {} "$PJRT_LAYERS_OUTPUT/$name" || exit 2; done; {DEVICES}"#,
        names.join(" "),
        victim.display()
    );
    let output = run.shell("trace,validate,fault,record", &script);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "data");
    assert_eq!(fs::metadata(run.calls()).unwrap().permissions().mode() & 0o777, 0o700);
    let entries = fs::read_dir(run.calls()).unwrap().map(|entry| entry.unwrap());
    let files: Vec<_> = entries.filter(|entry| entry.file_type().unwrap().is_file()).collect();
    let mut written: Vec<_> = files.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
    written.sort();
    let process = written[0].split('-').nth(1).unwrap().to_owned();
    let mut expected: Vec<_> = names.map(|name| name.replace("$$", &format!("{process}-2"))).to_vec();
    expected.sort();
    assert_eq!(written, expected);
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

mod sweep {
    use super::*;

    /// Runs a sweep, and returns its report and exit code.
    fn sweep(test: &str, args: &[&str], script: &str) -> (Value, Option<i32>) {
        let run = Run::new(test);
        let mut command = run.command("fault");
        command.args(["--sweep", "--json"]).args(args).args(["--", "sh", "-c", script, PJRT]);
        let output = command.output().unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (report, output.status.code())
    }

    fn outcomes(report: &Value) -> Vec<(u64, String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let runs = report["runs"].as_array().unwrap().iter();
        runs.map(|run| (run["call"].as_u64().unwrap(), text(&run["function"]), text(&run["outcome"]))).collect()
    }

    /// Each call fails once, and the command reports the error.
    #[test]
    fn every_call_fails_once() {
        let (report, code) = sweep("every", &["--sweep-function", "PJRT_Client_*"], DEVICES);
        let runs = report["runs"].as_array().unwrap();
        assert!(runs.len() >= 3, "{report:#}");
        let numbers: Vec<u64> = runs.iter().map(|run| run["call"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=runs.len() as u64).collect::<Vec<_>>());
        assert_eq!(runs[0]["function"], "PJRT_Client_Create");
        assert_eq!(runs[0]["outcome"], "failed");
        assert_eq!(runs[0]["end"], "exit code 1");
        assert_eq!(runs[0]["shows_error"], true);
        assert!(runs[0]["last_line"].as_str().unwrap().contains("PJRT_Client_* call=1 error=INTERNAL"), "{report:#}");
        assert!(runs.iter().all(|run| run["function"].as_str().unwrap().starts_with("PJRT_Client_")), "{report:#}");
        assert_eq!(report["complete"], true);
        assert_eq!(report["without_fault"], "exit code 0");
        assert_eq!(report["summary"]["crash"], 0);
        assert_eq!(code, Some(0));
    }

    #[test]
    fn start_and_step_select_calls() {
        let (all, _) = sweep("all", &["--sweep-function", "PJRT_Client_*"], DEVICES);
        let args =
            ["--sweep-function", "PJRT_Client_*", "--sweep-start", "2", "--sweep-step", "2", "--sweep-error", "oom"];
        let (some, _) = sweep("some", &args, DEVICES);
        let expected: Vec<_> = outcomes(&all).into_iter().skip(1).step_by(2).collect();
        let names = |runs: Vec<(u64, String, String)>| runs.into_iter().map(|run| (run.0, run.1)).collect::<Vec<_>>();
        assert_eq!(names(outcomes(&some)), names(expected));
        assert!(some["runs"][0]["last_line"].as_str().unwrap().contains("Out of memory: injected"), "{some:#}");
    }

    #[test]
    fn crash_and_hang_are_found() {
        // The command crashes if creating the client fails, and hangs if querying the platform name fails.
        let script = r#"
            out=$("$0" devices --json --plugin "$PYPJRT_PLUGIN" 2>&1) && exit 0
            case $out in
                *PJRT_Client_Create*) kill -SEGV $$ ;;
                *) sleep 600 & sleep 600 ;;
            esac"#;
        let args = ["--timeout", "3s", "--sweep-function", "PJRT_Client_Create"];
        let (report, code) = sweep("crash", &args, script);
        assert_eq!(outcomes(&report), [(1, "PJRT_Client_Create".to_owned(), "crash".to_owned())]);
        assert_eq!((report["runs"][0]["end"].as_str(), code), (Some("SIGSEGV"), Some(1)));
        let args = ["--timeout", "3s", "--sweep-function", "PJRT_Client_PlatformName"];
        let (report, code) = sweep("hang", &args, script);
        assert_eq!(outcomes(&report)[0], (1, "PJRT_Client_PlatformName".to_owned(), "hang".to_owned()), "{report:#}");
        assert_eq!(code, Some(1));
    }

    /// Another user knows the ids of processes, and prepares the folder for the files of the sweep in the temporary
    /// folder.
    #[test]
    fn prepared_folder_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let run = Run::new("prepared");
        let (shared, victim) = (run.folder.join("tmp"), run.folder.join("victim"));
        fs::create_dir_all(victim.join("0")).unwrap();
        fs::write(victim.join("0/precious"), "data").unwrap();
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        let seen = run.folder.join("seen");
        // The shell's process becomes the command, so that it knows the id of the command's process.
        let prepare = format!("ln -s {} {}/pjrt-sweep-$$ && exec \"$@\"", victim.display(), shared.display());
        let look = format!(r#"stat -c "%a %n" "${{PJRT_LAYERS_OUTPUT%/*}}" > {}"#, seen.display());
        let mut command = run.command("fault");
        command.args(["--sweep", "--json", "--", "sh", "-c", &look]).env("TMPDIR", &shared);
        let mut shell = Command::new("sh");
        shell.args(["-c", &prepare, "sh"]).arg(command.get_program()).args(command.get_args());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_to_string(victim.join("0/precious")).unwrap(), "data");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
        let (mode, folder) = fs::read_to_string(&seen)
            .unwrap()
            .trim()
            .split_once(' ')
            .map(|(mode, folder)| (mode.to_owned(), PathBuf::from(folder)))
            .unwrap();
        assert_eq!((mode.as_str(), folder.parent()), ("700", Some(&*shared)));
        let left: Vec<_> = fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.len() == 1 && left[0].is_symlink() && !folder.exists(), "{left:?}");
    }

    /// In a folder in which other users can replace names, they could replace the folder of the sweep.
    #[test]
    fn temporary_folder_of_others_is_rejected() {
        use std::os::unix::fs::PermissionsExt;
        let run = Run::new("others");
        let shared = run.folder.join("tmp");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = run.command("fault");
        let output = command.args(["--sweep", "--", "true"]).env("TMPDIR", &shared).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains("other users can write to"), "{text}");
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
    }

    /// The time limit of a run is far longer than this test, so only the signal can end the command.
    #[test]
    #[cfg(target_os = "linux")]
    fn interruption_ends_the_command() {
        let run = Run::new("interrupt");
        let pid = run.folder.join("pid");
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", pid.display());
        let mut command = run.command("fault");
        command.args(["--sweep", "--json", "--", "sh", "-c", &script]);
        let sweep = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        while !pid.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let child = fs::read_to_string(&pid).unwrap();
        let sent = Command::new("kill").arg("-INT").arg(sweep.id().to_string()).status().unwrap();
        assert!(sent.success());
        let output = sweep.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(!Path::new("/proc").join(child.trim()).join("exe").exists(), "the command still runs");
    }

    #[test]
    fn wrong_options_name_the_remedy() {
        let run = Run::new("options");
        let text = |layers: &str, args: &[&str]| {
            let output = run.command(layers).args(args).args(["--", "true"]).output().unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
            stderr(&output)
        };
        assert!(text("trace", &["--sweep"]).contains("--sweep needs the layer `fault`: add it to --layers"));
        assert!(text("fault", &["--sweep", "--sweep-function", "PJRT_Clien"]).contains("unknown function"));
        assert!(text("fault", &["--sweep", "--sweep-error", "NO"]).contains("unknown code `NO`"));
        assert!(text("fault", &["--sweep", "--sweep-step", "0"]).contains("--sweep-step"));
        assert!(text("fault", &["--sweep-step", "2"]).contains("--sweep"));
        let output = run.command("fault").args(["--sweep", "--", "false"]).output().unwrap();
        let (text, code) = (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code());
        assert_eq!((text.as_str(), code), ("0 calls failed: 0 unaffected, 0 failed, 0 crash, 0 hang\n", Some(0)));
    }
}

mod plugin {
    use super::*;

    /// Runs a command without `--plugin`. Only the given plugins are installed.
    fn shell(test: &str, names: &[&str]) -> Output {
        let run = Run::new(test);
        let mut command = Command::new(PJRT);
        command.args(["with", "--layers", "trace", "--library"]).arg(library("layers_plugin"));
        command
            .args(["--", "sh", "-c", r#"echo "$PJRT_LAYERS_PLUGIN""#])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        for name in names {
            let path = run.folder.join(format!("pjrt_plugin_{name}.so"));
            fs::copy(library("odd_plugin"), &path).unwrap();
            command.env(format!("PJRT_PLUGIN_PATH_{}", name.to_uppercase()), path);
        }
        command.env("HOME", &run.folder).output().unwrap()
    }

    #[test]
    fn only_installed_one_is_taken() {
        let output = shell("only", &["one"]);
        assert!(output.status.success(), "{output:?}");
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(path.ends_with("pjrt_plugin_one.so"), "{path}");
    }

    #[test]
    fn several_have_to_be_named() {
        let output = shell("several", &["one", "two"]);
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains("pass one of them to --plugin: `"), "{output:?}");
        assert!(text.contains("`one`") && text.contains("`two`"), "{text}");
    }

    #[test]
    fn none_names_the_remedy() {
        let text = stderr(&shell("none", &[]));
        assert!(text.contains("pass the path of a plugin's library to --plugin"), "{text}");
    }
}
