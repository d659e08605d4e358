//! Conformance cases, their requirements and their profiles.

use std::fmt;
use std::time::Duration;

use pjrt::{Function, Plugin};

use crate::context::Context;
use crate::stop::Stop;

/// A group of cases, such as the cases that a framework depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Cases that every framework depends on: creating a client, transferring data, compiling, executing.
    Minimal,
    /// Cases that JAX depends on.
    Jax,
    /// Cases that PyTorch/XLA depends on.
    TorchXla,
    /// Cases that EXLA, the XLA backend of Nx for Elixir, depends on.
    Exla,
    /// All cases.
    Full,
}

impl Profile {
    /// All profiles.
    pub const ALL: &[Self] = &[Self::Minimal, Self::Jax, Self::TorchXla, Self::Exla, Self::Full];

    /// Returns the name of the profile on the command line and in reports.
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

    /// Returns whether the set contains a profile.
    #[must_use]
    pub const fn contains(self, profile: Profile) -> bool {
        self.0 & profile.bit() != 0
    }

    /// Returns the names of the profiles in the set.
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

/// The functions, extensions and devices that a case requires. If the plugin lacks a required function or extension,
/// the outcome is `unsupported`. If no client can be created, or if the client has too few devices, the outcome is
/// `skipped`.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Required functions of the `PJRT_Api` table or of extensions.
    pub functions: Vec<Function>,
    /// Required extensions, as values of `PJRT_Extension_Type`.
    pub extensions: Vec<u32>,
    /// Minimum number of addressable devices, or 0 if the case needs no client.
    pub devices: usize,
}

impl Needs {
    /// Checks that the plugin has the required functions and extensions. Does not check the number of devices.
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

/// The check function of a case. Returns `Ok` if the plugin meets the requirement.
pub(crate) type Check = Box<dyn Fn(&Context) -> Result<(), Stop> + Send + Sync>;

/// The thread that calls `exit` after a case's check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Main,
    Worker,
}

/// A conformance case: a requirement and the function that checks it.
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
    /// Returns the id: `area.subject.case`, followed by parameters in brackets if the case has parameters.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the area, which is the part of the id before the first dot.
    #[must_use]
    pub fn area(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// Returns the clause (requirement) that the case checks, with its source, such as the PJRT header.
    #[must_use]
    pub fn clause(&self) -> &str {
        &self.clause
    }

    /// Returns the reason why the clause matters, such as the framework code that relies on it.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Returns the profiles that contain the case.
    #[must_use]
    pub fn profiles(&self) -> Profiles {
        self.profiles
    }

    /// Returns the requirements of the case.
    #[must_use]
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Returns whether the case runs in a worker process of its own.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// Returns the time limit that the case declares, if any. The runner uses this limit or the run's limit, whichever
    /// is longer.
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
