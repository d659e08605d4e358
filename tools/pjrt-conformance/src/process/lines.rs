//! The messages that a worker and its guard write for the program that started them.
//!
//! Each message is a line that consists of a mark and a JSON object. The mark distinguishes messages from the plugin's
//! own output.

use std::io::Write;

use serde_json::{Value, json};

/// Prefix of each line that is a message.
pub const MARK: &str = "\u{1}pjrt-probe ";

/// Writes a message for the parent process to the standard output.
pub fn tell(line: &Value) {
    // Write the line in one call, so that output of the plugin's threads does not split it.
    let line = format!("\n{MARK}{line}\n");
    let mut out = std::io::stdout().lock();
    // Ignore the error if the reader has closed the pipe.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Parses a line that [`tell`] wrote. Returns `None` for other lines.
#[must_use]
pub fn read(line: &str) -> Option<Value> {
    serde_json::from_str(line.trim_end().strip_prefix(MARK)?).ok()
}

/// Reports to the parent process that a stage, such as `load`, begins (if `begins` is `true`) or has ended.
pub(crate) fn stage(name: &str, begins: bool) {
    tell(&json!({ "stage": name, "begins": begins }));
}

/// Marks the start of a case on the standard error. The parent reads the standard output and the standard error
/// independently, so it needs a mark in each of them.
pub(crate) fn mark_diagnostics(id: &str) {
    // Ignore the error if the reader has closed the pipe.
    let _ = std::io::stderr().lock().write_all(format!("\n{MARK}{id}\n").as_bytes());
}
