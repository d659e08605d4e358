//! The type [`Suite`] for a set of cases, and the builder that adds a case to it.

use std::time::Duration;

use pjrt::Function;

use crate::case::{Case, Exit, Needs, Profiles};
use crate::context::Context;
use crate::stop::Stop;

/// The conformance cases for PJRT plugins.
///
/// ```
/// let suite = pjrt_conformance::Suite::new();
/// assert!(suite.cases().len() >= 300);
/// assert!(suite.find("data.round_trip.host[dtype=f32]").is_some());
/// ```
#[derive(Debug)]
pub struct Suite {
    cases: Vec<Case>,
}

impl Suite {
    /// Creates a suite without cases.
    pub(crate) fn empty() -> Self {
        Self { cases: Vec::new() }
    }

    /// Returns all cases in the order of their declaration.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Returns the case with this id, if the suite contains it.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// Begins the declaration of a case. `id` has the form that [`Case::id`] documents. `clause` is the requirement
    /// that the case checks, and `why` is the reason why the requirement matters.
    pub(crate) fn case(
        &mut self,
        id: impl Into<String>,
        clause: impl Into<String>,
        why: impl Into<String>,
    ) -> Declaration<'_> {
        let case = Case {
            id: id.into(),
            clause: clause.into(),
            why: why.into(),
            profiles: Profiles::FULL,
            needs: Needs { devices: 1, ..Needs::default() },
            isolated: false,
            exit: None,
            time_limit: None,
            check: Box::new(|_| Ok(())),
        };
        Declaration { suite: self, case }
    }
}

/// Builder of a case. [`Declaration::check`] adds the case to the suite.
#[must_use = "call `check` to add the case"]
pub(crate) struct Declaration<'a> {
    suite: &'a mut Suite,
    case: Case,
}

impl Declaration<'_> {
    /// Sets the profiles that contain the case. By default, only the full profile contains the case.
    pub(crate) fn profiles(mut self, profiles: Profiles) -> Self {
        self.case.profiles = profiles;
        self
    }

    /// Adds functions that the plugin must have for the case to run.
    pub(crate) fn functions(mut self, functions: &[Function]) -> Self {
        self.case.needs.functions.extend(functions);
        self
    }

    /// Adds an extension that the plugin must have for the case to run. `number` is its `PJRT_Extension_Type`.
    pub(crate) fn extension(mut self, number: u32) -> Self {
        self.case.needs.extensions.push(number);
        self
    }

    /// Sets the minimum number of addressable devices.
    pub(crate) fn devices(mut self, count: usize) -> Self {
        self.case.needs.devices = count;
        self
    }

    /// Declares that the case needs no client.
    pub(crate) fn without_client(self) -> Self {
        self.devices(0)
    }

    /// Makes the runner execute the case in a worker process of its own.
    pub(crate) fn isolated(mut self) -> Self {
        self.case.isolated = true;
        self
    }

    /// Makes `thread` call `exit` if the check passes, while the objects of the [`Context`] still exist. The case runs
    /// in a worker process of its own.
    pub(crate) fn exits(mut self, thread: Exit) -> Self {
        self.case.isolated = true;
        self.case.exit = Some(thread);
        self
    }

    /// Sets a time limit for the case. The limit applies if it is longer than the limit of the run.
    pub(crate) fn time_limit(mut self, limit: Duration) -> Self {
        self.case.time_limit = Some(limit);
        self
    }

    /// Sets the check function and adds the case to the suite.
    pub(crate) fn check(mut self, check: impl Fn(&Context) -> Result<(), Stop> + Send + Sync + 'static) {
        self.case.check = Box::new(check);
        self.suite.cases.push(self.case);
    }
}
