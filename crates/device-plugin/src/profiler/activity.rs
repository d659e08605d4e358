//! Activities that a profile contains.

use std::borrow::Cow;
use std::time::Instant;

use crate::{NamedValue, Value};

/// Location of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The thread that records the activity.
    Thread,
    /// A line of a device in the profile, such as one of its queues.
    Device {
        /// Index into [`Backend::devices`](crate::Backend::devices).
        device: usize,
        /// Name of the line.
        line: Cow<'static, str>,
    },
}

impl Place {
    /// Creates a location on a line of a device.
    pub fn device(device: usize, line: impl Into<Cow<'static, str>>) -> Self {
        Self::Device { device, line: line.into() }
    }
}

/// An activity with a duration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Activity {
    /// Name of the activity.
    pub name: Cow<'static, str>,
    /// Location of the activity.
    pub place: Place,
    /// Start time. If the activity began before the profile, the profile shows it as if it had begun with the profile.
    pub start: Instant,
    /// End time.
    pub end: Instant,
    /// Additional data, such as the number of bytes.
    pub stats: Vec<NamedValue>,
    /// Name of the plugin whose profile contains the activity, or `None` if the profiles of all plugins contain it.
    pub(crate) plugin: Option<&'static str>,
}

impl Activity {
    /// Creates an activity.
    pub fn new(name: impl Into<Cow<'static, str>>, place: Place, start: Instant, end: Instant) -> Self {
        Self { name: name.into(), place, start, end, stats: Vec::new(), plugin: None }
    }

    /// Adds a named value to the activity.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.stats.push(NamedValue::new(name, value));
        self
    }
}
