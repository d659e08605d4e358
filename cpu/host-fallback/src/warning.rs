//! The warning about ops that run on the host.

use std::fmt::Write;

use stablehlo_passes::OutlinedFunction;

use crate::error::at;

/// Maximum number of kinds of ops that a warning names.
const NAMED: usize = 8;

/// Returns a warning of one line that names the ops of outlined functions, with the source location of the first op of
/// each name. Returns `None` if there are no functions.
///
/// ```
/// let module = stablehlo::parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///   %0 = stablehlo.tan %x : tensor<2xf32> loc(\"model.py\":3:4)
///   %1 = stablehlo.tan %0 : tensor<2xf32>
///   return %1 : tensor<2xf32>
/// }", stablehlo::VerifyLevel::FULL)?;
/// let outlined = host_fallback::outline_unsupported(&module, |_, _| false)?.expect("no op is supported");
/// assert_eq!(
///     host_fallback::warning(&outlined.functions).as_deref(),
///     Some("the host runs 2 ops that the device does not support: 2 x stablehlo.tan (model.py:3:4)")
/// );
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[must_use]
pub fn warning(functions: &[OutlinedFunction]) -> Option<String> {
    let mut names: Vec<(&str, usize, &str)> = Vec::new();
    for op in functions.iter().flat_map(|function| &function.ops) {
        match names.iter_mut().find(|(name, ..)| *name == op.name) {
            Some((_, count, _)) => *count += 1,
            None => names.push((&op.name, 1, &op.location)),
        }
    }
    let count: usize = names.iter().map(|(_, count, _)| count).sum();
    if count == 0 {
        return None;
    }
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!("the host runs {count} op{plural} that the device does not support: ");
    for (index, (name, count, location)) in names.iter().take(NAMED).enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let times = if *count == 1 { String::new() } else { format!("{count} x ") };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{times}{name}{}", at(location));
    }
    if let Some(more @ 1..) = names.len().checked_sub(NAMED) {
        let _ = write!(text, ", and {more} other kinds");
    }
    Some(text)
}
