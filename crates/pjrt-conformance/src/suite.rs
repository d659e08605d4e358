//! The list of all cases, and the builder with which the areas declare them.

use std::time::Duration;

use pjrt::Function;

use crate::case::{Case, Exit, Needs, Profiles};
use crate::context::Context;
use crate::stop::Stop;

/// All cases.
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
    /// A suite without cases.
    pub(crate) fn empty() -> Self {
        Self { cases: Vec::new() }
    }

    /// The cases, area by area.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// The case with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// Begins the declaration of a case: its id, the clause that it checks, and why it matters.
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

/// A case that is being declared. [`Declaration::check`] adds it to the suite.
#[must_use = "call `check` to add the case"]
pub(crate) struct Declaration<'a> {
    suite: &'a mut Suite,
    case: Case,
}

impl Declaration<'_> {
    /// Sets the profiles that contain the case. By default, only the full profile contains it.
    pub(crate) fn profiles(mut self, profiles: Profiles) -> Self {
        self.case.profiles = profiles;
        self
    }

    /// Adds functions that the case needs.
    pub(crate) fn functions(mut self, functions: &[Function]) -> Self {
        self.case.needs.functions.extend(functions);
        self
    }

    /// Adds an extension that the case needs.
    pub(crate) fn extension(mut self, number: u32) -> Self {
        self.case.needs.extensions.push(number);
        self
    }

    /// Sets the minimum number of devices.
    pub(crate) fn devices(mut self, count: usize) -> Self {
        self.case.needs.devices = count;
        self
    }

    /// Declares that the case needs no client.
    pub(crate) fn without_client(self) -> Self {
        self.devices(0)
    }

    /// Runs the case in a process without other cases.
    pub(crate) fn isolated(mut self) -> Self {
        self.case.isolated = true;
        self
    }

    /// After the check, ends the process with `exit` on this thread, while the context's objects still exist.
    pub(crate) fn exits(mut self, thread: Exit) -> Self {
        self.case.isolated = true;
        self.case.exit = Some(thread);
        self
    }

    /// Sets the case's own time limit, in place of the run's.
    pub(crate) fn time_limit(mut self, limit: Duration) -> Self {
        self.case.time_limit = Some(limit);
        self
    }

    /// Adds the case with its check.
    pub(crate) fn check(mut self, check: impl Fn(&Context) -> Result<(), Stop> + Send + Sync + 'static) {
        self.case.check = Box::new(check);
        self.suite.cases.push(self.case);
    }
}
