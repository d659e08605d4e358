//! The lines that a probe and its guard write for the command that started them.

use std::io::Write;

use serde_json::Value;

/// Start of each line that the child writes for its parent.
pub(crate) const MARK: &str = "\u{1}pjrt-probe ";

/// Writes a line for the parent process.
pub(crate) fn tell(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Ignore the error if the reader has closed the pipe.
    let _ = writeln!(out, "\n{MARK}{line}").and_then(|()| out.flush());
}
