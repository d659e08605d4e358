//! `PJRT_FFI_Handler_TraitsBits`: properties of custom-call handlers.

/// Properties that a framework declares for the handler of a custom call: the bits of `PJRT_FFI_Handler_TraitsBits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandlerTraits(pub u32);

impl HandlerTraits {
    /// Calls may be recorded once and replayed, as GPU command buffers do.
    pub const COMMAND_BUFFER_COMPATIBLE: Self = Self(1);

    /// Whether calls may be recorded once and replayed, as GPU command buffers do.
    #[must_use]
    pub fn is_command_buffer_compatible(self) -> bool {
        self.0 & Self::COMMAND_BUFFER_COMPATIBLE.0 != 0
    }
}
