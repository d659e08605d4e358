//! The layouts of a program's arguments and results. The device supports any order of dimensions, but no tiles.

use device_plugin::stablehlo::{LayoutMode, layout_modes};
use device_plugin::{Error, Layout, Result, Shape};
use stablehlo::ir::{Func, Module, Type, inverse_permutation};

use super::types;
use stablehlo_cpu::{Order, TensorType, preferred_output_order};

/// The storage orders of the arguments, or of the results.
pub(crate) struct Layouts {
    pub(crate) orders: Vec<Order>,
}

/// Returns the storage order that a layout requests, or `None` for row-major order.
fn order(layout: &Layout, what: &str, index: usize) -> Result<Order> {
    if !layout.tiles.is_empty() {
        return Err(Error::unimplemented(format!(
            "{what} {index} is to be stored as {layout}; this device has no tiles"
        )));
    }
    let order: Option<Vec<usize>> = layout.minor_to_major.iter().rev().map(|d| usize::try_from(*d).ok()).collect();
    Ok(order.filter(|order| !order.is_sorted()))
}

impl Layouts {
    /// Reads the layouts that the framework requests for the arguments and the results of a program.
    pub(crate) fn of(module: &Module, entry: &Func) -> Result<(Self, Self)> {
        let (arguments, results) = layout_modes(module)?;
        // Arrays of bounded size are row-major, because their elements are stored without gaps. A framework can query
        // the layout of the buffer.
        let is_bounded = |ty: Option<&Type>| matches!(ty, Some(Type::Other(_)));
        let arguments = arguments.iter().enumerate().map(|(index, mode)| match mode {
            _ if is_bounded(entry.args().get(index).map(|arg| entry.ty(*arg))) => Ok(None),
            LayoutMode::Layout(layout) => order(layout, "argument", index),
            _ => Ok(None),
        });
        let results = results.iter().enumerate().map(|(index, mode)| match mode {
            _ if is_bounded(entry.results.get(index)) => Ok(None),
            LayoutMode::Layout(layout) => order(layout, "result", index),
            LayoutMode::Auto => Ok(preferred_output_order(entry, index)),
            _ => Ok(None),
        });
        Ok((Self { orders: arguments.collect::<Result<_>>()? }, Self { orders: results.collect::<Result<_>>()? }))
    }

    /// Converts shapes from storage order to the program's order of dimensions.
    pub(crate) fn named<'a>(&self, stored: impl Iterator<Item = &'a TensorType>) -> Result<Vec<Shape>> {
        let named = |(index, ty): (usize, &TensorType)| {
            let mut shape = types::shape(ty)?;
            if let Some(Some(order)) = self.orders.get(index) {
                shape.dimensions = inverse_permutation(order).iter().map(|&place| shape.dimensions[place]).collect();
            }
            Ok(shape)
        };
        stored.enumerate().map(named).collect()
    }

    /// Returns the layouts of arrays with these shapes, or no layouts if all arrays are row-major.
    pub(crate) fn layouts(&self, named: &[Shape]) -> Vec<Layout> {
        if self.orders.iter().all(Option::is_none) {
            return Vec::new();
        }
        let layout = |(index, shape): (usize, &Shape)| {
            let mut layout = Layout::row_major(shape.dimensions.len());
            if let Some(Some(order)) = self.orders.get(index) {
                layout.minor_to_major = order.iter().rev().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
            }
            layout
        };
        named.iter().enumerate().map(layout).collect()
    }
}
