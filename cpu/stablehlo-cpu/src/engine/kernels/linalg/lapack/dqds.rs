//! Singular values of bidiagonal matrices, by the differential quotient-difference algorithm with shifts.
//!
//! K. V. Fernando and B. N. Parlett, "Accurate singular values and differential qd algorithms", Numerische Mathematik
//! 67 (1994). The algorithm computes all singular values of a bidiagonal matrix to high relative accuracy.
//!
//! The squares of the singular values of `b` are the eigenvalues of the tridiagonal matrix `b b^T`. Each step subtracts
//! a shift from these eigenvalues. A zero shift is always possible. If the shift exceeds the smallest eigenvalue, an
//! intermediate value `d` of the step becomes negative, and the step is repeated with a smaller shift.

/// Relative error of an eigenvalue that a split of a segment may cause.
const TOLERANCE: f64 = 0.5 * f64::EPSILON;
/// Initial ratio of the shift to the smallest `d` of the previous step, if this is not the last `d`.
const INTERIOR: f64 = 0.3;
/// Maximum number of steps per singular value, on average.
const STEPS: usize = 200;

/// A part of the matrix that does not interact with the other parts.
struct Segment {
    /// The quotients, which are the squares of the diagonal elements of the shifted matrix.
    q: Vec<f64>,
    /// The differences, which are the squares of the off-diagonal elements of the shifted matrix.
    e: Vec<f64>,
    /// Sum of the shifts of all steps.
    shift: f64,
}

/// The intermediate values `d` of a step. A quotient is the sum of a `d` and a difference of the previous step.
struct Step {
    /// The smallest `d`, except for the last one.
    least: f64,
    /// The last `d`, which is also the last quotient.
    last: f64,
}

/// Replaces the diagonal `d` of a bidiagonal matrix by its singular values in descending order. `e` is the
/// off-diagonal. Squares of the elements must not overflow. Returns whether the algorithm converged.
pub(super) fn singular_values(d: &mut [f64], e: &[f64]) -> bool {
    let square = |x: &f64| x * x;
    let (q, e) = (d.iter().map(square).collect(), e.iter().map(square).collect());
    let whole = Segment { q, e, shift: 0.0 };
    let mut found = Vec::with_capacity(d.len());
    let mut segments = vec![whole];
    let mut steps = STEPS * d.len();
    while let Some(segment) = segments.pop() {
        if !segment.reduce(&mut found, &mut segments, &mut steps) {
            return false;
        }
    }
    found.sort_by(|a, b| b.total_cmp(a));
    d.iter_mut().zip(found).for_each(|(d, square)| *d = square.sqrt());
    true
}

impl Segment {
    /// Appends eigenvalues of the segment to `found`, until the segment is empty or splits. If it splits, appends its
    /// parts to `segments`. Decrements `steps` for each step, and returns false if no steps are left.
    fn reduce(mut self, found: &mut Vec<f64>, segments: &mut Vec<Self>, steps: &mut usize) -> bool {
        // The smallest eigenvalues converge first, at the end of the segment. If the elements increase toward the end,
        // reverse the segment.
        if let (Some(first), Some(last)) = (self.q.first(), self.q.last())
            && 1.5 * first < *last
        {
            self.q.reverse();
            self.e.reverse();
        }
        let (mut next_q, mut next_e) = (self.q.clone(), self.e.clone());
        let mut previous: Option<Step> = None;
        // Ratio of the next shift to the smallest `d`, if this is not the last `d`.
        let mut interior = INTERIOR;
        loop {
            self.deflate(found);
            let n = self.q.len();
            if n == 0 {
                return true;
            }
            if let Some(at) = (0..n - 1).rev().find(|&k| self.negligible(k, 0.0)) {
                let later = Self { q: self.q.split_off(at + 1), e: self.e.split_off(at + 1), shift: self.shift };
                self.e.truncate(at);
                segments.extend([later, self]);
                return true;
            }
            let mut shift = previous.as_ref().map_or(0.0, |step| self.next_shift(step, &mut interior));
            let mut failures = 0;
            let step = loop {
                if *steps == 0 {
                    return false;
                }
                *steps -= 1;
                let step = self.step(shift, &mut next_q[..n], &mut next_e[..n - 1]);
                if shift == 0.0 || (step.least >= 0.0 && step.last >= 0.0) {
                    break step;
                }
                // If only the last `d` is negative, the sum of the shift and this `d` is a good smaller shift.
                let late = step.least > 0.0 && step.last < 0.0 && shift + step.last > 0.0;
                failures += 1;
                shift = match failures {
                    1 | 2 if late => (shift + step.last) * (1.0 - 4.0 * f64::EPSILON),
                    1 => 0.25 * shift,
                    _ => 0.0,
                };
                interior = INTERIOR;
            };
            self.q.copy_from_slice(&next_q[..n]);
            self.e.copy_from_slice(&next_e[..n - 1]);
            self.shift += shift;
            previous = Some(step);
        }
    }

    /// Returns whether the segment can be split after row `k`. `least` is an estimate of the eigenvalue whose relative
    /// error counts, without the sum of the shifts.
    ///
    /// The split changes a diagonal element of the tridiagonal matrix by `e[k]`, and sets an off-diagonal element to
    /// zero. All eigenvalues are at least as large as the sum of the shifts.
    fn negligible(&self, k: usize, least: f64) -> bool {
        let error = TOLERANCE * (self.shift + least);
        self.e[k] <= error && self.e[k] * self.q[k + 1] <= error * error
    }

    /// Removes converged eigenvalues from the end of the segment, and appends them to `found`.
    fn deflate(&mut self, found: &mut Vec<f64>) {
        loop {
            match self.q.len() {
                0 => return,
                1 => found.push(self.q[0] + self.shift),
                n if self.negligible(n - 2, self.q[n - 1]) => {
                    found.push(self.q[n - 1] + self.shift);
                    self.e.pop();
                }
                n if n == 2 || self.negligible(n - 3, self.smaller()) => {
                    let smaller = self.smaller();
                    let larger = self.larger();
                    found.extend([larger + self.shift, smaller + self.shift]);
                    self.q.truncate(n - 1);
                    self.e.truncate(n.saturating_sub(3));
                }
                _ => return,
            }
            self.q.pop();
        }
    }

    /// Returns the larger eigenvalue of the last two rows, without the sum of the shifts.
    fn larger(&self) -> f64 {
        let n = self.q.len();
        let (a, b, c) = (self.q[n - 2], self.e[n - 2], self.q[n - 1]);
        let sum = a + b + c;
        // The eigenvalues differ by the root of (a + b + c)^2 - 4 a c. To avoid cancellation, compute the radicand as
        // (a - c)^2 + b (2 a + 2 c + b).
        0.5 * (sum + ((a - c) * (a - c) + b * (2.0 * a + 2.0 * c + b)).sqrt())
    }

    /// Returns the smaller eigenvalue of the last two rows, without the sum of the shifts.
    fn smaller(&self) -> f64 {
        let n = self.q.len();
        // The product of the eigenvalues is the product of the quotients.
        let larger = self.larger();
        if larger == 0.0 { 0.0 } else { self.q[n - 2] * (self.q[n - 1] / larger) }
    }

    /// Returns the next shift, an estimate of the smallest eigenvalue that is rarely too large. Also updates
    /// `interior`.
    fn next_shift(&self, previous: &Step, interior: &mut f64) -> f64 {
        let n = self.q.len();
        if n < 3 || previous.last > previous.least {
            let shift = *interior * previous.least.min(previous.last).max(0.0);
            *interior += 0.3 * (1.0 - *interior);
            return shift;
        }
        *interior = INTERIOR;
        // The last two rows have an eigenvector with components of the magnitudes `t` and 1.
        let smaller = self.smaller();
        let (a, b, c) = (self.q[n - 2], self.e[n - 2], self.q[n - 1]);
        let denominator = a + b - smaller;
        let t = if denominator > 0.0 { (b * c).sqrt() / denominator } else { 1.0 };
        // The distance from `smaller` to the nearest eigenvalue is at most the norm of the residual. If the other
        // eigenvalues are far away, it is at most the square of the norm divided by their distance. `residual` is the
        // square of the norm.
        let residual = self.e[n - 3] * a * t * t / (1.0 + t * t);
        let gap = 0.5 * previous.least - smaller;
        let error = if gap > 0.0 { residual.sqrt().min(residual / gap) } else { residual.sqrt() };
        let shift = smaller - error;
        if shift > 0.0 { shift * (1.0 - 4.0 * f64::EPSILON) } else { 0.25 * previous.last.max(0.0) }
    }

    /// Writes the quotients and differences after a step with this shift to `next_q` and `next_e`.
    fn step(&self, shift: f64, next_q: &mut [f64], next_e: &mut [f64]) -> Step {
        let mut d = self.q[0] - shift;
        let mut least = f64::INFINITY;
        for i in 0..self.e.len() {
            least = if d < least { d } else { least };
            let q = d + self.e[i];
            next_q[i] = q;
            let ratio = if q == 0.0 { 0.0 } else { self.q[i + 1] / q };
            next_e[i] = self.e[i] * ratio;
            d = d * ratio - shift;
        }
        next_q[self.e.len()] = d;
        Step { least, last: d }
    }
}

#[cfg(test)]
mod tests {
    use stablehlo_cpu_math::faer::Mat;

    use super::singular_values;

    fn found(name: &str, d: &[f64], e: &[f64]) -> Vec<f64> {
        let mut values = d.to_vec();
        assert!(singular_values(&mut values, e), "{name} of {} rows", d.len());
        assert!(values.is_sorted_by(|a, b| a >= b), "{name}");
        values
    }

    /// Compares the singular values with those that `faer` computes from the whole matrix.
    fn check(name: &str, d: &[f64], e: &[f64]) {
        let b = Mat::from_fn(d.len(), d.len(), |i, j| match j.wrapping_sub(i) {
            0 => d[i],
            1 => e[i],
            _ => 0.0,
        });
        let expected = b.singular_values().unwrap();
        for (value, expected_value) in found(name, d, e).iter().zip(&expected) {
            let error = (value - expected_value).abs();
            assert!(error <= 1e-13 * expected[0], "{name} of {} rows: {value}, {expected_value}", d.len());
        }
    }

    fn number(i: usize) -> f64 {
        let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        f64::from(u16::try_from((bits ^ (bits >> 29)) >> 7 & 0xffff).unwrap()) / 32768.0 - 1.0
    }

    #[test]
    fn dense_spectra() {
        for n in [1, 2, 3, 5, 40, 150] {
            let d: Vec<f64> = (0..n).map(|i| number(2 * i + 1)).collect();
            let e: Vec<f64> = (1..n).map(|i| number(2 * i)).collect();
            check("random", &d, &e);
            check("ones", &vec![1.0; n], &vec![1.0; n - 1]);
            check("clustered", &vec![1.0; n], &vec![1e-9; n - 1]);
            check("diagonal", &d, &vec![0.0; n - 1]);
            check("zero", &vec![0.0; n], &vec![0.0; n - 1]);
            let holes: Vec<f64> = d.iter().enumerate().map(|(i, d)| if i % 3 == 1 { 0.0 } else { *d }).collect();
            check("rank-deficient", &holes, &e);
            check("nilpotent", &vec![0.0; n], &e);
        }
    }

    #[test]
    fn graded_values_are_accurate() {
        let n = 60;
        let d: Vec<f64> = (0..n).map(|i| 0.1f64.powi(i)).collect();
        let e: Vec<f64> = (1..n).map(|i| 0.1f64.powi(i) * 0.5).collect();
        check("graded", &d, &e);
        let down = found("graded", &d, &e);
        let reversed: (Vec<f64>, Vec<f64>) = (d.iter().rev().copied().collect(), e.iter().rev().copied().collect());
        check("reversed", &reversed.0, &reversed.1);
        // The product of the singular values is the determinant.
        let logarithm = |x: &[f64]| x.iter().map(|x| x.ln()).sum::<f64>();
        assert!((logarithm(&down) - logarithm(&d)).abs() < 1e-12 * logarithm(&d).abs());
        assert!(down[59] > 0.0 && down[59] < 1e-58);
    }
}
