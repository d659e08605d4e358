//! Runs a case on all sides alternately, and measures the times.

use std::time::{Duration, Instant};

use pjrt::{ElementType, HostArray};
use pjrt_record::replay::{Tolerance, compare};

use crate::report::{CaseReport, SideReport};
use crate::side::Compiled;
use crate::statistics::{Samples, Times};
use crate::{Case, Error, Side};

/// Minimum number of samples for a meaningful median.
const FEWEST_SAMPLES: usize = 7;

/// Settings for the measurement of a case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Total time for executing a case on all sides. Unless this is zero, each side takes at least seven samples.
    pub execution: Duration,
    /// Total time for compiling a case on all sides. If this is zero, each side compiles a few times and takes one
    /// sample.
    pub compilation: Duration,
    /// How much the outputs of the sides may differ from those of the first side. If this is `None`, the outputs are
    /// not compared.
    pub tolerance: Option<Tolerance>,
}

impl Default for Settings {
    fn default() -> Self {
        let tolerance = Tolerance::default()
            .with_all(1e-4)
            .with(ElementType::F64, 1e-9)
            .with(ElementType::C128, 1e-9)
            .with(ElementType::F16, 1e-2)
            .with(ElementType::Bf16, 5e-2);
        Self { execution: Duration::from_secs(2), compilation: Duration::from_millis(500), tolerance: Some(tolerance) }
    }
}

impl Settings {
    /// Sets the total time for executing a case on all sides, in seconds. Sets the total time for compiling to a
    /// quarter of it.
    #[must_use]
    pub fn with_seconds(mut self, seconds: f64) -> Self {
        let duration = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        (self.execution, self.compilation) = (duration, duration / 4);
        self
    }

    /// Sets how much the outputs may differ. With `None`, the outputs are not compared.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Option<Tolerance>) -> Self {
        self.tolerance = tolerance;
        self
    }
}

/// Measures a case on each side.
///
/// # Errors
///
/// Returns an error if a side cannot compile or run the case, or if its outputs differ from those of the first side by
/// more than the tolerance.
pub fn measure(case: &Case, sides: &[Side], settings: &Settings) -> Result<CaseReport, Error> {
    let compiled = sides.iter().enumerate().map(|(index, side)| side.compile(index, case));
    let compiled = compiled.collect::<Result<Vec<_>, _>>()?;
    if let Some(tolerance) = &settings.tolerance {
        compare_outputs(case, sides, &compiled, tolerance)?;
    }
    let executions = alternate(&compiled, settings.execution, |side| side.execute().map(drop))?;
    let compilations = alternate(&compiled, settings.compilation, Compiled::compile_again)?;
    let side = |(execution, compilation)| SideReport { execution, compilation };
    let sides = executions.into_iter().zip(compilations).map(side).collect();
    Ok(CaseReport { name: case.name.clone(), sides })
}

/// Repeats the work of all sides alternately, for about `length` in total. Returns the times of each side.
fn alternate<'a>(
    sides: &[Compiled<'a>],
    length: Duration,
    work: impl Fn(&Compiled<'a>) -> Result<(), Error>,
) -> Result<Vec<Times>, Error> {
    let start = Instant::now();
    let mut samples = sides.iter().map(|side| Samples::new(|| work(side))).collect::<Result<Vec<_>, _>>()?;
    loop {
        for (side, samples) in sides.iter().zip(&mut samples) {
            samples.add(|| work(side))?;
        }
        let rounds = samples.first().map_or(usize::MAX, Samples::len);
        if start.elapsed() >= length && (rounds >= FEWEST_SAMPLES || length.is_zero()) {
            return Ok(samples.into_iter().map(Samples::times).collect());
        }
    }
}

/// Compares the outputs of all sides with those of the first side.
fn compare_outputs(case: &Case, sides: &[Side], compiled: &[Compiled<'_>], tolerance: &Tolerance) -> Result<(), Error> {
    let Some(((first, others), reference)) = compiled.split_first().zip(sides.first()) else { return Ok(()) };
    let expected = first.outputs()?;
    for (compiled, side) in others.iter().zip(&sides[1..]) {
        let got = compiled.outputs()?;
        let names = || (case.name.clone(), side.name().to_owned(), reference.name().to_owned());
        if expected.iter().map(HostArray::shape).ne(got.iter().map(HostArray::shape)) {
            let (case, side, first) = names();
            return Err(Error::Shapes { case, side, first, got: shapes(&got), expected: shapes(&expected) });
        }
        for (output, (expected, got)) in expected.iter().zip(&got).enumerate() {
            if let Some(difference) = compare(expected.shape(), expected.bytes(), got.bytes(), tolerance) {
                let (case, side, first) = names();
                return Err(Error::Values { case, side, first, output, difference: Box::new(difference) });
            }
        }
    }
    Ok(())
}

fn shapes(arrays: &[HostArray]) -> String {
    let shapes: Vec<String> = arrays.iter().map(|array| array.shape().to_string()).collect();
    format!("({})", shapes.join(", "))
}

#[cfg(test)]
mod tests {
    use pjrt::{ClientOptions, Program, Shape};

    use super::*;
    use crate::{Report, chart};

    fn sides() -> Vec<Side> {
        let plugin = pjrt::Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
        let side = |name: &str| Side::new(name, plugin.client(&ClientOptions::new()).unwrap());
        vec![side("first"), side("<second>")]
    }

    /// Returns a program that applies an op to its input.
    fn program(op: &str) -> Program {
        Program::mlir(format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{ %0 = stablehlo.{op} %x : tensor<4xf32> return %0 : \
             tensor<4xf32> }}"
        ))
    }

    fn case(first: &str, second: &str) -> Case {
        let forms = vec![program(first), program(second)];
        let case = Case::with_random_inputs("op", program(first), &[Shape::new(ElementType::F32, [4])]).unwrap();
        case.with_forms(forms)
    }

    #[test]
    fn equal_sides_have_times() {
        let (sides, settings) = (sides(), Settings::default().with_seconds(0.02));
        let case = measure(&case("sine", "sine"), &sides, &settings).unwrap();
        assert_eq!(case.sides.len(), 2);
        for side in &case.sides {
            for times in [side.execution, side.compilation] {
                assert!(times.median > 0.0 && times.repetitions >= 7, "{times:?}");
                assert!(times.lower_quartile <= times.median && times.median <= times.upper_quartile, "{times:?}");
            }
        }
        let report = Report::new(&sides, vec![case]);
        assert!(report.to_string().contains("<second>"), "{report}");
        let json = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_str(&json).unwrap();
        assert_eq!((read.version, read.plugins.len(), read.cases[0].name.as_str()), (1, 2, "op"));
        let chart = chart(&report).unwrap();
        assert!(chart.contains("&lt;second&gt;") && chart.contains("<rect"), "{chart}");
    }

    #[test]
    fn different_values_are_an_error() {
        let settings = Settings::default().with_seconds(0.0);
        let error = measure(&case("sine", "cosine"), &sides(), &settings).unwrap_err();
        let Error::Values { output: 0, difference, .. } = error else { panic!("{error}") };
        assert_eq!(difference.count, 4);
        let settings = settings.with_tolerance(None);
        assert!(measure(&case("sine", "cosine"), &sides(), &settings).is_ok());
    }

    #[test]
    fn failures_name_the_case_and_the_side() {
        let error = measure(&case("sine", "nonsense"), &sides(), &Settings::default()).unwrap_err();
        let Error::Plugin { case, side, step: "compile", .. } = error else { panic!("{error}") };
        assert_eq!((case.as_str(), side.as_str()), ("op", "<second>"));
    }

    #[test]
    fn one_side_has_no_chart() {
        let sides = &sides()[..1];
        let case = measure(&case("sine", "sine"), sides, &Settings::default().with_seconds(0.0)).unwrap();
        assert_eq!(case.ratio(), None);
        assert_eq!(chart(&Report::new(sides, vec![case])), None);
    }
}
