//! Attributes that the IR keeps as MLIR text. A pattern describes how to convert their fields to text.

use super::append::{append, append_other, factor};
use super::cursor::Cursor;
use super::entries::Tables;
use crate::error::Result;
use crate::ir::Attribute;
use crate::print::quoted;

impl Tables<'_> {
    /// Reads the fields of an attribute, and appends them to `out` as the pattern describes. In a pattern, `%` and a
    /// letter stand for the next field. All other characters are copied. A capital letter stands for a list of fields,
    /// separated by commas. Each letter selects a kind of field:
    ///
    /// - `i`: an integer;
    /// - `b`: a bound, which is an integer or absent;
    /// - `f`: the index of a factor;
    /// - `n`: a name;
    /// - `a`: the name of an axis, which is a string attribute;
    /// - `q`: a string attribute, with escapes;
    /// - `o`: an attribute that the IR keeps as text; and
    /// - `x`: an array of attributes that the IR keeps as text.
    pub(super) fn fill(
        &mut self,
        out: &mut String,
        pattern: &str,
        cursor: &mut Cursor<'_>,
        depth: usize,
    ) -> Result<()> {
        let mut parts = pattern.split('%');
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let field = part.bytes().next().unwrap_or_default();
            let is_list = field.is_ascii_uppercase();
            for at in 0..if is_list { cursor.count()? } else { 1 } {
                separate(out, at);
                self.field(out, field.to_ascii_lowercase(), cursor, depth)?;
            }
            out.push_str(part.get(1..).unwrap_or_default());
        }
        Ok(())
    }

    fn field(&mut self, out: &mut String, field: u8, cursor: &mut Cursor<'_>, depth: usize) -> Result<()> {
        match field {
            b'i' | b'b' | b'f' => {
                let number = cursor.svarint()?;
                match field {
                    b'b' if number == i64::MIN => out.push('?'),
                    b'f' => factor(out, number),
                    _ => append(out, format_args!("{number}")),
                }
            }
            b'n' => {
                // Unlike a string attribute, the name is copied, so charge for the copy.
                let name = self.container.text(cursor)?;
                self.charge(cursor.pos(), name.len())?;
                out.push_str(&name);
            }
            b'a' => append(out, format_args!("\"{}\"", self.child_text(cursor, depth)?)),
            b'q' => out.push_str(&quoted(self.child_text(cursor, depth)?.as_bytes())),
            b'o' => {
                let child = self.child(cursor, depth)?;
                append_other(out, &child, cursor)?;
            }
            _ => {
                let Attribute::Array(items) = self.child(cursor, depth)? else {
                    return Err(cursor.error("expected an array attribute"));
                };
                for (at, item) in items.iter().enumerate() {
                    separate(out, at);
                    append_other(out, item, cursor)?;
                }
            }
        }
        Ok(())
    }
}

fn separate(out: &mut String, at: usize) {
    if at > 0 {
        out.push_str(", ");
    }
}
