//! Counts the calls and failures of each function, and computes the total, minimum and maximum time of the calls.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::generated::{COUNT, FUNCTIONS};

/// The counters of one thread. There are five counters for each function, and their times are in clock ticks.
#[derive(Debug)]
pub(super) struct Counters(Box<[[AtomicU64; 5]]>);

const CALLS: usize = 0;
const FAILED: usize = 1;
const TOTAL: usize = 2;
const MIN: usize = 3;
const MAX: usize = 4;

impl Counters {
    pub(super) fn new() -> Self {
        Self((0..COUNT).map(|_| [0, 0, 0, u64::MAX, 0].map(AtomicU64::new)).collect())
    }

    /// Adds a call of the function with the index `id`. Only the thread that owns the counters may call this, because
    /// an update is a load and a store, and not one atomic operation.
    #[inline]
    pub(super) fn add(&self, id: usize, duration: u64, failed: bool) {
        let counters = &self.0[id];
        let get = |at: usize| counters[at].load(Ordering::Relaxed);
        let set = |at: usize, value| counters[at].store(value, Ordering::Relaxed);
        set(CALLS, get(CALLS) + 1);
        set(TOTAL, get(TOTAL) + duration);
        if failed {
            set(FAILED, get(FAILED) + 1);
        }
        if duration < get(MIN) {
            set(MIN, duration);
        }
        if duration > get(MAX) {
            set(MAX, duration);
        }
    }

    /// Returns the totals of the function with the index `id`. `nanos` converts ticks to nanoseconds.
    pub(super) fn totals(&self, id: usize, nanos: impl Fn(u64) -> u64) -> Totals {
        let get = |at: usize| self.0[id][at].load(Ordering::Relaxed);
        if get(CALLS) == 0 {
            return Totals::default();
        }
        Totals {
            calls: get(CALLS),
            failed: get(FAILED),
            total_ns: nanos(get(TOTAL)),
            min_ns: nanos(get(MIN)),
            max_ns: nanos(get(MAX)),
        }
    }
}

/// The counts of the calls and failures of a function, and the durations of its calls in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that returned an error.
    pub failed: u64,
    /// Sum of the durations of all calls.
    pub total_ns: u64,
    /// Shortest duration of a call, or 0 if there are no calls.
    pub min_ns: u64,
    /// Longest duration of a call, or 0 if there are no calls.
    pub max_ns: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        if other.calls == 0 {
            return;
        }
        self.min_ns = if self.calls == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.calls += other.calls;
        self.failed += other.failed;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

/// The [`Totals`] of each function. Can be displayed as a table and converted to JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(Vec<(String, Totals)>);

impl Tally {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Counters>, nanos: impl Fn(u64) -> u64) -> Self {
        let mut tally = Self::default();
        for counters in all {
            for (id, function) in FUNCTIONS.iter().enumerate() {
                tally.add(function.name, counters.totals(id, &nanos));
            }
        }
        tally
    }

    fn add(&mut self, name: &str, totals: Totals) {
        if totals.calls == 0 {
            return;
        }
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => sum.add(totals),
            None => self.0.push((name.to_owned(), totals)),
        }
    }

    /// Adds the totals in `other`, for example those of another process.
    pub fn merge(&mut self, other: &Self) {
        for (name, totals) in &other.0 {
            self.add(name, *totals);
        }
    }

    /// Returns the functions that were called, with their totals.
    pub fn functions(&self) -> impl Iterator<Item = (&str, Totals)> {
        self.0.iter().map(|(name, totals)| (name.as_str(), *totals))
    }

    /// Returns the totals as a JSON array with one object for each function.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row = |(name, t): &(String, Totals)| {
            json!({
                "function": name, "calls": t.calls, "failed": t.failed,
                "total_ns": t.total_ns, "min_ns": t.min_ns, "max_ns": t.max_ns,
            })
        };
        self.0.iter().map(row).collect()
    }

    /// Creates a tally from the result of [`Self::to_json`]. Returns `None` if the JSON value does not have this
    /// structure.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let mut tally = Self::default();
        for row in value.as_array()? {
            let get = |name: &str| row.get(name)?.as_u64();
            let totals = Totals {
                calls: get("calls")?,
                failed: get("failed")?,
                total_ns: get("total_ns")?,
                min_ns: get("min_ns")?,
                max_ns: get("max_ns")?,
            };
            tally.add(row.get("function")?.as_str()?, totals);
        }
        Some(tally)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by(|(a, x), (b, y)| y.total_ns.cmp(&x.total_ns).then(a.cmp(b)));
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(8);
        let head = ["calls", "failed", "total", "mean", "min", "max"];
        writeln!(
            f,
            "{:width$} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10}",
            "function", head[0], head[1], head[2], head[3], head[4], head[5]
        )?;
        for (name, t) in rows {
            let mean = t.total_ns / t.calls.max(1);
            let times = [t.total_ns, mean, t.min_ns, t.max_ns].map(Time);
            writeln!(
                f,
                "{name:width$} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10}",
                t.calls, t.failed, times[0], times[1], times[2], times[3]
            )?;
        }
        Ok(())
    }
}

/// A duration in nanoseconds, which is displayed with a suitable unit.
struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let unit = UNITS.iter().find(|(size, _)| self.0 >= *size);
        let text = match unit {
            Some((size, name)) => format!("{}.{:02} {name}", self.0 / size, self.0 % size * 100 / size),
            None => format!("{} ns", self.0),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_processes() {
        let of = |calls, total_ns, min_ns, max_ns| {
            let mut tally = Tally::default();
            tally.add("f", Totals { calls, failed: 1, total_ns, min_ns, max_ns });
            tally
        };
        let mut sum = Tally::from_json(&of(2, 30, 10, 20).to_json()).unwrap();
        sum.merge(&of(1, 5, 5, 5));
        let totals = Totals { calls: 3, failed: 2, total_ns: 35, min_ns: 5, max_ns: 20 };
        assert_eq!(sum.functions().collect::<Vec<_>>(), [("f", totals)]);
    }

    #[test]
    fn table_is_sorted_by_time() {
        let mut tally = Tally::default();
        tally.add("short", Totals { calls: 1, failed: 0, total_ns: 900, min_ns: 900, max_ns: 900 });
        tally.add("long", Totals { calls: 2, failed: 1, total_ns: 3_500_000, min_ns: 1_000_000, max_ns: 2_500_000 });
        let text = tally.to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["long", "2", "1", "3.50", "ms", "1.75", "ms", "1.00", "ms", "2.50", "ms"]);
        assert_eq!(lines[2], ["short", "1", "0", "900", "ns", "900", "ns", "900", "ns", "900", "ns"]);
    }
}
