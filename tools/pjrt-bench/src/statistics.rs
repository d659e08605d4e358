//! Timing statistics of work that is repeated many times.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Statistics of the time of one execution or compilation, in seconds. They come from many repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Times {
    /// Median of the elapsed time.
    pub median: f64,
    /// Lower quartile of the elapsed time.
    pub lower_quartile: f64,
    /// Upper quartile of the elapsed time.
    pub upper_quartile: f64,
    /// Mean processor time of all threads. `None` if the system does not measure it.
    pub processor_time: Option<f64>,
    /// Number of repetitions.
    pub repetitions: u64,
}

/// Samples of the time that the work of one side takes.
pub(crate) struct Samples {
    /// Number of repetitions in one sample, chosen so that a sample takes long compared with the clock's resolution.
    batch: u32,
    passed: Vec<f64>,
    processors: f64,
}

/// Minimum duration of a sample in seconds. Samples of a thousand repetitions may be shorter.
const SAMPLE: f64 = 20e-6;

impl Samples {
    /// Runs the work twice to determine the number of repetitions in a sample.
    pub(crate) fn new<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<Self, E> {
        let once = spent(1, &mut work)?.0.min(spent(1, &mut work)?.0);
        let batch = (1..1000).find(|count| f64::from(*count) * once >= SAMPLE).unwrap_or(1000);
        Ok(Self { batch, passed: Vec::new(), processors: 0.0 })
    }

    /// Runs the work `batch` times, and adds the measured times as one sample.
    pub(crate) fn add<E>(&mut self, work: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let (passed, processors) = spent(self.batch, work)?;
        self.passed.push(passed / f64::from(self.batch));
        self.processors += processors;
        Ok(())
    }

    /// Returns the number of samples.
    pub(crate) fn len(&self) -> usize {
        self.passed.len()
    }

    pub(crate) fn times(mut self) -> Times {
        self.passed.sort_by(f64::total_cmp);
        let at = |part: usize| self.passed.get(self.passed.len() * part / 4).copied().unwrap_or_default();
        let repetitions = self.passed.len() as u64 * u64::from(self.batch);
        #[expect(clippy::cast_precision_loss, reason = "a count of repetitions is small")]
        let processor_time = (self.processors > 0.0).then(|| self.processors / repetitions as f64);
        Times { median: at(2), lower_quartile: at(1), upper_quartile: at(3), processor_time, repetitions }
    }
}

/// Runs the work `repetitions` times. Returns the total elapsed time and the total processor time, in seconds.
fn spent<E>(repetitions: u32, mut work: impl FnMut() -> Result<(), E>) -> Result<(f64, f64), E> {
    let (start, before) = (Instant::now(), processors());
    for _ in 0..repetitions {
        work()?;
    }
    Ok((start.elapsed().as_secs_f64(), processors().saturating_sub(before).as_secs_f64()))
}

/// Returns the processor time that all threads of this process have used so far. Returns zero if the system does not
/// measure it.
fn processors() -> Duration {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn quartiles_of_samples() {
        let samples = Samples { batch: 2, passed: vec![4.0, 1.0, 3.0, 2.0, 5.0], processors: 20.0 };
        let times = samples.times();
        assert_eq!((times.lower_quartile, times.median, times.upper_quartile), (2.0, 3.0, 4.0));
        assert_eq!((times.processor_time, times.repetitions), (Some(2.0), 10));
    }

    #[test]
    fn short_work_is_repeated_within_a_sample() {
        let mut calls = 0;
        let mut work = || {
            calls += 1;
            Ok::<(), Infallible>(())
        };
        let mut samples = Samples::new(&mut work).unwrap();
        samples.add(&mut work).unwrap();
        assert!(samples.batch > 1, "{}", samples.batch);
        assert_eq!(calls, 2 + samples.batch);
    }
}
