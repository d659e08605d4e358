//! Events: their callbacks, events that are held back, and waiting for them.

mod callbacks;
mod gated_calls;
mod gates;
mod inside_callback;
pub(super) mod wait;

pub(super) use callbacks::register;
pub(super) use gated_calls::answer_gated;
pub(super) use gates::Gates;
pub(super) use inside_callback::is_inside_callback;
