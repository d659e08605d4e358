//! The scalar operations of StableHLO as expressions in C.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, ElementType, OpKind, Unary};

/// How a language represents an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CType {
    /// The element type.
    pub element: ElementType,
    /// Type of a variable, such as `float` for `f32`, and also for a narrower type that the language lacks.
    pub name: &'static str,
    /// The unsigned integer type of the same size as an element. For unsigned integers and booleans it equals `name`.
    pub unsigned: &'static str,
    /// Function that rounds a variable to the element type, or an empty string if none is necessary.
    pub round: &'static str,
}

impl CType {
    /// Whether this is a floating-point type.
    #[must_use]
    pub fn is_float(self) -> bool {
        self.element.is_float()
    }

    /// Whether this is the type of booleans.
    #[must_use]
    pub fn is_bool(self) -> bool {
        self.element == ElementType::Bool
    }

    fn rounded(self, value: String) -> String {
        match self.round {
            "" if self.is_float() => value,
            "" => format!("({})({value})", self.name),
            round => format!("{round}({value})"),
        }
    }
}

/// Returns an expression of an elementwise op with the semantics of StableHLO, also for a division by zero, an
/// overflow, a shift by more than the width, and NaN. `from` is the type of the first operand, and `operands` contains
/// variables.
///
/// The expressions call functions with the names of C, `popcount`, `clz`, and for an integer type `T` the function
/// `pow_T`. Returns `None` for `convert`, `bitcast_convert` and comparisons in the total order, because these depend on
/// the language, and for ops that are not supported.
///
/// ```
/// use stablehlo::ir::{Binary, ElementType, OpKind};
/// use stablehlo_passes::c_kernel::{CType, scalar_expression};
///
/// let int = CType { element: ElementType::I32, name: "int", unsigned: "uint", round: "" };
/// let operands = ["x".to_owned(), "y".to_owned()];
/// let sum = scalar_expression(&OpKind::Binary(Binary::Add), int, int, &operands);
/// assert_eq!(sum.as_deref(), Some("(int)((uint)x + (uint)y)"));
/// ```
#[must_use]
pub fn scalar_expression(kind: &OpKind, from: CType, to: CType, operands: &[String]) -> Option<String> {
    Some(match (kind, operands) {
        (OpKind::Unary(op), [x]) => to.rounded(unary(*op, from, x)?),
        (OpKind::Binary(op), [x, y]) => to.rounded(binary(*op, from, x, y)?),
        (OpKind::Compare { compare_type, direction }, [x, y]) => compare(*compare_type, *direction, from, x, y)?,
        (OpKind::Select, [condition, x, y]) => format!("{condition} ? {x} : {y}"),
        (OpKind::Clamp, [low, x, high]) => {
            let raised = format!("({})", binary(Binary::Maximum, to, low, x)?);
            binary(Binary::Minimum, to, &raised, high)?
        }
        (OpKind::Fma, [x, y, z]) if to.round.is_empty() && to.is_float() => format!("fma({x}, {y}, {z})"),
        _ => return None,
    })
}

/// Replaces `X` and `Y` with the operands, `T` with the type, `U` with the unsigned type of the same size, and `W` with
/// the number of bits. The texts contain no capital letters.
fn filled(template: &str, ty: CType, x: &str, y: &str) -> String {
    let width = ty.element.bit_width().to_string();
    let types = template.replace('T', ty.name).replace('U', ty.unsigned).replace('W', &width);
    types.replace('X', x).replace('Y', y)
}

fn unary(op: Unary, ty: CType, x: &str) -> Option<String> {
    let is_unsigned = ty.name == ty.unsigned;
    let template = match (op, ty.is_float()) {
        (Unary::Negate, true) => "-X",
        (Unary::Negate, false) => "-(U)X",
        (Unary::Abs, true) => "fabs(X)",
        (Unary::Abs, false) if is_unsigned => "X",
        (Unary::Abs, false) => "X < 0 ? -(U)X : (U)X",
        (Unary::Sign, true) => "X != X || X == 0 ? X : X > 0 ? (T)1 : (T)-1",
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
    let (is_float, is_unsigned) = (ty.is_float(), ty.name == ty.unsigned);
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
        // The sign bit of an unsigned number counts as its sign, too.
        (Binary::ShiftRightArithmetic, false) => {
            "(U)X >> ((U)Y < W ? Y : W - 1) | ((U)X >> (W - 1) ? ~((U)-1 >> ((U)Y < W ? Y : W - 1)) : 0)"
        }
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
    let is_plain = match order {
        ComparisonType::WeakOrder => false,
        ComparisonType::TotalOrder => !ty.is_float(),
        _ => true,
    };
    is_plain.then(|| format!("{x} {sign} {y}"))
}
