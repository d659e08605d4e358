//! The StableHLO version of a program, found without parsing the program.
//!
//! A portable artifact is MLIR bytecode: four magic bytes, the version of the bytecode as one number, and the name of
//! the producer, which ends in a NUL byte. StableHLO writes its version there, as `StableHLO_v1.9.0`.

use crate::{Error, Program, Result, StablehloVersions};

const MAGIC: &[u8] = b"ML\xefR";
const PRODUCER: &[u8] = b"StableHLO_v";

/// The version in the header of a portable artifact. Returns `None` for anything else.
pub(crate) fn version(code: &[u8]) -> Option<[i64; 3]> {
    let rest = code.strip_prefix(MAGIC)?;
    // The trailing zero bits of a number's first byte are the number of bytes that follow.
    let number = rest.first()?.trailing_zeros() as usize + 1;
    let producer = rest.get(number..)?.strip_prefix(PRODUCER)?;
    let end = producer.iter().take(64).position(|byte| *byte == 0)?;
    let mut parts = str::from_utf8(&producer[..end]).ok()?.split('.').map(|part| part.parse().ok());
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

fn text(version: [i64; 3]) -> String {
    let [major, minor, patch] = version;
    format!("{major}.{minor}.{patch}")
}

/// Rejects an artifact of a version that the plugin does not declare. Versions that differ only in the last number have
/// the same form.
///
/// # Errors
///
/// `INVALID_ARGUMENT` with both versions and the remedy.
pub fn check(program: &Program, versions: Option<StablehloVersions>) -> Result<()> {
    let (Some(given), Some(read)) = (program.stablehlo_version(), versions) else { return Ok(()) };
    let form = |version: [i64; 3]| [version[0], version[1]];
    let range =
        || format!("StableHLO {}, but this plugin reads {} to {}", text(given), text(read.minimum), text(read.current));
    if form(given) > form(read.current) {
        return Err(Error::invalid_argument(format!(
            "the program is an artifact of {}: serialize it for {} (the plugin's attribute stablehlo_current_version, \
             which JAX follows by itself), or use a newer version of the plugin",
            range(),
            text(read.current)
        )));
    }
    if form(given) < form(read.minimum) {
        return Err(Error::invalid_argument(format!(
            "the program is an artifact of {}: export it again with a newer framework, or use an older version of the \
             plugin",
            range()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(number: &[u8], producer: &str) -> Program {
        let code = [MAGIC, number, producer.as_bytes(), b"\0and the rest"].concat();
        Program { format: "mlir".to_owned(), code: code.into() }
    }

    #[test]
    fn the_head_of_an_artifact_names_its_version() {
        let version = |number: &[u8], producer| artifact(number, producer).stablehlo_version();
        assert_eq!(version(&[0x0d], "StableHLO_v1.9.0"), Some([1, 9, 0]));
        assert_eq!(version(&[0x02, 0x01], "StableHLO_v0.14.12"), Some([0, 14, 12]));
        for other in ["MLIR21.0.0git", "StableHLO_v1.9", "StableHLO_v1.9.0.1", "StableHLO_vx.y.z", ""] {
            assert_eq!(version(&[0x0d], other), None, "{other}");
        }
        let whole = artifact(&[0x0d], "StableHLO_v1.9.0").code;
        for cut in 0..22 {
            assert_eq!(super::version(&whole[..cut.min(whole.len())]).filter(|v| *v != [1, 9, 0]), None);
        }
        assert_eq!(super::version(b"module {}"), None);
    }

    #[test]
    fn rejects_artifact_version_with_remedy() {
        let versions = Some(StablehloVersions { current: [1, 9, 0], minimum: [0, 9, 0] });
        let check_of = |producer| check(&artifact(&[0x0d], producer), versions);
        assert_eq!(check_of("StableHLO_v1.9.0"), Ok(()));
        assert_eq!(check_of("StableHLO_v1.9.7"), Ok(()));
        assert_eq!(check_of("StableHLO_v0.9.0"), Ok(()));
        assert_eq!(check_of("MLIR"), Ok(()));
        let newer = check_of("StableHLO_v1.17.0").unwrap_err().message().to_owned();
        for part in ["StableHLO 1.17.0", "reads 0.9.0 to 1.9.0", "serialize it for 1.9.0", "stablehlo_current_version"]
        {
            assert!(newer.contains(part), "{newer}");
        }
        let older = check_of("StableHLO_v0.8.0").unwrap_err().message().to_owned();
        assert!(older.contains("StableHLO 0.8.0") && older.contains("export it again"), "{older}");
        assert_eq!(check(&artifact(&[0x0d], "StableHLO_v9.0.0"), None), Ok(()));
    }
}
