//! Rules of ops on element types.

use super::shapes::tensors;
use super::site::{Site, ensure};
use crate::error::{Error, Result};
use crate::ir::*;

/// Sets of element types the specification names.
#[derive(Clone, Copy)]
struct Set {
    booleans: bool,
    integers: bool,
    floats: bool,
    complex: bool,
}

const fn set(booleans: bool, integers: bool, floats: bool, complex: bool) -> Set {
    Set { booleans, integers, floats, complex }
}

const ANY: Set = set(true, true, true, true);
const NUMBERS: Set = set(false, true, true, true);
const REALS: Set = set(true, true, true, false);
const LOGICAL: Set = set(true, true, false, false);
const INTEGERS: Set = set(false, true, false, false);
const FLOATS: Set = set(false, false, true, false);
const INEXACT: Set = set(false, false, true, true);

impl Set {
    fn has(self, element: ElementType) -> bool {
        match element {
            ElementType::Bool => self.booleans,
            e if e.is_integer() => self.integers,
            e if e.is_complex() => self.complex,
            _ => self.floats,
        }
    }

    fn names(self) -> String {
        let names = [
            (self.booleans, "booleans"),
            (self.integers, "integers"),
            (self.floats, "floating-point numbers"),
            (self.complex, "complex numbers"),
        ];
        names.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect::<Vec<_>>().join(" or ")
    }
}

fn of(tensor: &TensorType, set: Set, what: &str) -> Result<()> {
    ensure!(set.has(tensor.element), "{what} must hold {}, not {}", set.names(), tensor.element);
    Ok(())
}

pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    match &site.op.kind {
        OpKind::Unary(unary) => of(tensors!(site.operand_tensor(0)), unary_set(*unary), "the operand"),
        OpKind::Binary(binary) => of(tensors!(site.operand_tensor(0)), binary_set(*binary), "operands"),
        OpKind::Compare { direction, compare_type } => {
            if *compare_type == ComparisonType::WeakOrder {
                of(tensors!(site.operand_tensor(0)), FLOATS, "operands compared as WEAKORDER")?;
            }
            compare(site, *direction)
        }
        OpKind::Clamp => of(tensors!(site.operand_tensor(1)), ANY, "the operand"),
        OpKind::Iota { .. } => of(tensors!(site.result_tensor(0)), NUMBERS, "the result"),
        OpKind::ReducePrecision { .. } => of(tensors!(site.operand_tensor(0)), FLOATS, "the operand"),
        OpKind::PartitionId | OpKind::ReplicaId => exactly(site, ElementType::Ui32),
        OpKind::GetDimensionSize { .. } => exactly(site, ElementType::I32),
        OpKind::Cholesky { .. } => {
            let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
            of(operand, INEXACT, "the operand")?;
            result.element_is(operand.element)
        }
        OpKind::TriangularSolve { .. } => {
            let (a, b, result) = tensors!(site.operand_tensor(0), site.operand_tensor(1), site.slot(0));
            of(a, INEXACT, "operands")?;
            same(a, b)?;
            result.element_is(a.element)
        }
        OpKind::Fft { fft_type, .. } => fft(site, *fft_type),
        OpKind::CreateToken => token(site.result(0)?),
        OpKind::AfterAll => {
            site.operands().try_for_each(token)?;
            token(site.result(0)?)
        }
        _ => Ok(()),
    }
}

fn unary_set(unary: Unary) -> Set {
    match unary {
        Unary::Abs | Unary::Negate | Unary::Sign => NUMBERS,
        Unary::Cbrt
        | Unary::Cosine
        | Unary::Exponential
        | Unary::ExponentialMinusOne
        | Unary::Log
        | Unary::LogPlusOne
        | Unary::Logistic
        | Unary::Rsqrt
        | Unary::Sine
        | Unary::Sqrt
        | Unary::Tan
        | Unary::Tanh
        | Unary::Real
        | Unary::Imag => INEXACT,
        Unary::Ceil | Unary::Floor | Unary::IsFinite | Unary::RoundNearestAfz | Unary::RoundNearestEven => FLOATS,
        Unary::CountLeadingZeros | Unary::Popcnt => INTEGERS,
        Unary::Not => LOGICAL,
    }
}

fn binary_set(binary: Binary) -> Set {
    match binary {
        Binary::Add | Binary::Maximum | Binary::Minimum | Binary::Multiply => ANY,
        Binary::Divide | Binary::Subtract | Binary::Power => NUMBERS,
        Binary::Remainder => NUMBERS,
        Binary::And | Binary::Or | Binary::Xor => LOGICAL,
        Binary::Atan2 => INEXACT,
        Binary::Complex => FLOATS,
        Binary::ShiftLeft | Binary::ShiftRightArithmetic | Binary::ShiftRightLogical => INTEGERS,
    }
}

/// Complex numbers have no order. The comparison type is not checked, because producers combine it with any element
/// type.
fn compare(site: &Site<'_>, direction: ComparisonDirection) -> Result<()> {
    let operand = tensors!(site.operand_tensor(0));
    let equality = matches!(direction, ComparisonDirection::Eq | ComparisonDirection::Ne);
    of(operand, if equality { ANY } else { REALS }, "operands")
}

fn exactly(site: &Site<'_>, element: ElementType) -> Result<()> {
    let result = tensors!(site.result_tensor(0));
    ensure!(result.shape.is_empty() && result.element == element, "the result must be tensor<{element}>, not {result}");
    Ok(())
}

fn same(a: &TensorType, b: &TensorType) -> Result<()> {
    ensure!(a.element == b.element, "element types of {a} and {b} differ");
    Ok(())
}

fn fft(site: &Site<'_>, fft_type: FftType) -> Result<()> {
    let (operand, result) = tensors!(site.operand_tensor(0), site.slot(0));
    let from = operand.element;
    let to = match fft_type {
        FftType::Fft | FftType::Ifft => Some(from).filter(|from| from.is_complex()),
        FftType::Rfft => ElementType::all().find(|to| to.complex_part() == Some(from)),
        FftType::Irfft => from.complex_part(),
    };
    match to {
        Some(to) => result.element_is(to),
        None => Err(Error::new(format!("{fft_type:?} cannot take {operand}"))),
    }
}

fn token(ty: &Type) -> Result<()> {
    ensure!(matches!(ty, Type::Token | Type::Other(_)), "operands and results must be tokens, not {ty}");
    Ok(())
}
