//! The scalar operations of StableHLO as expressions in OpenCL C.

use stablehlo::ir::{ComparisonType, ElementType, OpKind};
use stablehlo_passes::c_kernel::{CType, Language, scalar_expression};

/// Helpers that the expressions use. A `half` or `bf16` is a `float` that is rounded after each operation.
pub(crate) const PRELUDE: &str = "#pragma OPENCL FP_CONTRACT OFF
float rb(float x) {
  uint u = as_uint(x);
  return x != x ? as_float(u | 0x400000u) : as_float((u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u);
}
ushort hb(float x) { ushort r; vstore_half_rte(x, 0, (half*)&r); return r; }
float rh(float x) { ushort r = hb(x); return vload_half(0, (half*)&r); }
int order_float(float x) { int i = as_int(x); return i ^ ((i >> 31) & INT_MAX); }
#ifdef cl_khr_fp64
long order_double(double x) { long i = as_long(x); return i ^ ((i >> 63) & LONG_MAX); }
#endif
#define POWER(T, U, N) T N(T x, T y) { U r = 1, b = (U)x, e = (U)y; \\
  if (y < 0) return x == 1 ? 1 : x == (T)-1 ? ((y & 1) ? (T)-1 : 1) : 0; \\
  while (e) { if (e & 1) r *= b; b *= b; e >>= 1; } return (T)r; }
POWER(char, uchar, pow_char) POWER(short, ushort, pow_short) POWER(int, uint, pow_int) POWER(long, ulong, pow_long)
POWER(uchar, uchar, pow_uchar) POWER(ushort, ushort, pow_ushort) POWER(uint, uint, pow_uint)
POWER(ulong, ulong, pow_ulong)
";

/// Returns the representation of an element type, or `None` if kernels do not support it.
pub(crate) fn c_type(element: ElementType) -> Option<CType> {
    use ElementType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, Ui8, Ui16, Ui32, Ui64};
    let (name, unsigned, round) = match element {
        Bool | Ui8 => ("uchar", "uchar", ""),
        I8 => ("char", "uchar", ""),
        I16 => ("short", "ushort", ""),
        I32 => ("int", "uint", ""),
        I64 => ("long", "ulong", ""),
        Ui16 => ("ushort", "ushort", ""),
        Ui32 => ("uint", "uint", ""),
        Ui64 => ("ulong", "ulong", ""),
        Bf16 => ("float", "ushort", "rb"),
        F16 => ("float", "ushort", "rh"),
        F32 => ("float", "uint", ""),
        F64 => ("double", "ulong", ""),
        _ => return None,
    };
    Some(CType { element, name, unsigned, round })
}

/// OpenCL C. The value with index `at` begins at the pointer `p{at}`. Reads come before writes.
pub(crate) struct OpenClC {
    pub(crate) reads: usize,
}

impl Language for OpenClC {
    fn type_name(&self, element: ElementType) -> Option<&str> {
        c_type(element).map(|ty| ty.name)
    }

    fn load(&self, element: ElementType, read: usize, at: &str) -> String {
        match element {
            ElementType::Bf16 => format!("as_float((uint)((__global const ushort*)p{read})[{at}] << 16)"),
            ElementType::F16 => format!("vload_half({at}, (__global const half*)p{read})"),
            _ => format!("((__global const {}*)p{read})[{at}]", self.type_name(element).unwrap_or_default()),
        }
    }

    fn store(&self, element: ElementType, write: usize, at: &str, value: &str) -> String {
        let to = self.reads + write;
        match element {
            ElementType::Bf16 => format!("((__global ushort*)p{to})[{at}] = as_uint(rb({value})) >> 16;"),
            ElementType::F16 => format!("vstore_half_rte({value}, {at}, (__global half*)p{to});"),
            _ => format!("((__global {}*)p{to})[{at}] = {value};", self.type_name(element).unwrap_or_default()),
        }
    }

    fn constant(&self, element: ElementType, bytes: &[u8]) -> String {
        let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        match (element, c_type(element)) {
            (ElementType::Bf16, _) => format!("as_float({:#x}u)", bits << 16),
            // As a `float`, because not all devices have the type `half`.
            (ElementType::F16, _) => {
                format!("as_float({:#x}u)", half::f16::from_le_bytes([bytes[0], bytes[1]]).to_f32().to_bits())
            }
            (_, ty) => ty.map_or_else(String::new, |ty| format!("as_{}(({}){bits:#x}ul)", ty.name, ty.unsigned)),
        }
    }

    fn expression(&self, kind: &OpKind, from: &[ElementType], to: ElementType, x: &[String]) -> Option<String> {
        let (first, to) = (c_type(*from.first()?)?, c_type(to)?);
        // Variables of these types have the bits of stored elements, and all bits are valid.
        let is_plain = |ty: CType| ty.round.is_empty() && !ty.is_bool();
        match kind {
            OpKind::Convert => Some(convert(first, to, &x[0])),
            OpKind::BitcastConvert if first.unsigned == to.unsigned && is_plain(first) && is_plain(to) => {
                Some(format!("as_{}({})", to.name, x[0]))
            }
            // As integers that have the same order.
            OpKind::Compare { compare_type: ComparisonType::TotalOrder, direction } if first.is_float() => {
                let keys: Vec<_> = x.iter().map(|x| format!("order_{}({x})", first.name)).collect();
                let kind = OpKind::Compare { compare_type: ComparisonType::NoType, direction: *direction };
                scalar_expression(&kind, first, to, &keys)
            }
            kind => scalar_expression(kind, first, to, x),
        }
    }
}

fn convert(from: CType, to: CType, x: &str) -> String {
    match (from.is_float(), to.is_float()) {
        _ if to.is_bool() => format!("{x} != 0"),
        // Numbers out of range become the nearest integer, and NaN becomes 0.
        (true, false) => format!("convert_{}_sat({x})", to.name),
        _ => {
            let cast = format!("({}){x}", to.name);
            if to.round.is_empty() { cast } else { format!("{}({cast})", to.round) }
        }
    }
}
