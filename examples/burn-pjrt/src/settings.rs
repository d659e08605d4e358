//! Settings of a device.

/// Settings for recording and compiling the operations of a device. See [`crate::PjrtDevice::with_settings`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// If this number of operations is recorded, the device runs them even without a read. Default: 2048.
    ///
    /// Set it above the number of operations of a training step. Otherwise, each step is split between different
    /// operations and must be compiled again.
    pub max_operations: usize,
    /// Whether matrix multiplications and convolutions of `f32` use the plugin's autocast type. Default: `false`. The
    /// setting has no effect if the plugin does not declare an autocast type.
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
