//! The StableHLO versions that a plugin reads.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// Inclusive range of StableHLO versions, each as major, minor and patch version. The JSON form of a version is a
/// string such as `1.13.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because a range always consists of two versions.
pub struct StablehloVersions {
    /// Oldest version that the plugin reads.
    #[serde(with = "json_text")]
    pub minimum: [u32; 3],
    /// Newest version that the plugin reads. A framework serializes programs for this version, or for its own StableHLO
    /// version if its own is older.
    #[serde(with = "json_text")]
    pub current: [u32; 3],
}

/// Returns the text of a version, such as `1.13.7`.
pub(crate) fn dotted<T: Display>([major, minor, patch]: [T; 3]) -> String {
    format!("{major}.{minor}.{patch}")
}

mod json_text {
    use std::borrow::Cow;

    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(version: &[u32; 3], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::dotted(*version))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u32; 3], D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
        numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not a version of StableHLO; write it as \"1.13.7\"")))
    }
}
