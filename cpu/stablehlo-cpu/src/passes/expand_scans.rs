//! The pass `expand_scans`: rewrites CHLO's `scan` as a loop before a program is lowered.
//!
//! The loop carries a counter, the body's carried values and the outputs computed so far. Each iteration takes a slice
//! of every input, runs the body, and writes its slices to the outputs.

use stablehlo::ir::{
    Attribute, Attributes, Binary, ComparisonDirection, ComparisonType, DYNAMIC, ElementType, Func, Literal,
    LocationId, Module, Op, OpKind, Region, TensorType, Type, ValueId, ValueTypes,
};

use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

fn is_scan(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Other { name, .. } if name == "chlo.scan")
}

fn scans(region: &Region) -> bool {
    region.ops.iter().any(|op| is_scan(op) || op.regions.iter().any(scans))
}

/// Returns the program without scans, or `None` if it contains no scans. The verifier must have accepted the module.
pub(crate) fn expand_scans(module: &Module) -> Result<Option<Module>> {
    if !module.funcs.iter().any(|f| scans(&f.body)) {
        return Ok(None);
    }
    let mut module = module.clone();
    for func in module.funcs.iter_mut().filter(|f| scans(&f.body)) {
        let Func { body, values, .. } = func;
        let mut rewrite = Rewrite { values };
        *body = rewrite.region(std::mem::take(body))?;
    }
    Ok(Some(module))
}

struct Rewrite<'f> {
    values: &'f mut ValueTypes,
}

/// The attributes of a scan.
struct Scan {
    inputs: usize,
    outputs: usize,
    dimension: usize,
    length: i64,
    reversed: bool,
}

impl Scan {
    fn of(op: &Op, attributes: &Attributes, values: &ValueTypes) -> Result<Self> {
        let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
        let invalid = |what: &str| CompileError::invalid(format!("chlo.scan: {what}"));
        let first = |name: &str| {
            let list = find(name).and_then(Attribute::as_integers)?;
            usize::try_from(*list.first()?).ok()
        };
        let inputs = first("operandSegmentSizes").ok_or_else(|| invalid("operandSegmentSizes is missing"))?;
        let outputs = first("resultSegmentSizes").ok_or_else(|| invalid("resultSegmentSizes is missing"))?;
        let dimension = find("dimension").and_then(Attribute::as_integer).and_then(|d| usize::try_from(d).ok());
        let dimension = dimension.ok_or_else(|| invalid("dimension is missing"))?;
        let stated = find("scan_dim_size").and_then(Attribute::as_integer);
        let scanned = op.operands.iter().take(inputs).chain(op.results.iter().take(outputs));
        let extents = scanned.filter_map(|v| match values.get(v.0 as usize) {
            Some(Type::Tensor(tensor)) => tensor.shape.get(dimension).copied(),
            _ => None,
        });
        let length = stated.into_iter().chain(extents).find(|&extent| extent != DYNAMIC);
        let Some(length) = length else {
            return Err(CompileError::unsupported("chlo.scan along a dimension of unknown extent"));
        };
        let reversed = find("is_reverse").is_some_and(|a| *a == Attribute::Bool(true));
        Ok(Self { inputs, outputs, dimension, length, reversed })
    }
}

const INDEX: ElementType = ElementType::I64;

impl Rewrite<'_> {
    fn value(&mut self, ty: Type) -> ValueId {
        self.values.push(ty);
        // The verifier has checked that the number of values fits 32 bits, and a scan adds only a few values.
        ValueId(u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX))
    }

    fn region(&mut self, region: Region) -> Result<Region> {
        let mut ops = Vec::with_capacity(region.ops.len());
        for mut op in region.ops {
            for inner in &mut op.regions {
                *inner = self.region(std::mem::take(inner))?;
            }
            if is_scan(&op) { self.scan(op, &mut ops)? } else { ops.push(op) }
        }
        Ok(Region { args: region.args, ops })
    }

    /// Adds an op with one result.
    fn push(&mut self, ops: &mut Vec<Op>, kind: OpKind, operands: &[ValueId], ty: Type, at: LocationId) -> ValueId {
        let result = self.value(ty);
        ops.push(plain(kind, operands, &[result], at));
        result
    }

    fn index(&mut self, ops: &mut Vec<Op>, number: i64, at: LocationId) -> Result<ValueId> {
        self.constant(ops, TensorType::new([], INDEX), number.to_le_bytes().to_vec(), at)
    }

    fn constant(&mut self, ops: &mut Vec<Op>, ty: TensorType, data: Vec<u8>, at: LocationId) -> Result<ValueId> {
        let literal = Literal::new(ty.clone(), data).map_err(|e| CompileError::invalid(e.to_string()))?;
        Ok(self.push(ops, OpKind::Constant(literal), &[], Type::Tensor(ty), at))
    }

    fn tensor(&self, value: ValueId) -> Result<TensorType> {
        match self.values.get(value.0 as usize) {
            Some(Type::Tensor(tensor)) => Ok(tensor.clone()),
            other => Err(CompileError::unsupported(format!("chlo.scan over {other:?}"))),
        }
    }

    fn scan(&mut self, mut op: Op, out: &mut Vec<Op>) -> Result<()> {
        let OpKind::Other { attributes, .. } = &op.kind else { return Ok(()) };
        let scan = Scan::of(&op, attributes, self.values)?;
        let at = op.location;
        let (Some(body), true) = (op.regions.pop(), op.regions.is_empty()) else {
            return Err(CompileError::invalid("chlo.scan: must have one region"));
        };
        let (inputs, inits) = op.operands.split_at(scan.inputs.min(op.operands.len()));
        let (outputs, carries) = op.results.split_at(scan.outputs.min(op.results.len()));
        if scan.length == 0 {
            return self.nothing(&scan, inits, outputs, carries, at, out);
        }
        let index = Type::Tensor(TensorType::new([], INDEX));
        let zero = self.index(out, 0, at)?;
        let mut operands = vec![zero];
        operands.extend(inits);
        let mut results = vec![self.value(index.clone())];
        results.extend(carries);
        for &output in outputs {
            let mut ty = self.tensor(output)?;
            ty.shape[scan.dimension] = scan.length;
            self.values.set(output.0 as usize, Type::Tensor(ty.clone()));
            // The initial contents do not matter, because the loop overwrites every element.
            let bytes = zeros(&ty);
            operands.push(self.constant(out, ty, bytes, at)?);
            results.push(output);
        }
        let condition = self.condition(&operands, scan.length, at)?;
        let turn = self.turn(&scan, body, inputs, &operands, at)?;
        let mut looped = plain(OpKind::While, &operands, &results, at);
        looped.regions = vec![condition, turn];
        out.push(looped);
        Ok(())
    }

    /// Rewrites a scan over zero slices. Its outputs are empty, and the carried values keep their initial values.
    fn nothing(
        &mut self,
        scan: &Scan,
        inits: &[ValueId],
        outputs: &[ValueId],
        carries: &[ValueId],
        at: LocationId,
        out: &mut Vec<Op>,
    ) -> Result<()> {
        for &output in outputs {
            let mut ty = self.tensor(output)?;
            ty.shape[scan.dimension] = 0;
            self.values.set(output.0 as usize, Type::Tensor(ty.clone()));
            let literal = Literal::new(ty, Vec::new()).map_err(|e| CompileError::invalid(e.to_string()))?;
            out.push(plain(OpKind::Constant(literal), &[], &[output], at));
        }
        out.push(plain(OpKind::OptimizationBarrier, inits, carries, at));
        Ok(())
    }

    fn arguments(&mut self, like: &[ValueId]) -> Result<Vec<ValueId>> {
        let ty = |v: &ValueId| self.values.get(v.0 as usize).cloned();
        let types: Option<Vec<Type>> = like.iter().map(ty).collect();
        let types = types.ok_or_else(|| CompileError::invalid("chlo.scan: an operand has no type"))?;
        Ok(types.into_iter().map(|ty| self.value(ty)).collect())
    }

    fn condition(&mut self, operands: &[ValueId], length: i64, at: LocationId) -> Result<Region> {
        let (args, mut ops) = (self.arguments(operands)?, Vec::new());
        let end = self.index(&mut ops, length, at)?;
        let kind = OpKind::Compare { direction: ComparisonDirection::Lt, compare_type: ComparisonType::Signed };
        let less = Type::Tensor(TensorType::new([], ElementType::Bool));
        let less = self.push(&mut ops, kind, &[args[0], end], less, at);
        ops.push(plain(OpKind::Return, &[less], &[], at));
        Ok(Region { args, ops })
    }

    /// Builds the body of the loop. It contains the ops that define the arguments of the scan's body, the scan's body
    /// itself, and the ops that update the outputs and the counter.
    fn turn(
        &mut self,
        scan: &Scan,
        mut body: Region,
        inputs: &[ValueId],
        operands: &[ValueId],
        at: LocationId,
    ) -> Result<Region> {
        let index = Type::Tensor(TensorType::new([], INDEX));
        let mut ops = Vec::new();
        let (slices, carried) = body.args.split_at(scan.inputs.min(body.args.len()));
        let made = self.arguments(&operands[1 + carried.len()..])?;
        let counter = self.value(index.clone());
        let mut args = vec![counter];
        args.extend(carried);
        args.extend(&made);
        let place = if scan.reversed {
            let last = self.index(&mut ops, scan.length - 1, at)?;
            self.push(&mut ops, OpKind::Binary(Binary::Subtract), &[last, counter], index.clone(), at)
        } else {
            counter
        };
        let zero = self.index(&mut ops, 0, at)?;
        let at_place = |rank: usize| (0..rank).map(move |d| if d == scan.dimension { place } else { zero });
        for (&input, &slice) in inputs.iter().zip(slices) {
            let mut ty = self.tensor(input)?;
            ty.shape[scan.dimension] = 1;
            let starts: Vec<ValueId> = std::iter::once(input).chain(at_place(ty.rank())).collect();
            let kind = OpKind::DynamicSlice { slice_sizes: ty.shape.clone() };
            let cut = self.push(&mut ops, kind, &starts, Type::Tensor(ty), at);
            ops.push(plain(OpKind::Reshape, &[cut], &[slice], at));
        }
        let Some(Op { kind: OpKind::Return, operands: yielded, .. }) = body.ops.pop() else {
            return Err(CompileError::invalid("chlo.scan: its body must end in a return"));
        };
        ops.append(&mut body.ops);
        let one = self.index(&mut ops, 1, at)?;
        let mut next = vec![self.push(&mut ops, OpKind::Binary(Binary::Add), &[counter, one], index, at)];
        let (slices, carried) = yielded.split_at(scan.outputs.min(yielded.len()));
        next.extend(carried);
        for (&output, &slice) in made.iter().zip(slices) {
            let ty = self.tensor(output)?;
            let mut row = ty.clone();
            row.shape[scan.dimension] = 1;
            let row = self.push(&mut ops, OpKind::Reshape, &[slice], Type::Tensor(row), at);
            let starts: Vec<ValueId> = [output, row].into_iter().chain(at_place(ty.rank())).collect();
            next.push(self.push(&mut ops, OpKind::DynamicUpdateSlice, &starts, Type::Tensor(ty), at));
        }
        ops.push(plain(OpKind::Return, &next, &[], at));
        Ok(Region { args, ops })
    }
}

/// Returns the data of a tensor of zeros. The data is one element as a splat, or no bytes if the tensor has no
/// elements.
fn zeros(ty: &TensorType) -> Vec<u8> {
    if ty.num_elements() == Some(0) { Vec::new() } else { vec![0; ty.element.byte_size()] }
}

fn plain(kind: OpKind, operands: &[ValueId], results: &[ValueId], location: LocationId) -> Op {
    Op { location, ..Op::new(kind, operands, results) }
}
