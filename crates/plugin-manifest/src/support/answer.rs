//! The depth of a support check, its answer and its reasons.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::{Code, codes};

codes! {
    /// The depth of a check: the properties of a program that the check examines. Each depth includes the previous
    /// depths.
    pub enum Depth {
        /// Names of operations and targets of custom calls.
        Names = 1 "names",
        /// Everything in [`Self::Names`], and the attributes of operations.
        Attributes = 2 "attributes",
        /// Everything in [`Self::Attributes`], and element types, ranks and dynamic extents.
        Types = 3 "types",
        /// Everything in [`Self::Types`], and everything else that the compiler checks.
        Compile = 4 "compile",
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = (1..).map_while(Self::from_code);
        all.clone().find(|depth| depth.name() == text).ok_or_else(|| {
            let names: Vec<&str> = all.map(Self::name).collect();
            format!("unknown depth {text:?}; known are {}", names.join(", "))
        })
    }
}

/// Whether a device supports a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "reasons", rename_all = "lowercase")]
// Exhaustive, because callers must handle each answer.
pub enum Support {
    /// The program is supported, according to a check of the requested depth.
    Yes,
    /// The program is supported, but the host runs operations that the device does not support. Contains at least one
    /// reason.
    Host(Vec<Reason>),
    /// The program does not compile or does not run. Contains the reasons that were found, at least one.
    No(Vec<Reason>),
    /// The answer requires a deeper check. Contains the reasons why the answer is uncertain.
    Maybe(Vec<Reason>),
}

impl Support {
    /// Returns the reasons why the device does not support the program, or may not support it.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Yes => &[],
            Self::Host(reasons) | Self::No(reasons) | Self::Maybe(reasons) => reasons,
        }
    }

    /// Combines two answers. `No` takes precedence over `Maybe`, `Maybe` over `Host`, and `Host` over `Yes`. If both
    /// answers are of the same kind, the result contains the reasons of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, other) | (other, Self::Yes) => other,
            (Self::No(mut reasons), Self::No(more)) => {
                reasons.extend(more);
                Self::No(reasons)
            }
            (Self::Maybe(mut reasons), Self::Maybe(more)) => {
                reasons.extend(more);
                Self::Maybe(reasons)
            }
            (Self::Host(mut reasons), Self::Host(more)) => {
                reasons.extend(more);
                Self::Host(reasons)
            }
            (no @ Self::No(_), _) | (_, no @ Self::No(_)) => no,
            (maybe @ Self::Maybe(_), Self::Host(_)) | (Self::Host(_), maybe @ Self::Maybe(_)) => maybe,
        }
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::Host(_) => "yes, but the host runs some operations",
            Self::No(_) => "no",
            Self::Maybe(_) => "maybe",
        })?;
        self.reasons().iter().try_for_each(|reason| write!(f, "\n  {reason}"))
    }
}

/// A reason why a device does not support a program, or may not support it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because plugins construct this struct.
pub struct Reason {
    /// Name of the operation, such as `stablehlo.sort`. `None` if the reason concerns the whole program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The unsupported attribute with its value, such as `precision = [HIGHEST]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// The unsupported type, such as `tensor<4xf64>`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub ty: Option<String>,
    /// Source location of the operation, such as `model.py:12:4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Number of operations in the program to which the reason applies.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: usize,
    /// Description of the problem for users.
    pub message: String,
}

const fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_one(count: &usize) -> bool {
    *count == 1
}

impl Reason {
    /// Creates a reason that concerns the whole program.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), count: 1, ..Self::default() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = &self.operation {
            write!(f, "{operation}: ")?;
        }
        f.write_str(&self.message)?;
        let about = [&self.attribute, &self.ty].into_iter().flatten().map(String::as_str).collect::<Vec<_>>();
        if !about.is_empty() {
            write!(f, " ({})", about.join(", "))?;
        }
        if let Some(location) = &self.location {
            write!(f, " at {location}")?;
        }
        if self.count > 1 {
            write!(f, " and {} more", self.count - 1)?;
        }
        Ok(())
    }
}
