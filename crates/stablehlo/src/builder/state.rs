//! The state of a function under construction: its values, its open regions and its source locations.

use std::collections::HashMap;
use std::panic;
use std::sync::Arc;

use smallvec::SmallVec;

use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::verify::{check_op, check_type, infer_in};

/// Position in the caller's source.
pub(super) type At = &'static panic::Location<'static>;

/// The results of an op.
pub(super) type Results = SmallVec<[Value; 2]>;

/// Source of the types of an op's results.
#[derive(Debug)]
pub(super) enum Types {
    /// The types are inferred from the operands, attributes and regions.
    Inferred,
    /// The shapes are inferred, and the elements have this type.
    Elements(ElementType),
    /// The caller passes the types.
    Stated(SmallVec<[Type; 1]>),
}

impl Types {
    /// Returns [`Types::Stated`] for an op whose only result has this type.
    pub(super) fn one(ty: impl Into<Type>) -> Self {
        Self::Stated(SmallVec::from_iter([ty.into()]))
    }
}

/// An op that is about to be added.
pub(super) struct NewOp {
    pub(super) kind: OpKind,
    pub(super) regions: Vec<Region>,
    pub(super) attributes: Attributes,
    pub(super) types: Types,
}

/// A region that is under construction.
#[derive(Debug)]
struct Frame {
    /// Index of the region in its function. The body of the function has the index 0.
    region: u32,
    args: Vec<ValueId>,
    ops: Vec<Op>,
}

#[derive(Debug)]
pub(super) struct State {
    /// Id of the function, unique in the process.
    function: u64,
    /// The function, with the types of all values. Its body stays empty until the function is finished.
    pub(super) func: Func,
    /// The open regions, from the outermost to the innermost.
    frames: Vec<Frame>,
    /// Index of the region that defines each value.
    regions: Vec<u32>,
    /// Whether each region is open.
    open: Vec<bool>,
    /// Index of each type in the interned types of `func.values`.
    types: HashMap<Arc<Type>, u32>,
    /// Bit set for each interned type, with one bit for each elementwise op. A set bit means that the op is valid if
    /// its operands and its result have the type.
    sound: Vec<u64>,
    places: Places,
}

/// The source locations of the ops.
#[derive(Debug)]
struct Places {
    /// All locations. The first location is `Unknown`.
    listed: Vec<Location>,
    /// Ids of the known locations, by the address of the caller's location and the id of the innermost name scope.
    known: HashMap<(usize, u32), LocationId>,
    last: Option<(usize, LocationId)>,
    /// For each enclosing name scope, its name joined to the names of the outer scopes, and its id.
    names: Vec<(String, u32)>,
    named: u32,
    /// Whether places in Rust code are not locations.
    ignores_rust: bool,
}

impl Places {
    fn find(&mut self, at: At) -> LocationId {
        if self.ignores_rust {
            return LocationId::default();
        }
        let address = std::ptr::from_ref(at).addr();
        if let Some((last, id)) = self.last
            && last == address
        {
            return id;
        }
        let scope = self.names.last().map_or(0, |&(_, number)| number);
        let id = match self.known.get(&(address, scope)) {
            Some(&id) => id,
            None => {
                let mut id = self.add(Location::File {
                    file: at.file().to_owned(),
                    line: at.line().into(),
                    column: at.column().into(),
                });
                if let Some((name, _)) = self.names.last() {
                    let name = name.clone();
                    id = self.add(Location::Name(name, id));
                }
                self.known.insert((address, scope), id);
                id
            }
        };
        self.last = Some((address, id));
        id
    }

    fn add(&mut self, location: Location) -> LocationId {
        let id = LocationId(u32::try_from(self.listed.len()).unwrap_or(0));
        self.listed.push(location);
        id
    }
}

impl State {
    pub(super) fn new(function: u64, name: String, at: At) -> Self {
        let places = Places {
            listed: vec![Location::Unknown],
            known: HashMap::new(),
            last: None,
            names: Vec::new(),
            named: 0,
            ignores_rust: false,
        };
        let mut state = Self {
            function,
            func: Func::new(name, Region::default(), ValueTypes::new(), Vec::new()),
            frames: vec![Frame { region: 0, args: Vec::new(), ops: Vec::new() }],
            regions: Vec::new(),
            open: vec![true],
            types: HashMap::new(),
            sound: Vec::new(),
            places,
        };
        state.func.location = state.places.find(at);
        state
    }

    /// Returns the ids of values, or an error if a value belongs to another function or is not in scope.
    pub(super) fn resolve(&self, values: &[Value]) -> Result<ValueIds> {
        let mut ids = ValueIds::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            if value.function == 0 {
                return Err(Error::new(
                    ErrorKind::Reference,
                    format_args!("operand {i} is no value; the op that should make it failed"),
                ));
            }
            if value.function != self.function {
                return Err(Error::new(
                    ErrorKind::Reference,
                    format_args!("operand {i} is a value of another function; pass it to this function as an argument"),
                ));
            }
            let region = self.regions.get(value.id.0 as usize);
            if !region.is_some_and(|&region| self.open[region as usize]) {
                return Err(Error::new(
                    ErrorKind::Reference,
                    format_args!(
                        "operand {i} was defined in a region that has ended; return it from that region, and use the result \
                     of the op"
                    ),
                ));
            }
            ids.push(value.id);
        }
        Ok(ids)
    }

    /// Returns the type of a value of this function.
    pub(super) fn ty(&self, value: Value) -> Result<&Arc<Type>> {
        let ids = self.resolve(&[value])?;
        self.func
            .values
            .shared(ids[0].0 as usize)
            .ok_or_else(|| Error::new(ErrorKind::Reference, "the value has no type"))
    }

    fn value(&self, id: ValueId) -> Value {
        Value { function: self.function, id }
    }

    /// Returns the index of a type in the interned types of `func.values`. Adds the type if it is new.
    fn intern(&mut self, ty: Type) -> u32 {
        match self.types.get(&ty) {
            Some(&position) => position,
            None => {
                let ty = Arc::new(ty);
                let position = self.func.values.intern(ty.clone(), false);
                self.types.insert(ty, position);
                position
            }
        }
    }

    /// Adds a value to the innermost region. `position` is the index of the value's type in the interned types.
    fn define(&mut self, position: u32) -> Result<ValueId> {
        let Ok(id) = u32::try_from(self.func.values.len()) else {
            return Err(Error::new(ErrorKind::Limit, "a function has more than 2^32 values"));
        };
        self.func.values.push_interned(position);
        self.regions.push(self.frames.last().map_or(0, |frame| frame.region));
        Ok(ValueId(id))
    }

    /// Adds an argument to the function, and returns its value.
    pub(super) fn argument(&mut self, ty: Type, attributes: Attributes) -> Result<Value> {
        check_type(&ty)?;
        let position = self.intern(ty);
        let id = self.define(position)?;
        // The value belongs to the function's body, even if it is added while a nested region is open.
        if let Some(region) = self.regions.last_mut() {
            *region = 0;
        }
        self.frames[0].args.push(id);
        self.func.arg_attributes.push(attributes);
        Ok(self.value(id))
    }

    /// Adds an op to the innermost region, and returns its results. If the op is not valid, removes its results again.
    pub(super) fn add(&mut self, at: At, operands: &[Value], new: NewOp) -> Result<Results> {
        let location = self.places.find(at);
        self.add_at(location, operands, new)
    }

    /// Adds an op like [`Self::add`], with a location that [`Self::place`] returned.
    pub(super) fn add_at(&mut self, location: LocationId, operands: &[Value], new: NewOp) -> Result<Results> {
        let NewOp { kind, regions, attributes, types } = new;
        let mut op = Op {
            kind,
            operands: ValueIds::new(),
            results: ValueIds::new(),
            regions,
            attributes,
            location: LocationId::default(),
        };
        let first = self.func.values.len();
        if let Err(error) = self.complete(&mut op, operands, types) {
            self.func.values.truncate(first);
            self.regions.truncate(first);
            return Err(error.with_op(&op.kind.name()));
        }
        op.location = location;
        let results = op.results.iter().map(|&id| self.value(id)).collect();
        self.push(op);
        Ok(results)
    }

    fn push(&mut self, op: Op) {
        if let Some(frame) = self.frames.last_mut() {
            frame.ops.push(op);
        }
    }

    /// Sets the operands of an op, adds its results with the types that `types` specifies, and checks the op.
    fn complete(&mut self, op: &mut Op, operands: &[Value], types: Types) -> Result<()> {
        op.operands = self.resolve(operands)?;
        let types = match types {
            Types::Stated(types) => {
                types.iter().try_for_each(check_type)?;
                types
            }
            Types::Inferred => infer_in(&self.func, op)?.into(),
            Types::Elements(element) => {
                let mut types = infer_in(&self.func, op)?;
                for ty in &mut types {
                    if let Type::Tensor(tensor) = ty {
                        tensor.element = element;
                    }
                }
                types.into()
            }
        };
        for ty in types {
            let position = self.intern(ty);
            op.results.push(self.define(position)?);
        }
        check_op(&self.func, op)
    }

    /// Adds an elementwise op. `bit` is the bit of the op in the bit sets in `sound`. If the operands and the result
    /// have the same type, each combination of op and type is checked only once.
    pub(super) fn elementwise(&mut self, at: At, operands: &[Value], kind: OpKind, bit: usize) -> Result<Results> {
        let ids = self.resolve(operands).map_err(|e| e.with_op(&kind.name()))?;
        let position = self.func.values.position(ids[0]);
        let same = ids.iter().all(|&id| self.func.values.position(id) == position);
        let known = same && self.sound.get(position as usize).is_some_and(|sound| sound >> bit & 1 == 1);
        if !known {
            let new = NewOp { kind, regions: Vec::new(), attributes: Attributes::new(), types: Types::Inferred };
            let results = self.add(at, operands, new)?;
            if same && self.func.values.position(results[0].id) == position {
                let position = position as usize;
                if self.sound.len() <= position {
                    self.sound.resize(position + 1, 0);
                }
                self.sound[position] |= 1 << bit;
            }
            return Ok(results);
        }
        let result = self.define(position).map_err(|e| e.with_op(&kind.name()))?;
        let mut op = Op::new(kind, ids, ValueIds::from_iter([result]));
        op.location = self.places.find(at);
        self.push(op);
        Ok(Results::from_iter([self.value(result)]))
    }

    /// Opens a region with arguments of the types `args`. Returns the number of regions that were open before, for
    /// [`Self::close`], and the region's arguments.
    pub(super) fn open(&mut self, args: Vec<Type>) -> Result<(usize, Vec<Value>)> {
        args.iter().try_for_each(check_type)?;
        let depth = self.frames.len();
        let region = u32::try_from(self.open.len())
            .map_err(|_| Error::new(ErrorKind::Limit, "a function has more than 2^32 regions"))?;
        self.open.push(true);
        self.frames.push(Frame { region, args: Vec::new(), ops: Vec::new() });
        let mut values = Vec::with_capacity(args.len());
        for ty in args {
            let position = self.intern(ty);
            let id = self.define(position)?;
            values.push(self.value(id));
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.args = values.iter().map(|value| value.id).collect();
        }
        Ok((depth, values))
    }

    /// Appends a return op with the operands `returned` to the innermost region, and returns the region. The region's
    /// values stay in scope until [`Self::close`] is called.
    pub(super) fn end(&mut self, at: impl Into<Option<At>>, returned: &[Value]) -> Result<Region> {
        let ids = self.resolve(returned).map_err(|e| e.with_op("stablehlo.return"))?;
        let mut op = Op::new(OpKind::Return, ids, ValueIds::new());
        op.location = at.into().map_or(LocationId::default(), |at| self.places.find(at));
        self.push(op);
        let region = match self.frames.last_mut() {
            Some(frame) => Region::new(std::mem::take(&mut frame.args), std::mem::take(&mut frame.ops)),
            None => Region::default(),
        };
        Ok(region)
    }

    /// Returns the number of open regions in the function's body.
    #[cfg(feature = "text")]
    pub(super) fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    /// Leaves out the places of the Rust code that adds the ops.
    #[cfg(feature = "text")]
    pub(super) fn ignore_rust(&mut self) {
        self.places.ignores_rust = true;
        self.func.location = LocationId::default();
    }

    /// Returns the location that a program in another language names, or the unknown location for empty text.
    #[cfg(feature = "text")]
    pub(super) fn place(&mut self, name: &str) -> LocationId {
        if name.is_empty() {
            return LocationId::default();
        }
        // Most ops are at the place of the one before.
        match self.places.listed.last() {
            Some(Location::Name(last, _)) if last == name => {
                LocationId(u32::try_from(self.places.listed.len() - 1).unwrap_or(0))
            }
            _ => self.places.add(Location::Name(name.to_owned(), LocationId::default())),
        }
    }

    /// Closes all regions except for the outermost `depth` regions.
    pub(super) fn close(&mut self, depth: usize) {
        for frame in self.frames.drain(depth.min(self.frames.len())..) {
            self.open[frame.region as usize] = false;
        }
    }

    /// Finishes the function. Returns the function and the locations of its ops.
    pub(super) fn finish(
        mut self,
        at: At,
        results: &[Value],
        outputs: Vec<Attributes>,
    ) -> Result<(Func, Vec<Location>)> {
        if self.frames.len() > 1 {
            return Err(Error::new(ErrorKind::Structure, "a region was begun, but not ended"));
        }
        let ids = self.resolve(results).map_err(|e| e.with_op("func.return"))?;
        self.func.results = ids.iter().map(|&id| self.func.ty(id).clone()).collect();
        self.func.result_attributes = outputs;
        self.func.result_attributes.resize(ids.len(), Attributes::new());
        self.func.body = self.end(at, results)?;
        Ok((self.func, self.places.listed))
    }

    /// Sets an attribute of the op that has this result.
    pub(super) fn set_attribute(&mut self, value: Value, name: &str, attribute: Attribute) -> Result<()> {
        let id = self.resolve(&[value])?[0];
        let ops = self.frames.iter_mut().rev().flat_map(|frame| frame.ops.iter_mut().rev());
        let Some(op) = ops.into_iter().find(|op| op.results.contains(&id)) else {
            return Err(Error::new(
                ErrorKind::Structure,
                "the value is an argument; set attributes of arguments with `Argument`",
            ));
        };
        op.attributes.retain(|(known, _)| known != name);
        op.attributes.push((name.to_owned(), attribute));
        check_op(&self.func, op).map_err(|e| e.with_op(&op.kind.name()))
    }

    /// Enters a name scope. Its name becomes part of the locations of the ops that are added in the scope.
    pub(super) fn enter(&mut self, name: &str) {
        let places = &mut self.places;
        places.named += 1;
        places.last = None;
        let name = match places.names.last() {
            Some((outer, _)) => format!("{outer}/{name}"),
            None => name.to_owned(),
        };
        places.names.push((name, places.named));
    }

    /// Leaves the innermost name scope.
    pub(super) fn leave(&mut self) {
        self.places.names.pop();
        self.places.last = None;
    }
}
