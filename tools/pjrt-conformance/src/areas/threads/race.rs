//! Races: several threads call the operations of a shared object in random order.

use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pjrt::{Function, LoadedExecutable};

use super::on_threads::on_threads;
use crate::case::Profiles;
use crate::context::Context;
use crate::raw::shared::{Answer, End, Kind, Operation, With, program};
use crate::stop::Stop;

const THREADS: usize = 8;
/// Number of rounds, each with new objects.
const ROUNDS: u64 = 20;
/// Number of random calls of each thread in a round.
const CALLS: usize = 64;
/// Maximum time of a case, apart from its first two rounds. `Settings::stress` replaces a shorter time.
const TIME: Duration = Duration::from_millis(400);
/// Maximum time until the plugin has freed the memory of destroyed objects.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of times that a thread yields before it ends the shared object.
const YIELDS: u64 = 64;

/// The case of a [`Kind`].
pub(super) trait Race: Send + Sync {
    fn name(&self) -> &'static str;

    fn why(&self) -> &'static str;

    fn profiles(&self) -> Profiles;

    /// Returns all functions that the threads call.
    #[cfg(test)]
    fn functions(&self) -> Vec<Function>;

    fn run(&self, cx: &Context) -> Result<(), Stop>;
}

impl<X: Send + Sync + 'static> Race for Kind<X> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn why(&self) -> &'static str {
        self.why
    }

    fn profiles(&self) -> Profiles {
        self.profiles
    }

    #[cfg(test)]
    fn functions(&self) -> Vec<Function> {
        let mut functions =
            self.operations.iter().flat_map(|operation| operation.functions).copied().collect::<Vec<_>>();
        if let End::Completed(function, _) | End::Deleted(function, _) = self.end {
            functions.push(function);
        }
        functions
    }

    fn run(&self, cx: &Context) -> Result<(), Stop> {
        let supported = |function: &Function| cx.plugin().supports(*function);
        if let End::Completed(function, _) | End::Deleted(function, _) = &self.end
            && !supported(function)
        {
            return Err(Stop::Unsupported(format!("the plugin lacks {function}")));
        }
        let mut operations: Vec<_> =
            self.operations.iter().filter(|operation| operation.functions.iter().all(supported)).collect();
        if operations.is_empty() {
            return Err(Stop::Unsupported("the plugin has none of the functions for such objects".to_owned()));
        }
        let loaded = program(cx)?;
        if matches!(self.end, End::Never) {
            self.leave_out_unsupported(&mut operations, cx, &loaded)?;
        }
        let mut random = Random(cx.seed);
        let end = Instant::now() + cx.stress.max(TIME);
        let mut used = None;
        for round in 0.. {
            self.round(cx, &loaded, &operations, random.next(), round, end)?;
            // The first round fills caches.
            used = used.or_else(|| bytes_in_use(cx));
            if round > 0 && (Instant::now() >= end || round + 1 >= ROUNDS && cx.stress.is_zero()) {
                break;
            }
        }
        drop(loaded);
        freed(cx, used)
    }
}

impl<X: Send + Sync + 'static> Kind<X> {
    /// Removes the operations that the plugin implements only by an error.
    ///
    /// # Errors
    ///
    /// Returns [`Stop::Unsupported`] if no operation is left.
    fn leave_out_unsupported(
        &self,
        operations: &mut Vec<&Operation<X>>,
        cx: &Context,
        loaded: &Arc<LoadedExecutable>,
    ) -> Result<(), Stop> {
        let on = self.objects(cx, loaded)?;
        let mut reasons = Vec::new();
        operations.retain(|operation| match (operation.run)(&on) {
            Err(Stop::Unsupported(reason)) => {
                reasons.push(reason);
                false
            }
            _ => true,
        });
        match reasons.into_iter().next() {
            Some(reason) if operations.is_empty() => Err(Stop::Unsupported(reason)),
            _ => (self.finish)(on),
        }
    }

    /// Creates the objects, lets the threads use them, and compares their answers with those that one thread receives.
    /// In every second round, the threads make the first calls for the objects, so that they fill the plugin's caches.
    fn round(
        &self,
        cx: &Context,
        loaded: &Arc<LoadedExecutable>,
        operations: &[&Operation<X>],
        seed: u64,
        round: u64,
        end: Instant,
    ) -> Result<(), Stop> {
        let on = self.objects(cx, loaded)?;
        let alone = || operations.iter().map(|operation| (operation.run)(&on)).collect::<Vec<Answer>>();
        let before = match self.end {
            End::Never => round % 2 == 1,
            End::Completed(..) => false,
            End::Deleted(..) => true,
        };
        let before = before.then(alone);
        let seen = self.race(&on, operations, seed, end)?;
        let expected = before.unwrap_or_else(alone);
        if let Some(Err(Stop::Unsupported(reason))) = expected.first()
            && expected.iter().all(|answer| matches!(answer, Err(Stop::Unsupported(_))))
        {
            return Err(Stop::Unsupported(reason.clone()));
        }
        for (thread, at, answer) in seen {
            let deleted = answer.is_err() && matches!(self.end, End::Deleted(..));
            ensure!(
                answer == expected[at] || deleted,
                "{:?} in thread {thread} of {THREADS}: found {answer:?}, but {:?} while one thread used the object (seed \
                 {}, round {round})",
                operations[at].functions,
                expected[at],
                cx.seed
            );
        }
        (self.finish)(on)
    }

    /// Lets all threads use the objects. Returns each different answer of each thread to each operation.
    fn race(
        &self,
        on: &With<X>,
        operations: &[&Operation<X>],
        seed: u64,
        end: Instant,
    ) -> Result<Vec<(usize, usize, Answer)>, Stop> {
        let order = Random(seed).order(operations.len());
        let (start, seen) = (Barrier::new(THREADS), Mutex::new(Vec::new()));
        on_threads(THREADS, |thread| {
            let mut random = Random(seed.wrapping_add(thread as u64 + 1));
            let mut found: Vec<(usize, usize, Answer)> = Vec::new();
            let mut call = |at: usize| {
                let answer = (thread, at, (operations[at].run)(on));
                if !found.contains(&answer) {
                    found.push(answer);
                }
            };
            match &self.end {
                // All threads begin with the same operation at the same time, so that the first calls overlap.
                End::Never => order.iter().for_each(|at| {
                    start.wait();
                    call(*at);
                }),
                End::Completed(_, finish) | End::Deleted(_, finish) => {
                    start.wait();
                    if thread == 0 {
                        (0..random.below(YIELDS)).for_each(|_| std::thread::yield_now());
                        finish(on)?;
                    }
                }
            }
            for _ in 0..CALLS {
                call(usize::try_from(random.below(operations.len() as u64)).unwrap_or(0));
                if Instant::now() >= end {
                    break;
                }
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).append(&mut found);
            Ok(())
        })?;
        Ok(seen.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the memory in use, if the plugin reports it.
fn bytes_in_use(cx: &Context) -> Option<i64> {
    cx.device().ok()?.memory_stats().ok().map(|stats| stats.bytes_in_use)
}

/// Checks that no more memory is in use than before. Waits, because the plugin may free memory on another thread.
fn freed(cx: &Context, before: Option<i64>) -> Result<(), Stop> {
    let Some(before) = before else { return Ok(()) };
    let start = Instant::now();
    while bytes_in_use(cx).is_some_and(|now| now > before) {
        ensure!(
            start.elapsed() < PATIENCE,
            "the memory in use grew from {before} to {:?} bytes although all objects were destroyed (seed {})",
            bytes_in_use(cx),
            cx.seed
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Generator of pseudo-random numbers ([SplitMix64](https://prng.di.unimi.it/splitmix64.c)).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns the numbers below `count` in random order.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<(u64, usize)> = (0..count).map(|at| (self.next(), at)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, at)| at).collect()
    }
}
