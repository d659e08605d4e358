//! Loops over slices, written as scalar code. The compiler vectorizes most of them, once for each set of vector
//! instructions.

use std::sync::LazyLock;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use pulp::{Arch, NullaryFnOnce};

/// Returns the vector instructions of the current machine.
pub(crate) fn arch() -> Arch {
    static ARCH: LazyLock<Arch> = LazyLock::new(Arch::new);
    *ARCH
}

/// Returns the vector instructions of the current machine, without vectors of more than 256 bits. Results have the same
/// bits as with longer vectors.
pub(crate) fn narrow_arch() -> Arch {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V4(long) => Arch::V3(*long),
        arch => arch,
    }
}

/// Runs the loop `plain`, which is written as scalar code. The loop is compiled once for each set of vector
/// instructions, and this function runs the copy for the current machine.
///
/// A build with debug assertions compiles only one copy. Without optimization, the other copies are not faster, and
/// they double the build time of this crate.
pub(crate) fn vectorized<Loop: NullaryFnOnce>(plain: Loop) -> Loop::Output {
    #[cfg(debug_assertions)]
    return plain.call();
    #[cfg(not(debug_assertions))]
    return arch().dispatch(plain);
}

struct One<'a, T, R, F>(&'a [T], &'a mut [R], F);

impl<T: Copy, R, F: Fn(T) -> R> NullaryFnOnce for One<'_, T, R, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (o, &a) in self.1.iter_mut().zip(self.0) {
            *o = (self.2)(a);
        }
    }
}

struct Two<'a, T, R, F>(&'a [T], &'a [T], &'a mut [R], F);

impl<T: Copy, R, F: Fn(T, T) -> R> NullaryFnOnce for Two<'_, T, R, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((o, &a), &b) in self.2.iter_mut().zip(self.0).zip(self.1) {
            *o = (self.3)(a, b);
        }
    }
}

struct Three<'a, S, T, R, F>(&'a [S], &'a [T], &'a [T], &'a mut [R], F);

impl<S: Copy, T: Copy, R, F: Fn(S, T, T) -> R> NullaryFnOnce for Three<'_, S, T, R, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (((o, &s), &a), &b) in self.3.iter_mut().zip(self.0).zip(self.1).zip(self.2) {
            *o = (self.4)(s, a, b);
        }
    }
}

/// Computes `o[i] = f(a[i])`.
#[inline(always)]
pub(crate) fn map1<T: Pod, R: Pod>(a: &[u8], o: &mut [u8], f: impl Fn(T) -> R) {
    vectorized(One(cast_slice::<u8, T>(a), cast_slice_mut::<u8, R>(o), f));
}

/// Computes `o[i] = f(a[i], b[i])`.
#[inline(always)]
pub(crate) fn map2<T: Pod, R: Pod>(a: &[u8], b: &[u8], o: &mut [u8], f: impl Fn(T, T) -> R) {
    vectorized(Two(cast_slice::<u8, T>(a), cast_slice::<u8, T>(b), cast_slice_mut::<u8, R>(o), f));
}

/// Computes `o[i] = f(s[i], a[i], b[i])`.
#[inline(always)]
pub(crate) fn map3<S: Pod, T: Pod, R: Pod>(s: &[u8], a: &[u8], b: &[u8], o: &mut [u8], f: impl Fn(S, T, T) -> R) {
    let (s, a, b) = (cast_slice::<u8, S>(s), cast_slice::<u8, T>(a), cast_slice::<u8, T>(b));
    vectorized(Three(s, a, b, cast_slice_mut::<u8, R>(o), f));
}

/// Like [`map1`], but for functions that call the standard library or cannot be vectorized. The loop is compiled only
/// once.
pub(crate) fn scalar1<T: Pod, R: Pod>(a: &[u8], o: &mut [u8], f: impl Fn(T) -> R) {
    One(cast_slice::<u8, T>(a), cast_slice_mut::<u8, R>(o), f).call();
}

/// Like [`map2`], but for functions that call the standard library or cannot be vectorized. The loop is compiled only
/// once.
pub(crate) fn scalar2<T: Pod, R: Pod>(a: &[u8], b: &[u8], o: &mut [u8], f: impl Fn(T, T) -> R) {
    Two(cast_slice::<u8, T>(a), cast_slice::<u8, T>(b), cast_slice_mut::<u8, R>(o), f).call();
}
