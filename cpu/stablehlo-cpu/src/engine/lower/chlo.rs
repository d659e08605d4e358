//! Lowers ops of CHLO, StableHLO's client dialect. Programs in text form may contain these ops.
//!
//! The engine does not use the pass `expand_chlo`. It computes each function in one loop, in `f64` with one rounding,
//! where the pass adds up to forty ops with an error of up to 8 units in the last place. It also broadcasts operands
//! whose declared sizes are `?`, because it knows their actual sizes.

use stablehlo::ir::{Attribute, Attributes, Binary, ComparisonDirection, ComparisonType, Unary};

use super::context::find_attribute;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::elementwise as loops;

impl<'m> LoweringContext<'_, 'm> {
    /// Lowers a CHLO op by its name. Returns `None` if the name is unknown.
    pub(super) fn chlo(&mut self, name: &str, attributes: &'m Attributes) -> Option<Result<()>> {
        let name = name.strip_prefix("chlo.")?;
        if let Some(op) = name.strip_prefix("broadcast_") {
            return Some(self.broadcasting(op, attributes));
        }
        Some(match name {
            "constant" => match find_attribute(attributes, "value") {
                Some(Attribute::Tensor(literal) | Attribute::DenseArray(literal)) => self.constant(literal),
                _ => Err(self.invalid("attribute value is missing")),
            },
            "constant_like" => self.constant_like(attributes),
            "square" | "conj" => self.elementwise(|cx, x| cx.square_or_conj(name, x)),
            "is_inf" | "is_pos_inf" | "is_neg_inf" => self.elementwise(|cx, x| cx.is_inf(name, x)),
            "polygamma" | "zeta" | "next_after" | "mulhi" => self.take().and_then(|[a, b]| {
                let y = self.special_of_two(name, &a, &b)?;
                self.finish(vec![y])
            }),
            "top_k" => self.top_k(),
            "ragged_dot" => self.ragged_dot(attributes),
            "dynamic_reshape" => self.dynamic_reshape(),
            _ if loops::special(name).is_some() => self.elementwise(|cx, x| cx.special_of(name, x)),
            _ => return None,
        })
    }

    fn elementwise(&mut self, f: impl FnOnce(&mut Self, TypedValue) -> Result<TypedValue>) -> Result<()> {
        let [x] = self.take()?;
        let y = f(self, x)?;
        self.finish(vec![y])
    }

    /// Applies the unary function called `name`. Computes in `f64` and rounds once, unless there is a separate loop for
    /// the type in which elementwise functions of this type compute.
    pub(super) fn special_of(&mut self, name: &str, x: TypedValue) -> Result<TypedValue> {
        let dtype = x.ty.dtype;
        let computed = dtype.elementwise();
        let own = if computed == DType::F32 { loops::special_f32(name) } else { loops::complex_special(name, dtype) };
        if let Some(map) = own {
            let x = self.converted(x, computed)?;
            let v = self.map(map, &[x.value], &x.ty);
            return self.converted(TypedValue { value: v, ty: x.ty }, dtype);
        }
        if !dtype.is_float() && !dtype.is_narrow_float() {
            return Err(self.unsupported());
        }
        let map = loops::special(name).ok_or_else(|| self.unsupported())?;
        let wide = self.converted(x, DType::F64)?;
        let v = self.map(map, &[wide.value], &wide.ty);
        self.converted(TypedValue { value: v, ty: wide.ty }, dtype)
    }

    fn special_of_two(&mut self, name: &str, a: &TypedValue, b: &TypedValue) -> Result<TypedValue> {
        self.same(a, b)?;
        let dtype = a.ty.dtype;
        let own = match name {
            "next_after" => loops::next_after(dtype),
            "mulhi" => loops::multiply_high(dtype),
            _ => None,
        };
        if let Some(map) = own {
            let v = self.map(map, &[a.value, b.value], &a.ty);
            return Ok(TypedValue { value: v, ty: a.ty.clone() });
        }
        let map = loops::special2(name).filter(|_| dtype.is_float() || dtype.is_narrow_float());
        let map = map.ok_or_else(|| self.unsupported())?;
        let (a, b) = (self.converted(a.clone(), DType::F64)?, self.converted(b.clone(), DType::F64)?);
        let v = self.map(map, &[a.value, b.value], &a.ty);
        self.converted(TypedValue { value: v, ty: a.ty }, dtype)
    }

    fn square_or_conj(&mut self, name: &str, x: TypedValue) -> Result<TypedValue> {
        if let Some(map) = loops::complex_special(name, x.ty.dtype) {
            let v = self.map(map, &[x.value], &x.ty);
            return Ok(TypedValue { value: v, ty: x.ty });
        }
        // A real number is its own conjugate.
        if name == "conj" { Ok(x) } else { self.bin(Binary::Multiply, &x, &x) }
    }

    fn is_inf(&mut self, name: &str, x: TypedValue) -> Result<TypedValue> {
        if !x.ty.dtype.is_float() && !x.ty.dtype.is_narrow_float() {
            return Err(self.unsupported());
        }
        let x = self.widened(x)?;
        let x = if name == "is_inf" { self.un(Unary::Abs, &x)? } else { x };
        let limit = if name == "is_neg_inf" { f64::NEG_INFINITY } else { f64::INFINITY };
        let limit = self.filled(limit, x.ty.dtype, &x.ty.dims.clone())?;
        self.compared(ComparisonDirection::Eq, ComparisonType::Float, &x, &limit)
    }

    fn constant_like(&mut self, attributes: &'m Attributes) -> Result<()> {
        let [x] = self.take()?;
        let ty = x.ty;
        let y = match find_attribute(attributes, "value") {
            Some(Attribute::Float(value, _)) => self.filled(*value, ty.dtype, &ty.dims)?,
            Some(Attribute::Integer(value, _)) => {
                let wide = self.typed(DType::I64, &ty.dims)?;
                let v = self.graph.splat_value(&value.to_ne_bytes(), wide.elements());
                self.converted(TypedValue { value: v, ty: wide }, ty.dtype)?
            }
            _ => return Err(self.invalid("attribute value is missing or neither integer nor float")),
        };
        self.finish(vec![y])
    }

    /// Lowers an op whose operands are first broadcast to a common shape.
    fn broadcasting(&mut self, op: &str, attributes: &Attributes) -> Result<()> {
        let operands = self.operands()?;
        let dimensions = find_attribute(attributes, "broadcast_dimensions").and_then(Attribute::as_integers);
        let operands = self.broadcast_together(operands, dimensions.as_deref(), op == "select")?;
        let y = match (op, &operands[..]) {
            ("select", [p, a, b]) => {
                self.same(a, b)?;
                let v = self.map(loops::select(a.ty.dtype.size()), &[p.value, a.value, b.value], &a.ty);
                TypedValue { value: v, ty: a.ty.clone() }
            }
            ("compare", [a, b]) => {
                let word = |name| find_attribute(attributes, name).and_then(Attribute::as_word);
                let direction = word("comparison_direction").and_then(ComparisonDirection::from_name);
                let direction = direction.ok_or_else(|| self.invalid("attribute comparison_direction is missing"))?;
                let kind = word("compare_type").and_then(ComparisonType::from_name);
                let kind = kind.unwrap_or(ComparisonType::NoType);
                self.compared(direction, kind, a, b)?
            }
            ("next_after" | "polygamma" | "zeta", [a, b]) => self.special_of_two(op, a, b)?,
            (_, [a, b]) => {
                let op = Binary::from_name(op).ok_or_else(|| self.unsupported())?;
                self.bin(op, a, b)?
            }
            _ => return Err(self.invalid(format!("{} operands", operands.len()))),
        };
        self.finish(vec![y])
    }

    /// Compares `a` with `b` element by element. The result has the element type `Bool`.
    pub(super) fn compared(
        &mut self,
        direction: ComparisonDirection,
        kind: ComparisonType,
        a: &TypedValue,
        b: &TypedValue,
    ) -> Result<TypedValue> {
        self.same(a, b)?;
        let wide = a.ty.dtype.elementwise();
        let (a, b) = (self.converted(a.clone(), wide)?, self.converted(b.clone(), wide)?);
        let map = loops::compare(direction, kind, a.ty.dtype).ok_or_else(|| self.unsupported())?;
        let ty = TensorType { dtype: DType::Bool, dims: a.ty.dims.clone() };
        let v = self.map(map, &[a.value, b.value], &ty);
        Ok(TypedValue { value: v, ty })
    }

    /// Broadcasts the operands to equal extents. `dimensions` maps the dimensions of the operand of smaller rank to
    /// those of the result. Without `dimensions`, the last dimensions are aligned. `select` ignores `dimensions`,
    /// because a scalar predicate needs no alignment.
    fn broadcast_together(
        &mut self,
        operands: Vec<TypedValue>,
        dimensions: Option<&[i64]>,
        select: bool,
    ) -> Result<Vec<TypedValue>> {
        let rank = operands.iter().map(|x| x.ty.rank()).max().unwrap_or(0);
        let mut places = Vec::with_capacity(operands.len());
        for x in &operands {
            let own = x.ty.rank();
            let aligned: Vec<usize> = (rank - own..rank).collect();
            places.push(match dimensions {
                Some(list) if own < rank && !select => self.sizes(list, own, "broadcast_dimensions")?,
                _ => aligned,
            });
        }
        let mut dims = vec![1; rank];
        for (x, places) in operands.iter().zip(&places) {
            self.distinct(places, rank, "broadcast_dimensions")?;
            for (&extent, &d) in x.ty.dims.iter().zip(places) {
                self.ensure(extent == 1 || dims[d] == 1 || dims[d] == extent, || {
                    format!("{} beside an extent of {} in dimension {d}", x.ty, dims[d])
                })?;
                if extent != 1 {
                    dims[d] = extent;
                }
            }
        }
        let mut made = Vec::with_capacity(operands.len());
        for (x, places) in operands.iter().zip(places) {
            let ty = self.typed(x.ty.dtype, &dims)?;
            made.push(self.broadcast(x, ty, &places)?);
        }
        Ok(made)
    }
}
