//! Buffers that receive the data of another buffer later.

use crate::abi::objects::client::pending_value::PendingValue;
use crate::array_layout::ArrayLayout;
use crate::{Error, Placement};

/// The SDK's part of an alias buffer. An alias buffer takes over the data of another buffer, which the framework names
/// later.
pub(crate) struct PlaceholderBuffer<V> {
    pub(super) late: PendingValue<V>,
    pub(super) layout: ArrayLayout,
    pub(super) placement: Placement,
}

impl<V> PlaceholderBuffer<V> {
    /// Fails the buffer because the framework destroys the client.
    pub(crate) fn abandon(mut self) {
        self.late.set(Err(Error::new(crate::ErrorCode::CANCELLED, "the framework destroyed the client")));
    }
}
