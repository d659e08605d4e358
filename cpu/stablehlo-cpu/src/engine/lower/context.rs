//! The graph under construction, and the op that is being lowered.

use std::collections::HashMap;
use std::sync::Arc;

use stablehlo::ir::{Attribute, Attributes, Func, Module, Op as IrOp, OpKind, Region, Type, ValueId};

use super::size::{InlinedSize, check_depth};
use super::types::{
    Binding, OuterProduct, Result, TypedValue, dtype_of, element_size, entry_type, fits, tensor_type, type_of,
};
use crate::engine::dtype::{DType, TensorType, with_size};
use crate::engine::elementwise::{Map, wrap};
use crate::engine::graph::{BlockGraph, Constant, Node, Op, Value, ValueIndex};
use crate::engine::kernels::Kernel;
use crate::engine::pool::{Buffer, Pool};
use crate::engine::program::Select;
use crate::engine::settings::CompileSettings;
use crate::engine::view::View;
use crate::error::{CompileError, CompileErrorKind};
use crate::op_names::{op_name, place};

/// Maximum number of ops after inlining. If each function of a chain calls the next function twice, inlining makes a
/// small program exceed this limit.
const MAX_OPS: usize = 1 << 20;
/// Maximum size in bytes of a constant of equal elements that is stored in the program. Larger constants are filled
/// when a step needs them.
const SMALL: usize = 4096;
/// Maximum number of unsupported ops that an error lists.
const MAX_REFUSED: usize = 100;
/// Maximum number of elements of constants that are folded at compile time.
pub(super) const FOLDED: usize = 64;

/// The graph under construction.
pub(crate) struct GraphBuilder<'m> {
    pub(super) module: &'m Module,
    pub(crate) pool: &'m Pool,
    pub(crate) values: Vec<Value>,
    /// For each value, the index in `ops` of the op that defines it. The parameters have the index 0, too.
    origins: Vec<usize>,
    /// The lowered ops and their functions, in order. Index `current` is the op that is being lowered.
    pub(super) ops: Vec<(&'m Func, &'m IrOp)>,
    current: usize,
    /// Functions being inlined, outermost first.
    pub(super) calls: Vec<&'m str>,
    pub(super) depth: usize,
    pub(super) settings: &'m CompileSettings,
    /// Number of collectives in the graph so far.
    pub(crate) collectives: u32,
    /// The operand and the permutation of each transposed value, so that contractions can read the operand directly.
    pub(super) transposed: HashMap<ValueIndex, (TypedValue, Vec<usize>)>,
    /// How each value was padded that has padding, so that windows over it can read the operand directly.
    pub(super) padded: HashMap<ValueIndex, Padding>,
    /// The factors of each outer product, so that its transpose is computed directly.
    pub(super) outer_products: HashMap<ValueIndex, OuterProduct>,
    /// Errors of unsupported ops.
    pub(super) refused: Vec<CompileError>,
}

/// The operand and the attributes of a `pad`.
#[derive(Clone)]
pub(super) struct Padding {
    pub(super) of: TypedValue,
    pub(super) element: ValueIndex,
    pub(super) low: Vec<i64>,
    pub(super) high: Vec<i64>,
    pub(super) interior: Vec<usize>,
}

/// A function being inlined.
pub(super) struct Frame<'m> {
    pub(super) func: &'m Func,
    pub(super) env: Vec<Option<Binding>>,
}

/// The op that is being lowered, and the destination of its nodes.
pub(super) struct LoweringContext<'a, 'm> {
    pub(super) graph: &'a mut GraphBuilder<'m>,
    pub(super) frame: &'a mut Frame<'m>,
    pub(super) out: &'a mut Vec<Node>,
    pub(super) op: &'m IrOp,
}

/// The lowered entry function.
pub(crate) struct Lowered {
    pub(crate) block: BlockGraph,
    pub(crate) args: Vec<TypedValue>,
    pub(crate) results: Vec<TensorType>,
}

impl<'m> GraphBuilder<'m> {
    pub(crate) fn new(module: &'m Module, settings: &'m CompileSettings, pool: &'m Pool) -> Self {
        GraphBuilder {
            module,
            pool,
            values: Vec::new(),
            origins: Vec::new(),
            ops: Vec::new(),
            current: 0,
            calls: Vec::new(),
            depth: 0,
            settings,
            collectives: 0,
            transposed: HashMap::new(),
            padded: HashMap::new(),
            outer_products: HashMap::new(),
            refused: Vec::new(),
        }
    }

    /// Lowers the entry function.
    pub(crate) fn entry(&mut self, func: &'m Func) -> Result<Lowered> {
        if InlinedSize::new(self.module).of(func)? > MAX_OPS {
            return Err(CompileError::unsupported(format!(
                "a program of more than {MAX_OPS} ops after inlining calls"
            )));
        }
        let mut args = Vec::with_capacity(func.args().len());
        let mut tokens = Vec::with_capacity(func.args().len());
        for &arg in func.args() {
            let ty = type_of(func, arg)?;
            tokens.push(matches!(ty, Type::Token));
            let ty = entry_type(ty)?;
            args.push(TypedValue { value: self.value(&ty), ty });
        }
        let mut nodes = Vec::new();
        let bind = |(arg, is_token): (&TypedValue, bool)| {
            if is_token { Binding::Token } else { Binding::Tensor(self.extended(arg, &mut nodes)) }
        };
        let binds = args.iter().zip(tokens).map(bind).collect();
        let results = self.inline(func, binds, &mut nodes);
        if !self.refused.is_empty() {
            let mut refused = std::mem::take(&mut self.refused);
            // Drop an "invalid" error, because the assumed result types of unsupported ops may have caused it.
            refused.extend(results.err().filter(|e| e.kind() == CompileErrorKind::Unsupported && !refused.contains(e)));
            let error = CompileError::together(refused);
            return Err(error.unwrap_or_else(|| CompileError::unsupported("an op of the program")));
        }
        let results = results?;
        let mut types = Vec::with_capacity(results.len());
        let mut block = BlockGraph { nodes, results: Vec::new() };
        for result in results {
            let tv = match result {
                Binding::Tensor(tv) => tv,
                Binding::Token => TypedValue { value: self.splat_value(&[0], 0), ty: entry_type(&Type::Token)? },
                Binding::Tuple(_) => {
                    return Err(CompileError::unsupported("the entry function returns a tuple; return its elements"));
                }
            };
            block.results.push(self.materialized(tv.value, &mut block.nodes));
            types.push(tv.ty);
        }
        let mut live = vec![false; self.values.len()];
        block.remove_dead(&mut live);
        Ok(Lowered { block, args, results: types })
    }

    /// Sign- or zero-extends a parameter of narrow integers, because the caller may set the unused bits of each byte.
    /// Returns other parameters unchanged.
    pub(super) fn extended(&mut self, arg: &TypedValue, out: &mut Vec<Node>) -> TypedValue {
        let Some(wrap) = wrap(arg.ty.dtype) else {
            return arg.clone();
        };
        let v = self.value(&arg.ty);
        out.push(Node { op: Op::Map(wrap), ins: vec![arg.value], outs: vec![v] });
        TypedValue { value: v, ty: arg.ty.clone() }
    }

    /// Adds a value of the given type.
    pub(super) fn value(&mut self, ty: &TensorType) -> ValueIndex {
        self.new_value(Value { size: element_size(ty.dtype), n: ty.elements(), constant: None })
    }

    pub(super) fn new_value(&mut self, value: Value) -> ValueIndex {
        self.values.push(value);
        self.origins.push(self.current);
        ValueIndex::try_from(self.values.len() - 1).unwrap_or(ValueIndex::MAX)
    }

    /// Adds a value of the op that computes the value `of`.
    pub(crate) fn derived(&mut self, value: Value, of: ValueIndex) -> ValueIndex {
        let made = self.new_value(value);
        self.origins[made as usize] = self.origins[of as usize];
        made
    }

    /// Lowers a call of `func` by lowering its body into `out`. Returns the results of the call.
    pub(super) fn inline(&mut self, func: &'m Func, args: Vec<Binding>, out: &mut Vec<Node>) -> Result<Vec<Binding>> {
        if self.calls.contains(&func.name.as_str()) {
            return Err(CompileError::invalid(format!("function `{}` calls itself", func.name)));
        }
        self.calls.push(&func.name);
        let mut frame = Frame { func, env: vec![None; func.values.len()] };
        let results = self.region(&mut frame, &func.body, args, out)?;
        self.calls.pop();
        if results.len() != func.results.len() {
            let (want, got) = (func.results.len(), results.len());
            return Err(CompileError::invalid(format!(
                "function `{}` declares {want} results and returns {got}",
                func.name
            )));
        }
        Ok(results)
    }

    /// Lowers a region's ops into `out`. Returns the values that the region returns.
    pub(super) fn region(
        &mut self,
        frame: &mut Frame<'m>,
        region: &'m Region,
        args: Vec<Binding>,
        out: &mut Vec<Node>,
    ) -> Result<Vec<Binding>> {
        self.depth += 1;
        check_depth(self.depth)?;
        if region.args.len() != args.len() {
            let (want, got) = (region.args.len(), args.len());
            return Err(CompileError::invalid(format!("a region takes {want} arguments, not {got}")));
        }
        for (&id, bind) in region.args.iter().zip(args) {
            let declared = type_of(frame.func, id)?;
            if let Binding::Tensor(tv) = &bind
                && !fits(declared, &tv.ty)?
            {
                return Err(CompileError::invalid(format!(
                    "an argument has type {declared}, but its value is a {}",
                    tv.ty
                )));
            }
            frame.bind(id, bind)?;
        }
        let (depth, calls, caller) = (self.depth, self.calls.len(), self.current);
        for op in &region.ops {
            let mut cx = LoweringContext { graph: self, frame, out, op };
            if matches!(op.kind, OpKind::Return) {
                let results = op.operands.iter().map(|&v| cx.frame.get(v)).collect();
                self.depth -= 1;
                self.current = caller;
                return results;
            }
            let Err(error) = cx.lower() else { continue };
            let error = error.at(|| place(self.module, frame.func, op));
            // Record an unsupported op and continue, because a list of all unsupported ops is more useful than the
            // first one.
            if error.kind() != CompileErrorKind::Unsupported || !self.assume(frame, op) {
                return Err(error);
            }
            if self.refused.len() < MAX_REFUSED && !self.refused.contains(&error) {
                self.refused.push(error);
            }
            self.depth = depth;
            self.calls.truncate(calls);
        }
        Err(CompileError::invalid("a region ends without a return"))
    }

    /// Binds the results of an unsupported op to values without a node. Returns `false` if a type is unknown or is not
    /// supported.
    pub(super) fn assume(&mut self, frame: &mut Frame<'m>, op: &'m IrOp) -> bool {
        for &id in &op.results {
            let bind = match type_of(frame.func, id) {
                Ok(Type::Token) => Binding::Token,
                Ok(ty) => match tensor_type(ty) {
                    Ok(ty) => Binding::Tensor(TypedValue { value: self.value(&ty), ty }),
                    Err(_) => return false,
                },
                Err(_) => return false,
            };
            if frame.bind(id, bind).is_err() {
                return false;
            }
        }
        true
    }

    /// Describes the op that defines a value.
    pub(crate) fn place_of(&self, v: ValueIndex) -> Option<String> {
        let (func, op) = self.ops.get(*self.origins.get(v as usize)?)?;
        Some(place(self.module, func, op).description)
    }

    /// Returns `v`, or a copy with its own memory if `v` is a large constant of equal elements.
    pub(super) fn materialized(&mut self, v: ValueIndex, out: &mut Vec<Node>) -> ValueIndex {
        let value = &self.values[v as usize];
        if value.bytes() <= SMALL || !matches!(value.constant, Some(Constant::Splat(_))) {
            return v;
        }
        let (size, n) = (value.size, value.n);
        let copy = self.new_value(Value { size, n, constant: None });
        out.push(Node { op: Op::Copy, ins: vec![v], outs: vec![copy] });
        copy
    }

    /// Returns the element of a constant that is stored as one repeated element. Returns `None` for other values.
    pub(super) fn splat(&self, v: ValueIndex) -> Option<[u8; 16]> {
        match self.values[v as usize].constant {
            Some(Constant::Splat(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn splat_value(&mut self, element: &[u8], n: usize) -> ValueIndex {
        let mut bytes = [0; 16];
        bytes[..element.len()].copy_from_slice(element);
        let size = u8::try_from(element.len()).unwrap_or(16);
        self.new_value(Value { size, n, constant: Some(Constant::Splat(bytes)) })
    }
}

impl Frame<'_> {
    pub(super) fn get(&self, id: ValueId) -> Result<Binding> {
        let found = self.env.get(id.0 as usize).and_then(Option::as_ref);
        found.cloned().ok_or_else(|| CompileError::invalid(format!("value {} is used before it is defined", id.0)))
    }

    pub(super) fn bind(&mut self, id: ValueId, bind: Binding) -> Result<()> {
        let slot = self.env.get_mut(id.0 as usize);
        *slot.ok_or_else(|| CompileError::invalid(format!("value {} has no type", id.0)))? = Some(bind);
        Ok(())
    }
}

impl<'m> LoweringContext<'_, 'm> {
    pub(super) fn lower(&mut self) -> Result<()> {
        self.graph.current = self.graph.ops.len();
        self.graph.ops.push((self.frame.func, self.op));
        match &self.op.kind {
            OpKind::Constant(literal) => self.constant(literal),
            OpKind::Iota { iota_dimension } => self.iota(*iota_dimension),
            OpKind::PartitionId => self.member_id(true),
            OpKind::ReplicaId => self.member_id(false),
            OpKind::Unary(op) => self.unary(*op),
            OpKind::Binary(op) => self.binary(*op),
            OpKind::Compare { direction, compare_type } => self.compare(*direction, *compare_type),
            OpKind::Select => self.select(),
            OpKind::Clamp => self.clamp(),
            OpKind::Fma => self.fma(),
            OpKind::Convert => self.convert(),
            OpKind::BitcastConvert => self.bitcast_convert(),
            OpKind::ReducePrecision { exponent_bits, mantissa_bits } => {
                self.reduce_precision(*exponent_bits, *mantissa_bits)
            }
            OpKind::BroadcastInDim { broadcast_dimensions } => self.broadcast_in_dim(broadcast_dimensions),
            OpKind::Reshape => self.reshape(),
            OpKind::Transpose { permutation } => self.transpose(permutation),
            OpKind::Slice { start_indices, limit_indices, strides } => {
                self.slice(start_indices, limit_indices, strides)
            }
            OpKind::DynamicSlice { slice_sizes } => self.dynamic_slice(slice_sizes),
            OpKind::DynamicUpdateSlice => self.dynamic_update_slice(),
            OpKind::Concatenate { dimension } => self.concatenate(*dimension),
            OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding } => {
                self.pad(edge_padding_low, edge_padding_high, interior_padding)
            }
            OpKind::Reverse { dimensions } => self.reverse(dimensions),
            OpKind::GetDimensionSize { dimension } => self.get_dimension_size(*dimension),
            OpKind::Gather { dimensions, slice_sizes, .. } => self.gather(dimensions, slice_sizes),
            OpKind::Scatter { dimensions, .. } => self.scatter(dimensions),
            OpKind::Sort { dimension, .. } => self.sort(*dimension),
            OpKind::DotGeneral { dimensions, .. } => self.dot_general(dimensions),
            OpKind::Convolution { dimensions, window, feature_group_count, batch_group_count, .. } => {
                self.convolution(dimensions, window, *feature_group_count, *batch_group_count)
            }
            OpKind::Reduce { dimensions } => self.reduce(dimensions),
            OpKind::ReduceWindow { window } => self.reduce_window(window),
            OpKind::SelectAndScatter { window } => self.select_and_scatter(window),
            OpKind::Cholesky { lower } => self.cholesky(*lower),
            OpKind::TriangularSolve { left_side, lower, unit_diagonal, transpose_a } => {
                self.triangular_solve(*left_side, *lower, *unit_diagonal, *transpose_a)
            }
            OpKind::RngBitGenerator { algorithm } => self.rng_bit_generator(*algorithm),
            OpKind::Call { callee } => self.call(callee),
            // The decomposition sorts all elements.
            OpKind::Composite { name, .. } if name == "chlo.top_k" => self.top_k(),
            OpKind::Composite { decomposition, .. } => self.call(decomposition),
            OpKind::While => self.while_loop(),
            OpKind::If => self.branches(Select::Pred),
            OpKind::Case => self.branches(Select::Index),
            OpKind::CustomCall { call_target_name, .. } => self.custom_call(call_target_name),
            OpKind::OptimizationBarrier => self.pass_through(),
            OpKind::Tuple => self.tuple(),
            OpKind::GetTupleElement { index } => self.get_tuple_element(*index),
            OpKind::CreateToken | OpKind::AfterAll => self.bind(0, Binding::Token),
            OpKind::Fft { fft_type, fft_length } => self.fft(*fft_type, fft_length),
            OpKind::Other { name, .. } if name == "sdy.sharding_constraint" => self.pass_through(),
            OpKind::Other { name, .. } if name == "sdy.sharding_group" => self.finish(Vec::new()),
            OpKind::Other { name, attributes } => {
                self.chlo(name, attributes).unwrap_or_else(|| Err(self.unsupported()))
            }
            OpKind::AllGather { .. }
            | OpKind::AllReduce { .. }
            | OpKind::AllToAll { .. }
            | OpKind::CollectiveBroadcast { .. }
            | OpKind::CollectivePermute { .. }
            | OpKind::CollectiveReduce { .. }
            | OpKind::ReduceScatter { .. } => self.collective(),
            OpKind::Map { .. } => self.map_region(),
            OpKind::Einsum { einsum_config } | OpKind::UnaryEinsum { einsum_config } => self.einsum(einsum_config),
            OpKind::TorchIndexSelect { dim, batch_dims } => self.torch_index_select(*dim, *batch_dims),
            OpKind::Rng { distribution } => self.rng(*distribution),
            OpKind::DynamicReshape => self.dynamic_reshape(),
            OpKind::DynamicBroadcastInDim { broadcast_dimensions, .. } => {
                self.dynamic_broadcast_in_dim(broadcast_dimensions)
            }
            OpKind::DynamicIota { iota_dimension } => self.dynamic_iota(*iota_dimension),
            OpKind::DynamicPad => self.dynamic_pad(),
            OpKind::DynamicGather { dimensions, .. } => self.dynamic_gather(dimensions),
            OpKind::DynamicConv { dimensions, window, feature_group_count, batch_group_count, .. } => {
                self.dynamic_conv(dimensions, window, *feature_group_count, *batch_group_count)
            }
            OpKind::RealDynamicSlice => self.real_dynamic_slice(),
            OpKind::SetDimensionSize { dimension } => self.set_dimension_size(*dimension),
            OpKind::Infeed { .. } | OpKind::Outfeed { .. } | OpKind::Send { .. } | OpKind::Recv { .. } => {
                Err(self.no_host_queues())
            }
            _ => Err(self.unsupported()),
        }
    }

    /// Returns the error for an unsupported current op. The engine either does not support the op at all, or does not
    /// support it with these types and attributes.
    pub(super) fn unsupported(&self) -> CompileError {
        CompileError::unsupported(op_name(&self.op.kind))
    }

    pub(super) fn invalid(&self, message: impl std::fmt::Display) -> CompileError {
        CompileError::invalid(format!("{}: {message}", op_name(&self.op.kind)))
    }

    pub(super) fn ensure(&self, holds: bool, message: impl FnOnce() -> String) -> Result<()> {
        if holds { Ok(()) } else { Err(self.invalid(message())) }
    }

    /// Returns all operands, which must be tensors.
    pub(super) fn operands(&self) -> Result<Vec<TypedValue>> {
        self.op.operands.iter().map(|&id| self.tensor(id)).collect()
    }

    pub(super) fn tensor(&self, id: ValueId) -> Result<TypedValue> {
        match self.frame.get(id)? {
            Binding::Tensor(tv) => Ok(tv),
            _ => Err(self.invalid("an operand is not a tensor")),
        }
    }

    /// Returns the operands, which must be exactly `N` tensors.
    pub(super) fn take<const N: usize>(&self) -> Result<[TypedValue; N]> {
        let operands = self.operands()?;
        let got = operands.len();
        operands.try_into().map_err(|_| self.invalid(format!("takes {N} operands, not {got}")))
    }

    /// Returns the declared type of a result.
    pub(super) fn result_type(&self, index: usize) -> Result<TensorType> {
        let id = self.op.results.get(index).ok_or_else(|| self.invalid(format!("result {index} is missing")))?;
        tensor_type(type_of(self.frame.func, *id)?)
    }

    /// Returns the declared element type of a result.
    pub(super) fn result_dtype(&self, index: usize) -> Result<DType> {
        let id = self.op.results.get(index).ok_or_else(|| self.invalid(format!("result {index} is missing")))?;
        dtype_of(type_of(self.frame.func, *id)?)
    }

    pub(super) fn bind(&mut self, index: usize, bind: Binding) -> Result<()> {
        let id = self.op.results.get(index).ok_or_else(|| self.invalid(format!("result {index} is missing")))?;
        self.frame.bind(*id, bind)
    }

    /// Checks that result `index` may have the type `ty`.
    pub(super) fn declared(&self, index: usize, ty: &TensorType) -> Result<()> {
        let id = self.op.results.get(index).ok_or_else(|| self.invalid(format!("result {index} is missing")))?;
        let declared = type_of(self.frame.func, *id)?;
        self.ensure(fits(declared, ty)?, || format!("makes a {ty}, a {declared} is declared"))
    }

    /// Binds all results and checks that their types match the declared types. If the op declares one tuple, binds the
    /// tuple of all results. PyTorch/XLA declares such a tuple for custom calls.
    pub(super) fn finish(&mut self, results: Vec<TypedValue>) -> Result<()> {
        let (want, got) = (self.op.results.len(), results.len());
        if let [id] = self.op.results[..]
            && let Type::Tuple(parts) = type_of(self.frame.func, id)?
        {
            let want = parts.len();
            self.ensure(want == got, || format!("makes {got} results, a tuple of {want} is declared"))?;
            for (part, tv) in parts.iter().zip(&results) {
                self.ensure(fits(part, &tv.ty)?, || format!("makes a {}, a {part} is declared", tv.ty))?;
            }
            return self.bind(0, Binding::Tuple(results.into_iter().map(Binding::Tensor).collect()));
        }
        self.ensure(want == got, || format!("makes {got} results, {want} are declared"))?;
        for (i, tv) in results.into_iter().enumerate() {
            self.declared(i, &tv.ty)?;
            self.bind(i, Binding::Tensor(tv))?;
        }
        Ok(())
    }

    pub(super) fn finish_one(&mut self, v: ValueIndex, ty: TensorType) -> Result<()> {
        self.finish(vec![TypedValue { value: v, ty }])
    }

    /// Adds an elementwise node. Computes the result at compile time instead if all operands are constants of equal
    /// elements, or if all operands are constants and the result has at most [`FOLDED`] elements.
    pub(super) fn map(&mut self, map: Map, ins: &[ValueIndex], ty: &TensorType) -> ValueIndex {
        let splats: Option<Vec<[u8; 16]>> = ins.iter().map(|&v| self.graph.splat(v)).collect();
        if let Some(splats) = splats {
            return self.fold(&map, ins, &splats, ty);
        }
        if let Some(v) = self.fold_dense(&map, ins, ty) {
            return v;
        }
        let out = self.graph.value(ty);
        self.out.push(Node { op: Op::Map(map), ins: ins.to_vec(), outs: vec![out] });
        out
    }

    /// Reads `v` through a view. Returns `v` itself if the view is the identity. Reads a constant at compile time if
    /// its elements are equal or the view has at most [`FOLDED`] elements.
    pub(super) fn load(&mut self, v: ValueIndex, view: View) -> ValueIndex {
        let value = &self.graph.values[v as usize];
        if let Some(Constant::Splat(bytes)) = value.constant {
            let size = usize::from(value.size);
            return self.graph.splat_value(&bytes[..size], view.len());
        }
        if view.is_contiguous() && view.len() == value.n {
            return v;
        }
        let (element, n) = (value.size, view.len());
        if n <= FOLDED
            && let Some(Constant::Dense(buffer)) = &value.constant
        {
            let size = usize::from(element);
            let mut bytes = vec![0u128; (n * size).div_ceil(16)];
            let part: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut bytes)[..n * size];
            with_size!(size, T => {
                view.read::<T>(bytemuck::cast_slice(buffer.bytes()), 0, bytemuck::cast_slice_mut(part));
            });
            let copy = Buffer::copy_of(self.graph.pool, part);
            if let Ok(copy) = copy {
                let constant = Some(Constant::Dense(copy));
                return self.graph.new_value(Value { size: element, n, constant });
            }
        }
        let out = self.graph.new_value(Value { size: element, n, constant: None });
        self.out.push(Node { op: Op::Load(view), ins: vec![v], outs: vec![out] });
        out
    }

    /// Adds a node that runs a kernel, or runs the kernel at compile time if all inputs are small constants. Output `o`
    /// starts as a copy of input `starts[o]`, if `starts` contains such an input.
    pub(super) fn kernel(
        &mut self,
        kernel: impl Kernel + 'static,
        ins: &[ValueIndex],
        starts: &[Option<u16>],
        types: &[TensorType],
    ) -> Vec<ValueIndex> {
        self.any_kernel(Arc::new(kernel), ins, starts, types)
    }

    /// Does the same as [`Self::kernel`]. Its code is compiled once, and not once for each kernel.
    fn any_kernel(
        &mut self,
        kernel: Arc<dyn Kernel>,
        ins: &[ValueIndex],
        starts: &[Option<u16>],
        types: &[TensorType],
    ) -> Vec<ValueIndex> {
        if let Some(outs) = self.fold_kernel(&*kernel, ins, starts, types) {
            return outs;
        }
        let ins = ins.iter().map(|&v| self.graph.materialized(v, self.out)).collect();
        let outs: Vec<ValueIndex> = types.iter().map(|ty| self.graph.value(ty)).collect();
        let op = Op::Kernel { kernel, starts: starts.to_vec() };
        self.out.push(Node { op, ins, outs: outs.clone() });
        outs
    }

    /// Adds a constant of type `ty` that contains a copy of `bytes`.
    pub(super) fn dense(&mut self, ty: &TensorType, bytes: &[u8]) -> Result<ValueIndex> {
        let buffer = Buffer::copy_of(self.graph.pool, bytes).map_err(|e| CompileError::unsupported(e.to_string()))?;
        let constant = Some(Constant::Dense(buffer));
        Ok(self.graph.new_value(Value { size: element_size(ty.dtype), n: ty.elements(), constant }))
    }
}

/// Returns the attribute called `name`, if the op has it.
pub(super) fn find_attribute<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
}
