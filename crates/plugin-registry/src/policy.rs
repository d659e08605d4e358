//! The policy by which a framework selects a plugin.

use std::fmt;
use std::sync::Arc;

use plugin_manifest::Manifest;

/// Describes the plugin that a framework requests: names or kinds in order of preference, conditions, and whether the
/// user's environment takes precedence.
///
/// ```
/// use plugin_registry::Policy;
///
/// let exactly = Policy::named("cuda");
/// let first_that_fits = Policy::prefer("gpu").or("tpu").fallback("cpu");
/// let best = Policy::any().environment_first();
/// ```
#[derive(Clone, Default)]
pub struct Policy {
    preferences: Vec<Preference>,
    conditions: Vec<Condition>,
    hints: bool,
    experimental: Option<bool>,
}

/// One preference of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// The plugin with this name, alias or platform name, even if its hardware was not found.
    Named(String),
    /// A plugin with this name, alias or platform name, unless its hardware is known to be absent.
    Kind(String),
    /// Any plugin, unless its hardware is known to be absent.
    Any,
}

type Predicate = dyn Fn(&Manifest) -> bool + Send + Sync;

/// A condition that a plugin must meet.
#[derive(Clone)]
pub(crate) struct Condition {
    pub(crate) what: String,
    pub(crate) holds: Arc<Predicate>,
}

impl Policy {
    /// Selects the plugin with this name, alias or platform name, regardless of letter case, even if its hardware was
    /// not found.
    pub fn named(name: impl Into<String>) -> Self {
        Self { preferences: vec![Preference::Named(name.into())], ..Self::default() }
    }

    /// Prefers a plugin of this kind: a plugin with this name, alias (such as `gpu`) or platform name, whose hardware
    /// is not known to be absent.
    pub fn prefer(kind: impl Into<String>) -> Self {
        Self { preferences: vec![Preference::Kind(kind.into())], ..Self::default() }
    }

    /// Selects the highest-ranked plugin among all plugins whose hardware is not known to be absent.
    pub fn any() -> Self {
        Self { preferences: vec![Preference::Any], ..Self::default() }
    }

    /// Adds a preference for a plugin of this kind, which applies if no plugin fits an earlier preference.
    #[must_use]
    pub fn or(mut self, kind: impl Into<String>) -> Self {
        self.preferences.push(Preference::Kind(kind.into()));
        self
    }

    /// Adds a preference for any plugin, which applies if no plugin fits an earlier preference.
    #[must_use]
    pub fn or_any(mut self) -> Self {
        self.preferences.push(Preference::Any);
        self
    }

    /// Adds a preference for the plugin with this name, which applies if no plugin fits an earlier preference. The
    /// plugin does not need to meet the conditions of [`Self::require`].
    #[must_use]
    pub fn fallback(mut self, name: impl Into<String>) -> Self {
        self.preferences.push(Preference::Named(name.into()));
        self
    }

    /// Lets `PJRT_DEVICE` or otherwise `JAX_PLATFORMS` take precedence if the user set the variable. The selection then
    /// considers only the plugins that the variable names, in the order of the variable. If none of these plugins fits,
    /// the selection fails, as it does in the framework that defines the variable.
    #[must_use]
    pub fn environment_first(mut self) -> Self {
        self.hints = true;
        self
    }

    /// Considers only plugins whose manifest meets a condition. The plugins of [`Self::fallback`] are exempt. Error
    /// messages describe the condition as `what`.
    ///
    /// ```
    /// use plugin_registry::Policy;
    ///
    /// let policy = Policy::any().require("a stable release", |manifest| !manifest.experimental);
    /// ```
    #[must_use]
    pub fn require(
        mut self,
        what: impl Into<String>,
        holds: impl Fn(&Manifest) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.conditions.push(Condition { what: what.into(), holds: Arc::new(holds) });
        self
    }

    /// Sets whether experimental plugins are considered. By default, they rank after other plugins that are equal in
    /// the more important criteria of [`crate::select`]. With `true`, they rank like other plugins. With `false`, only
    /// a preference by name selects an experimental plugin.
    #[must_use]
    pub fn experimental(mut self, considered: bool) -> Self {
        self.experimental = Some(considered);
        self
    }

    pub(crate) fn preferences(&self) -> &[Preference] {
        &self.preferences
    }

    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    pub(crate) fn uses_hints(&self) -> bool {
        self.hints
    }

    pub(crate) fn allows_experimental(&self) -> Option<bool> {
        self.experimental
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "the plugin {name:?}"),
            Self::Kind(kind) => write!(f, "a plugin for {kind:?}"),
            Self::Any => f.write_str("any plugin"),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, preference) in self.preferences.iter().enumerate() {
            write!(f, "{}{preference}", if index == 0 { "" } else { ", or " })?;
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { " with " } else { " and " }, condition.what)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({self})")
    }
}
