//! Writes the page, and finds functions and fields that have neither a use nor a reason.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::declarations::{Declarations, Field};
use super::not_wanted::{NotWanted, Side};
use super::uses::{Access, Uses};

/// The generated page.
pub(super) struct Page {
    pub(super) text: String,
    /// One line for each function or field without a use and without a reason.
    pub(super) missing: Vec<String>,
    /// One line for each wrong reason.
    pub(super) faults: Vec<String>,
    pub(super) summary: String,
}

const HEAD: &str = "# Coverage of the C API

<!-- Written by `cargo xtask coverage` from the code; do not edit. `cargo xtask coverage --check` compares. -->

Each function of PJRT's tables and each field of its structs, and how the two sides use it.

- The **caller's side** is `crates/pjrt`. It calls functions, sets the inputs of their arguments and reads the outputs.
- The **vendor's side** is `crates/device-plugin`. It implements functions, reads the inputs and sets the outputs.
- *Not wanted* refers to a reason at the end of the page.

`struct_size`, `extension_start`, `priv` and the base of an extension are not listed: one place on each side handles
them for all structs. Structs without fields are handles.
";

struct Sides<'a> {
    caller: &'a Uses,
    vendor: &'a Uses,
    not_wanted: &'a [NotWanted],
}

impl Sides<'_> {
    fn uses(&self, side: Side) -> &Uses {
        if side == Side::Vendor { self.vendor } else { self.caller }
    }

    /// Returns the index in `not_wanted` of the first row with a reason why a side does not use one of these items.
    fn reason(&self, side: Side, items: &[&str]) -> Option<usize> {
        self.not_wanted.iter().position(|row| row.covers(side) && row.items.iter().any(|item| items.contains(item)))
    }

    fn function(&self, side: Side, table: &str, name: &str) -> Cell {
        if self.uses(side).functions.contains(name) {
            return Cell::Used(if side == Side::Vendor { "implements" } else { "calls" });
        }
        self.reason(side, &[name, table]).map_or(Cell::Missing, Cell::NotWanted)
    }

    fn field(&self, side: Side, of: &str, field: &Field) -> Cell {
        match self.uses(side).fields.get(&(of.to_owned(), field.name.clone())) {
            Some(Access { sets: true, reads: true }) => Cell::Used("sets, reads"),
            Some(Access { sets: true, .. }) => Cell::Used("sets"),
            Some(_) => Cell::Used("reads"),
            None => {
                let name = format!("{of}::{}", field.name);
                self.reason(side, &[&name, of]).map_or(Cell::Missing, Cell::NotWanted)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Used(&'static str),
    NotWanted(usize),
    Missing,
    /// The field belongs to a function that the side does not use.
    Empty,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Used(how) => f.write_str(how),
            Self::NotWanted(reason) => write!(f, "not wanted: R{}", reason + 1),
            Self::Missing => f.write_str("**missing**"),
            Self::Empty => Ok(()),
        }
    }
}

const SIDES: [Side; 2] = [Side::Caller, Side::Vendor];

pub(super) fn write(declarations: &Declarations, caller: &Uses, vendor: &Uses, not_wanted: &[NotWanted]) -> Page {
    let sides = Sides { caller, vendor, not_wanted };
    let mut missing = Vec::new();
    let mut body = String::new();
    let mut summary = String::from("| table | functions | called | implemented |\n|---|---|---|---|\n");
    let mut totals = [0; 3];
    for table in &declarations.tables {
        let _ = write!(body, "\n## `{}`\n\n", table.name);
        if table.functions.is_empty() {
            body.push_str("The extension has no functions of its own.\n");
        } else {
            body.push_str("| function, and fields of its arguments | caller | vendor |\n|---|---|---|\n");
        }
        let mut used = [0; 2];
        for function in &table.functions {
            let cells = SIDES.map(|side| sides.function(side, &table.name, &function.name));
            for ((side, cell), used) in SIDES.iter().zip(cells).zip(&mut used) {
                *used += usize::from(matches!(cell, Cell::Used(_)));
                if cell == Cell::Missing {
                    missing.push(format!("the {} does not {} {}", side.name(), side.verb(), function.name));
                }
            }
            let _ = writeln!(body, "| **`{}`** | {} | {} |", function.name, cells[0], cells[1]);
            let Some(args) = &function.args else { continue };
            fields(declarations, &sides, args, cells, &mut body, &mut missing);
        }
        let own = declarations.fields.get(&table.name).into_iter().flatten();
        let own: Vec<&Field> =
            own.filter(|field| field.is_own() && table.functions.iter().all(|f| f.field != field.name)).collect();
        let _ = writeln!(summary, "| `{}` | {} | {} | {} |", table.name, table.functions.len(), used[0], used[1]);
        for (total, count) in totals.iter_mut().zip([table.functions.len(), used[0], used[1]]) {
            *total += count;
        }
        if !own.is_empty() && table.name != "PJRT_Api" {
            body.push_str("\nOther fields of the table:\n\n");
            own.iter().for_each(|field| _ = writeln!(body, "- `{}`", field.name));
        }
    }
    body.push_str("\n## Other structs\n\n| struct, and fields | caller | vendor |\n|---|---|---|\n");
    for name in declarations.other_structs() {
        let _ = writeln!(body, "| **`{name}`** | | |");
        fields(declarations, &sides, name, [Cell::Used(""); 2], &mut body, &mut missing);
    }
    body.push_str("\n## Not wanted\n\n| | side | reason |\n|---|---|---|\n");
    for (index, row) in not_wanted.iter().enumerate() {
        let _ = writeln!(body, "| R{} | {} | {} |", index + 1, row.side.heading(), row.reason);
    }
    let mut faults = Vec::new();
    wrong_reasons(declarations, &sides, &mut faults);
    let [all, called, implemented] = totals;
    let text = format!("{HEAD}\n{summary}| **all** | {all} | {called} | {implemented} |\n{body}");
    let summary = format!("{all} functions, {called} called, {implemented} implemented");
    Page { text, missing, faults, summary }
}

/// Writes the rows of a struct's fields to `body`, and adds the unused fields without a reason to `missing`.
/// `functions` contains the cell of the struct's function for each side. If a side does not use the function, the cells
/// of its fields are empty.
fn fields(
    declarations: &Declarations,
    sides: &Sides<'_>,
    of: &str,
    functions: [Cell; 2],
    body: &mut String,
    missing: &mut Vec<String>,
) {
    for field in declarations.fields.get(of).into_iter().flatten().filter(|field| field.is_own()) {
        let mut cells = [Cell::Empty; 2];
        for ((side, function), cell) in SIDES.iter().zip(functions).zip(&mut cells) {
            if !matches!(function, Cell::Used(_)) {
                continue;
            }
            *cell = sides.field(*side, of, field);
            if *cell == Cell::Missing {
                missing.push(format!("the {} does not use {of}::{}", side.name(), field.name));
            }
        }
        let _ = writeln!(body, "| `{}` | {} | {} |", field.name, cells[0], cells[1]);
    }
}

/// Finds reasons for items that do not exist, that a side uses, or that are listed twice for a side.
fn wrong_reasons(declarations: &Declarations, sides: &Sides<'_>, faults: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for row in sides.not_wanted {
        for item in row.items {
            let field = item.split_once("::");
            let table = declarations.tables.iter().find(|table| table.name == *item);
            let is_known = match field {
                Some((of, field)) => declarations.has(of, field),
                None => {
                    table.is_some()
                        || declarations.functions.contains_key(*item)
                        || declarations.structs.iter().any(|known| known == item)
                }
            };
            if !is_known {
                faults.push(format!("not_wanted.rs lists {item}, which the bindings do not declare"));
                continue;
            }
            for side in SIDES.into_iter().filter(|side| row.covers(*side)) {
                if !seen.insert((side, *item)) {
                    faults.push(format!("not_wanted.rs lists {item} twice for the {}", side.name()));
                }
                let uses = sides.uses(side);
                let is_used = match (field, table) {
                    (Some((of, field)), _) => uses.fields.contains_key(&(of.to_owned(), field.to_owned())),
                    (None, Some(table)) => table.functions.iter().any(|f| uses.functions.contains(&f.name)),
                    (None, None) => uses.functions.contains(*item) || uses.fields.keys().any(|(of, _)| of == item),
                };
                if is_used {
                    faults.push(format!("not_wanted.rs lists {item}, but the {} uses it", side.name()));
                }
            }
        }
    }
}
