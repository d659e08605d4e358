//! Tests frameworks of every age. Calls each function with every struct size that frameworks passed since minor version
//! 57, and with sizes that no framework should pass.
//!
//! A struct ends where readable memory ends, so reading beyond it crashes. Padding bytes for the alignment contain
//! poison, which must stay unchanged. A test compares the list of cases with the functions of the header, so that a new
//! function without a case fails.

mod buffers;
pub mod caller;
mod clients;
mod executables;
mod extensions;
pub mod fixture;
mod nested;
mod optional;
mod transfers;

use pjrt_sys::*;

pub use caller::Cliff;
use caller::{Age, Caller, SHORT};
pub use fixture::Fixture;

/// Calls one function. Panics if the function returns a wrong result.
type Case = fn(&Fixture, &mut Caller);

/// Defines cases that are named after their slots.
macro_rules! cases {
    ($name:ident in $module:ident: $($slot:ident($w:pat_param, $c:ident) $body:block)*) => {
        pub const $name: &[(&str, $crate::history::Case)] = &[$((stringify!($slot), {
            fn case($w: &$crate::history::Fixture, $c: &mut $crate::history::Caller) {
                #[allow(unused_imports, clippy::unsafe_removed_from_name, reason = "cases name their slot S")]
                use pjrt_sys::$module::$slot as S;
                $body
            }
            case
        })),*];
    };
    ($name:ident: $($all:tt)*) => {
        $crate::history::table! { $name in slot: $($all)* }
    };
}
use cases as table;

fn cases() -> Vec<(&'static str, Case)> {
    [clients::CASES, buffers::CASES, transfers::CASES, executables::CASES, extensions::CASES].concat()
}

fn ages() -> Vec<Age> {
    // `every_function_has_case` checks that each struct has changed fewer than 8 times.
    let history = (0..8).map(Age::History);
    let future = [1, 7, 8, 4096, 1 << 20].map(Age::Future);
    let lies = [1 << 40, usize::MAX / 2, usize::MAX - 7, usize::MAX].map(Age::Lies);
    history.chain(future).chain(lies).chain(SHORT.map(Age::Short)).collect()
}

/// Lists the functions of the table with the number of changes of their structs.
macro_rules! sizes {
    ($($slot:ident),* $(,)?) => {
        fn functions() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($slot), <slot::$slot as Slot>::Args::HISTORY.len())),*]
        }
    };
}
for_each_slot!(sizes);

#[test]
fn every_function_has_case() {
    let cases = cases();
    let missing: Vec<_> =
        functions().into_iter().map(|(name, _)| name).filter(|name| cases.iter().all(|case| case.0 != *name)).collect();
    assert_eq!(missing, [""; 0], "write cases for these functions in tests/protocol/history");
    assert!(functions().iter().all(|(_, changes)| *changes < 8));
    for (i, case) in cases.iter().enumerate() {
        assert!(cases[..i].iter().all(|other| other.0 != case.0), "{} has two cases", case.0);
    }
}

#[test]
fn every_extension_function_has_case() {
    // The function pointers of an extension follow its header. Some extensions also have other members, which count as
    // well.
    let mut node = crate::framework::toy().0.extension_start;
    let mut count = 0;
    while let Some(base) = unsafe { node.as_ref() } {
        count += (base.struct_size - PJRT_Extension_Base::STRUCT_SIZE) / size_of::<usize>();
        node = base.next;
    }
    assert_eq!(extensions::CASES.len() + extensions::WITHOUT_CASE.len(), count, "write cases in history/extensions.rs");
}

#[test]
fn frameworks_of_every_age_are_served() {
    let mut calls = 0;
    let fixture = Fixture::new();
    for (name, case) in cases() {
        for age in ages() {
            let mut caller = Caller { age, called: Vec::new(), more: false };
            case(&fixture, &mut caller);
            assert_eq!(caller.called, [name], "{age:?}");
            calls += usize::from(caller.more);
        }
    }
    // Each function is called with the current size of its struct, nine larger announced sizes and at least three
    // smaller ones.
    assert!(calls > cases().len() * 13, "{calls}");
    fixture.end();
}
