//! Which plugin a framework wants.

use std::fmt;
use std::sync::Arc;

use device_plugin::Manifest;

/// Which plugin a framework wants: names or kinds in order of preference, conditions, and whether the user's
/// environment may say otherwise.
///
/// ```
/// use plugin_registry::Policy;
///
/// let exactly = Policy::named("cuda");
/// let first_that_fits = Policy::prefer("gpu").or("tpu").fallback("cpu");
/// let best = Policy::any().or_as_environment_says();
/// ```
#[derive(Clone, Default)]
pub struct Policy {
    wishes: Vec<Wish>,
    conditions: Vec<Condition>,
    hints: bool,
    experimental: Option<bool>,
}

/// One step of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// That plugin, by its name or another it goes by, whether its hardware is seen or not.
    Named(String),
    /// A plugin of that name or kind, unless its hardware is absent.
    Kind(String),
    /// Any plugin, unless its hardware is absent.
    Any,
}

type Predicate = dyn Fn(&Manifest) -> bool + Send + Sync;

/// What a plugin must fulfil.
#[derive(Clone)]
pub(crate) struct Condition {
    pub(crate) what: String,
    pub(crate) holds: Arc<Predicate>,
}

impl Policy {
    /// The plugin of that name, alias or platform name, in any case. It is taken also where its hardware was not seen.
    pub fn named(name: impl Into<String>) -> Self {
        Self { wishes: vec![Wish::Named(name.into())], ..Self::default() }
    }

    /// A plugin of that kind: one whose name, alias (such as `gpu`) or platform name it is, and whose hardware is not
    /// known to be absent.
    pub fn prefer(kind: impl Into<String>) -> Self {
        Self { wishes: vec![Wish::Kind(kind.into())], ..Self::default() }
    }

    /// The plugin that ranks highest among all whose hardware is not known to be absent.
    pub fn any() -> Self {
        Self { wishes: vec![Wish::Any], ..Self::default() }
    }

    /// Where nothing before fits: a plugin of that kind.
    #[must_use]
    pub fn or(mut self, kind: impl Into<String>) -> Self {
        self.wishes.push(Wish::Kind(kind.into()));
        self
    }

    /// Where nothing before fits: any plugin.
    #[must_use]
    pub fn or_any(mut self) -> Self {
        self.wishes.push(Wish::Any);
        self
    }

    /// Where nothing before fits: that plugin, which need not fulfil the conditions of [`Self::require`].
    #[must_use]
    pub fn fallback(mut self, name: impl Into<String>) -> Self {
        self.wishes.push(Wish::Named(name.into()));
        self
    }

    /// Lets `PJRT_DEVICE` and `JAX_PLATFORMS` decide where the user set them: only the plugins named there are
    /// considered, in their order, and that none of them fits is an error. As in the frameworks that read them, the
    /// user's word is not a preference to be passed over.
    #[must_use]
    pub fn or_as_environment_says(mut self) -> Self {
        self.hints = true;
        self
    }

    /// Considers only plugins that fulfil a condition on what they say of themselves; `what` names it in errors.
    ///
    /// ```
    /// use plugin_registry::Policy;
    ///
    /// let policy = Policy::any().require("a finished plugin", |manifest| !manifest.experimental);
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

    /// Whether plugins whose makers call them experimental are considered. By default they are, after all others;
    /// with `true` they rank like others, with `false` only a name brings them in.
    #[must_use]
    pub fn experimental(mut self, considered: bool) -> Self {
        self.experimental = Some(considered);
        self
    }

    pub(crate) fn wishes(&self) -> &[Wish] {
        &self.wishes
    }

    pub(crate) fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    pub(crate) fn uses_hints(&self) -> bool {
        self.hints
    }

    pub(crate) fn wants_experimental(&self) -> Option<bool> {
        self.experimental
    }
}

impl fmt::Display for Wish {
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
        for (index, wish) in self.wishes.iter().enumerate() {
            write!(f, "{}{wish}", if index == 0 { "" } else { ", or " })?;
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
