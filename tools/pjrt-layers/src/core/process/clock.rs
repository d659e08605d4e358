//! Timestamps that take a few nanoseconds to read on processors with a constant tick rate.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that counts the ticks of the processor if their rate is constant, and nanoseconds otherwise.
#[derive(Debug)]
pub(crate) struct Clock {
    ticks: u64,
    instant: Instant,
    unix_nanos: u64,
    steady: bool,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_nanos = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        let mut clock = Self { ticks: 0, instant: Instant::now(), unix_nanos, steady: has_steady_ticks() };
        clock.ticks = clock.now();
        clock
    }

    /// Returns the current time in ticks.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.steady {
            return ticks();
        }
        u64::try_from(self.instant.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the scale that converts ticks to nanoseconds. Computes the scale from the ticks and the time since the
    /// clock was created.
    pub(crate) fn scale(&self) -> Scale {
        let (now, elapsed) = (self.now(), self.instant.elapsed());
        let ticks = now.saturating_sub(self.ticks).max(1);
        let nanos_per_tick = if self.steady { elapsed.as_secs_f64() * 1e9 / to_float(ticks) } else { 1.0 };
        Scale { ticks: self.ticks, unix_nanos: self.unix_nanos, nanos_per_tick }
    }
}

/// Converts ticks to nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    ticks: u64,
    unix_nanos: u64,
    nanos_per_tick: f64,
}

impl Scale {
    /// Converts a duration from ticks to nanoseconds.
    pub(crate) fn nanos(&self, ticks: u64) -> u64 {
        from_float(to_float(ticks) * self.nanos_per_tick)
    }

    /// Converts a time from ticks to nanoseconds since the Unix epoch.
    pub(crate) fn unix_nanos(&self, ticks: u64) -> u64 {
        self.unix_nanos.saturating_add(self.nanos(ticks.saturating_sub(self.ticks)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a float keeps 52 bits of the ticks, enough for a run of weeks")]
fn to_float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn from_float(number: f64) -> u64 {
    number as u64
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: L7 (processor): every processor of this architecture has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns whether the tick rate is constant in all power states and the same on all cores.
#[cfg(target_arch = "x86_64")]
fn has_steady_ticks() -> bool {
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    std::arch::x86_64::__cpuid(0x8000_0000).eax >= POWER && std::arch::x86_64::__cpuid(POWER).edx & INVARIANT != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn has_steady_ticks() -> bool {
    false
}
