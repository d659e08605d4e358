//! Settings of a device.

/// How a device records and compiles operations. See [`crate::PjrtDevice::with_settings`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The number of recorded operations after which the device runs them even without a read. Default: 2048.
    ///
    /// Set it above the number of operations of a training step. If it is lower, each step is split at a different place
    /// and must be compiled again.
    pub max_operations: usize,
    /// Whether matrix products and convolutions of `f32` run in the plugin's autocast type. Default: `false`. The
    /// device ignores it if the plugin does not declare such a type.
    pub autocast: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_operations: 2048, autocast: false }
    }
}

impl Settings {
    /// Sets [`Self::max_operations`].
    #[must_use]
    pub fn max_operations(mut self, count: usize) -> Self {
        self.max_operations = count.max(1);
        self
    }

    /// Sets [`Self::autocast`].
    #[must_use]
    pub fn autocast(mut self, on: bool) -> Self {
        self.autocast = on;
        self
    }
}
