//! Checks that the plugin reads a program's StableHLO version.

use crate::stablehlo_versions::dotted;
use crate::{Error, Program, Result, StablehloVersions};

/// Rejects a portable artifact whose StableHLO version the plugin does not read. The patch version is ignored, because
/// it does not change the serialized form. Accepts every other program, and every program if `versions` is `None`.
///
/// # Errors
///
/// Returns `INVALID_ARGUMENT` if the plugin cannot read the artifact's version. The message contains this version, the
/// versions that the plugin reads, and the remedy.
pub fn check(program: &Program, versions: Option<StablehloVersions>) -> Result<()> {
    let (Some(given), Some(read)) = (program.stablehlo_version(), versions) else { return Ok(()) };
    let form = |[major, minor, _]: [i64; 3]| [major, minor];
    let (minimum, current) = (read.minimum.map(i64::from), read.current.map(i64::from));
    let range =
        || format!("StableHLO {}, but this plugin reads {} to {}", dotted(given), dotted(minimum), dotted(current));
    if form(given) > form(current) {
        return Err(Error::invalid_argument(format!(
            "the program is an artifact of {}: serialize it for {} (the plugin's attribute stablehlo_current_version, \
             which JAX follows by itself), or use a newer version of the plugin",
            range(),
            dotted(current)
        )));
    }
    if form(given) < form(minimum) {
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
    use expect_test::expect;

    use super::*;
    use crate::ErrorCode;

    fn artifact(producer: &str) -> Program {
        Program::mlir([b"ML\xefR\x0d", producer.as_bytes(), b"\0and the rest"].concat())
    }

    #[test]
    fn rejects_artifact_version_with_remedy() {
        let versions = Some(StablehloVersions { current: [1, 9, 0], minimum: [0, 9, 0] });
        let check_of = |producer| check(&artifact(producer), versions);
        assert_eq!(check_of("StableHLO_v1.9.0"), Ok(()));
        assert_eq!(check_of("StableHLO_v1.9.7"), Ok(()));
        assert_eq!(check_of("StableHLO_v0.9.0"), Ok(()));
        assert_eq!(check_of("MLIR"), Ok(()));
        let mut messages = String::new();
        for producer in ["StableHLO_v1.17.0", "StableHLO_v0.8.0"] {
            let error = check_of(producer).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
            messages += &format!("{producer}: {}\n", error.message());
        }
        expect![[r#"
            StableHLO_v1.17.0: the program is an artifact of StableHLO 1.17.0, but this plugin reads 0.9.0 to 1.9.0: serialize it for 1.9.0 (the plugin's attribute stablehlo_current_version, which JAX follows by itself), or use a newer version of the plugin
            StableHLO_v0.8.0: the program is an artifact of StableHLO 0.8.0, but this plugin reads 0.9.0 to 1.9.0: export it again with a newer framework, or use an older version of the plugin
        "#]].assert_eq(&messages);
        assert_eq!(check(&artifact("StableHLO_v9.0.0"), None), Ok(()));
    }
}
