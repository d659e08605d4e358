//! A program in one of the formats that frameworks send.

use bytes::Bytes;

/// A program as a framework passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// `mlir` for StableHLO (a portable artifact or text), `hlo` or `hlo_with_config` for HLO protos.
    pub format: String,
    /// The bytes or text of the program. Slices of it share its memory. The `stablehlo` crate reads the format `mlir`:
    /// pass a clone of this field to `stablehlo::parse`.
    pub code: Bytes,
}

impl Program {
    /// The StableHLO version for which a portable artifact was serialized: major, minor and patch. Returns `None` for
    /// programs in other forms.
    ///
    /// If the plugin declares the versions that it reads ([`StablehloVersions`](crate::StablehloVersions)), the SDK
    /// rejects other versions before the backend receives the program.
    pub fn stablehlo_version(&self) -> Option<[i64; 3]> {
        crate::artifact::version(&self.code)
    }
}
