//! `PJRT_FFI_Handler_TraitsBits`: properties of custom-call handlers.

/// Properties that a framework declares for the handler of a custom call: the bits of `PJRT_FFI_Handler_TraitsBits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerTraits(pub u32);

impl HandlerTraits {
    /// Trait of handlers whose calls may be recorded once and replayed, as in GPU command buffers.
    pub const COMMAND_BUFFER_COMPATIBLE: Self = Self(1);

    /// Returns whether calls of the handler may be recorded once and replayed, as in GPU command buffers.
    #[must_use]
    pub fn is_command_buffer_compatible(self) -> bool {
        self.0 & Self::COMMAND_BUFFER_COMPATIBLE.0 != 0
    }
}
