//! Shows the progress of a long command in a line on the standard error. The line appears on terminals only.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress line, which is shown until it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Creates a progress line for a number of steps.
    pub(crate) fn of(steps: usize) -> Self {
        Self(
            ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)).with_style(style("{spinner} {pos}/{len} {msg}")),
        )
    }

    /// Creates a progress line for one step.
    pub(crate) fn one(what: impl Into<Cow<'static, str>>) -> Self {
        let line = Self(ProgressBar::new_spinner().with_style(style("{spinner} {msg}")));
        line.say(what);
        line
    }

    /// Creates a progress line for a number of bytes.
    pub(crate) fn bytes(total: u64, what: impl Into<Cow<'static, str>>) -> Self {
        let line = Self(ProgressBar::new(total).with_style(style("{spinner} {bytes}/{total_bytes} {msg}")));
        line.say(what);
        line
    }

    /// Adds bytes to the progress.
    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Removes bytes from the progress.
    pub(crate) fn go_back(&self, bytes: u64) {
        self.0.dec(bytes);
    }

    /// Returns the number of completed bytes or steps.
    #[cfg(test)]
    pub(crate) fn position(&self) -> u64 {
        self.0.position()
    }

    /// Counts a step, and shows the description of the next one.
    pub(crate) fn step(&self, what: impl Into<Cow<'static, str>>) {
        self.0.inc(1);
        self.say(what);
    }

    /// Shows the description of the current step.
    pub(crate) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
        self.0.enable_steady_tick(Duration::from_millis(100));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
