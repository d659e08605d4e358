//! Generates programs from bytes. Most of them follow the rules, and some break one.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Unary};
use stablehlo_jit::{
    Access, Array, Block, Element, Expression, Function, HostStep, Part, Program, Selector, Statement, Value,
    has_binary, has_compare, has_unary,
};

/// Maximum nesting of generated statements. Deeper blocks are tested elsewhere.
const DEPTH: u32 = 5;

/// A program, with the parts of it that its interface does not return.
pub(super) struct Generated {
    pub(super) program: Program,
    /// The arrays with their sizes in bytes, and whether they can be written.
    pub(super) arrays: Vec<(Array, usize, bool)>,
    pub(super) steps: Vec<HostStep>,
}

/// Reads decisions from bytes. Returns zeros after the last byte.
struct Input<'b> {
    bytes: &'b [u8],
}

impl Input<'_> {
    fn byte(&mut self) -> usize {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(first)
    }

    /// Returns a number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.byte() % n.max(1)
    }

    /// Returns true for one of `n` bytes.
    fn rarely(&mut self, n: usize) -> bool {
        self.byte() % n == n - 1
    }

    /// Returns a number. Many are small or close to the largest or smallest number of a type.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0..=2 => self.byte() as u64 % 20,
            3 => [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64, i64::MIN as u64 + 1][self.below(6)],
            4 | 5 => {
                let power = 1u64 << self.below(64);
                let near = power.wrapping_add([0, 1, u64::MAX][self.below(3)]);
                if self.rarely(2) { near.wrapping_neg() } else { near }
            }
            6 => self.byte() as u64 * 8,
            _ => (0..8).fold(0, |n, _| n << 8 | self.byte() as u64),
        }
    }

    /// Returns a number up to `most`, often one of the extremes.
    fn up_to(&mut self, most: u64) -> u64 {
        match self.below(4) {
            0 => 0,
            1 => most,
            _ => self.number() % most.saturating_add(1).max(1),
        }
    }
}

#[derive(Clone, Copy)]
struct Known {
    value: Value,
    element: Element,
    /// The largest number, for numbers that may be indices.
    most: Option<u64>,
}

struct Generator<'b> {
    input: Input<'b>,
    generated: Generated,
    out: Vec<Statement>,
    known: Vec<Known>,
    foreign: (Vec<Value>, Array),
    depth: u32,
}

/// Generates a program.
pub(super) fn program(bytes: &[u8]) -> Generated {
    let mut other = Program::new();
    let foreign = (0..50).map(|_| other.value(Element::I64)).collect();
    let foreign = (foreign, (0..9).map(|_| other.array(8, true)).last().unwrap());
    let generated = Generated { program: Program::new(), arrays: Vec::new(), steps: Vec::new() };
    let mut generator =
        Generator { input: Input { bytes }, generated, out: Vec::new(), known: Vec::new(), foreign, depth: 0 };
    for _ in 0..1 + generator.input.below(4) {
        let writable = !generator.input.rarely(4);
        let bytes = if generator.input.rarely(8) { generator.input.number() as usize } else { generator.input.byte() };
        generator.array(bytes, writable);
    }
    while !generator.input.bytes.is_empty() {
        generator.statement();
    }
    generator.store_results();
    let Generator { mut generated, out, .. } = generator;
    generated.program.body = Block::new(out, Vec::new()).unwrap_or_default();
    generated
}

impl Generator<'_> {
    fn array(&mut self, bytes: usize, writable: bool) -> Array {
        let array = self.generated.program.array(bytes, writable);
        self.generated.arrays.push((array, bytes, writable));
        array
    }

    /// Stores the last values of the outermost block, so that they can be compared.
    fn store_results(&mut self) {
        let results: Vec<Known> = self.known.iter().rev().take(16).copied().collect();
        let array = self.array(8 * results.len(), true);
        for (at, known) in results.into_iter().enumerate() {
            let to = Access { array, offset: 8 * at, terms: Vec::new() };
            self.out.push(Statement::Store { to, value: known.value });
        }
    }

    fn define(&mut self, element: Element, most: Option<u64>, expression: Expression) -> Value {
        let result = self.generated.program.value(element);
        self.out.push(Statement::Let { result, expression });
        self.known.push(Known { value: result, element, most });
        result
    }

    fn element(&mut self) -> Element {
        Element::ALL[self.input.below(Element::ALL.len())]
    }

    /// Returns a value of this type, and sometimes one that is not visible or has another type.
    fn pick(&mut self, element: Element) -> Value {
        if self.input.rarely(128) {
            let any = self.input.below(self.foreign.0.len());
            return self.foreign.0[any];
        }
        let fitting: Vec<Value> = self.known.iter().filter(|k| k.element == element).map(|k| k.value).collect();
        if fitting.is_empty() || self.input.rarely(8) {
            let bytes = self.bytes_of(element);
            return self.define(element, None, Expression::Constant(bytes));
        }
        fitting[self.input.below(fitting.len())]
    }

    fn bytes_of(&mut self, element: Element) -> [u8; 8] {
        let number = self.input.number();
        let small = number as i8;
        match (element, self.input.below(3)) {
            (Element::Bool, 0 | 1) => (number & 1).to_le_bytes(),
            (Element::F32, 0) => u64::from(f32::from(small).to_bits()).to_le_bytes(),
            (Element::F64, 0) => f64::from(small).to_bits().to_le_bytes(),
            (Element::F32, 1) => u64::from((number as i64 as f32).to_bits()).to_le_bytes(),
            (Element::F64, 1) => (number as i64 as f64).to_bits().to_le_bytes(),
            _ => number.to_le_bytes(),
        }
    }

    /// Returns a value that may be an index, and its largest number. Defines one if there is none.
    fn index(&mut self) -> (Value, u64) {
        let indices: Vec<_> = self.known.iter().filter_map(|k| Some((k.value, k.most?))).collect();
        if self.input.rarely(128) {
            return (self.pick(Element::I64), 0);
        }
        if !indices.is_empty() && !self.input.rarely(4) {
            return indices[self.input.below(indices.len())];
        }
        let most = self.input.number();
        if !indices.is_empty() && self.input.rarely(2) {
            let (of, _) = indices[self.input.below(indices.len())];
            let step = self.input.number() as usize;
            let value =
                self.define(Element::I64, most.checked_sub(1), Expression::Digit { of, step, extent: most as usize });
            return (value, most.saturating_sub(1));
        }
        let element = [Element::I64, Element::U64, Element::I8, Element::U32][self.input.below(4)];
        let of = self.pick(element);
        let value = self.define(Element::I64, Some(most), Expression::Clamped { of, most: most as usize });
        (value, most)
    }

    fn access(&mut self, size: usize, write: bool) -> Access {
        let arrays: Vec<_> = self.generated.arrays.iter().filter(|a| a.2 || !write).copied().collect();
        let any = self.input.rarely(128);
        let (array, bytes) = match arrays.get(self.input.below(arrays.len())) {
            Some(&(array, bytes, _)) if !any => (array, bytes),
            _ => (self.foreign.1, 8),
        };
        let mut terms = Vec::new();
        if self.input.rarely(8) {
            for _ in 0..self.input.below(4) {
                terms.push((self.index().0, self.input.number() as isize));
            }
            return Access { array, offset: self.input.number() as usize, terms };
        }
        // Choose strides that fit in the array, and sometimes exceed it by one byte.
        let Some(mut room) = (bytes as u64).checked_sub(size as u64) else {
            return Access { array, offset: 0, terms };
        };
        let mut offset = 0u64;
        for _ in 0..self.input.below(4) {
            let (index, most) = self.index();
            let most_stride = room.checked_div(most).unwrap_or(i64::MAX as u64);
            let stride = self.input.up_to(most_stride.min(i64::MAX as u64));
            let reach = most.saturating_mul(stride);
            room = room.saturating_sub(reach);
            let negative = self.input.rarely(3);
            if negative {
                offset = offset.saturating_add(reach);
            }
            let stride = stride as isize;
            terms.push((index, if negative { -stride } else { stride }));
        }
        let offset = offset.saturating_add(self.input.up_to(room));
        let offset =
            if self.input.rarely(32) { offset.wrapping_add([1, u64::MAX][self.input.below(2)]) } else { offset };
        Access { array, offset: offset as usize, terms }
    }

    /// Generates a block. `results` are the types of its results.
    fn block(&mut self, results: &[Element]) -> Block {
        let (statements, results) = self.inside(|this| {
            for _ in 0..this.input.below(6) {
                this.statement();
            }
            results.iter().map(|&element| this.pick(element)).collect()
        });
        Block::new(statements, results).unwrap_or_default()
    }

    fn inside(&mut self, generate: impl FnOnce(&mut Self) -> Vec<Value>) -> (Vec<Statement>, Vec<Value>) {
        let outer = std::mem::take(&mut self.out);
        let known = self.known.len();
        self.depth += 1;
        let results = generate(self);
        self.depth -= 1;
        // Values of blocks that have ended are rarely used.
        if !self.input.rarely(64) {
            self.known.truncate(known);
        }
        (std::mem::replace(&mut self.out, outer), results)
    }

    fn statement(&mut self) {
        let flat = self.depth >= DEPTH;
        match self.input.below(if flat { 10 } else { 16 }) {
            0..=6 => self.compute(),
            7 | 8 => {
                let element = self.element();
                let value = self.pick(element);
                let write = !self.input.rarely(32);
                let to = self.access(element.size(), write);
                self.out.push(Statement::Store { to, value });
            }
            9 => self.host(),
            10 | 11 => self.repeat(),
            12 => self.elements(),
            13 => self.loop_while(),
            _ => self.choose(),
        }
    }

    fn repeat(&mut self) {
        let count = if self.input.rarely(8) { self.input.number() } else { 1 + self.input.below(12) as u64 } as usize;
        let index = self.generated.program.value(Element::I64);
        let (statements, _) = self.inside(|this| {
            this.known.push(Known {
                value: index,
                element: Element::I64,
                most: Some((count as u64).saturating_sub(1)),
            });
            for _ in 0..this.input.below(6) {
                this.statement();
            }
            Vec::new()
        });
        let body = Block::new(statements, Vec::new()).unwrap_or_default();
        self.out.push(Statement::For { count, index, body });
    }

    /// Generates a loop over consecutive elements of one size, which is usually computed with vectors.
    fn elements(&mut self) {
        let element = self.element();
        let same: Vec<Element> = Element::ALL.into_iter().filter(|e| e.size() == element.size()).collect();
        let count = 1 + self.input.below(40);
        let index = self.generated.program.value(Element::I64);
        let (statements, _) = self.inside(|this| {
            for _ in 0..1 + this.input.below(7) {
                let element = if this.input.rarely(4) { same[this.input.below(same.len())] } else { element };
                match this.input.below(9) {
                    0..=2 => {
                        if let Some(from) = this.consecutive(index, count, element.size(), false) {
                            this.define(element, None, Expression::Load(from));
                        }
                    }
                    3 | 4 => {
                        let value = this.pick(element);
                        if let Some(to) = this.consecutive(index, count, element.size(), true) {
                            this.out.push(Statement::Store { to, value });
                        }
                    }
                    // Definitions that vectors have.
                    _ => {
                        let kind = [0, 1, 2, 3, 6, 7, 7, 8, 9][this.input.below(9)];
                        this.compute_of(element, kind);
                    }
                }
            }
            Vec::new()
        });
        let body = Block::new(statements, Vec::new()).unwrap_or_default();
        self.out.push(Statement::For { count, index, body });
    }

    /// Returns an access to `count` consecutive elements, or sometimes to the same element in each iteration. Returns
    /// `None` if no array is large enough.
    fn consecutive(&mut self, index: Value, count: usize, size: usize, write: bool) -> Option<Access> {
        let bytes = count * size;
        let fits = |&&(_, room, writable): &&(Array, usize, bool)| room >= bytes && (writable || !write);
        let arrays: Vec<_> = self.generated.arrays.iter().filter(fits).copied().collect();
        let &(array, room, _) = arrays.get(self.input.below(arrays.len()))?;
        let offset = self.input.up_to((room - bytes) as u64) as usize;
        let terms = if self.input.rarely(8) { Vec::new() } else { vec![(index, size as isize)] };
        Some(Access { array, offset, terms })
    }

    /// Generates a loop that usually ends after some iterations.
    fn loop_while(&mut self) {
        let mut elements = vec![Element::I64];
        for _ in 0..self.input.below(3) {
            elements.push(self.element());
        }
        let mut initial = vec![self.define(Element::I64, None, Expression::Constant([0; 8]))];
        initial.extend(elements[1..].iter().map(|&element| self.pick(element)).collect::<Vec<_>>());
        let limit = (self.input.below(12) as u64).to_le_bytes();
        let limit = self.define(Element::I64, None, Expression::Constant(limit));
        let one = self.define(Element::I64, None, Expression::Constant(1u64.to_le_bytes()));
        let parameters: Vec<Value> = elements.iter().map(|&element| self.generated.program.value(element)).collect();
        let endless = self.input.rarely(16);
        let outer = self.known.len();
        let known = parameters.iter().zip(&elements);
        self.known.extend(known.map(|(&value, &element)| Known { value, element, most: None }));
        let (statements, results) = self.inside(|this| {
            (0..this.input.below(3)).for_each(|_| this.statement());
            let less = Expression::Compare(ComparisonDirection::Lt, ComparisonType::Signed, parameters[0], limit);
            vec![if endless { this.pick(Element::Bool) } else { this.define(Element::Bool, None, less) }]
        });
        let condition = Block::new(statements, results).unwrap_or_default();
        let (statements, results) = self.inside(|this| {
            (0..this.input.below(5)).for_each(|_| this.statement());
            let next = this.define(Element::I64, None, Expression::Binary(Binary::Add, parameters[0], one));
            let others: Vec<Value> = elements[1..].iter().map(|&element| this.pick(element)).collect();
            [vec![next], others].concat()
        });
        let body = Block::new(statements, results).unwrap_or_default();
        self.known.truncate(outer);
        let results: Vec<Value> = elements.iter().map(|&element| self.generated.program.value(element)).collect();
        let known = results.iter().zip(&elements);
        self.known.extend(known.map(|(&value, &element)| Known { value, element, most: None }));
        self.out.push(Statement::While { parameters, initial, condition, body, results });
    }

    fn choose(&mut self) {
        let truth = self.input.rarely(2);
        let (selector, element) =
            if truth { (Selector::Truth, Element::Bool) } else { (Selector::Index, Element::I32) };
        let value = self.pick(element);
        let count = if self.input.rarely(64) {
            self.input.below(4)
        } else if truth {
            2
        } else {
            1 + self.input.below(4)
        };
        let mut elements = Vec::new();
        for _ in 0..self.input.below(3) {
            elements.push(self.element());
        }
        let branches = (0..count).map(|_| self.block(&elements)).collect();
        let results: Vec<Value> = elements.iter().map(|&element| self.generated.program.value(element)).collect();
        let known = results.iter().zip(&elements);
        self.known.extend(known.map(|(&value, &element)| Known { value, element, most: None }));
        self.out.push(Statement::Choose { selector, value, branches, results });
    }

    fn host(&mut self) {
        let parts = |this: &mut Self, written: bool| -> Vec<Part> {
            let mut parts = Vec::new();
            for _ in 0..this.input.below(if this.input.bytes.len() % 16 == 7 { 20 } else { 3 }) {
                let arrays: Vec<_> = this.generated.arrays.iter().filter(|a| a.2 || !written).copied().collect();
                let Some(&(array, bytes, _)) = arrays.get(this.input.below(arrays.len())) else { continue };
                if this.input.rarely(32) {
                    let (start, bytes) = (this.input.number() as usize, this.input.number() as usize);
                    parts.push(Part { array, start, bytes });
                } else {
                    let start = this.input.up_to(bytes as u64) as usize;
                    let bytes = this.input.up_to((bytes - start) as u64) as usize;
                    parts.push(Part { array, start, bytes });
                }
            }
            parts
        };
        let step = HostStep { reads: parts(self, false), writes: parts(self, true) };
        self.generated.steps.push(step.clone());
        let step = self.generated.program.host_step(step);
        let step = if self.input.rarely(64) { self.input.number() as u32 } else { step };
        self.out.push(Statement::Host { step });
    }

    /// Generates a definition.
    fn compute(&mut self) {
        let (element, kind) = (self.element(), self.input.below(KINDS));
        self.compute_of(element, kind);
    }

    /// Generates a definition of this kind from operands of this type.
    fn compute_of(&mut self, element: Element, kind: usize) {
        match kind {
            0 => {
                let bytes = self.bytes_of(element);
                self.define(element, None, Expression::Constant(bytes));
            }
            1 => {
                let listed: Vec<Unary> = Unary::ALL.iter().copied().filter(|&op| has_unary(op, element)).collect();
                let Some(&op) = listed.get(self.input.below(listed.len())) else { return };
                let a = self.pick(element);
                let made = if op == Unary::IsFinite { Element::Bool } else { element };
                self.define(made, None, Expression::Unary(op, a));
            }
            2..=4 => {
                let listed: Vec<Binary> = Binary::ALL.iter().copied().filter(|&op| has_binary(op, element)).collect();
                let Some(&op) = listed.get(self.input.below(listed.len())) else { return };
                let (a, b) = (self.pick(element), self.pick(element));
                self.define(element, None, Expression::Binary(op, a, b));
            }
            5 => {
                let element = [Element::F32, Element::F64][self.input.below(2)];
                let [a, b, c] = [(); 3].map(|()| self.pick(element));
                self.define(element, None, Expression::FusedMultiplyAdd(a, b, c));
            }
            6 => {
                use ComparisonDirection::{Eq, Ge, Gt, Le, Lt, Ne};
                use ComparisonType::{Float, NoType, Signed, TotalOrder, Unsigned, WeakOrder};
                let kind = [Float, NoType, Signed, TotalOrder, Unsigned, WeakOrder][self.input.below(6)];
                if !has_compare(kind, element) {
                    return;
                }
                let direction = [Eq, Ge, Gt, Le, Lt, Ne][self.input.below(6)];
                let (a, b) = (self.pick(element), self.pick(element));
                self.define(Element::Bool, None, Expression::Compare(direction, kind, a, b));
            }
            7 => {
                let p = self.pick(Element::Bool);
                let (a, b) = (self.pick(element), self.pick(element));
                self.define(element, None, Expression::Select(p, a, b));
            }
            8 => {
                let to = self.element();
                let a = self.pick(element);
                self.define(to, None, Expression::Convert(a));
            }
            9 => {
                let to = self.element();
                if to.size() == element.size() {
                    let a = self.pick(element);
                    self.define(to, None, Expression::Bits(a));
                }
            }
            10 | 11 => {
                let from = self.access(element.size(), false);
                self.define(element, None, Expression::Load(from));
            }
            12 => {
                self.index();
                let of = self.pick(element);
                if element.is_integer() {
                    let most = self.input.number() as usize;
                    self.define(Element::Bool, None, Expression::Inside { of, most });
                }
            }
            _ => {
                let function = FUNCTIONS[self.input.below(FUNCTIONS.len())];
                let (element, count) = function.signature();
                let operands = (0..count).map(|_| self.pick(element)).collect();
                self.define(element, None, Expression::Call(function, operands));
            }
        }
    }
}

/// Number of kinds of definitions.
const KINDS: usize = 14;

const FUNCTIONS: [Function; 10] = [
    Function::F32(f32_of),
    Function::F64(f64_of),
    Function::F32x2(f32_of_2),
    Function::F64x2(f64_of_2),
    Function::I32x2(i32_of_2),
    Function::I64x2(i64_of_2),
    Function::U32x2(u32_of_2),
    Function::U64x2(u64_of_2),
    Function::F32x3(f32_of_3),
    Function::F64x3(f64_of_3),
];

extern "C" fn f32_of(x: f32) -> f32 {
    x + 1.5
}

extern "C" fn f64_of(x: f64) -> f64 {
    x + 1.5
}

extern "C" fn f32_of_2(x: f32, y: f32) -> f32 {
    x - y
}

extern "C" fn f64_of_2(x: f64, y: f64) -> f64 {
    x - y
}

extern "C" fn i32_of_2(x: i32, y: i32) -> i32 {
    x.wrapping_sub(y)
}

extern "C" fn i64_of_2(x: i64, y: i64) -> i64 {
    x.wrapping_sub(y)
}

extern "C" fn u32_of_2(x: u32, y: u32) -> u32 {
    x.wrapping_sub(y)
}

extern "C" fn u64_of_2(x: u64, y: u64) -> u64 {
    x.wrapping_sub(y)
}

extern "C" fn f32_of_3(x: f32, y: f32, z: f32) -> f32 {
    x - y + z
}

extern "C" fn f64_of_3(x: f64, y: f64, z: f64) -> f64 {
    x - y + z
}
