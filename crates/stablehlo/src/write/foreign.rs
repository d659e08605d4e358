//! Writes ops of dialects other than StableHLO.

use super::attributes::find;
use super::encoder::Encoder;
use super::versions::needs;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

impl Encoder {
    /// Adds the inherent attributes of an op of another dialect, and returns their indices. Artifacts can contain
    /// Shardy's ops since StableHLO 1.11.0.
    pub(super) fn foreign(&mut self, name: &str, own: &Attributes) -> Result<Vec<usize>> {
        let Some(names) = crate::ops::shardy_attributes(name) else {
            return Err(Error::new(ErrorKind::Unsupported, "portable artifacts cannot contain ops of this dialect"));
        };
        needs(self.version, Version(1, 11, 0), || "an op of another dialect".to_owned())?;
        let mut numbers = Vec::new();
        for attribute in names.iter() {
            match find(own, attribute) {
                Some(value) => numbers.push(self.builtin_attribute(value)),
                None => {
                    return Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{attribute}` is missing")));
                }
            }
        }
        Ok(numbers)
    }
}
