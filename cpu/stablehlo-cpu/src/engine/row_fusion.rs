//! Joins elementwise ops, reductions and scatters over the same rows into one step, which `row_program` runs.

use std::collections::HashSet;

use super::across_rows::{Across, AcrossRows, reduction};
use super::graph::{Node, Op, Value, ValueIndex};
use super::kernels::reduce::Reduce;
use super::row_scatter::RowScatter;
use super::schedule::{BLOCK, Group, Item, Rows};

/// Maximum row length. Longer rows are instead reduced on several cores.
const MAX_COLUMNS: usize = 1 << 16;
/// Minimum row length. For shorter rows, fusion is not faster than processing whole tensors one after the other.
const MIN_COLUMNS: usize = 8;

/// Returns the reduction of whole rows that an item consists of, if any.
fn row_reduction(item: &Item) -> Option<&Reduce> {
    match item {
        Item::Node(node) => reduction(node).filter(|reduce| reduce.extents.inner == 1),
        _ => None,
    }
}

/// Returns the numbers of rows and columns of an item around which other items are joined. Such an item is a reduction
/// of rows, a reduction across rows that the item `before` computes, or a scatter. Returns `None` for other items, and
/// if the number or the length of the rows is unsuitable.
fn anchor(item: &Item, before: Option<&Item>, values: &[Value]) -> Option<(usize, usize)> {
    let suitable = |&(rows, columns): &(usize, usize)| rows > 1 && columns <= MAX_COLUMNS;
    match row_reduction(item) {
        Some(reduce) => Some((reduce.extents.outer, reduce.extents.reduced)).filter(|&(_, c)| c >= MIN_COLUMNS),
        None => RowScatter::of_item(item, values).map(|scatter| scatter.shape()),
    }
    .filter(suitable)
    .or_else(|| {
        let Item::Node(node) = item else { return None };
        let extents = &reduction(node)?.extents;
        let n = values[node.ins[0] as usize].n;
        let columns = if extents.inner > 1 { extents.inner } else { divisor(extents.reduced) };
        let makes = |group: &Group| group.nodes.iter().any(|maker| maker.outs.contains(&node.ins[0]));
        let is_computed = matches!(before, Some(Item::Group(group)) if group.n == n && makes(group));
        let shape = (n.checked_div(columns)?, columns);
        let fits = is_computed && columns >= MIN_COLUMNS && suitable(&shape);
        (fits && AcrossRows::of_node(node, shape.0, shape.1, values).is_some()).then_some(shape)
    })
}

/// Returns the largest divisor of `n` that is a suitable number of columns of an array without rows. A row is at most
/// a block.
fn divisor(n: usize) -> usize {
    (1..=BLOCK).rev().find(|&columns| n.is_multiple_of(columns)).unwrap_or(1)
}

/// Joins consecutive items around reductions of rows and scatters into steps. A list of items that are joined is called
/// a run.
pub(crate) fn join(items: Vec<Item>, values: &[Value]) -> Vec<Item> {
    let mut joined: Vec<Item> = Vec::with_capacity(items.len());
    let mut rest: std::collections::VecDeque<Item> = items.into();
    while let Some(item) = rest.pop_front() {
        let Some((rows, columns)) = anchor(&item, joined.last(), values) else {
            joined.push(item);
            continue;
        };
        // The input of a fused scatter is a constant, so no item before the scatter can compute its rows.
        let extends_back = matches!(&item, Item::Node(node) if reduction(node).is_some());
        let mut run = std::collections::VecDeque::from([item]);
        while extends_back && joined.last().is_some_and(|item| over(item, rows, columns, values)) {
            run.extend(joined.pop());
            run.rotate_right(1);
        }
        let mut run = Vec::from(run);
        while let Some(next) = rest.front() {
            if over(next, rows, columns, values) {
                run.extend(rest.pop_front());
            } else if is_scalar(next) && !reads_from(next, &run) {
                // The item is independent of the run. Schedule the item before the run, and continue with the next one.
                joined.extend(rest.pop_front());
            } else {
                break;
            }
        }
        // Split the run at the first item that does not fit. If the item follows the reduction or scatter, examine the
        // item and the following ones again later. Otherwise, schedule the items before the cut on their own.
        let across = loop {
            let cut = match fit(&run, rows, columns, values) {
                Ok(across) => break across,
                Err(cut) => cut,
            };
            let first = run.iter().position(|item| matches!(item, Item::Node(_))).unwrap_or(0);
            if cut <= first {
                joined.extend(run.drain(..cut.max(1)));
            } else {
                for item in run.drain(cut..).rev() {
                    rest.push_front(item);
                }
            }
        };
        if run.len() < 2 || !run.iter().any(|item| matches!(item, Item::Node(_))) {
            joined.extend(run);
        } else {
            joined.push(Item::Rows(Rows { rows, columns, across, items: run }));
        }
    }
    joined
}

/// Returns whether the item works on all elements of rows of this size, or on one element per row.
fn over(item: &Item, rows: usize, columns: usize, values: &[Value]) -> bool {
    match item {
        Item::Group(group) => group.n == rows || group.n == rows * columns,
        _ => {
            reduction_of(item, rows, columns).is_some()
                || across(item, rows, columns, values).is_some()
                || RowScatter::of_item(item, values).is_some_and(|scatter| scatter.fits(rows, columns))
        }
    }
}

/// Returns the reduction of rows of this size that an item consists of, if any.
pub(super) fn reduction_of(item: &Item, rows: usize, columns: usize) -> Option<&Reduce> {
    row_reduction(item).filter(|reduce| (reduce.extents.outer, reduce.extents.reduced) == (rows, columns))
}

/// Returns the reduction across rows that an item consists of, if any.
fn across(item: &Item, rows: usize, columns: usize, values: &[Value]) -> Option<AcrossRows> {
    match item {
        Item::Node(node) => AcrossRows::of_node(node, rows, columns, values),
        _ => None,
    }
}

/// Returns whether the item computes only scalars.
fn is_scalar(item: &Item) -> bool {
    matches!(item, Item::Group(group) if group.n == 1)
}

/// Returns whether the item reads a value that the run computes.
fn reads_from(item: &Item, run: &[Item]) -> bool {
    let read = read_by(item);
    let reads = |node: &Node| node.outs.iter().any(|v| read.contains(v));
    run.iter().any(|item| match item {
        Item::Node(node) => reads(node),
        Item::Group(group) => group.nodes.iter().any(reads),
        Item::Rows(_) => true,
    })
}

/// Returns the reductions across rows of a run. Returns an error with the index of the first item that may read a value
/// of the run from rows other than those that it processes, or that would gain nothing from the run.
fn fit(run: &[Item], rows: usize, columns: usize, values: &[Value]) -> Result<Across, usize> {
    let mut made: HashSet<ValueIndex> = HashSet::new();
    let mut across_rows = Across::default();
    let mut scatters = false;
    for (at, item) in run.iter().enumerate() {
        // No item of the run may read the results of reductions across rows.
        if read_by(item).iter().any(|v| across_rows.reductions.iter().any(|reduction| reduction.value == *v)) {
            return Err(at);
        }
        match item {
            Item::Group(group) => {
                for node in &group.nodes {
                    let own_rows = match &node.op {
                        Op::Load(view) if made.contains(&node.ins[0]) => {
                            group.n == rows * columns
                                && values[node.ins[0] as usize].n == rows
                                && view.repeats(rows, columns)
                        }
                        Op::Assemble(_) => node.ins.iter().all(|v| !made.contains(v)),
                        _ => node.ins.iter().all(|v| !made.contains(v) || values[*v as usize].n == group.n),
                    };
                    if !own_rows {
                        return Err(at);
                    }
                }
                made.extend(group.nodes.iter().flat_map(|node| &node.outs));
            }
            Item::Node(node) => {
                // A reduction reads only the current rows of its first operand. All other operands of a reduction or a
                // scatter are read at other positions.
                if node.ins[1..].iter().any(|v| made.contains(v)) {
                    return Err(at);
                }
                if reduction_of(item, rows, columns).is_some() {
                    made.extend(&node.outs);
                } else if let Some(reduction) = across(item, rows, columns, values) {
                    if scatters || !made.contains(&node.ins[0]) || !across_rows.add(reduction, rows) {
                        return Err(at);
                    }
                } else {
                    // The blocks of rows of a scatter are not those of reductions across rows.
                    if !across_rows.reductions.is_empty() {
                        return Err(at);
                    }
                    scatters = true;
                    made.extend(&node.outs);
                }
            }
            Item::Rows(_) => return Err(at),
        }
    }
    Ok(across_rows)
}

/// Returns the values that an item reads.
pub(super) fn read_by(item: &Item) -> Vec<ValueIndex> {
    match item {
        Item::Group(group) => group.nodes.iter().flat_map(|node| node.ins.iter().copied()).collect(),
        Item::Node(node) => node.ins.clone(),
        Item::Rows(rows) => rows.items.iter().flat_map(read_by).collect(),
    }
}
