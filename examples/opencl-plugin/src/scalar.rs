//! The scalar operations of StableHLO as expressions in OpenCL C.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, ElementType, OpKind, Unary};

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

/// How OpenCL C represents an element type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CType {
    /// Type of a value, such as `float`.
    pub(crate) name: &'static str,
    /// The unsigned type with the same size as a stored element.
    pub(crate) bits: &'static str,
    /// Type of a stored element.
    pub(crate) stored: &'static str,
    /// Function that rounds a result, or an empty string.
    pub(crate) round: &'static str,
    pub(crate) element: ElementType,
}

/// Returns the representation of an element type, or `None` if kernels do not support it.
pub(crate) fn c_type(element: ElementType) -> Option<CType> {
    use ElementType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, Ui8, Ui16, Ui32, Ui64};
    let (name, bits, stored, round) = match element {
        Bool | Ui8 => ("uchar", "uchar", "uchar", ""),
        I8 => ("char", "uchar", "char", ""),
        I16 => ("short", "ushort", "short", ""),
        I32 => ("int", "uint", "int", ""),
        I64 => ("long", "ulong", "long", ""),
        Ui16 => ("ushort", "ushort", "ushort", ""),
        Ui32 => ("uint", "uint", "uint", ""),
        Ui64 => ("ulong", "ulong", "ulong", ""),
        Bf16 => ("float", "ushort", "ushort", "rb"),
        F16 => ("float", "ushort", "half", "rh"),
        F32 => ("float", "uint", "float", ""),
        F64 => ("double", "ulong", "double", ""),
        _ => return None,
    };
    Some(CType { name, bits, stored, round, element })
}

impl CType {
    pub(crate) fn is_float(self) -> bool {
        self.element.is_float()
    }

    fn is_bool(self) -> bool {
        self.element == ElementType::Bool
    }

    /// The expression of element `at` of memory that begins at `pointer`.
    pub(crate) fn load(self, pointer: &str, at: &str) -> String {
        match self.element {
            ElementType::Bf16 => format!("as_float((uint)((__global const ushort*){pointer})[{at}] << 16)"),
            ElementType::F16 => format!("vload_half({at}, (__global const half*){pointer})"),
            _ => format!("((__global const {}*){pointer})[{at}]", self.stored),
        }
    }

    /// The statement that stores a value as element `at`.
    pub(crate) fn store(self, pointer: &str, at: &str, value: &str) -> String {
        match self.element {
            ElementType::Bf16 => format!("((__global ushort*){pointer})[{at}] = as_uint(rb({value})) >> 16;"),
            ElementType::F16 => format!("vstore_half_rte({value}, {at}, (__global half*){pointer});"),
            _ => format!("((__global {}*){pointer})[{at}] = {value};", self.stored),
        }
    }

    /// The expression of a constant with these bytes.
    pub(crate) fn constant(self, bytes: &[u8]) -> String {
        let mut wide = [0; 8];
        wide[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
        let bits = u64::from_le_bytes(wide);
        match self.element {
            ElementType::Bf16 => format!("as_float({:#x}u)", bits << 16),
            // Through memory, because not all devices have the type `half`.
            ElementType::F16 => {
                let half = half::f16::from_le_bytes([bytes[0], bytes[1]]);
                format!("as_float({:#x}u)", half.to_f32().to_bits())
            }
            ElementType::Bool => String::from(if bits == 0 { "0" } else { "1" }),
            _ => format!("as_{}(({}){bits:#x}ul)", self.name, self.bits),
        }
    }

    fn rounded(self, value: String) -> String {
        match self.round {
            "" if self.is_float() => value,
            "" => format!("({})({value})", self.name),
            round => format!("{round}({value})"),
        }
    }
}

/// Returns the expression of an elementwise op, or `None` if kernels do not support the op with these types.
pub(crate) fn expression(kind: &OpKind, from: &[CType], to: CType, x: &[String]) -> Option<String> {
    let &first = from.first()?;
    Some(match kind {
        OpKind::Unary(op) => to.rounded(unary(*op, first, &x[0])?),
        OpKind::Binary(op) => to.rounded(binary(*op, first, &x[0], &x[1])?),
        OpKind::Compare { compare_type, direction } => compare(*compare_type, *direction, first, &x[0], &x[1])?,
        OpKind::Select => format!("{} ? {} : {}", x[0], x[1], x[2]),
        OpKind::Clamp => {
            let low = format!("({})", binary(Binary::Maximum, to, &x[0], &x[1])?);
            binary(Binary::Minimum, to, &low, &x[2])?
        }
        OpKind::Fma if to.round.is_empty() && to.is_float() => format!("fma({}, {}, {})", x[0], x[1], x[2]),
        OpKind::Convert => convert(first, to, &x[0]),
        OpKind::BitcastConvert if first.round.is_empty() && to.round.is_empty() && first.bits == to.bits => {
            if first.is_bool() || to.is_bool() {
                return None;
            }
            format!("as_{}({})", to.name, x[0])
        }
        _ => return None,
    })
}

/// Replaces `X` and `Y` with the operands, `T` with the type, `U` with the unsigned type of the same size, `S` with the
/// signed one, and `W` with the number of bits.
fn filled(template: &str, ty: CType, x: &str, y: &str) -> String {
    let mut text = String::new();
    for c in template.chars() {
        match c {
            'X' => text.push_str(x),
            'Y' => text.push_str(y),
            'T' => text.push_str(ty.name),
            'U' => text.push_str(ty.bits),
            'S' => text.push_str(ty.bits.trim_start_matches('u')),
            'W' => text.push_str(&ty.element.bit_width().to_string()),
            c => text.push(c),
        }
    }
    text
}

fn unary(op: Unary, ty: CType, x: &str) -> Option<String> {
    let is_unsigned = ty.name == ty.bits;
    let template = match (op, ty.is_float()) {
        (Unary::Negate, true) => "-X",
        (Unary::Negate, false) => "-(U)X",
        (Unary::Abs, true) => "fabs(X)",
        (Unary::Abs, false) if is_unsigned => "X",
        (Unary::Abs, false) => "X < 0 ? -(U)X : (U)X",
        (Unary::Sign, true) => "X != X ? X : sign(X)",
        (Unary::Sign, false) => "(X > 0) - (X < 0)",
        (Unary::Not, false) if ty.is_bool() => "!X",
        (Unary::Not, false) => "~X",
        (Unary::Popcnt, false) => "popcount(X)",
        (Unary::CountLeadingZeros, false) => "clz(X)",
        (Unary::IsFinite, true) => "isfinite(X)",
        (Unary::Cbrt, true) => "cbrt(X)",
        (Unary::Ceil, true) => "ceil(X)",
        (Unary::Floor, true) => "floor(X)",
        (Unary::Cosine, true) => "cos(X)",
        (Unary::Sine, true) => "sin(X)",
        (Unary::Tan, true) => "tan(X)",
        (Unary::Tanh, true) => "tanh(X)",
        (Unary::Exponential, true) => "exp(X)",
        (Unary::Exp2, true) => "exp2(X)",
        (Unary::ExponentialMinusOne, true) => "expm1(X)",
        (Unary::Log, true) => "log(X)",
        (Unary::Log2, true) => "log2(X)",
        (Unary::LogPlusOne, true) => "log1p(X)",
        (Unary::Logistic, true) => "1 / (1 + exp(-X))",
        (Unary::RoundNearestAfz, true) => "round(X)",
        (Unary::RoundNearestEven, true) => "rint(X)",
        (Unary::Sqrt, true) => "sqrt(X)",
        (Unary::Rsqrt, true) => "1 / sqrt(X)",
        _ => return None,
    };
    Some(filled(template, ty, x, ""))
}

/// NaN if one of the numbers is NaN. Of two zeros, the positive one is larger.
const MAXIMUM: &str = "X != X ? X : Y != Y ? Y : X == Y ? (signbit(X) ? Y : X) : X > Y ? X : Y";
const MINIMUM: &str = "X != X ? X : Y != Y ? Y : X == Y ? (signbit(X) ? X : Y) : X < Y ? X : Y";

fn binary(op: Binary, ty: CType, x: &str, y: &str) -> Option<String> {
    let (is_float, is_unsigned) = (ty.is_float(), ty.name == ty.bits);
    // Integers are added as unsigned ones, because the overflow of signed ones is undefined.
    let template = match (op, is_float) {
        (Binary::Add, false) if ty.is_bool() => "X | Y",
        (Binary::Multiply, false) if ty.is_bool() => "X & Y",
        (Binary::Add, true) => "X + Y",
        (Binary::Add, false) => "(U)X + (U)Y",
        (Binary::Subtract, true) => "X - Y",
        (Binary::Subtract, false) => "(U)X - (U)Y",
        (Binary::Multiply, true) => "X * Y",
        // The type `uint` is at least as wide, and C would multiply narrower types as signed integers.
        (Binary::Multiply, false) if ty.element.bit_width() < 32 => "(uint)X * (uint)Y",
        (Binary::Multiply, false) => "(U)X * (U)Y",
        (Binary::Divide, true) => "X / Y",
        (Binary::Divide, false) if is_unsigned => "Y == 0 ? (U)-1 : X / (Y == 0 ? 1 : Y)",
        (Binary::Divide, false) => "Y == 0 ? (T)-1 : Y == -1 ? (T)-(U)X : X / (Y == 0 || Y == -1 ? 1 : Y)",
        (Binary::Remainder, true) => "fmod(X, Y)",
        (Binary::Remainder, false) if is_unsigned => "Y == 0 ? X : X % (Y == 0 ? 1 : Y)",
        (Binary::Remainder, false) => "Y == 0 ? X : X % (Y == 0 || Y == -1 ? 1 : Y)",
        (Binary::Maximum, true) => MAXIMUM,
        (Binary::Minimum, true) => MINIMUM,
        (Binary::Maximum, false) => "X > Y ? X : Y",
        (Binary::Minimum, false) => "X < Y ? X : Y",
        (Binary::Power, true) => "pow(X, Y)",
        (Binary::Power, false) => "pow_T(X, Y)",
        (Binary::Atan2, true) => "atan2(X, Y)",
        (Binary::And, false) => "X & Y",
        (Binary::Or, false) => "X | Y",
        (Binary::Xor, false) => "X ^ Y",
        (Binary::ShiftLeft, false) => "(U)Y < W ? (U)X << (Y & (W - 1)) : 0",
        (Binary::ShiftRightLogical, false) => "(U)Y < W ? (U)X >> (Y & (W - 1)) : 0",
        (Binary::ShiftRightArithmetic, false) => "(S)X >> ((U)Y < W ? Y : W - 1)",
        _ => return None,
    };
    Some(filled(template, ty, x, y))
}

fn compare(order: ComparisonType, direction: ComparisonDirection, ty: CType, x: &str, y: &str) -> Option<String> {
    let sign = match direction {
        ComparisonDirection::Eq => "==",
        ComparisonDirection::Ne => "!=",
        ComparisonDirection::Ge => ">=",
        ComparisonDirection::Gt => ">",
        ComparisonDirection::Le => "<=",
        ComparisonDirection::Lt => "<",
    };
    match (order, ty.name) {
        (ComparisonType::WeakOrder, _) => None,
        (ComparisonType::TotalOrder, "float") => Some(format!("order_float({x}) {sign} order_float({y})")),
        (ComparisonType::TotalOrder, "double") => Some(format!("order_double({x}) {sign} order_double({y})")),
        _ => Some(format!("{x} {sign} {y}")),
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
