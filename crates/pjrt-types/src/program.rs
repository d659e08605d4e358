//! `PJRT_Program`: the input of a compiler.

use std::borrow::Cow;

use bytes::Bytes;

/// A program to compile: its bytes, and the name of their format. A framework passes a `Program` to the plugin, and the
/// plugin's backend also receives a `Program`.
///
/// ```
/// use pjrt_types::Program;
///
/// let program = Program::mlir("func.func @main() { return }");
/// assert_eq!(program.format(), "mlir");
/// assert_eq!(program.code().len(), 28);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    format: Cow<'static, str>,
    code: Bytes,
}

impl Program {
    /// Creates an MLIR program, usually StableHLO, from text or bytecode. Use the bytecode of a portable artifact if
    /// plugins of other versions must read the program.
    pub fn mlir(code: impl Into<Vec<u8>>) -> Self {
        Self { format: Cow::Borrowed("mlir"), code: Bytes::from(code.into()) }
    }

    /// Creates a program from a serialized `HloModuleProto`.
    pub fn hlo(code: impl Into<Vec<u8>>) -> Self {
        Self { format: Cow::Borrowed("hlo"), code: Bytes::from(code.into()) }
    }

    /// Creates a program in any format that the plugin supports, such as `hlo_with_config`.
    pub fn new(format: impl Into<String>, code: impl Into<Vec<u8>>) -> Self {
        Self::from_bytes(format, Bytes::from(code.into()))
    }

    /// Creates a program that shares the memory of `code`.
    pub fn from_bytes(format: impl Into<String>, code: Bytes) -> Self {
        Self { format: Cow::Owned(format.into()), code }
    }

    /// Returns the name of the format: `mlir` for StableHLO (a portable artifact or text), `hlo` or `hlo_with_config`
    /// for HLO protos.
    #[must_use]
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Returns the program's bytes. Clones and slices of the [`Bytes`] share their memory.
    #[must_use]
    pub fn code(&self) -> &Bytes {
        &self.code
    }

    /// Returns the StableHLO version for which a portable artifact was serialized: major, minor and patch. Returns
    /// `None` for programs in other forms. This method reads only the artifact's header.
    #[must_use]
    pub fn stablehlo_version(&self) -> Option<[i64; 3]> {
        artifact_version(&self.code)
    }
}

const MAGIC: &[u8] = b"ML\xefR";
const PRODUCER: &[u8] = b"StableHLO_v";

/// Returns the version in the header of a portable artifact. The artifact is MLIR bytecode, which begins with four
/// magic bytes, the bytecode version as a varint, and the NUL-terminated name of the producer. StableHLO writes its
/// version as the producer, such as `StableHLO_v1.9.0`.
fn artifact_version(code: &[u8]) -> Option<[i64; 3]> {
    let rest = code.strip_prefix(MAGIC)?;
    // In MLIR bytecode, the trailing zero bits of a varint's first byte are the number of bytes that follow.
    let number = rest.first()?.trailing_zeros() as usize + 1;
    let producer = rest.get(number..)?.strip_prefix(PRODUCER)?;
    let end = producer.iter().take(64).position(|byte| *byte == 0)?;
    let mut parts = str::from_utf8(&producer[..end]).ok()?.split('.').map(|part| part.parse().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(number: &[u8], producer: &str) -> Program {
        Program::mlir([MAGIC, number, producer.as_bytes(), b"\0and the rest"].concat())
    }

    #[test]
    fn version_of_artifact() {
        let version = |number: &[u8], producer| artifact(number, producer).stablehlo_version();
        assert_eq!(version(&[0x0d], "StableHLO_v1.9.0"), Some([1, 9, 0]));
        assert_eq!(version(&[0x02, 0x01], "StableHLO_v0.14.12"), Some([0, 14, 12]));
        for other in ["MLIR21.0.0git", "StableHLO_v1.9", "StableHLO_v1.9.0.1", "StableHLO_vx.y.z", ""] {
            assert_eq!(version(&[0x0d], other), None, "{other}");
        }
        let whole = artifact(&[0x0d], "StableHLO_v1.9.0");
        for cut in 0..22 {
            let part = Program::from_bytes("mlir", whole.code().slice(..cut.min(whole.code().len())));
            assert_eq!(part.stablehlo_version().filter(|v| *v != [1, 9, 0]), None);
        }
        assert_eq!(Program::mlir("module {}").stablehlo_version(), None);
    }
}
