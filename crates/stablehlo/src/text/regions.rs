//! Parses ops whose pretty form contains regions: `while`, `reduce`, `composite`, CHLO's scan and Shardy's manual
//! computation.

use std::borrow::Cow;
use std::sync::Arc;

use super::ops::{GenericOp, Types, canonical_name, opcode_of};
use super::parser::Parser;
use super::scope::Scope;
use super::types::TypeList;
use crate::attributes::{Named, int};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::op_builder::{UntypedOp, kind};
use crate::ops::Opcode;

impl<'a> Parser<'a> {
    /// Parses `(%a = %0, %b = %1) : T, T attributes {...} cond {...} do {...}`.
    pub(super) fn while_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        let names = self.while_start(scope, op)?;
        for word in ["cond", "do"] {
            let mark = scope.mark();
            let args = self.while_region_start(scope, op, &names, word)?;
            op.regions.push(self.region_rest(scope, mark, args)?);
        }
        Ok(())
    }

    fn while_start(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<Vec<&'a str>> {
        let pairs = self.list("(", ")", |p| {
            let name = p.sigil(b'%', "an argument such as `%iterArg = %0`")?;
            p.expect("=")?;
            Ok((name, p.operand(scope)?))
        })?;
        let (names, operands): (Vec<&str>, Vec<ValueId>) = pairs.into_iter().unzip();
        let types: TypeList = operands.iter().filter_map(|v| scope.values.shared(v.0 as usize).cloned()).collect();
        op.operands = operands.into();
        self.types_tail(op)?;
        match &op.types {
            Types::List(written) if *written != types => {
                return Err(self.error("the written types differ from those of the operands"));
            }
            _ => op.types = Types::List(types),
        }
        if self.keyword("attributes") {
            op.rest = self.dictionary()?;
        }
        Ok(names)
    }

    fn while_region_start(
        &mut self,
        scope: &mut Scope<'a>,
        op: &GenericOp<'a>,
        names: &[&'a str],
        word: &str,
    ) -> Result<Vec<ValueId>> {
        if !self.keyword(word) {
            return Err(self.expected(&format!("`{word}`")));
        }
        let types: TypeList = op.operands.iter().filter_map(|v| scope.values.shared(v.0 as usize).cloned()).collect();
        let args = self.define_arguments(scope, names.iter().copied().zip(types).collect())?;
        self.expect("{")?;
        Ok(args)
    }

    /// Parses `"name" %0, %1 ({...}) {attributes} : (T) -> T`. The regions are optional.
    pub(super) fn composite_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        let name = self.string()?;
        op.list("name", Attribute::String(name));
        if self.peek() == b'%' {
            self.items(scope, op, Opcode::Composite)?;
        }
        if self.peek() == b'(' {
            self.generic_regions(scope, op)?;
        }
        op.rest = self.optional_dictionary()?;
        self.types_tail(op)
    }

    /// Parses `(%0) inits (%1) dimension = 0 attributes {...} {^bb0(%a: T, %b: T): ...} : (T, T) -> (T, T)`.
    pub(super) fn scan_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        let (inputs, said) = self.scan_start(scope, op)?;
        let region = self.region(scope)?;
        op.regions.push(region);
        self.generic_end(op)?;
        let carries = op.operands.len() - inputs;
        let results = if let Types::Function(_, outputs) = &op.types { outputs.len() } else { 0 };
        let Some(outputs) = results.checked_sub(carries) else {
            return Err(Error::at(
                ErrorKind::Structure,
                self.pos,
                format_args!("must have a result for each of the {carries} initial values, not {results}"),
            ));
        };
        op.list("operandSegmentSizes", segments([inputs, carries])?);
        op.list("resultSegmentSizes", segments([outputs, carries])?);
        op.listed.extend(said);
        Ok(())
    }

    /// Parses a scan up to its region. Returns the number of inputs, and the attributes of its dictionary.
    fn scan_start(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<(usize, Attributes)> {
        self.operands(scope, op)?;
        let inputs = op.operands.len();
        if !self.keyword("inits") {
            return Err(self.expected("`inits`"));
        }
        self.operands(scope, op)?;
        if !(self.keyword("dimension") && self.eat("=")) {
            return Err(self.expected("`dimension =`"));
        }
        let dimension = self.integer()?;
        op.list("dimension", int(dimension));
        let said = if self.keyword("attributes") { self.dictionary()? } else { Attributes::new() };
        Ok((inputs, said))
    }

    /// Parses `(%a init: %b), (%c init: %d) across dimensions = [0] : ... reducer(%x: T, %y: T) (...) {...}`, or the
    /// compact form with `applies stablehlo.add` before `across`.
    pub(super) fn reduce_op(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        let applied = self.reduce_start(scope, op)?;
        let region = match applied {
            Some(name) => self.applied_region(scope, op, &name)?,
            None => self.reducer(scope, op.operands.len() / 2)?,
        };
        op.regions.push(region);
        Ok(())
    }

    /// Parses a reduction up to its region. Returns the name of the applied op if the form is compact.
    fn reduce_start(&mut self, scope: &Scope<'a>, op: &mut GenericOp<'a>) -> Result<Option<Cow<'a, str>>> {
        let mut inits = Vec::new();
        loop {
            self.expect("(")?;
            op.operands.push(self.operand(scope)?);
            if !(self.keyword("init") && self.eat(":")) {
                return Err(self.expected("`init:`"));
            }
            inits.push(self.operand(scope)?);
            self.expect(")")?;
            if !self.eat(",") {
                break;
            }
        }
        op.operands.extend(inits);
        let applied = if self.keyword("applies") { Some(canonical_name(self.ident("an op name")?)) } else { None };
        if !(self.keyword("across") && self.keyword("dimensions")) {
            return Err(self.expected("`across dimensions`"));
        }
        self.expect("=")?;
        let dimensions = self.attribute()?;
        op.list("dimensions", dimensions);
        op.rest = self.optional_dictionary()?;
        self.types_tail(op)?;
        Ok(applied)
    }

    /// Builds the region that the keyword `applies` abbreviates. The region applies the op to its two arguments.
    fn applied_region(&mut self, scope: &mut Scope<'a>, op: &GenericOp<'a>, name: &str) -> Result<Region> {
        let &[_, init] = &op.operands[..] else {
            return Err(self.error("`applies` takes one input"));
        };
        use Binary::{Add, And, Maximum, Minimum, Multiply, Or, Xor};
        if !matches!(opcode_of(name), Opcode::Binary(Add | And | Maximum | Minimum | Multiply | Or | Xor)) {
            return Err(self.error(format_args!("`applies` takes a commutative op of two operands, not {name}")));
        }
        let ty = Arc::new(scope.ty(init).clone());
        let args = scope.add([ty.clone(), ty.clone()])?;
        let result = scope.add([ty])?;
        let raw =
            UntypedOp { code: opcode_of(name), name, attributes: Named(&[]), operands: &args, values: &scope.values };
        let (kind, attributes) = kind(&raw)?;
        let location = self.add_place(op.place)?;
        let body =
            Op { kind, operands: args.clone(), results: result.clone(), regions: Vec::new(), attributes, location };
        let ret = Op {
            kind: OpKind::Return,
            operands: result,
            results: ValueIds::new(),
            regions: Vec::new(),
            attributes: Attributes::new(),
            location,
        };
        Ok(Region { args: args.to_vec(), ops: vec![body, ret] })
    }

    /// Parses `reducer(%x: T, %y: T) (%z: T, %w: T) {...}`, with one pair of arguments for each input. The first
    /// arguments of all pairs become the first arguments of the region.
    fn reducer(&mut self, scope: &mut Scope<'a>, inputs: usize) -> Result<Region> {
        let mark = scope.mark();
        let args = self.reducer_start(scope, inputs)?;
        self.region_rest(scope, mark, args)
    }

    fn reducer_start(&mut self, scope: &mut Scope<'a>, inputs: usize) -> Result<Vec<ValueId>> {
        if !self.keyword("reducer") {
            return Err(self.expected("`reducer`"));
        }
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        for _ in 0..inputs {
            let pair = self.list("(", ")", |p| p.block_argument())?;
            let Ok([first, second]) = <[_; 2]>::try_from(pair) else {
                return Err(self.error("a reducer takes two arguments per input"));
            };
            firsts.push(first);
            seconds.push(second);
        }
        firsts.append(&mut seconds);
        let args = self.define_arguments(scope, firsts)?;
        self.expect("{")?;
        Ok(args)
    }

    /// Parses `(%0) in_shardings=[...] out_shardings=[...] manual_axes={...} (%a: T) {...} : (T) -> T`.
    pub(super) fn manual_computation(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        let mark = scope.mark();
        let args = self.manual_start(scope, op)?;
        op.regions.push(self.region_rest(scope, mark, args)?);
        self.generic_end(op)
    }

    fn manual_start(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<Vec<ValueId>> {
        self.operands(scope, op)?;
        let mut texts = [""; 3];
        for (word, text) in ["in_shardings", "out_shardings", "manual_axes"].iter().zip(&mut texts) {
            if !(self.keyword(word) && self.eat("=")) {
                return Err(self.expected(&format!("`{word}=`")));
            }
            *text = self.balanced()?;
        }
        let [inputs, outputs, axes] = texts;
        op.list("in_shardings", Attribute::Other(format!("#sdy.sharding_per_value<{inputs}>")));
        op.list("manual_axes", Attribute::Other(format!("#sdy<manual_axes{axes}>")));
        op.list("out_shardings", Attribute::Other(format!("#sdy.sharding_per_value<{outputs}>")));
        let named = self.list("(", ")", |p| p.block_argument())?;
        let args = self.define_arguments(scope, named)?;
        self.expect("{")?;
        Ok(args)
    }

    /// Consumes a text in `[...]` or `{...}`, and returns it with the brackets. Every bracket that is opened inside, of
    /// any kind, must be closed.
    fn balanced(&mut self) -> Result<&'a str> {
        if !matches!(self.peek(), b'[' | b'{') {
            return Err(self.expected("`[` or `{`"));
        }
        let start = self.pos;
        let mut depth = 0usize;
        loop {
            match self.here() {
                b'[' | b'{' | b'<' | b'(' => depth += 1,
                b']' | b'}' | b'>' | b')' => depth = depth.saturating_sub(1),
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                0 if self.pos >= self.text.len() => {
                    return Err(Error::at(ErrorKind::Syntax, start, "a bracket is never closed"));
                }
                _ => {}
            }
            self.pos += 1;
            if depth == 0 {
                return Ok(&self.text[start..self.pos]);
            }
        }
    }
}

/// Creates the attribute with the sizes of the two segments of an operand or result list. An example is
/// `array<i32: 1, 2>`.
fn segments(counts: [usize; 2]) -> Result<Attribute> {
    let mut bytes = Vec::with_capacity(8);
    for count in counts {
        let count =
            i32::try_from(count).map_err(|_| Error::new(ErrorKind::Limit, "an op has more than 2^31 operands"))?;
        bytes.extend(count.to_le_bytes());
    }
    Ok(Attribute::DenseArray(Literal::new(TensorType::new([2], ElementType::I32), bytes)?))
}
