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
            ElementType::F16 => format!("as_float({:#x}u)", half_to_float(bits)),
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

/// Returns the bits of the `float` with the value of a `half`.
fn half_to_float(bits: u64) -> u64 {
    let (sign, exponent, mantissa) = ((bits >> 15) << 31, (bits >> 10) & 31, bits & 1023);
    sign | match (exponent, mantissa) {
        (0, 0) => 0,
        (0, _) => {
            let shift = u64::from(mantissa.leading_zeros()) - 53;
            ((113 - shift) << 23) | (((mantissa << shift) & 1023) << 13)
        }
        (31, _) => (255 << 23) | (mantissa << 13),
        _ => ((exponent + 112) << 23) | (mantissa << 13),
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
            let low = extremum(">", to, &x[0], &x[1]);
            extremum("<", to, &format!("({low})"), &x[2])
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

fn unary(op: Unary, ty: CType, x: &str) -> Option<String> {
    let call = |name: &str| Some(format!("{name}({x})"));
    match (op, ty.is_float()) {
        (Unary::Negate, _) => Some(format!("-{x}")),
        (Unary::Abs, true) => call("fabs"),
        (Unary::Abs, false) if ty.name.starts_with('u') => Some(x.to_owned()),
        (Unary::Abs, false) => Some(format!("{x} < 0 ? -{x} : {x}")),
        (Unary::Sign, true) => Some(format!("{x} != {x} ? {x} : sign({x})")),
        (Unary::Sign, false) => Some(format!("({x} > 0) - ({x} < 0)")),
        (Unary::Not, false) if ty.is_bool() => Some(format!("!{x}")),
        (Unary::Not, false) => Some(format!("~{x}")),
        (Unary::Popcnt, false) => call("popcount"),
        (Unary::CountLeadingZeros, false) => call("clz"),
        (Unary::IsFinite, true) => call("isfinite"),
        (Unary::Cbrt, true) => call("cbrt"),
        (Unary::Ceil, true) => call("ceil"),
        (Unary::Floor, true) => call("floor"),
        (Unary::Cosine, true) => call("cos"),
        (Unary::Sine, true) => call("sin"),
        (Unary::Tan, true) => call("tan"),
        (Unary::Tanh, true) => call("tanh"),
        (Unary::Exponential, true) => call("exp"),
        (Unary::Exp2, true) => call("exp2"),
        (Unary::ExponentialMinusOne, true) => call("expm1"),
        (Unary::Log, true) => call("log"),
        (Unary::Log2, true) => call("log2"),
        (Unary::LogPlusOne, true) => call("log1p"),
        (Unary::Logistic, true) => Some(format!("1 / (1 + exp(-{x}))")),
        (Unary::RoundNearestAfz, true) => call("round"),
        (Unary::RoundNearestEven, true) => call("rint"),
        (Unary::Sqrt, true) => call("sqrt"),
        (Unary::Rsqrt, true) => Some(format!("1 / sqrt({x})")),
        _ => None,
    }
}

/// The larger (`>`) or the smaller (`<`) of two values, or NaN if one of them is NaN.
fn extremum(order: &str, ty: CType, x: &str, y: &str) -> String {
    match ty.is_float() {
        // Of two zeros, the positive one is larger.
        true => {
            let first = if order == ">" { "!signbit" } else { "signbit" };
            format!("{x} != {x} ? {x} : {y} != {y} ? {y} : {x} == {y} ? ({first}({x}) ? {x} : {y}) : {x} {order} {y} ? {x} : {y}")
        }
        false => format!("{x} {order} {y} ? {x} : {y}"),
    }
}

fn binary(op: Binary, ty: CType, x: &str, y: &str) -> Option<String> {
    let (is_float, unsigned) = (ty.is_float(), ty.bits);
    let infix = |sign: &str| match is_float || ty.is_bool() {
        true => Some(format!("{x} {sign} {y}")),
        // Unsigned, because the overflow of signed numbers is undefined.
        false => Some(format!("({unsigned}){x} {sign} ({unsigned}){y}")),
    };
    let width = format!("{}", ty.element.bit_width());
    let is_negative_one = |y: &str| if ty.name.starts_with('u') { "0".to_owned() } else { format!("{y} == -1") };
    match (op, is_float) {
        (Binary::Add, false) if ty.is_bool() => infix("|"),
        (Binary::Multiply, false) if ty.is_bool() => infix("&"),
        (Binary::Add, _) => infix("+"),
        (Binary::Subtract, _) => infix("-"),
        (Binary::Multiply, _) => infix("*"),
        (Binary::Divide, true) => infix("/"),
        (Binary::Remainder, true) => Some(format!("fmod({x}, {y})")),
        (Binary::Divide, false) => {
            let minus = is_negative_one(y);
            Some(format!("{y} == 0 ? -1 : {minus} ? -({unsigned}){x} : {x} / ({y} == 0 ? 1 : {y})"))
        }
        (Binary::Remainder, false) => {
            let minus = is_negative_one(y);
            Some(format!("{y} == 0 ? {x} : {minus} ? 0 : {x} % ({y} == 0 ? 1 : {y})"))
        }
        (Binary::Maximum, _) => Some(extremum(">", ty, x, y)),
        (Binary::Minimum, _) => Some(extremum("<", ty, x, y)),
        (Binary::Power, true) => Some(format!("pow({x}, {y})")),
        (Binary::Power, false) => Some(format!("pow_{}({x}, {y})", ty.name)),
        (Binary::Atan2, true) => Some(format!("atan2({x}, {y})")),
        (Binary::And, false) => infix("&"),
        (Binary::Or, false) => infix("|"),
        (Binary::Xor, false) => infix("^"),
        (Binary::ShiftLeft, false) => Some(format!("({unsigned}){y} < {width} ? ({unsigned}){x} << ({y} & ({width} - 1)) : 0")),
        (Binary::ShiftRightLogical, false) => {
            Some(format!("({unsigned}){y} < {width} ? ({unsigned}){x} >> ({y} & ({width} - 1)) : 0"))
        }
        (Binary::ShiftRightArithmetic, false) => {
            let signed = ty.bits.trim_start_matches('u');
            Some(format!("({signed}){x} >> (({unsigned}){y} < {width} ? {y} : {width} - 1)"))
        }
        _ => None,
    }
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
    if order != ComparisonType::TotalOrder || !ty.is_float() {
        return (order != ComparisonType::WeakOrder).then(|| format!("{x} {sign} {y}"));
    }
    // As integers, whose order is reversed for negative numbers.
    let (signed, shift) = if ty.name == "double" { ("long", 63) } else { ("int", 31) };
    let key = |x: &str| format!("(as_{signed}({x}) ^ (({signed})((as_u{signed}({x}) >> {shift}) ? -1 : 0) & (((u{signed})-1) >> 1)))");
    Some(format!("{} {sign} {}", key(x), key(y)))
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
