//! Translates a verified program to Cranelift's representation.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, MemFlagsData, SigRef, Signature, Type, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Switch};

use crate::error::Error;
use crate::ir::{Access, Block, Expression, Function, Program, Selector, Statement, Value};
use crate::limits;
use crate::ops::{Ops, type_of, vector_of};

mod vector;

/// Maximum number of statements to which a loop is unrolled.
const UNROLLED: i64 = 64;

/// The offsets of all addresses in the table of arrays fit in an `i32`.
const _: () = assert!(limits::ARRAYS <= i32::MAX as usize / size_of::<usize>());

/// The return values of the generated function.
pub(crate) const FINISHED: i64 = 0;
pub(crate) const STOPPED: i64 = 1;
pub(crate) const PAUSED: i64 = 2;

/// Returns the signature of the generated function. Its parameters are the addresses of the arrays, the flag that stops
/// a run, the first argument of `call_host`, and the maximum number of iterations of each outermost loop. It returns an
/// `i32`.
pub(crate) fn signature(convention: CallConv, pointer: Type) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params.extend([AbiParam::new(pointer); 3]);
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

/// Translates a verified program into the function of `builder`. It relies on the verifier for the types of operands
/// and for the numbers that it passes to instructions, and on [`Block::new`] for the depth of its recursion.
/// `call_host` is the address of a function that takes the third parameter of the generated function and the index of a
/// step, and returns 0 if the run continues.
pub(crate) fn translate(
    program: &Program,
    mut builder: FunctionBuilder<'_>,
    pointer: Type,
    call_host: usize,
    frontend: cranelift_codegen::isa::TargetFrontendConfig,
) -> Result<(), Error> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let parameters = builder.block_params(entry).to_vec();
    let stopped = builder.create_block();
    builder.set_cold_block(stopped);
    let convention = builder.func.signature.call_conv;
    let mut host = Signature::new(convention);
    host.params.extend([AbiParam::new(pointer), AbiParam::new(types::I32)]);
    host.returns.push(AbiParam::new(types::I32));
    let host = builder.import_signature(host);
    // The table of addresses does not change during a run.
    let table = MemFlagsData::trusted().with_readonly();
    let mut arrays = Vec::with_capacity(program.arrays.len());
    for at in 0..program.arrays.len() {
        let offset = at.checked_mul(size_of::<usize>()).and_then(|offset| i32::try_from(offset).ok());
        let offset = offset.ok_or(Error::TooLarge { what: "arrays", limit: limits::ARRAYS })?;
        arrays.push(builder.ins().load(pointer, table, parameters[0], offset));
    }
    let code = builder.ins().iconst(types::I32, FINISHED);
    let mut translator = Translator {
        program,
        builder,
        pointer,
        values: vec![None; program.values.len()],
        in_scope: 0,
        crossings: 0,
        arrays,
        stop: parameters[1],
        context: parameters[2],
        stopped,
        host,
        call_host,
        convention,
        iterations: Some(parameters[3]),
        code,
    };
    translator.statements(&program.body)?;
    let Translator { mut builder, code, .. } = translator;
    builder.ins().return_(&[code]);
    builder.switch_to_block(stopped);
    let code = builder.ins().iconst(types::I32, STOPPED);
    builder.ins().return_(&[code]);
    builder.seal_all_blocks();
    builder.finalize(frontend);
    Ok(())
}

struct Translator<'p, 'f> {
    program: &'p Program,
    builder: FunctionBuilder<'f>,
    pointer: Type,
    values: Vec<Option<ir::Value>>,
    /// Number of values that are defined, except in blocks that have ended.
    in_scope: usize,
    /// The number of values and arrays before each block so far. See [`limits::CROSSINGS`].
    crossings: usize,
    arrays: Vec<ir::Value>,
    stop: ir::Value,
    context: ir::Value,
    stopped: ir::Block,
    host: SigRef,
    call_host: usize,
    convention: CallConv,
    /// The maximum number of iterations of an outermost loop. `None` inside a statement.
    iterations: Option<ir::Value>,
    /// The return value. It is [`PAUSED`] after an outermost loop has reached this maximum, and [`FINISHED`] otherwise.
    code: ir::Value,
}

impl<'p, 'f> Translator<'p, 'f> {
    fn ops(&mut self) -> Ops<'_, 'f> {
        Ops { builder: &mut self.builder }
    }

    fn get(&self, value: Value) -> Result<ir::Value, Error> {
        self.values[value.0 as usize].ok_or_else(|| Error::Invalid(format!("value {} is not defined", value.0)))
    }

    fn set(&mut self, value: Value, to: ir::Value) {
        self.values[value.0 as usize] = Some(to);
        self.in_scope += 1;
    }

    fn arguments(&self, values: &[Value]) -> Result<Vec<BlockArg>, Error> {
        values.iter().map(|&value| Ok(BlockArg::Value(self.get(value)?))).collect()
    }

    /// Adds a block.
    fn new_block(&mut self) -> Result<ir::Block, Error> {
        self.crossings = self.crossings.saturating_add(self.arrays.len()).saturating_add(self.in_scope);
        if self.crossings > limits::CROSSINGS {
            return Err(Error::TooLarge { what: "values and arrays before each block", limit: limits::CROSSINGS });
        }
        Ok(self.builder.create_block())
    }

    /// Adds a block whose parameters define `values`.
    fn block_of(&mut self, values: &[Value]) -> Result<ir::Block, Error> {
        let block = self.new_block()?;
        for &value in values {
            let parameter = self.builder.append_block_param(block, type_of(self.program.element(value)));
            self.set(value, parameter);
        }
        Ok(block)
    }

    /// Translates a block inside a statement.
    fn nested(&mut self, block: &'p Block) -> Result<(), Error> {
        let (iterations, in_scope) = (self.iterations.take(), self.in_scope);
        let result = self.statements(block);
        (self.iterations, self.in_scope) = (iterations, in_scope);
        result
    }

    fn statements(&mut self, block: &'p Block) -> Result<(), Error> {
        block.statements().iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'p Statement) -> Result<(), Error> {
        // Unrolled loops make programs longer, so the number of statements does not bound the number of instructions.
        if self.builder.func.dfg.num_insts() > limits::INSTRUCTIONS {
            return Err(Error::TooLarge { what: "instructions", limit: limits::INSTRUCTIONS });
        }
        match statement {
            Statement::Let { result, expression } => {
                let value = self.expression(*result, expression)?;
                self.set(*result, value);
            }
            Statement::Store { to, value } => {
                let (address, offset) = self.address(to)?;
                let value = self.get(*value)?;
                self.builder.ins().store(memory(), value, address, offset);
            }
            Statement::For { count, index, body } => {
                let in_scope = self.in_scope;
                let size = size_of_block(body);
                let vectors = vector::lanes(self.program, *count, *index, body);
                let (count, lanes) = (constant(*count)?, vectors.unwrap_or(1));
                let mut done = 0;
                if vectors.is_some() {
                    let step = constant(lanes)?;
                    done = count - count % step;
                    self.counted([0, done, step], *index, size, |this| this.vector(lanes, *index, body))?;
                }
                if done < count {
                    self.counted([done, count, 1], *index, size, |this| this.nested(body))?;
                }
                self.in_scope = in_scope;
            }
            Statement::While { parameters, initial, condition, body, results } => {
                self.repeated(parameters, initial, condition, body, results)?;
            }
            Statement::Choose { selector, value, branches, results } => {
                self.chosen(*selector, *value, branches, results)?;
            }
            Statement::Host { step } => {
                let address = i64::try_from(self.call_host).map_err(|_| Error::Platform("large addresses".into()))?;
                let callee = self.builder.ins().iconst(self.pointer, address);
                let step = self.builder.ins().iconst(types::I32, i64::from(*step));
                let call = self.builder.ins().call_indirect(self.host, callee, &[self.context, step]);
                let code = self.builder.inst_results(call)[0];
                let next = self.new_block()?;
                self.builder.ins().brif(code, self.stopped, &[], next, &[]);
                self.builder.switch_to_block(next);
            }
        }
        Ok(())
    }

    /// Repeats `body` while `index` counts from the first to the second number, by the third. The loop is unrolled if
    /// all iterations together are small. `size` is the size of an iteration, if it can be unrolled.
    fn counted(
        &mut self,
        [from, to, step]: [i64; 3],
        index: Value,
        size: Option<i64>,
        mut body: impl FnMut(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let iterations = (to - from) / step;
        if size.and_then(|size| size.checked_mul(iterations)).is_some_and(|size| size <= UNROLLED) {
            for at in 0..iterations {
                let at = self.ops().int(types::I64, from + at * step);
                self.set(index, at);
                body(self)?;
            }
            return Ok(());
        }
        let head = self.block_of(&[index])?;
        let exit = self.new_block()?;
        let first = self.ops().int(types::I64, from);
        self.builder.ins().jump(head, &[BlockArg::Value(first)]);
        self.builder.switch_to_block(head);
        let at = self.get(index)?;
        body(self)?;
        let next = self.builder.ins().iadd_imm_s(at, step);
        let more = self.builder.ins().icmp_imm_s(IntCC::UnsignedLessThan, next, to);
        self.builder.ins().brif(more, head, &[BlockArg::Value(next)], exit, &[]);
        self.builder.switch_to_block(exit);
        Ok(())
    }

    /// Translates the body of a loop for as many iterations as a vector has lanes. The index of the first one is
    /// defined.
    fn vector(&mut self, lanes: usize, index: Value, body: &Block) -> Result<(), Error> {
        let mut made: HashMap<Value, ir::Value> = HashMap::new();
        for statement in body.statements() {
            match statement {
                Statement::Let { result, expression } => {
                    let value = self.vector_expression(&made, lanes, index, *result, expression)?;
                    made.insert(*result, value);
                }
                Statement::Store { to, value } => {
                    let (address, offset) = self.address(to)?;
                    let value = self.lanes_of(&made, lanes, *value)?;
                    self.builder.ins().store(memory(), value, address, offset);
                }
                _ => return Err(not_vectors()),
            }
        }
        Ok(())
    }

    /// Returns the lanes of a value, which are equal if the loop does not define the value.
    fn lanes_of(&mut self, made: &HashMap<Value, ir::Value>, lanes: usize, value: Value) -> Result<ir::Value, Error> {
        if let Some(&value) = made.get(&value) {
            return Ok(value);
        }
        let (element, scalar) = (self.program.element(value), self.get(value)?);
        self.ops().splat(element, lanes, scalar).ok_or_else(not_vectors)
    }

    /// Translates an expression that [`vector::lanes`] accepts.
    fn vector_expression(
        &mut self,
        made: &HashMap<Value, ir::Value>,
        lanes: usize,
        index: Value,
        result: Value,
        expression: &Expression,
    ) -> Result<ir::Value, Error> {
        let element = self.program.element(result);
        let operand = |this: &mut Self, value: &Value| this.lanes_of(made, lanes, *value);
        let value = match expression {
            Expression::Constant(bytes) => {
                let scalar = self.ops().constant(element, *bytes);
                self.ops().splat(element, lanes, scalar)
            }
            Expression::Load(from) => {
                let (address, offset) = self.address(from)?;
                if from.terms.iter().any(|(value, _)| *value == index) {
                    let ty = vector_of(element, lanes).ok_or_else(not_vectors)?;
                    Some(self.builder.ins().load(ty, memory(), address, offset))
                } else {
                    let scalar = self.builder.ins().load(type_of(element), memory(), address, offset);
                    self.ops().splat(element, lanes, scalar)
                }
            }
            Expression::Unary(op, a) => {
                let x = operand(self, a)?;
                self.ops().vector_unary(*op, element, lanes, x)
            }
            Expression::Binary(op, a, b) => {
                let (x, y) = (operand(self, a)?, operand(self, b)?);
                self.ops().vector_binary(*op, element, x, y)
            }
            Expression::FusedMultiplyAdd(a, b, c) => {
                let (x, y, z) = (operand(self, a)?, operand(self, b)?, operand(self, c)?);
                Some(self.builder.ins().fma(x, y, z))
            }
            Expression::Compare(direction, kind, a, b) => {
                let (x, y) = (operand(self, a)?, operand(self, b)?);
                let of = self.program.element(*a);
                Some(self.ops().compare(*direction, *kind, of, x, y))
            }
            Expression::Select(p, a, b) => {
                let (p, x, y) = (operand(self, p)?, operand(self, a)?, operand(self, b)?);
                Some(self.ops().chosen_lanes(p, x, y))
            }
            Expression::Convert(a) => {
                let (x, ty) = (operand(self, a)?, vector_of(element, lanes).ok_or_else(not_vectors)?);
                Some(self.builder.ins().fcvt_from_sint(ty, x))
            }
            Expression::Bits(a) => {
                let (x, ty) = (operand(self, a)?, vector_of(element, lanes).ok_or_else(not_vectors)?);
                Some(self.ops().bits(x, ty))
            }
            _ => None,
        };
        value.ok_or_else(not_vectors)
    }

    fn repeated(
        &mut self,
        parameters: &[Value],
        initial: &[Value],
        condition: &'p Block,
        body: &'p Block,
        results: &[Value],
    ) -> Result<(), Error> {
        let mut initial = self.arguments(initial)?;
        let head = self.block_of(parameters)?;
        let [checked, inside, exit] = [self.new_block()?, self.new_block()?, self.new_block()?];
        let left = self.iterations.map(|iterations| {
            initial.push(BlockArg::Value(iterations));
            self.builder.append_block_param(head, types::I64)
        });
        self.builder.ins().jump(head, &initial);
        self.builder.switch_to_block(head);
        // Another thread sets the flag. Only an atomic load is certain to be repeated in every iteration.
        let flag = self.builder.ins().atomic_load(types::I8, memory(), self.stop);
        self.builder.ins().brif(flag, self.stopped, &[], checked, &[]);
        self.builder.switch_to_block(checked);
        let mut ended = Vec::new();
        if let Some(left) = left {
            let allowed = self.new_block()?;
            let paused = BlockArg::Value(self.builder.ins().iconst(types::I32, PAUSED));
            self.builder.ins().brif(left, allowed, &[], exit, &[paused]);
            self.builder.switch_to_block(allowed);
            ended.push(BlockArg::Value(self.code));
            self.code = self.builder.append_block_param(exit, types::I32);
        }
        self.nested(condition)?;
        let &[condition] = condition.results() else {
            return Err(Error::Invalid("a condition does not have one result".into()));
        };
        let condition = self.get(condition)?;
        let more = self.ops().is_one(condition);
        self.builder.ins().brif(more, inside, &[], exit, &ended);
        self.builder.switch_to_block(inside);
        self.nested(body)?;
        let mut next = self.arguments(body.results())?;
        if let Some(left) = left {
            next.push(BlockArg::Value(self.builder.ins().iadd_imm_s(left, -1)));
        }
        self.builder.ins().jump(head, &next);
        self.builder.switch_to_block(exit);
        for (&result, &parameter) in results.iter().zip(parameters) {
            let value = self.get(parameter)?;
            self.set(result, value);
        }
        Ok(())
    }

    fn chosen(
        &mut self,
        selector: Selector,
        value: Value,
        branches: &'p [Block],
        results: &[Value],
    ) -> Result<(), Error> {
        let value = self.get(value)?;
        let blocks: Vec<ir::Block> = branches.iter().map(|_| self.new_block()).collect::<Result<_, _>>()?;
        match (selector, &blocks[..]) {
            (Selector::Truth, &[yes, no]) => {
                let truth = self.ops().is_one(value);
                self.builder.ins().brif(truth, yes, &[], no, &[]);
            }
            (_, [others @ .., last]) => {
                let mut switch = Switch::new();
                for (at, &block) in others.iter().enumerate() {
                    switch.set_entry(at as u128, block);
                }
                switch.emit(&mut self.builder, value, *last);
            }
            _ => return Err(Error::Invalid("a choice without branches".into())),
        }
        let exit = self.block_of(results)?;
        for (&block, branch) in blocks.iter().zip(branches) {
            self.builder.switch_to_block(block);
            self.nested(branch)?;
            let made = self.arguments(branch.results())?;
            self.builder.ins().jump(exit, &made);
        }
        self.builder.switch_to_block(exit);
        Ok(())
    }

    fn expression(&mut self, result: Value, expression: &Expression) -> Result<ir::Value, Error> {
        let made = self.program.element(result);
        let unknown = || Error::Invalid("an op without instructions".into());
        Ok(match expression {
            Expression::Constant(bytes) => self.ops().constant(made, *bytes),
            Expression::Unary(op, a) => {
                let (element, a) = (self.program.element(*a), self.get(*a)?);
                self.ops().unary(*op, element, a).ok_or_else(unknown)?
            }
            Expression::Binary(op, a, b) => {
                let (a, b) = (self.get(*a)?, self.get(*b)?);
                self.ops().binary(*op, made, a, b).ok_or_else(unknown)?
            }
            Expression::FusedMultiplyAdd(a, b, c) => {
                let (a, b, c) = (self.get(*a)?, self.get(*b)?, self.get(*c)?);
                self.builder.ins().fma(a, b, c)
            }
            Expression::Compare(direction, kind, a, b) => {
                let (element, a, b) = (self.program.element(*a), self.get(*a)?, self.get(*b)?);
                self.ops().compare(*direction, *kind, element, a, b)
            }
            Expression::Select(p, a, b) => {
                let (p, a, b) = (self.get(*p)?, self.get(*a)?, self.get(*b)?);
                let p = self.ops().is_true(p);
                self.builder.ins().select(p, a, b)
            }
            Expression::Convert(a) => {
                let (element, a) = (self.program.element(*a), self.get(*a)?);
                self.ops().convert(element, made, a)
            }
            Expression::Bits(a) => {
                let a = self.get(*a)?;
                self.ops().bits(a, type_of(made))
            }
            Expression::Load(from) => {
                let (address, offset) = self.address(from)?;
                self.builder.ins().load(type_of(made), memory(), address, offset)
            }
            Expression::Digit { of, step, extent } => {
                let of = self.get(*of)?;
                let (step, extent) = (constant(*step)?, constant(*extent)?);
                let quotient = if step == 1 { of } else { self.builder.ins().udiv_imm_u(of, step) };
                self.builder.ins().urem_imm_u(quotient, extent)
            }
            Expression::Clamped { of, most } => {
                let (element, of) = (self.program.element(*of), self.get(*of)?);
                let wide = self.ops().extended(element, of, types::I64);
                let most = constant(*most)?;
                let most = self.ops().int(types::I64, most);
                if element.is_signed() {
                    let zero = self.ops().int(types::I64, 0);
                    let low = self.builder.ins().smax(wide, zero);
                    self.builder.ins().smin(low, most)
                } else {
                    self.builder.ins().umin(wide, most)
                }
            }
            Expression::Inside { of, most } => {
                let (element, of) = (self.program.element(*of), self.get(*of)?);
                let wide = self.ops().extended(element, of, types::I64);
                // As unsigned integers, negative numbers are larger than any `most`.
                let most = constant(*most)?;
                self.builder.ins().icmp_imm_s(IntCC::UnsignedLessThanOrEqual, wide, most)
            }
            Expression::Call(function, operands) => self.call(*function, operands)?,
        })
    }

    fn call(&mut self, function: Function, operands: &[Value]) -> Result<ir::Value, Error> {
        let address = match function {
            Function::F32(f) => f as *const () as usize,
            Function::F64(f) => f as *const () as usize,
            Function::F32x2(f) => f as *const () as usize,
            Function::F64x2(f) => f as *const () as usize,
            Function::I32x2(f) => f as *const () as usize,
            Function::I64x2(f) => f as *const () as usize,
            Function::U32x2(f) => f as *const () as usize,
            Function::U64x2(f) => f as *const () as usize,
            Function::F32x3(f) => f as *const () as usize,
            Function::F64x3(f) => f as *const () as usize,
        };
        let (element, count) = function.signature();
        let ty: Type = type_of(element);
        let mut signature = Signature::new(self.convention);
        signature.params.extend(std::iter::repeat_n(AbiParam::new(ty), count));
        signature.returns.push(AbiParam::new(ty));
        let signature = self.builder.import_signature(signature);
        let address = i64::try_from(address).map_err(|_| Error::Platform("large addresses".into()))?;
        let callee = self.builder.ins().iconst(self.pointer, address);
        let operands = operands.iter().map(|&value| self.get(value)).collect::<Result<Vec<_>, _>>()?;
        let call = self.builder.ins().call_indirect(signature, callee, &operands);
        Ok(self.builder.inst_results(call)[0])
    }

    /// Returns the address of an element, and an offset to add to the address. The instructions wrap around. The sum of
    /// all terms is still exact, because the verifier has proved that it lies in the array.
    fn address(&mut self, access: &Access) -> Result<(ir::Value, i32), Error> {
        let mut address = self.arrays[access.array.0 as usize];
        for &(index, stride) in &access.terms {
            let index = self.get(index)?;
            let stride = i64::try_from(stride).map_err(|_| too_large_number())?;
            let by = if stride == 1 { index } else { self.builder.ins().imul_imm_s(index, stride) };
            address = self.builder.ins().iadd(address, by);
        }
        if let Ok(offset) = i32::try_from(access.offset) {
            return Ok((address, offset));
        }
        let offset = constant(access.offset)?;
        Ok((self.builder.ins().iadd_imm_s(address, offset), 0))
    }
}

/// Returns the flags for accesses to arrays. Such accesses neither trap nor require alignment.
fn memory() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Returns a number as an operand of an instruction.
fn constant(n: usize) -> Result<i64, Error> {
    i64::try_from(n).map_err(|_| too_large_number())
}

fn not_vectors() -> Error {
    Error::Invalid("a loop without vector instructions".into())
}

fn too_large_number() -> Error {
    Error::Invalid("a number does not fit in 64 bits".into())
}

/// Returns the size of a block. The size is the number of its statements and nested statements, plus one for each
/// block. Returns `None` if the block has loops or host steps, or more than [`UNROLLED`] statements. Such a block is
/// not unrolled.
fn size_of_block(block: &Block) -> Option<i64> {
    let mut size = 1i64;
    for statement in block.statements() {
        size = size.checked_add(match statement {
            Statement::Let { .. } | Statement::Store { .. } => 1,
            Statement::Choose { branches, .. } => {
                branches.iter().try_fold(1i64, |sum, branch| sum.checked_add(size_of_block(branch)?))?
            }
            Statement::For { .. } | Statement::While { .. } | Statement::Host { .. } => return None,
        })?;
        if size > UNROLLED {
            return None;
        }
    }
    Some(size)
}
