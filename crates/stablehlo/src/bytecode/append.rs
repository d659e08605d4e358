//! Builds the MLIR text of attributes that the IR keeps as text.

use std::fmt::{self, Write};

use super::cursor::Cursor;
use crate::error::Result;
use crate::ir::Attribute;

/// Appends the text of an [`Attribute::Other`]. Returns an error for any other variant.
pub(super) fn append_other(out: &mut String, attribute: &Attribute, cursor: &Cursor<'_>) -> Result<()> {
    match attribute {
        Attribute::Other(text) => {
            out.push_str(text);
            Ok(())
        }
        _ => Err(cursor.error("an attribute of an unexpected kind")),
    }
}

/// Appends formatted text to `out`.
#[inline(never)]
pub(super) fn append(out: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string cannot fail, so ignore the result.
    let _ = out.write_fmt(text);
}

/// Appends the name of the factor with index `number` in a Shardy sharding rule. The names are `i` to `z`, then `z_1`,
/// `z_2` and so on.
pub(super) fn factor(out: &mut String, number: i64) {
    match u8::try_from(number) {
        Ok(n) if n < 18 => out.push(char::from(b'i' + n)),
        _ => append(out, format_args!("z_{}", number.saturating_sub(17))),
    }
}
