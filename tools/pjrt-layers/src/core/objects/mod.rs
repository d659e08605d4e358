//! Objects that begin with a function table of their own, and calls through these tables.

mod calls;
mod forwarders;
mod tables;
mod words;

pub(crate) use calls::{Passed, Returned, Target, To, back, call as call_object};
pub(crate) use forwarders::object_functions;
pub(crate) use tables::{HasTable, ObjectForwarder};

pub(super) use tables::{ObjectKind, ObjectTables};
