//! Collectives between the launches of one execution.
//!
//! An execution runs one program on several devices, with one call of [`Driver::prepare`](crate::Driver::prepare) and
//! one of [`Driver::launch`](crate::Driver::launch) for each device. In a collective, such as an all-reduce, the
//! launches exchange arrays. This module contains
//!
//! - [`Member`], in which the launches of an execution meet. [`LaunchRequest::member`](crate::LaunchRequest::member)
//!   contains it. No member waits for one that cannot arrive.
//! - [`Schedule`], an algorithm as plain data: the rounds of copies and reductions.
//! - [`Transport`], the operations that a vendor implements: a copy from the memory of another device, and a reduction
//!   of two ranges of memory of the own device.
//! - [`Member::run`], which performs the part of one member in a schedule over such a transport.
//!
//! | StableHLO op | schedule |
//! |---|---|
//! | `all_gather` | [`Schedule::all_gather`] |
//! | `all_reduce` | [`Schedule::all_reduce`] |
//! | `all_to_all` | [`Schedule::all_to_all`] |
//! | `collective_broadcast` | [`Schedule::broadcast`] |
//! | `collective_permute` | [`Schedule::permute`] |
//! | `reduce_scatter` | [`Schedule::reduce_scatter`] |
//!
//! The parts of an array are ranges of bytes. If a StableHLO op gathers, scatters or splits along another dimension
//! than the first one, the program must transpose the array before or after the collective.
//!
//! # Threads
//!
//! The members of an execution wait for each other, so each launch needs a thread of its own while it runs a
//! collective. [`Driver::launch`](crate::Driver::launch) must not wait. It passes the member to a thread of the driver,
//! for example one for each device. Launches of several executions reach all devices in the same order. A thread that
//! performs the launches of its device one after another therefore never waits for a launch that another device
//! performs later.
//!
//! The waits are short: a member waits until others have *begun* their operations. The operations wait for each other
//! on the devices, by the completions that [`Transport`] receives.
//!
//! # Examples
//!
//! Four members sum arrays of integers. Here, the memory of a device is a vector, and all operations end before the
//! call returns.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use device_runtime::collectives::{Arrays, Member, Place, Schedule, Transport};
//!
//! type Memory = Arc<Mutex<Vec<u8>>>;
//!
//! struct Blocking;
//!
//! impl Transport for Blocking {
//!     type Memory = Memory;
//!     type Completion = ();
//!
//!     fn copy(
//!         &mut self,
//!         from: Place<'_, Memory>,
//!         to: Place<'_, Memory>,
//!         bytes: usize,
//!         _: &[()],
//!     ) -> device_plugin::Result<()> {
//!         let source = from.memory.lock().unwrap()[from.offset..from.offset + bytes].to_vec();
//!         to.memory.lock().unwrap()[to.offset..to.offset + bytes].copy_from_slice(&source);
//!         Ok(())
//!     }
//!
//!     fn reduce(
//!         &mut self,
//!         from: Place<'_, Memory>,
//!         into: Place<'_, Memory>,
//!         bytes: usize,
//!         _: &[()],
//!     ) -> device_plugin::Result<()> {
//!         let source = from.memory.lock().unwrap()[from.offset..from.offset + bytes].to_vec();
//!         let mut into_bytes = into.memory.lock().unwrap();
//!         into_bytes[into.offset..].iter_mut().zip(source).for_each(|(sum, byte)| *sum += byte);
//!         Ok(())
//!     }
//! }
//!
//! let memory = |bytes: Vec<u8>| Arc::new(Mutex::new(bytes));
//! let schedule = Schedule::all_reduce(4, 3, 1)?;
//! let sums = std::thread::scope(|scope| {
//!     let run = |member: Member| {
//!         let schedule = &schedule;
//!         scope.spawn(move || {
//!             let arrays = Arrays {
//!                 input: memory(vec![1, 10, member.id() as u8]),
//!                 output: memory(vec![0; 3]),
//!                 scratch: Some(memory(vec![0; schedule.scratch_bytes()])),
//!                 ready: Vec::new(),
//!             };
//!             let output = Arc::clone(&arrays.output);
//!             member.run(0, &[0, 1, 2, 3], schedule, arrays, &mut Blocking)?;
//!             member.finish();
//!             let sum = output.lock().unwrap().clone();
//!             device_plugin::Result::Ok(sum)
//!         })
//!     };
//!     let threads: Vec<_> = Member::create(4).into_iter().map(run).collect();
//!     threads.into_iter().map(|thread| thread.join().unwrap()).collect::<device_plugin::Result<Vec<_>>>()
//! })?;
//! assert_eq!(sums, vec![vec![4, 40, 6]; 4]);
//! # Ok::<(), device_plugin::Error>(())
//! ```

mod execute;
mod member;
mod ring;
mod schedule;
mod tree;

pub use execute::{Arrays, Place, Transport};
pub use member::Member;
pub use schedule::{ArrayKind, Location, Round, Schedule, Step};
