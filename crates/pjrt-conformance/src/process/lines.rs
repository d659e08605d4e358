//! The lines that a worker and its guard write for the program that started them.
//!
//! Each line is a mark followed by a JSON object. The mark distinguishes these lines from the plugin's own output.

use std::io::Write;

use serde_json::{Value, json};

/// Start of each line that a child writes for its parent.
pub const MARK: &str = "\u{1}pjrt-probe ";

/// Writes a line for the parent process.
pub fn tell(line: &Value) {
    // One write, so that output of the plugin's threads does not split the line.
    let line = format!("\n{MARK}{line}\n");
    let mut out = std::io::stdout().lock();
    // Ignore the error if the reader has closed the pipe.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Reads a line that [`tell`] wrote.
#[must_use]
pub fn read(line: &str) -> Option<Value> {
    serde_json::from_str(line.trim_end().strip_prefix(MARK)?).ok()
}

/// Reports that a stage begins or has ended.
pub(crate) fn stage(name: &str, begins: bool) {
    tell(&json!({ "stage": name, "begins": begins }));
}

/// Marks the start of a case on the standard error, because the two outputs of a process arrive independently.
pub(crate) fn mark_diagnostics(id: &str) {
    // Ignore the error if the reader has closed the pipe.
    let _ = std::io::stderr().lock().write_all(format!("\n{MARK}{id}\n").as_bytes());
}
