//! The arguments of a custom call on a device, as a handler in Rust receives them.

use super::{Attributes, ExecuteContext};
use crate::Shape;
use crate::features::Stream;

/// The arguments of a handler whose operands and results are in device memory. The handler enqueues its work on the
/// stream and does not wait for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceCall<'a> {
    /// Name of the custom call.
    pub target: &'a str,
    /// The attributes of the call in the program (`backend_config`).
    pub attributes: &'a Attributes,
    /// The operands, in order.
    pub operands: &'a [DeviceArray<'a>],
    /// The results, in order. Their contents are unspecified until the handler writes them.
    pub results: &'a [DeviceArray<'a>],
    /// The framework's user data for the calls of this execution.
    pub context: &'a ExecuteContext,
    /// Index of the device.
    pub device: usize,
    /// The driver's handle of the queue in which the program runs. Work that the handler enqueues there runs after the
    /// work that computes the operands, and before the work that reads the results.
    pub stream: Stream,
}

/// An array in device memory.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DeviceArray<'a> {
    /// Element type and extents.
    pub shape: &'a Shape,
    /// Address of the first element on the device. For a driver without addresses, its handle of the memory.
    pub address: usize,
}

impl<'a> DeviceArray<'a> {
    /// Describes an array of this shape.
    pub fn new(shape: &'a Shape, address: usize) -> Self {
        Self { shape, address }
    }
}

impl<'a> DeviceCall<'a> {
    /// Creates a call on a device, in the queue `stream`, which a backend passes to
    /// [`Handler::call_on_device`](super::Handler::call_on_device).
    pub fn new(
        target: &'a str,
        attributes: &'a Attributes,
        [operands, results]: [&'a [DeviceArray<'a>]; 2],
        context: &'a ExecuteContext,
        (device, stream): (usize, Stream),
    ) -> Self {
        Self { target, attributes, operands, results, context, device, stream }
    }
}
