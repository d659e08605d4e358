//! A driver for tests. Its devices are threads that run works with random delays. A [`Control`](control::Control)
//! injects failures and checks that the runtime keeps its promises.

pub(crate) mod control;
pub(crate) mod driver;
pub(crate) mod features;
pub(crate) mod program;
