//! The trait that all layers implement.

use std::fmt::Debug;

use pjrt_types::ErrorCode;

use crate::core::{Call, Plugin, TablePlan};
use crate::function::Function;
use crate::layer_error::LayerError;

/// A layer, which observes, changes or answers calls of the functions that it selects.
///
/// Layers form a stack. The first layer is next to the framework, and the last layer is next to the plugin. Several
/// threads may call a layer at the same time. A thread may also make a call within another call, for example in a
/// callback.
pub trait Layer: Debug + Send + Sync + 'static {
    /// Returns the name that users write in `PJRT_LAYERS` to select the layer.
    fn name(&self) -> &'static str;

    /// Returns whether the layer observes calls of a function. If no layer of the stack observes a function, the table
    /// usually keeps the plugin's own pointer.
    fn wants(&self, function: &Function) -> bool;

    /// Changes the table that the framework sees. Runs once, before any call.
    fn plan(&self, _plan: &mut TablePlan) {}

    /// Runs before a call. May change the arguments that the later layers and the plugin receive.
    fn before(&self, _call: &mut Call) -> Step {
        Step::Continue(0)
    }

    /// Runs after a call for which `before` returned [`Step::Continue`]. `token` is the value in this
    /// [`Step::Continue`].
    fn after(&self, _call: &mut Call, _token: u64, _outcome: Outcome) {}

    /// Returns whether the layer needs calls of [`Self::ready`].
    fn watches_events(&self) -> bool {
        false
    }

    /// Runs when an event with a registered callback becomes ready, before the callback runs. `event` is the handle of
    /// the event, and `failed` is whether the event has an error.
    fn ready(&self, _event: usize, _failed: bool) {}

    /// Runs when the process exits. Write results here, because frameworks seldom destroy their clients.
    fn exit(&self) {}
}

/// Decision of a layer's `before` about how the call proceeds.
#[derive(Debug)]
pub enum Step {
    /// The call continues with the next layer, or with the plugin after the last layer. `after` receives this token.
    Continue(u64),
    /// The call returns this error. The later layers and the plugin do not receive the call.
    Answer(Box<LayerError>),
}

impl Step {
    /// Creates a step that makes the call return an error.
    pub fn answer(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Answer(Box::new(LayerError::new(code, message)))
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub(crate) error: usize,
    pub(crate) plugin: &'static Plugin,
}

impl Outcome {
    /// Returns whether the call returned an error.
    #[must_use]
    #[inline]
    pub fn failed(&self) -> bool {
        self.error != 0
    }

    /// Returns the error's code and message, or `None` if the call succeeded. Queries the plugin if the plugin created
    /// the error.
    #[must_use]
    pub fn error(&self) -> Option<LayerError> {
        self.plugin.describe(self.error)
    }
}
