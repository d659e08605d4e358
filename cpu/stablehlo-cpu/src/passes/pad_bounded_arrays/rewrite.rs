//! The rewrite of functions, and the rule of each op.

use std::collections::HashMap;

use stablehlo::ir::{Attributes, Func, Module, Op, OpKind, Region, TensorType, Type};

use super::builder::{Rewrite, Sizes};
use super::types::{Result, Signature, arrays, bounded, size_count, size_type};
use super::{elementwise, shapes};
use crate::engine::{BoundedArray, BoundedArrays};
use crate::error::CompileError;
use crate::op_names::place;

/// Returns the program without arrays of bounded size, and the bounded arrays of its entry function. Returns `None` if
/// the program contains no such arrays. The verifier must have accepted the module.
pub(crate) fn pad_bounded_arrays(module: &Module) -> Result<Option<(Module, BoundedArrays)>> {
    if !module.funcs.iter().any(|func| func.values.iter().any(|ty| bounded(ty).is_some())) {
        return Ok(None);
    }
    let signature = |func: &Func| Signature {
        arguments: arrays(func.args().iter().map(|arg| func.ty(*arg))),
        results: arrays(func.results.iter()),
    };
    let signatures: HashMap<&str, Signature> =
        module.funcs.iter().map(|func| (func.name.as_str(), signature(func))).collect();
    let mut new = module.clone();
    for (func, old) in new.funcs.iter_mut().zip(&module.funcs) {
        for index in 0..func.values.len() {
            if let Some((ty, _)) = bounded(&func.values[index]) {
                func.values.set(index, Type::Tensor(ty));
            }
        }
        let signature = &signatures[func.name.as_str()];
        let mut body = std::mem::take(&mut func.body);
        let mut rewrite = Rewrite::new(&mut func.values, &old.values, &signatures);
        rewrite.add_arguments(&mut body.args)?;
        func.body = rewrite.region(body, &signature.results, &mut |op, error| error.at(|| place(module, old, op)))?;
        for ty in &mut func.results {
            if let Some((padded, _)) = bounded(ty) {
                *ty = Type::Tensor(padded);
            }
        }
        let (arguments, results) = (size_count(&signature.arguments), size_count(&signature.results));
        func.results.extend(std::iter::repeat_n(Type::Tensor(size_type()), results));
        func.arg_attributes.extend(std::iter::repeat_n(Attributes::new(), arguments));
        func.result_attributes.extend(std::iter::repeat_n(Attributes::new(), results));
    }
    let entry = module.entry().and_then(|entry| signatures.get(entry.name.as_str()));
    let arrays = entry.map_or_else(BoundedArrays::default, |entry| BoundedArrays {
        parameters: entry.arguments.clone(),
        outputs: entry.results.clone(),
    });
    Ok(Some((new, arrays)))
}

/// A function that adds the location of an op to an error.
type At<'a> = &'a mut dyn FnMut(&Op, CompileError) -> CompileError;

impl Rewrite<'_> {
    /// Rewrites a region whose terminator returns the bounded arrays `returns`.
    fn region(&mut self, region: Region, returns: &[BoundedArray], at: At<'_>) -> Result<Region> {
        let outer = std::mem::take(&mut self.ops);
        for op in region.ops {
            let read = op.clone();
            self.op(op, returns, at).map_err(|error| at(&read, error))?;
        }
        Ok(Region { args: region.args, ops: std::mem::replace(&mut self.ops, outer) })
    }

    fn op(&mut self, mut op: Op, returns: &[BoundedArray], at: At<'_>) -> Result<()> {
        let sizes: Vec<Sizes> = op.operands.iter().map(|operand| self.sizes_of(*operand)).collect();
        for operand in &mut op.operands {
            *operand = self.same.get(operand).copied().unwrap_or(*operand);
        }
        let declared = arrays(op.results.iter().map(|result| self.declared(*result)));
        let regions = std::mem::take(&mut op.regions);
        for (index, mut region) in regions.into_iter().enumerate() {
            let inner = match op.kind {
                OpKind::While => {
                    self.add_arguments(&mut region.args)?;
                    // The first region returns the condition.
                    if index == 0 { &[][..] } else { &declared }
                }
                OpKind::If | OpKind::Case => &declared,
                _ => &[],
            };
            op.regions.push(self.region(region, inner, at)?);
        }
        self.location = op.location;
        if let OpKind::SetDimensionSize { dimension } = op.kind {
            return self.set_size(op, dimension, sizes, &declared);
        }
        let returned = if matches!(op.kind, OpKind::Return) { returns } else { &[] };
        if declared.is_empty() && returned.is_empty() && sizes.iter().all(Vec::is_empty) {
            self.ops.push(op);
            return Ok(());
        }
        match op.kind {
            OpKind::Return => self.append_sizes(&mut op, &sizes, returned)?,
            OpKind::While => {
                self.append_sizes(&mut op, &sizes, &declared)?;
                self.add_results(&mut op, &declared)?;
            }
            OpKind::If | OpKind::Case => self.add_results(&mut op, &declared)?,
            OpKind::Call { .. } | OpKind::Composite { .. } => self.call(&mut op, &sizes, &declared)?,
            OpKind::OptimizationBarrier => {
                for (&result, sizes) in op.results.iter().zip(&sizes) {
                    self.record(result, sizes.clone());
                }
            }
            _ => {
                let of = self.rule(&mut op, &sizes)?;
                for array in &declared {
                    if let Some(d) = array.dimensions.iter().find(|&&d| of.iter().all(|(known, _)| *known != d)) {
                        return Err(CompileError::unsupported(format!(
                            "{} with dimension {d} of the result of bounded size; give it one size, or set it with \
                             set_dimension_size",
                            op.kind.name()
                        )));
                    }
                }
                for &result in &op.results {
                    self.record(result, of.clone());
                }
            }
        }
        self.ops.push(op);
        Ok(())
    }

    /// Replaces the result of `set_dimension_size` with its operand, and records the size. Keeps the op if its result
    /// has a static type.
    fn set_size(&mut self, op: Op, dimension: usize, sizes: Vec<Sizes>, declared: &[BoundedArray]) -> Result<()> {
        let Some(array) = declared.first() else {
            // If the result has a static type, its size must not change. The lowering checks this.
            self.ops.push(op);
            return Ok(());
        };
        let (&[x, size], &[result], Some(mut of)) = (&op.operands[..], &op.results[..], sizes.into_iter().next())
        else {
            return Err(CompileError::invalid("set_dimension_size must have an array, a size and one result"));
        };
        of.retain(|&(known, _)| known != dimension);
        if array.dimensions.contains(&dimension) {
            let size = self.as_size(size)?;
            of.push((dimension, size));
        }
        self.same.insert(result, x);
        self.record(result, of);
        Ok(())
    }

    /// Rewrites an op with an operand or a result of bounded size. Returns the sizes of its results.
    fn rule(&mut self, op: &mut Op, sizes: &[Sizes]) -> Result<Sizes> {
        match &op.kind {
            OpKind::GetDimensionSize { dimension } => {
                if let Some(&(_, size)) = sizes[0].iter().find(|(known, _)| known == dimension) {
                    op.kind = OpKind::Convert;
                    op.operands = [size].into_iter().collect();
                }
                Ok(Sizes::new())
            }
            kind if elementwise::is_elementwise(kind) => Ok(elementwise::merged(sizes)),
            OpKind::BroadcastInDim { .. } => self.broadcast(op, &sizes[0]),
            OpKind::Transpose { permutation } => Ok(shapes::transposed(permutation, &sizes[0])),
            OpKind::Reshape => self.reshape(op, &sizes[0]),
            OpKind::Slice { .. } => self.slice(op, &sizes[0]),
            OpKind::Pad { .. } => self.pad(op, sizes),
            OpKind::Concatenate { dimension } => {
                let dimension = *dimension;
                self.concatenate(op, dimension, sizes)
            }
            OpKind::Reverse { dimensions } => {
                let dimensions = dimensions.clone();
                self.reverse(op, &dimensions, &sizes[0])
            }
            OpKind::Reduce { dimensions } => {
                let dimensions = dimensions.clone();
                self.reduce(op, &dimensions, sizes)
            }
            OpKind::ReduceWindow { .. } => self.reduce_window(op, sizes),
            OpKind::Sort { dimension, .. } => {
                let dimension = *dimension;
                self.sort(op, dimension, sizes)
            }
            OpKind::DotGeneral { .. } => self.dot(op, sizes),
            OpKind::Cholesky { .. } | OpKind::TriangularSolve { .. } => {
                batches(op, sizes, &self.tensor(op.operands[0])?, 2)
            }
            OpKind::Fft { fft_length, .. } => batches(op, sizes, &self.tensor(op.operands[0])?, fft_length.len()),
            OpKind::Gather { .. } => self.gather(op, sizes),
            OpKind::Scatter { dimensions, .. } => {
                let dimensions = dimensions.clone();
                self.scatter(op, &dimensions, sizes)
            }
            OpKind::DynamicSlice { .. } => self.dynamic_slice(op, &sizes[0]),
            OpKind::DynamicUpdateSlice => self.dynamic_update_slice(op, sizes),
            OpKind::DynamicBroadcastInDim { broadcast_dimensions, .. } => {
                let dimensions = broadcast_dimensions.clone();
                self.dynamic_broadcast(op, dimensions, &sizes[0])
            }
            OpKind::DynamicReshape => self.dynamic_reshape(op, &sizes[0]),
            OpKind::DynamicIota { iota_dimension } => {
                let dimension = *iota_dimension;
                self.dynamic_iota(op, dimension)
            }
            kind => Err(CompileError::unsupported(format!(
                "{} of an array of bounded size; give the array one size before it",
                kind.name()
            ))),
        }
    }
}

/// Returns the sizes of the batch dimensions. These are all dimensions of the type `of` except the last `own`
/// dimensions. Returns an error if another dimension has a size.
fn batches(op: &Op, sizes: &[Sizes], of: &TensorType, own: usize) -> Result<Sizes> {
    let all = elementwise::merged(sizes);
    let batch = of.rank().saturating_sub(own);
    if let Some((dimension, _)) = all.iter().find(|(dimension, _)| *dimension >= batch) {
        return Err(CompileError::unsupported(format!(
            "{} with dimension {dimension} of bounded size; only batch dimensions may have one",
            op.kind.name()
        )));
    }
    Ok(all)
}
