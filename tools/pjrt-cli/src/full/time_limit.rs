//! The time limit of commands that run a plugin in another process.

use std::time::Duration;

/// The option `--timeout`.
#[derive(clap::Args)]
pub(crate) struct TimeLimit {
    /// How long a plugin may take, such as `500ms`, `10s` or `2m`.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Parses a duration such as `500ms`, `10s` or `2m`. A number without a unit is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let fault = || format!("{text:?} is not a time; write a number and ms, s or m, such as 10s");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| fault())?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "s" | "" => number,
        "m" => number * 60.0,
        _ => return Err(fault()),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(fault()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for wrong in ["", "s", "0s", "-1s", "1h", "1.2.3s", "99999999999999999999999s"] {
            assert!(duration(wrong).unwrap_err().contains("such as 10s"), "{wrong}");
        }
    }
}
