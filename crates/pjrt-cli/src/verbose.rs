//! The events of the libraries, for `--verbose`.

use tracing::Level;

/// Shows events on the standard error from now on. Without `--verbose`, which is level 0, nothing is shown.
pub(crate) fn show(level: u8) {
    let level = match level {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_ansi(false);
    // This program sets no other subscriber.
    let _ = subscriber.try_init();
}
