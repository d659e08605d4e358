//! The processes of a run: the guard, the worker, and the lines that they write.

pub mod guard;
pub mod lines;
pub mod worker;
