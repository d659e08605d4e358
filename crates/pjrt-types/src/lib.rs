//! The types that frameworks and plugins share on the two sides of the PJRT C API.
//!
//! Frameworks (`pjrt`) and plugins (`device-plugin`) use the same types: [`ErrorCode`], [`ElementType`], [`Shape`],
//! [`Layout`], [`NamedValue`], [`ApiVersion`], [`Program`], [`CompileOptions`]. This crate does not access the C
//! structs. It only converts to and from the codes of the C API.
#![forbid(unsafe_code)]

mod element;
mod error_code;
mod framework_options;
mod handler_traits;
pub mod hlo;
mod layout;
mod memory_stats;
mod named_value;
mod options;
mod program;
mod proto;
#[cfg(feature = "serde")]
mod serde;
mod shape;
#[cfg(feature = "stablehlo")]
mod stablehlo;
mod unknown;
mod version;

pub use element::{Element, ElementType, UnknownElementType};
pub use error_code::ErrorCode;
pub use framework_options::is_framework_option;
pub use handler_traits::HandlerTraits;
pub use layout::{Layout, ParseLayoutError};
pub use memory_stats::{CompiledMemoryStats, MemoryStats};
#[doc(hidden)]
pub use named_value::shortest_decimal;
pub use named_value::{NamedValue, Value};
pub use options::{CompileOptions, DecodeError, DeviceAssignment, OptionOverride};
pub use program::Program;
pub use shape::Shape;
#[cfg(feature = "stablehlo")]
pub use stablehlo::Unconvertible;
pub use unknown::UnknownFields;
pub use version::{ApiVersion, MIN_MINOR};

/// How, and for how long, a plugin may use host memory. The values are those of `PJRT_HostBufferSemantics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostBufferSemantics {
    /// The data may be read only during the call.
    ImmutableOnlyDuringCall = 0,
    /// The data may be read until the done-with-host-buffer event is ready.
    ImmutableUntilTransferCompletes = 1,
    /// The buffer may alias the data until the done-with-host-buffer event is ready, but never writes to the data.
    ImmutableZeroCopy = 2,
    /// The buffer may alias the data and write to it until the done-with-host-buffer event is ready.
    MutableZeroCopy = 3,
}

impl HostBufferSemantics {
    /// Returns the semantics with this code in the C API, or `None` for an unknown code.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        [
            Self::ImmutableOnlyDuringCall,
            Self::ImmutableUntilTransferCompletes,
            Self::ImmutableZeroCopy,
            Self::MutableZeroCopy,
        ]
        .into_iter()
        .find(|semantics| *semantics as u32 == raw)
    }
}

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;
