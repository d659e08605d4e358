//! Tests `pjrt conform` with plugins that work, crash, hang, exit or return wrong data.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use device_plugin_testing::library;
use serde_json::Value;

/// Creates a folder for the files of a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conform-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn command(mode: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command.arg("conform").args(args).env("ODD_PLUGIN", mode).env("NO_COLOR", "1");
    command.env("PJRT_REGISTRY_LOCK_DIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Arguments that select two cases about an array of bytes. They query its element type and its download size.
const READS: &[&str] =
    &["--filter", "data.query.element_type[dtype=u8]", "--filter", "data.download.size_query[dtype=u8]"];

/// Arguments that select a case that reads five bytes, and two cases that do not.
const FIVE: &[&str] = &[
    "--filter",
    "data.round_trip.scalar[dtype=u8]",
    "--filter",
    "data.round_trip.five_bytes",
    "--filter",
    "data.query.element_type[dtype=u8]",
];

fn odd(mode: &str, more: &[&str]) -> (Value, Output) {
    let path = library("odd_plugin");
    let mut args = vec![path.to_str().unwrap(), "--json", "--jobs", "1"];
    args.extend(more);
    let output = command(mode, &args).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{mode}: {error}: {output:?}"));
    (report, output)
}

/// Returns the result of a case.
fn result<'a>(report: &'a Value, id: &str) -> &'a Value {
    let results = report["results"].as_array().unwrap();
    results.iter().find(|result| result["id"] == id).unwrap_or_else(|| panic!("{id} is not in {report:#}"))
}

const CASE: &str = "data.round_trip.five_bytes";

#[test]
fn good_plugin_passes() {
    let (report, output) = odd("", FIVE);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(report["schema"], "pjrt-conformance-report/1");
    assert_eq!(report["complete"], true);
    assert_eq!(report["plugin"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(result(&report, CASE)["outcome"], "pass");
    assert_eq!(report["results"].as_array().unwrap().len(), 3);
    let (report, _) = odd("", READS);
    assert_eq!(report["results"].as_array().unwrap().len(), 2);
}

#[test]
fn run_continues_behind_the_culprit() {
    for (mode, outcome, reason) in [
        ("abort_in_read", "crash", "SIGABRT"),
        ("exit_in_read", "crash", "exit code 0"),
        ("hang_in_read", "timeout", "did not end within"),
        ("wrong_in_read", "fail", "differs at byte 2"),
    ] {
        let mut args = FIVE.to_vec();
        args.extend(["--timeout", "1s", "--repeats", "0"]);
        let (report, output) = odd(mode, &args);
        assert_eq!(output.status.code(), Some(1), "{mode}: {output:?}");
        let culprit = result(&report, CASE);
        assert_eq!(culprit["outcome"], outcome, "{mode}: {culprit}");
        assert!(culprit["reason"].as_str().unwrap().contains(reason), "{mode}: {culprit}");
        for id in ["data.round_trip.scalar[dtype=u8]", "data.query.element_type[dtype=u8]"] {
            assert_eq!(result(&report, id)["outcome"], "pass", "{mode}");
        }
        if mode == "abort_in_read" {
            assert_eq!(culprit["output"][0], "odd: the copy failed");
        }
    }
}

#[test]
fn unexpected_failure_is_repeated() {
    let folder = folder("flaky");
    let path = library("odd_plugin");
    let mut flaky = command("rarely_wrong_in_read", &[path.to_str().unwrap(), "--json", "--filter", CASE]);
    let output = flaky.env("ODD_FILE", folder.join("once")).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let culprit = result(&report, CASE);
    assert_eq!((&culprit["outcome"], &culprit["flaky"]), (&"fail".into(), &true.into()), "{culprit}");
    assert_eq!(culprit["attempts"][0]["outcome"], "pass");
    let (report, _) = odd("wrong_in_read", FIVE);
    let culprit = result(&report, CASE);
    assert_eq!((&culprit["flaky"], &culprit["attempts"][0]["outcome"]), (&false.into(), &"fail".into()), "{culprit}");
}

#[test]
fn plugin_without_client_skips_the_rest() {
    for (mode, reason) in [("abort", "SIGABRT"), ("exit", "exit code 0")] {
        let (report, output) = odd(mode, &["--filter", "data.query.*", "--filter", "abi.table.*", "--repeats", "0"]);
        assert_eq!(output.status.code(), Some(1), "{mode}: {output:?}");
        let outcomes: Vec<&str> =
            report["results"].as_array().unwrap().iter().map(|result| result["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == "crash").count(), 2, "{mode}: {outcomes:?}");
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == "pass").count(), 4, "{mode}: {outcomes:?}");
        let skipped =
            report["results"].as_array().unwrap().iter().find(|result| result["outcome"] == "skipped").unwrap();
        assert!(skipped["reason"].as_str().unwrap().contains(reason), "{mode}: {skipped}");
    }
    let (report, output) = odd("fail_in_initialize", &["--filter", "data.query.*"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let first = &report["results"][0];
    assert!(first["reason"].as_str().unwrap().contains("no driver is installed"), "{first}");
    assert!(report["faults"][0].as_str().unwrap().contains("no driver is installed"), "{report:#}");
}

#[test]
fn noise_on_the_standard_output_is_harmless() {
    let (report, output) = odd("noise", FIVE);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(result(&report, CASE)["outcome"], "pass");
}

/// Runs the odd plugin in a mode in which it starts processes and hangs. Calls `end` with the process of `pjrt` when
/// the plugin's processes have started. Returns after the last process has ended.
fn children_end(test: &str, end: impl FnOnce(&mut std::process::Child)) {
    let folder = folder(test);
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = library("odd_plugin");
    let args = [path.to_str().unwrap(), "--json", "--filter", CASE, "--timeout", "2s", "--repeats", "0"];
    let mut child = command("children_in_read", &args).env("ODD_PIPE", &pipe).stdout(Stdio::null()).spawn().unwrap();
    let mut reader = fs::File::open(&pipe).unwrap();
    let mut ready = [0; 6];
    reader.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    end(&mut child);
    // `read_to_end` returns when the last process that holds the pipe open has ended.
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    child.wait().unwrap();
}

#[test]
fn no_process_outlives_the_run() {
    children_end("orphans", |_| ());
}

#[test]
fn no_process_outlives_a_killed_run() {
    children_end("killed", |child| child.kill().unwrap());
}

/// Sends the signal with the given name and number to a run while the plugin hangs in a worker. Checks that no process
/// and no lock remains.
fn ended_by(signal: &str, number: i32) {
    children_end(signal, |child| {
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
        assert!(sent.success());
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(number), "{status}");
    });
    let (report, output) = odd("", FIVE);
    assert!(output.status.success(), "the plugin can be used again: {output:?}");
    assert_eq!(result(&report, CASE)["outcome"], "pass");
}

/// Returns whether this process ignores a signal, as the background commands of a shell script ignore SIGINT. Child
/// processes inherit this setting. Only Linux tells it.
pub(crate) fn ignores(signal: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    ignored & 1 << (signal - 1) != 0
}

#[test]
fn interrupted_run_leaves_nothing() {
    if ignores(2) {
        return println!("SKIPPED interrupted_run_leaves_nothing: this process was started with SIGINT ignored");
    }
    ended_by("INT", 2);
}

#[test]
fn terminated_run_leaves_nothing() {
    ended_by("TERM", 15);
}

#[test]
fn run_stops_at_the_first_failure() {
    let order = ["--filter", CASE, "--filter", "data.query.element_type[dtype=u8]", "--fail-fast", "--repeats", "0"];
    let (report, output) = odd("wrong_in_read", &order);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(report["results"].as_array().unwrap().len(), 1, "the second case did not run: {report:#}");
    assert_eq!((&result(&report, CASE)["outcome"], &report["complete"]), (&"fail".into(), &false.into()));
    // If the failure is expected, the run continues.
    let folder = folder("fail-fast");
    let file = folder.join("expected.toml");
    fs::write(&file, format!("[[expect]]\ncases = ['{CASE}']\noutcomes = ['fail']\nreason = 'known'\n")).unwrap();
    let mut args = order.to_vec();
    args.extend(["--expectations", file.to_str().unwrap()]);
    let (report, output) = odd("wrong_in_read", &args);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((report["results"].as_array().unwrap().len(), &report["complete"]), (2, &true.into()));
}

#[test]
fn reports_and_expectations() {
    let folder = folder("reports");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (json, xml, html, expected) = (file("r.json"), file("r.xml"), file("r.html"), file("e.toml"));
    let mut args = FIVE.to_vec();
    args.extend([
        "--report",
        &json,
        "--junit",
        &xml,
        "--html",
        &html,
        "--expectations",
        &expected,
        "--update-expectations",
    ]);
    let (_, output) = odd("wrong_in_read", &args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let xml = fs::read_to_string(xml).unwrap();
    assert!(xml.contains("tests=\"3\"") && xml.contains("failures=\"1\"") && xml.contains(CASE), "{xml}");
    let html = fs::read_to_string(html).unwrap();
    assert!(html.contains(CASE) && html.contains("differs at byte 2") && html.contains("</html>"));
    assert!(!html.contains("http"), "the page needs no other files");
    // The previous run recorded its outcomes as expected.
    let mut again = FIVE.to_vec();
    again.extend(["--expectations", &expected]);
    let (report, output) = odd("wrong_in_read", &again);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(result(&report, CASE)["expected"], true);
    // A plugin without the fault passes the cases, which contradicts the expectations.
    let (_, output) = odd("", &again);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // Compare two reports, and show both in a matrix.
    let good = file("good.json");
    let mut args = FIVE.to_vec();
    args.extend(["--report", &good]);
    odd("", &args);
    let text = |args: &[&str]| {
        let output = command("", args).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let (diff, code) = text(&["--diff", &good, &json]);
    assert!(diff.contains(&format!("pass -> fail  {CASE}")) && diff.contains("1 cases differ"), "{diff}");
    assert_eq!(code, Some(1));
    assert_eq!(text(&["--diff", &json, &good]).1, Some(0));
    let matrix_page = file("matrix.html");
    let (matrix, code) = text(&["--matrix", &good, &json, "--html", &matrix_page]);
    assert!(matrix.contains("pass        fail        data.round_trip.five_bytes"), "{matrix}");
    assert_eq!(code, Some(0));
    assert!(fs::read_to_string(matrix_page).unwrap().contains(CASE));
}

#[test]
fn interrupted_run_is_resumed() {
    let folder = folder("resume");
    let (first, second) = (folder.join("first.json"), folder.join("second.json"));
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    odd("wrong_in_read", &["--filter", CASE, "--repeats", "0", "--report", first]);
    let mut args = FIVE.to_vec();
    args.extend(["--resume", first, "--report", second]);
    let (report, _) = odd("", &args);
    assert_eq!(report["results"].as_array().unwrap().len(), 3);
    assert_eq!(result(&report, CASE)["outcome"], "fail", "the earlier outcome is kept");
    let output = command("", &["cpu", "--resume", first, "--filter", CASE]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("another library"), "{output:?}");
}

#[test]
fn lists_select_cases() {
    let text = |args: &[&str]| String::from_utf8(command("", args).output().unwrap().stdout).unwrap();
    let all = text(&["--list"]);
    assert!(all.lines().count() >= 300, "{} cases", all.lines().count());
    let minimal = text(&["--list", "--profile", "minimal"]);
    assert!(minimal.lines().count() < all.lines().count() && minimal.contains(CASE));
    assert_eq!(text(&["--list", "--filter", CASE]), format!("{CASE}\n"));
    let json: Value = serde_json::from_str(&text(&["--list", "--json", "--filter", CASE])).unwrap();
    assert!(json[0]["clause"].as_str().unwrap().contains("PJRT_Buffer_ToHostBuffer"));
    let output = command("", &["cpu", "--filter", "no such case"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("--list"), "{output:?}");
}

/// Returns the path of one of this repository's files of expectations.
fn expectations(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pjrt-conformance/expectations").join(name)
}

fn as_expected(plugin: &str, file: &str, more: &[&str]) {
    let expected = expectations(file);
    let mut args = vec![plugin, "--jobs", "2", "--expectations", expected.to_str().unwrap()];
    args.extend(more);
    let output = command("", &args).output().unwrap();
    assert!(output.status.success(), "{plugin}: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn embedded_device_has_its_expected_outcomes() {
    as_expected("cpu", "embedded-cpu.toml", &["--option", "device_count=4", "--filter", "-leaks.*"]);
}

#[test]
fn real_plugins_have_their_expected_outcomes() {
    let Ok(paths) = std::env::var("PJRT_TEST_PLUGINS") else {
        println!("SKIPPED real_plugins_have_their_expected_outcomes: PJRT_TEST_PLUGINS is not set");
        return;
    };
    for path in std::env::split_paths(&paths) {
        // The other areas take minutes on these plugins.
        let areas =
            ["--filter", "abi.*", "--filter", "events.*", "--filter", "program.*", "--filter", "errors.lookup.*"];
        as_expected(path.to_str().unwrap(), "xla-cpu.toml", &areas);
    }
}
