//! Versions that consist of integers separated by dots.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of integers in a version. NVIDIA's driver versions have two or three.
const MOST_NUMBERS: usize = 4;

/// A version of one to four integers separated by dots, such as the compute capability `9.0` or the driver version
/// `550.54.15`. Missing integers count as zero in comparisons.
#[derive(Clone, Debug)]
pub struct DottedVersion {
    numbers: [u32; MOST_NUMBERS],
    /// The original spelling, because integers lose leading zeros, as in the driver version `555.42.02`.
    text: String,
}

impl FromStr for DottedVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            let start: String = text.chars().take(32).collect();
            format!("{start:?} is not a version; write one to four numbers with dots between them, such as \"550.54\"")
        };
        let mut numbers = [0; MOST_NUMBERS];
        for (index, part) in text.split('.').enumerate() {
            if !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(fault());
            }
            *numbers.get_mut(index).ok_or_else(fault)? = part.parse().map_err(|_| fault())?;
        }
        Ok(Self { numbers, text: text.to_owned() })
    }
}

impl fmt::Display for DottedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for DottedVersion {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

impl Eq for DottedVersion {}

impl PartialOrd for DottedVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DottedVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers)
    }
}

impl Serialize for DottedVersion {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for DottedVersion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_numbers() {
        let version = |text: &str| text.parse::<DottedVersion>().unwrap();
        assert!(version("550.54.15") > version("550.54") && version("9.0") < version("10.0"));
        assert_eq!(version("550"), version("550.0.0"));
        assert_eq!(version("555.42.02").to_string(), "555.42.02");
        for text in ["", ".", "9.", "9.0a", "1.2.3.4.5", "-1", "+1", "99999999999", " 9"] {
            assert!(text.parse::<DottedVersion>().is_err(), "{text}");
        }
    }
}
