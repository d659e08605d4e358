//! A line on the standard error that shows the progress of a long command. It appears on terminals only.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress line, which is shown until it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A line for a number of steps.
    pub(crate) fn of(steps: usize) -> Self {
        Self(
            ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)).with_style(style("{spinner} {pos}/{len} {msg}")),
        )
    }

    /// A line for one step.
    pub(crate) fn one(what: impl Into<Cow<'static, str>>) -> Self {
        let line = Self(ProgressBar::new_spinner().with_style(style("{spinner} {msg}")));
        line.say(what);
        line
    }

    /// Shows the next step.
    pub(crate) fn step(&self, what: impl Into<Cow<'static, str>>) {
        self.0.inc(1);
        self.say(what);
    }

    fn say(&self, what: impl Into<Cow<'static, str>>) {
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
