//! The secular equation, whose roots are the eigenvalues of a diagonal matrix plus a matrix of rank one.

use pulp::NullaryFnOnce;

use crate::engine::elementwise::map::vectorized;

/// Number of roots that are computed together. The compiler keeps one number for each of them in a vector register.
const LANES: usize = 8;

/// Maximum number of steps. Most roots need three or four.
const STEPS: usize = 100;

/// A root, stored as the pole that is closest to it and the distance from this pole. All differences between roots and
/// poles therefore have a small relative error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Root {
    pole: f64,
    distance: f64,
}

impl Root {
    pub(super) fn value(self) -> f64 {
        self.pole + self.distance
    }

    /// Returns `d` minus the root.
    #[inline(always)]
    fn below(self, d: f64) -> f64 {
        (d - self.pole) - self.distance
    }
}

/// The matrix `D + rho z z*` with ascending diagonal elements `d` and positive `rho`. The elements of `z` are nonzero.
///
/// Its eigenvalues are the roots of `1 + sum(rho z_j^2 / (d_j - x))`. This function increases between two poles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secular<'a> {
    pub(super) d: &'a [f64],
    /// The products `rho z_j^2`.
    pub(super) weights: &'a [f64],
    /// The relative error that the terms of the equation may have.
    pub(super) tolerance: f64,
}

impl Secular<'_> {
    /// Computes the roots, in ascending order.
    pub(super) fn roots(self, roots: &mut [Root]) {
        vectorized(Roots(self, roots));
    }

    /// Returns the function, its derivative, and the sum of the absolute values of the terms, each for several numbers.
    #[inline(always)]
    fn evaluate<const N: usize>(self, poles: &[f64; N], distances: &[f64; N]) -> [[f64; N]; 3] {
        let [mut sum, mut slope, mut size] = [[1.0; N], [0.0; N], [1.0; N]];
        for (d, weight) in self.d.iter().zip(self.weights) {
            for lane in 0..N {
                let reciprocal = 1.0 / ((d - poles[lane]) - distances[lane]);
                let term = weight * reciprocal;
                sum[lane] += term;
                slope[lane] += term * reciprocal;
                size[lane] += term.abs();
            }
        }
        [sum, slope, size]
    }

    /// Computes the roots between the poles `first` to `first + LANES`, as many as `roots` holds.
    #[inline(always)]
    fn inner(self, first: usize, roots: &mut [Root]) {
        let left: [usize; LANES] = std::array::from_fn(|lane| first + lane.min(roots.len() - 1));
        let gaps = left.map(|i| self.d[i + 1] - self.d[i]);
        let middle = gaps.map(|gap| 0.5 * gap);
        let [sum, ..] = self.evaluate(&left.map(|i| self.d[i]), &middle);
        let mut search: [Search; LANES] = std::array::from_fn(|lane| {
            let (i, gap, middle, sum) = (left[lane], gaps[lane], middle[lane], sum[lane]);
            let (p, q) = (self.weights[i], self.weights[i + 1]);
            // Approximate the function by the terms of the two poles and a constant.
            let c = sum + (p - q) / middle;
            let is_left = sum >= 0.0;
            let (a, b) = if is_left { (c * gap + p + q, p * gap) } else { (-c * gap + p + q, -q * gap) };
            let (low, high) = if is_left { (0.0, middle) } else { (-middle, 0.0) };
            let search = Search {
                pole: self.d[if is_left { i } else { i + 1 }],
                poles: if is_left { [0.0, gap] } else { [-gap, 0.0] },
                weight: if is_left { p } else { q },
                is_left,
                low,
                high,
                distance: 0.0,
                previous: f64::INFINITY,
                done: false,
            };
            let start = quadratic(a, b, c);
            Search { distance: search.bounded(start), ..search }
        });
        for _ in 0..STEPS {
            let poles = search.map(|search| search.pole);
            let [sum, slope, size] = self.evaluate(&poles, &search.map(|search| search.distance));
            for (lane, search) in search.iter_mut().enumerate() {
                search.step(sum[lane], slope[lane], size[lane], self.tolerance);
            }
            if search.iter().all(|search| search.done) {
                break;
            }
        }
        for (root, search) in roots.iter_mut().zip(&search) {
            *root = Root { pole: search.pole, distance: search.distance };
        }
    }

    /// Computes the largest root, which is to the right of all poles.
    #[inline(always)]
    fn last(self) -> Root {
        let pole = self.d[self.d.len() - 1];
        let (mut low, mut high) = (0.0, self.weights.iter().sum::<f64>());
        let mut distance = high;
        for _ in 0..STEPS {
            let [[sum], [slope], [size]] = self.evaluate(&[pole], &[distance]);
            if sum.abs() <= self.tolerance * size {
                break;
            }
            if sum < 0.0 {
                low = distance
            } else {
                high = distance
            }
            // Approximate the function by a term of the last pole and a constant.
            let next = distance - distance * sum / (sum + slope * distance);
            let next = if next > low && next < high { next } else { 0.5 * (low + high) };
            if next == distance {
                break;
            }
            distance = next;
        }
        Root { pole, distance }
    }
}

struct Roots<'a>(Secular<'a>, &'a mut [Root]);

impl NullaryFnOnce for Roots<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(equation, roots) = self;
        let Some((last, inner)) = roots.split_last_mut() else { return };
        for (group, roots) in inner.chunks_mut(LANES).enumerate() {
            equation.inner(group * LANES, roots);
        }
        *last = equation.last();
    }
}

/// The state of the search for a root between two poles. Positions are relative to `pole`, the closer one of the two.
#[derive(Clone, Copy)]
struct Search {
    pole: f64,
    poles: [f64; 2],
    /// The weight of the closer pole.
    weight: f64,
    is_left: bool,
    low: f64,
    high: f64,
    distance: f64,
    /// The absolute value of the function before the last step.
    previous: f64,
    done: bool,
}

impl Search {
    fn bounded(&self, next: f64) -> f64 {
        if next > self.low && next < self.high { next } else { 0.5 * (self.low + self.high) }
    }

    /// Moves towards the root, with the values of [`Secular::evaluate`] at the current position.
    #[inline(always)]
    fn step(&mut self, sum: f64, slope: f64, size: f64, tolerance: f64) {
        if self.done {
            return;
        }
        if sum.abs() <= tolerance * size {
            self.done = true;
            return;
        }
        if sum < 0.0 {
            self.low = self.distance
        } else {
            self.high = self.distance
        }
        // Approximate the function by the term of the closer pole, a term of the other pole, and a constant, with the
        // same value and derivative. (R.-C. Li: Solving secular equations stably and efficiently, LAPACK working note
        // 89, "fixed weight method".)
        let [left, right] = self.poles.map(|pole| pole - self.distance);
        let (near, far) = if self.is_left { (left, right) } else { (right, left) };
        let c = sum - far * slope - (near - far) * (self.weight / (near * near));
        let mut change = quadratic((left + right) * sum - left * right * slope, left * right * sum, c);
        if change * sum > 0.0 || !change.is_finite() {
            change = -sum / slope;
        }
        let mut next = self.bounded(self.distance + change);
        if sum.abs() > 0.25 * self.previous {
            next = 0.5 * (self.low + self.high);
            self.previous = f64::INFINITY;
        } else {
            self.previous = sum.abs();
        }
        // The distance between two neighboring numbers limits the accuracy.
        self.done = (next - self.distance).abs() <= 2.0 * f64::EPSILON * next.abs();
        self.distance = next;
    }
}

/// Returns the root `(a - sqrt(a^2 - 4 b c)) / (2 c)` of `c x^2 - a x + b`.
#[inline(always)]
fn quadratic(a: f64, b: f64, c: f64) -> f64 {
    let root = (a * a - 4.0 * b * c).abs().sqrt();
    if a <= 0.0 { (a - root) / (2.0 * c) } else { 2.0 * b / (a + root) }
}

/// Computes the vector `z` for which the roots are the exact eigenvalues, up to a factor. With this vector, the
/// eigenvectors are orthogonal even if the roots are inaccurate. (M. Gu and S. C. Eisenstat: A divide-and-conquer
/// algorithm for the symmetric tridiagonal eigenproblem, SIAM Journal on Matrix Analysis and Applications, 1995.)
pub(super) fn exact_vector(d: &[f64], roots: &[Root], z: &mut [f64]) {
    vectorized(ExactVector { d, roots, z });
}

struct ExactVector<'a> {
    d: &'a [f64],
    roots: &'a [Root],
    /// The approximate vector, which has the same signs.
    z: &'a mut [f64],
}

impl NullaryFnOnce for ExactVector<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (group, z) in self.z.chunks_mut(LANES).enumerate() {
            let d: [f64; LANES] = std::array::from_fn(|lane| self.d[(group * LANES + lane).min(self.d.len() - 1)]);
            let mut products = [1.0f64; LANES];
            for (pole, root) in self.d.iter().zip(self.roots) {
                for lane in 0..LANES {
                    let difference = pole - d[lane];
                    products[lane] *= root.below(d[lane]) / if difference == 0.0 { 1.0 } else { difference };
                }
            }
            z.iter_mut().zip(products).for_each(|(z, product)| *z = product.abs().sqrt().copysign(*z));
        }
    }
}

/// Computes the eigenvector of a root. `d` and `z` are in the order of the elements of `vector`.
pub(super) fn vector(d: &[f64], z: &[f64], root: Root, vector: &mut [f64]) {
    vectorized(Vector { d, z, root, vector });
}

struct Vector<'a> {
    d: &'a [f64],
    z: &'a [f64],
    root: Root,
    vector: &'a mut [f64],
}

impl NullaryFnOnce for Vector<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((v, d), z) in self.vector.iter_mut().zip(self.d).zip(self.z) {
            *v = z / self.root.below(*d);
        }
        let mut sums = [0.0; LANES];
        let chunks = self.vector.chunks_exact(LANES);
        let rest = chunks.remainder().iter().fold(0.0, |sum, x| sum + x * x);
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x * x);
        }
        let factor = sums.into_iter().fold(rest, |sum, x| sum + x).sqrt().recip();
        self.vector.iter_mut().for_each(|x| *x *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weight of a pole may be so small that the distance of the root from the pole is far below the rounding error
    /// of the root.
    #[test]
    fn roots_near_poles() {
        let d: Vec<f64> = (0..19).map(|i| 1.0 + 0.25 * f64::from(i)).collect();
        let weights: Vec<f64> = (0..19).map(|i| if i % 3 == 0 { 1e-30 } else { 0.1 * f64::from(i) }).collect();
        let mut roots = vec![Root::default(); d.len()];
        let equation = Secular { d: &d, weights: &weights, tolerance: 4.0 * f64::EPSILON };
        equation.roots(&mut roots);
        for (i, root) in roots.iter().enumerate() {
            assert!(root.below(d[i]) < 0.0 && d.get(i + 1).is_none_or(|d| root.below(*d) > 0.0), "{root:?}");
            let [[sum], _, [size]] = equation.evaluate(&[root.pole], &[root.distance]);
            assert!(sum.abs() <= 1e-13 * size, "the function has the value {sum} at {root:?}");
        }
        // The squares of the elements of the exact vector are close to the weights.
        let mut z: Vec<f64> = weights.iter().map(|weight| -weight.sqrt()).collect();
        exact_vector(&d, &roots, &mut z);
        for (z, weight) in z.iter().zip(&weights) {
            assert!(*z < 0.0 && (z * z / weight - 1.0).abs() < 1e-10, "{z} for the weight {weight}");
        }
    }
}
