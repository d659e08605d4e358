//! Runs other programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// The folders with packages, other than xtask.
pub(crate) const PACKAGES: [&str; 5] = ["crates", "cpu", "tools", "testing", "examples"];

/// Returns the repository's root folder.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Returns the packages of the workspace, as `cargo metadata` describes them.
pub(crate) fn metadata() -> Result<serde_json::Value, Error> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    Ok(serde_json::from_str(&output(&mut cargo)?)?)
}

/// Removes a folder if it exists.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    if folder.exists() { Ok(fs::remove_dir_all(folder)?) } else { Ok(()) }
}

/// Creates an empty folder in place of an earlier one.
pub(crate) fn empty_folder(folder: PathBuf) -> Result<PathBuf, Error> {
    remove(&folder)?;
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Returns Cargo's home folder.
pub(crate) fn cargo_home() -> Result<PathBuf, Error> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    Ok(home.ok_or("set CARGO_HOME: this user has no home folder")?)
}

/// Returns a command that runs cargo in the repository.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Returns Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command and shows its output. An exit status other than 0 is an error that names the command.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|e| format!("cannot start {}: {e}", show(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", show(command)).into()) }
}

/// Runs a command and returns its stdout. If the command fails, the error contains its output.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot start {}: {e}", show(command)))?;
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&out.stderr);
    Err(format!("{} failed: {}\n{stdout}{stderr}", show(command), out.status).into())
}

/// Runs a command, and shows its stdout, such as the progress of a download, on the stderr of this process. If the
/// command fails, the error contains its stderr.
pub(crate) fn shown(command: &mut Command) -> Result<(), Error> {
    stderr(command.stdout(std::io::stderr())).map(drop)
}

/// Runs a command and returns its stderr. If the command fails, the error contains its stderr.
pub(crate) fn stderr(command: &mut Command) -> Result<String, Error> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot start {}: {e}", show(command)))?;
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() {
        Ok(stderr)
    } else {
        Err(format!("{} failed: {}\n{stderr}", show(command), out.status).into())
    }
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs a command, shows its output, and passes every line of the output to `seen`.
pub(crate) fn run_watched(command: &mut Command, mut seen: impl FnMut(&str)) -> Result<(), Error> {
    run_filtered(command, |line| {
        seen(line);
        true
    })
}

/// Runs a command, and shows the lines of its output for which `shows` returns true.
pub(crate) fn run_filtered(command: &mut Command, mut shows: impl FnMut(&str) -> bool) -> Result<(), Error> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", show(command)))?;
    let stdout = child.stdout.take().ok_or("no pipe to the command")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if shows(&line) {
            println!("{line}");
        }
    }
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", show(command)).into()) }
}

/// Runs a command like [`run_filtered`], but shows the lines of its output and of its stderr together, in sections that
/// end with a line for which `ends` returns true. The outputs of commands that run at the same time are then not mixed.
/// Lines that name the running tests are shown at once, so that a test that hangs is known.
pub(crate) fn run_in_sections(
    command: &mut Command,
    mut shows: impl FnMut(&str) -> bool,
    ends: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let (output, input) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
    let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", show(command)))?;
    // Close this process's copies of the pipe's end. Otherwise, the output would not end with the command.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut section = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let is_urgent = ["     Running ", "   Doc-tests "].iter().any(|start| line.starts_with(start))
            || line.contains(" has been running for over ");
        if is_urgent {
            println!("{line}");
        } else if shows(&line) {
            section += &line;
            section.push('\n');
        }
        if ends(&line) {
            print!("{}", std::mem::take(&mut section));
        }
    }
    print!("{section}");
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", show(command)).into()) }
}

/// Summarizes an error in one line.
pub(crate) fn reason(error: &Error) -> String {
    let text = error.to_string();
    // pip prints its error in a separate line.
    let said = text.lines().rfind(|line| line.starts_with("ERROR"));
    said.or_else(|| text.lines().next()).unwrap_or_default().to_owned()
}

/// Returns the number directly before the first occurrence of `word`, or 0 if there is none.
pub(crate) fn number_before(text: &str, word: &str) -> u64 {
    let Some(end) = text.find(word) else { return 0 };
    let digits: String = text[..end].chars().rev().take_while(char::is_ascii_digit).collect();
    digits.chars().rev().collect::<String>().parse().unwrap_or(0)
}

/// Returns the processor time in seconds that this process and its ended children have used. Returns 0 on systems other
/// than Linux.
pub(crate) fn processor_seconds() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may contain spaces. The times of the process and of its children,
    // in user and in system mode, are the 12th to the 15th number after it, in units of 10 ms.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() / 100
}
