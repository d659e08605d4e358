//! Parses quantized tensor types. The IR stores these types as text.

use stablehlo::ir::{DYNAMIC, ElementType, TensorType, Type};

/// A tensor of quantized elements. Each stored integer represents `(integer - zero point) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantized {
    pub(crate) shape: Vec<i64>,
    pub(crate) params: Params,
    /// The dimension whose slices have separate scales. `None` if the whole tensor has one scale.
    pub(crate) axis: Option<usize>,
}

/// The parameters of the quantization.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Params {
    pub(crate) storage: ElementType,
    pub(crate) expressed: ElementType,
    /// Smallest and largest stored integer.
    pub(crate) range: (i64, i64),
    /// Scales and zero points: one pair for the whole tensor, or one pair for each slice.
    pub(crate) steps: Vec<(f64, i64)>,
}

impl Quantized {
    /// Returns the type of the tensor of stored integers.
    pub(crate) fn stored(&self) -> TensorType {
        TensorType { shape: self.shape.clone(), element: self.params.storage }
    }

    /// Returns the type of the tensor of represented numbers.
    pub(crate) fn meant(&self) -> TensorType {
        TensorType { shape: self.shape.clone(), element: self.params.expressed }
    }

    /// Parses a type such as `tensor<2x!quant.uniform<i8<-128:127>:f32:0, {1.0:2, 3.0}>>`. Returns `None` for any other
    /// type.
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        let Type::Other(text) = ty else { return None };
        let (dims, rest) = text.strip_prefix("tensor<")?.split_once("!quant.uniform<")?;
        let (body, encoding) = rest.split_once(">>").or_else(|| rest.split_once(">,"))?;
        // Bounds of dynamic dimensions may follow the type. They can be ignored. Any other text after the type is
        // invalid.
        if !encoding.is_empty() && !encoding.ends_with('>') {
            return None;
        }
        let extent = |d: &str| if d == "?" { Some(DYNAMIC) } else { d.parse().ok() };
        let shape: Option<Vec<i64>> = dims.split('x').filter(|d| !d.is_empty()).map(extent).collect();
        let (head, steps) = body.split_once(',')?;
        let (storage, range, rest) = match head.split_once('<') {
            Some((storage, rest)) => {
                let (range, rest) = rest.split_once('>')?;
                let (low, high) = range.split_once(':')?;
                (storage, Some((low.trim().parse().ok()?, high.trim().parse().ok()?)), rest.strip_prefix(':')?)
            }
            None => {
                let (storage, rest) = head.split_once(':')?;
                (storage, None, rest)
            }
        };
        let storage = storage.trim();
        // In quantized types, MLIR spells unsigned types `u8` instead of `ui8`.
        let storage = match storage.strip_prefix('u').filter(|width| !width.starts_with('i')) {
            Some(width) => ElementType::from_name(&format!("ui{width}"))?,
            None => ElementType::from_name(storage)?,
        };
        let bits = storage.bit_width();
        if !storage.is_integer() || bits > 32 {
            return None;
        }
        let whole = if storage.is_signed_integer() {
            (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
        } else {
            (0, (1i64 << bits) - 1)
        };
        let mut fields = rest.split(':').map(str::trim);
        let expressed = ElementType::from_name(fields.next()?)?;
        let axis = fields.next().map(str::parse).transpose().ok()?;
        let step = |text: &str| -> Option<(f64, i64)> {
            match text.split_once(':') {
                Some((scale, zero)) => Some((scale.trim().parse().ok()?, zero.trim().parse().ok()?)),
                None => Some((text.trim().parse().ok()?, 0)),
            }
        };
        let list = steps.trim().trim_start_matches('{').trim_end_matches('}');
        let steps: Option<Vec<(f64, i64)>> = list.split(',').map(step).collect();
        let params = Params { storage, expressed, range: range.unwrap_or(whole), steps: steps? };
        Some(Quantized { shape: shape?, params, axis })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_types() {
        let of = |text: &str| Quantized::of(&Type::Other(text.to_owned()));
        let q = of("tensor<2x?x!quant.uniform<i8:f32:0, {1.0e-01:-30,5.0e-01}>>").expect("a quantized type");
        assert_eq!((&q.shape[..], q.axis), (&[2, DYNAMIC][..], Some(0)));
        assert_eq!(q.params.steps, [(0.1, -30), (0.5, 0)]);
        assert_eq!((q.params.storage, q.params.range), (ElementType::I8, (-128, 127)));
        let q = of("tensor<!quant.uniform<u8<1:255>:bf16, 0.5:3>>").expect("a quantized type");
        assert_eq!((q.shape.len(), q.params.storage, q.params.range), (0, ElementType::Ui8, (1, 255)));
        assert_eq!((q.params.expressed, q.axis), (ElementType::Bf16, None));
        for bad in ["tensor<2x!quant.any<i8>>", "tensor<2x!quant.uniform<i8:f32>>", "!quant.uniform<i8:f32, 1.0>"] {
            assert!(of(bad).is_none(), "{bad}");
        }
    }
}
