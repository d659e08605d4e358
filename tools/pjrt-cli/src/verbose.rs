//! Shows the events of the libraries for `--verbose`.

use tracing::Level;

/// Shows events on the standard error from now on. Level 0, without `--verbose`, shows nothing.
pub(crate) fn show(level: u8) {
    let level = match level {
        0 => return,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_ansi(false);
    // This fails only if another subscriber is set. This program sets no other.
    let _ = subscriber.try_init();
}
