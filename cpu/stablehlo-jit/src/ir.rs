//! The intermediate representation of programs.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};

use crate::error::Error;
use crate::limits;

/// Type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each name is the usual one")]
pub enum Element {
    /// A byte that is 0 or 1.
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Element {
    /// All element types.
    pub const ALL: [Element; 11] = {
        use Element::*;
        [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64]
    };

    /// Returns the size of a scalar in memory, in bytes.
    pub const fn size(self) -> usize {
        match self {
            Element::Bool | Element::I8 | Element::U8 => 1,
            Element::I16 | Element::U16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 | Element::F64 => 8,
        }
    }

    /// Returns whether this is a float type.
    pub const fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F64)
    }

    /// Returns whether this is an integer type.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Element::Bool)
    }

    /// Returns whether numbers of this type may be negative.
    pub const fn is_signed(self) -> bool {
        matches!(self, Element::I8 | Element::I16 | Element::I32 | Element::I64 | Element::F32 | Element::F64)
    }
}

/// A scalar of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(pub(crate) u32);

/// An array of a program: bytes that the caller passes to each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Array(pub(crate) u32);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayType {
    pub(crate) bytes: usize,
    pub(crate) writable: bool,
}

/// A program. It typically consists of a loop, of statements before the loop that load its initial values, and of
/// statements after the loop that store its results.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) values: Vec<Element>,
    pub(crate) arrays: Vec<ArrayType>,
    pub(crate) host_steps: Vec<HostStep>,
    /// The statements. The block has no results, because results are stored in arrays.
    pub body: Block,
}

impl Program {
    /// Creates an empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn value(&mut self, element: Element) -> Value {
        self.values.push(element);
        Value(index(self.values.len() - 1))
    }

    /// Returns the type of a value.
    ///
    /// # Panics
    ///
    /// Panics if the value belongs to another program, and this program has fewer values.
    pub fn element(&self, value: Value) -> Element {
        self.values[value.0 as usize]
    }

    /// Adds an array of `bytes` bytes. Each run receives the read-only arrays and the writable arrays separately, both
    /// in declaration order.
    pub fn array(&mut self, bytes: usize, writable: bool) -> Array {
        self.arrays.push(ArrayType { bytes, writable });
        Array(index(self.arrays.len() - 1))
    }

    /// Changes the size of an array.
    ///
    /// # Panics
    ///
    /// Panics if the array belongs to another program, and this program has fewer arrays.
    pub fn resize(&mut self, array: Array, bytes: usize) {
        self.arrays[array.0 as usize].bytes = bytes;
    }

    /// Adds a step of the host. Returns the index of the step, for [`Statement::Host`].
    pub fn host_step(&mut self, step: HostStep) -> u32 {
        self.host_steps.push(step);
        index(self.host_steps.len() - 1)
    }
}

/// Returns the index of a value, an array or a step. A program with more than `u32::MAX` of them exceeds a limit, so
/// the same index for the following ones does no harm.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Statements, and the values that they compute for the enclosing statement.
///
/// Blocks contain each other at most [`limits::DEPTH`] deep, so that recursive functions need a bounded stack.
#[derive(Clone, Debug, Default)]
pub struct Block {
    statements: Vec<Statement>,
    results: Vec<Value>,
    /// The number of blocks inside this block that contain each other.
    depth: usize,
}

impl Block {
    /// Creates a block from statements, in the order in which they run, and its results, which are defined by the
    /// statements or before the block.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooLarge`] if more than [`limits::DEPTH`] blocks in the statements contain each other.
    pub fn new(statements: Vec<Statement>, results: Vec<Value>) -> Result<Self, Error> {
        let depths = statements.iter().flat_map(Statement::blocks).map(|block| block.depth);
        let depth = depths.max().map_or(0, |depth| depth.saturating_add(1));
        if depth > limits::DEPTH {
            return Err(Error::TooLarge { what: "blocks that contain each other", limit: limits::DEPTH });
        }
        Ok(Self { statements, results, depth })
    }

    /// Returns the statements.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// Returns the results.
    pub fn results(&self) -> &[Value] {
        &self.results
    }

    /// Returns the statements and the results.
    pub fn into_parts(self) -> (Vec<Statement>, Vec<Value>) {
        (self.statements, self.results)
    }
}

/// A statement of a program.
#[derive(Clone, Debug)]
pub enum Statement {
    /// Defines a value.
    Let {
        /// The new value.
        result: Value,
        /// The definition of the value.
        expression: Expression,
    },
    /// Writes an element.
    Store {
        /// The destination, in an array that can be written.
        to: Access,
        /// The element.
        value: Value,
    },
    /// Runs a block a constant number of times.
    For {
        /// Number of iterations, at least 1. See [`limits::ITERATIONS`].
        count: usize,
        /// The index of the iteration, an `I64` that starts at 0.
        index: Value,
        /// The block, without results.
        body: Block,
    },
    /// Runs a block as long as a condition is true. Every iteration first checks whether the run must stop.
    While {
        /// The loop's values at the start of an iteration.
        parameters: Vec<Value>,
        /// The initial values of the parameters.
        initial: Vec<Value>,
        /// Computes the condition, a `Bool`. The loop ends unless the condition is 1.
        condition: Block,
        /// Computes the parameters of the next iteration.
        body: Block,
        /// The parameters after the last iteration.
        results: Vec<Value>,
    },
    /// Runs one of several blocks.
    Choose {
        /// How the value selects a branch.
        selector: Selector,
        /// A `Bool` or an `I32`, depending on the selector.
        value: Value,
        /// The blocks. The results of all blocks have the same types.
        branches: Vec<Block>,
        /// The results of the block that ran.
        results: Vec<Value>,
    },
    /// Runs a step of the host.
    Host {
        /// The index that [`Program::host_step`] returned.
        step: u32,
    },
}

impl Statement {
    /// Returns the blocks of this statement.
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        let (loops, branches): ([Option<&Block>; 2], &[Block]) = match self {
            Statement::For { body, .. } => ([Some(body), None], &[]),
            Statement::While { condition, body, .. } => ([Some(condition), Some(body)], &[]),
            Statement::Choose { branches, .. } => ([None; 2], branches),
            Statement::Let { .. } | Statement::Store { .. } | Statement::Host { .. } => ([None; 2], &[]),
        };
        loops.into_iter().flatten().chain(branches)
    }
}

/// How a value selects a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// 1 selects the first of two branches, and any other `Bool` selects the second branch.
    Truth,
    /// The index of the branch. An index out of range selects the last branch.
    Index,
}

/// The definition of a value.
#[derive(Clone, Debug)]
pub enum Expression {
    /// The constant with these bytes, in native byte order.
    Constant([u8; 8]),
    /// An op of one operand. See [`has_unary`].
    Unary(Unary, Value),
    /// An op of two operands of one type. See [`has_binary`].
    Binary(Binary, Value, Value),
    /// The product of the first two operands plus the third operand, rounded once. All operands have the same float
    /// type. See [`has_fused_multiply_add`].
    FusedMultiplyAdd(Value, Value, Value),
    /// A comparison. See [`has_compare`].
    Compare(ComparisonDirection, ComparisonType, Value, Value),
    /// The second operand if the first operand, a `Bool`, is not 0. Otherwise the third operand.
    Select(Value, Value, Value),
    /// The operand in another type, as StableHLO's `convert` defines it.
    Convert(Value),
    /// The bits of the operand as another type of the same size.
    Bits(Value),
    /// Reads an element.
    Load(Access),
    /// `of / step % extent`, where `of` is an `I64` that is not negative, and the divisors are not 0.
    Digit {
        /// The dividend.
        of: Value,
        /// The first divisor.
        step: usize,
        /// The second divisor.
        extent: usize,
    },
    /// An integer, clamped to `0..=most`, as an `I64`.
    Clamped {
        /// The integer.
        of: Value,
        /// The largest result.
        most: usize,
    },
    /// Whether an integer lies in `0..=most`.
    Inside {
        /// The integer.
        of: Value,
        /// The largest integer inside.
        most: usize,
    },
    /// A call of a function.
    Call(Function, Vec<Value>),
}

/// An element of an array. Its offset in bytes is `offset` plus, for each term, the value times the stride.
///
/// The values must be counters of [`Statement::For`], or results of [`Expression::Digit`] or [`Expression::Clamped`],
/// so that their ranges are known.
#[derive(Clone, Debug)]
pub struct Access {
    /// The array.
    pub array: Array,
    /// Offset of the element in bytes if all terms are 0.
    pub offset: usize,
    /// Indices with their strides in bytes.
    pub terms: Vec<(Value, isize)>,
}

/// A function that the caller provides.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each name is the type of the operands")]
pub enum Function {
    F32(extern "C" fn(f32) -> f32),
    F64(extern "C" fn(f64) -> f64),
    F32x2(extern "C" fn(f32, f32) -> f32),
    F64x2(extern "C" fn(f64, f64) -> f64),
    I32x2(extern "C" fn(i32, i32) -> i32),
    I64x2(extern "C" fn(i64, i64) -> i64),
    U32x2(extern "C" fn(u32, u32) -> u32),
    U64x2(extern "C" fn(u64, u64) -> u64),
    F32x3(extern "C" fn(f32, f32, f32) -> f32),
    F64x3(extern "C" fn(f64, f64, f64) -> f64),
}

impl Function {
    /// Returns the type of the operands and of the result, and the number of operands.
    pub fn signature(self) -> (Element, usize) {
        match self {
            Function::F32(_) => (Element::F32, 1),
            Function::F64(_) => (Element::F64, 1),
            Function::F32x2(_) => (Element::F32, 2),
            Function::F64x2(_) => (Element::F64, 2),
            Function::I32x2(_) => (Element::I32, 2),
            Function::I64x2(_) => (Element::I64, 2),
            Function::U32x2(_) => (Element::U32, 2),
            Function::U64x2(_) => (Element::U64, 2),
            Function::F32x3(_) => (Element::F32, 3),
            Function::F64x3(_) => (Element::F64, 3),
        }
    }
}

/// A range of an array's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The array.
    pub array: Array,
    /// Offset of the first byte.
    pub start: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// A step that the caller runs.
#[derive(Clone, Debug, Default)]
pub struct HostStep {
    /// The parts that the step reads.
    pub reads: Vec<Part>,
    /// The parts that the step writes. They overlap neither each other nor the parts that the step reads.
    pub writes: Vec<Part>,
}

/// Runs the steps that a program leaves to its caller.
pub trait Host {
    /// Runs a step on its declared parts. Returns whether the run continues.
    fn call(&mut self, step: u32, reads: &[&[u8]], writes: &mut [&mut [u8]]) -> bool;
}

/// Returns whether programs may contain this unary op for this element type.
pub fn has_unary(op: Unary, element: Element) -> bool {
    use Unary::*;
    match op {
        Abs | Negate | Sign => element.is_float() || element.is_integer(),
        Ceil | Floor | RoundNearestEven | Rsqrt | Sqrt | IsFinite => element.is_float(),
        CountLeadingZeros | Popcnt => element.is_integer(),
        Not => !element.is_float(),
        _ => false,
    }
}

/// Returns whether programs may contain this binary op for this element type.
pub fn has_binary(op: Binary, element: Element) -> bool {
    use Binary::*;
    match op {
        Add | Multiply | Maximum | Minimum => true,
        Subtract | Divide => element != Element::Bool,
        Remainder | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => element.is_integer(),
        And | Or | Xor => !element.is_float(),
        _ => false,
    }
}

/// Returns whether the current processor has an instruction for [`Expression::FusedMultiplyAdd`]. Without it, generated
/// code calls the functions `fma` and `fmaf` of the C library, and some of these libraries round more than once.
pub fn has_fused_multiply_add() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma") && std::arch::is_x86_feature_detected!("avx");
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

/// Returns whether programs may contain this comparison for this element type.
pub fn has_compare(kind: ComparisonType, element: Element) -> bool {
    kind != ComparisonType::WeakOrder || !element.is_float()
}
