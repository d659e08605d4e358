//! A case: its id, what it checks, what it needs, and the check.

use std::fmt;
use std::time::Duration;

use pjrt::{Function, Plugin};

use crate::context::Context;
use crate::stop::Stop;

/// A group of cases, such as those that a framework depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The minimum for every framework: create a client, move data, compile, run.
    Minimal,
    /// JAX.
    Jax,
    /// PyTorch/XLA.
    TorchXla,
    /// EXLA, the backend of Nx for Elixir.
    Exla,
    /// All cases.
    Full,
}

impl Profile {
    /// Every profile.
    pub const ALL: &[Self] = &[Self::Minimal, Self::Jax, Self::TorchXla, Self::Exla, Self::Full];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Jax => "jax",
            Self::TorchXla => "torch_xla",
            Self::Exla => "exla",
            Self::Full => "full",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of profiles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Profiles(u8);

impl Profiles {
    /// All profiles, for cases that every framework depends on.
    pub const MINIMAL: Self = Self(
        Profile::Minimal.bit()
            | Profile::Jax.bit()
            | Profile::TorchXla.bit()
            | Profile::Exla.bit()
            | Profile::Full.bit(),
    );
    /// All profiles except the minimal one.
    pub const FRAMEWORKS: Self =
        Self(Profile::Jax.bit() | Profile::TorchXla.bit() | Profile::Exla.bit() | Profile::Full.bit());
    /// JAX and the full profile.
    pub const JAX: Self = Self(Profile::Jax.bit() | Profile::Full.bit());
    /// JAX, PyTorch/XLA and the full profile.
    pub const JAX_TORCH: Self = Self(Profile::Jax.bit() | Profile::TorchXla.bit() | Profile::Full.bit());
    /// PyTorch/XLA and the full profile.
    pub const TORCH: Self = Self(Profile::TorchXla.bit() | Profile::Full.bit());
    /// Only the full profile.
    pub const FULL: Self = Self(Profile::Full.bit());

    /// Whether the set contains a profile.
    #[must_use]
    pub const fn contains(self, profile: Profile) -> bool {
        self.0 & profile.bit() != 0
    }

    /// The names of the profiles in the set.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        Profile::ALL.iter().filter(|profile| self.contains(**profile)).map(|profile| profile.name()).collect()
    }
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The requirements of a case. If the plugin lacks a function or an extension, the outcome is `unsupported`. If the
/// client has too few devices, the outcome is `skipped`.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Functions of the table or of an extension.
    pub functions: Vec<Function>,
    /// Numbers of extensions.
    pub extensions: Vec<u32>,
    /// Minimum number of addressable devices, or 0 if the case needs no client.
    pub devices: usize,
}

impl Needs {
    /// Checks the plugin's functions and extensions.
    pub(crate) fn check(&self, plugin: &Plugin) -> Result<(), Stop> {
        if !self.extensions.is_empty() {
            let offered = plugin.extensions();
            for number in &self.extensions {
                if !offered.iter().any(|extension| extension.number == *number) {
                    let name = pjrt::extensions::name(*number).unwrap_or("unknown");
                    return Err(Stop::Unsupported(format!("the plugin lacks the extension {name} ({number})")));
                }
            }
        }
        for function in &self.functions {
            if !plugin.supports(*function) {
                return Err(Stop::Unsupported(format!("the plugin lacks {}", function.name())));
            }
        }
        Ok(())
    }
}

/// The check of a case.
pub(crate) type Check = Box<dyn Fn(&Context) -> Result<(), Stop> + Send + Sync>;

/// The thread that calls `exit` after a case's check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Main,
    Worker,
}

/// A case of the suite.
pub struct Case {
    pub(crate) id: String,
    pub(crate) clause: String,
    pub(crate) why: String,
    pub(crate) profiles: Profiles,
    pub(crate) needs: Needs,
    pub(crate) isolated: bool,
    pub(crate) exit: Option<Exit>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) check: Check,
}

impl Case {
    /// The id: `area.subject.case`, and parameters in brackets.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The area: the id up to the first dot.
    #[must_use]
    pub fn area(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// The clause that the case checks, with its source, such as the header.
    #[must_use]
    pub fn clause(&self) -> &str {
        &self.clause
    }

    /// Why the clause matters, and to whom.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The profiles that contain the case.
    #[must_use]
    pub fn profiles(&self) -> Profiles {
        self.profiles
    }

    /// The requirements.
    #[must_use]
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Whether the case runs in a process without other cases.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// The case's own time limit, if it differs from the run's.
    #[must_use]
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("profiles", &self.profiles).finish_non_exhaustive()
    }
}
