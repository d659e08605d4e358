//! Reads the IR section: module, functions, regions and ops.

use std::borrow::Cow;

use bytes::Bytes;
use smallvec::SmallVec;

use super::container::IR_SECTION;
use super::cursor::Cursor;
use super::entries::Tables;
use super::locations::{self, ArtifactLocations};
use super::names::{Name, Role, resolve};
use super::op_cache::{CachedOp, OpCache};
use crate::attributes::Named;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::limits::MAX_NESTING;
use crate::op_builder::{UntypedOp, kind};
use crate::ops::{Names, Opcode, is_attribute, names};

/// Marks a value index whose value is not defined yet.
const UNDEFINED: ValueId = ValueId(u32::MAX);

/// The values of one function, and the indices by which the file refers to them.
#[derive(Default)]
pub(super) struct Scope {
    /// Value of each value index that the open regions have reserved.
    slots: Vec<ValueId>,
    /// Number of value indices that the open regions have reserved.
    extent: usize,
    /// Types of all values of the function.
    pub(super) values: ValueTypes,
    /// Ordinal of the function in the program, starting at 1.
    func: u32,
}

impl Scope {
    pub(super) fn new(func: usize) -> Self {
        // Type tables use 0 for a type that no function has interned yet, so the ordinals of functions start at 1.
        Self { func: u32::try_from(func).unwrap_or(0).saturating_add(1), ..Self::default() }
    }

    /// Adds a value whose type has this index in the file.
    #[inline]
    fn add(&mut self, tables: &mut Tables<'_>, offset: usize, ty: usize) -> Result<ValueId> {
        let position = tables.interned_type(offset, ty, self.func, &mut self.values)?;
        let Ok(id) = u32::try_from(self.values.len()) else {
            return Err(Error::new(ErrorKind::Limit, "a function has more than 2^32 values"));
        };
        self.values.push_interned(position);
        Ok(ValueId(id))
    }

    #[inline]
    fn resolve(&self, slot: u32) -> Result<ValueId> {
        match self.slots.get(slot as usize) {
            Some(&value) if value != UNDEFINED => Ok(value),
            _ => Err(undefined(slot)),
        }
    }
}

#[cold]
fn undefined(slot: u32) -> Error {
    Error::new(ErrorKind::Reference, format_args!("operand number {slot} is used before it is defined"))
}

/// The value indices that a region has reserved for its values. Values get indices in the order of their definition.
struct Numbers {
    next: usize,
    end: usize,
}

impl Numbers {
    /// Assigns the next value index to a value.
    #[inline]
    fn define(&mut self, scope: &mut Scope, cursor: &Cursor<'_>, value: ValueId) -> Result<()> {
        match scope.slots.get_mut(self.next) {
            // The indices from `end` on belong to other regions.
            Some(slot) if self.next < self.end => *slot = value,
            _ => return Err(cursor.error("a region defines more values than announced")),
        }
        self.next += 1;
        Ok(())
    }
}

/// The fields of an op that precede its regions in the file.
pub(super) struct Head {
    pub(super) offset: usize,
    name: usize,
    pub(super) location: LocationId,
    /// Attribute index of the op's dictionary.
    dictionary: Option<usize>,
    /// Index of the op's properties.
    properties: Option<usize>,
    /// Type indices of the results. They are later replaced with the ids of the results.
    results: ValueIds,
    /// Value indices of the operands. They are later replaced with the ids of the operands.
    operands: ValueIds,
    pub(super) regions: usize,
    isolated: bool,
}

/// Name and attribute index of each attribute in an op's properties.
pub(super) type Own = SmallVec<[(&'static str, usize); 12]>;

/// The attributes of one op that are not in its properties.
#[derive(Default)]
pub(super) struct Gathered {
    /// Inherent attributes that the file stores by name. A file does so if it has no properties.
    pub(super) named: Attributes,
    pub(super) discardable: Attributes,
}

/// Reads a portable artifact.
pub(crate) fn parse(program: &Bytes) -> Result<Module> {
    Walk::new(Tables::new(program)?)?.run()
}

pub(super) struct Walk<'a> {
    pub(super) tables: Tables<'a>,
    names: Vec<Name<'a>>,
    cache: OpCache,
    pub(super) module: Module,
    /// Location of the op that could not be read.
    failed: LocationId,
}

impl<'a> Walk<'a> {
    pub(super) fn new(tables: Tables<'a>) -> Result<Self> {
        let names = resolve(&tables.container)?;
        let module = Module { version: tables.container.stablehlo_version, ..Module::default() };
        let cache = OpCache::new(names.len(), tables.container.properties.len());
        Ok(Self { tables, names, cache, module, failed: LocationId::default() })
    }

    /// Reads the module and its locations.
    pub(super) fn run(mut self) -> Result<Module> {
        let read = self.section_body();
        self.module.locations = Locations::encoded(ArtifactLocations::new(self.tables.program, self.tables.container));
        match read {
            Ok(()) => Ok(self.module),
            Err(e) => Err(e.with_location(self.module.location(self.failed))),
        }
    }

    /// Reads the section, which is an implicit block that contains one module.
    fn section_body(&mut self) -> Result<()> {
        let mut cursor = self.tables.container.ir.clone();
        let (ops, has_args) = cursor.flagged()?;
        if ops != 1 || has_args {
            return Err(cursor.error(format_args!("expected one module, found {ops} top-level ops")));
        }
        let head = self.outer_head(&mut cursor)?;
        if self.names[head.name].role != Role::Module {
            return Err(Error::at(
                ErrorKind::Structure,
                head.offset,
                format_args!("expected a module, found {}", self.names[head.name].full()),
            ));
        }
        self.module_attributes(&head)?;
        if head.regions != 1 {
            return Err(cursor.error(format_args!("a module must have one region, not {}", head.regions)));
        }
        if self.has_section(&head) {
            let mut inner = self.section(&mut cursor)?;
            self.module_body(&mut inner)?;
            finished(&inner)?;
        } else {
            self.module_body(&mut cursor)?;
        }
        finished(&cursor)
    }

    fn module_attributes(&mut self, head: &Head) -> Result<()> {
        self.module.attributes = self.dictionary(head)?;
        // In newer files, the module's name and visibility are two optional properties.
        if let Some(mut cursor) = self.properties(head) {
            let (index, present) = cursor.flagged()?;
            if present {
                let index = usize::try_from(index).map_err(|_| cursor.error("attribute index out of range"))?;
                self.tables.load(&cursor, index)?;
                self.module.name = symbol(self.tables.loaded(index)).map(Cow::into_owned);
            }
        }
        self.module.name_from_attributes();
        Ok(())
    }

    fn module_body(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        let blocks = cursor.varint()?;
        if blocks != 1 {
            return Err(cursor.error(format_args!("a module must have one block, not {blocks}")));
        }
        cursor.varint()?;
        let (ops, has_args) = cursor.flagged()?;
        if has_args {
            return Err(cursor.error("a module takes no arguments"));
        }
        for _ in 0..cursor.check_count(ops)? {
            let head = self.outer_head(cursor)?;
            let role = self.names[head.name].role;
            if role == Role::Func {
                self.func(cursor, &head)?;
                continue;
            }
            let name = self.names[head.name].full();
            if role == Role::Module || head.regions > 0 || !head.operands.is_empty() || !head.results.is_empty() {
                return Err(Error::at(
                    ErrorKind::Structure,
                    head.offset,
                    "only functions and symbols may be at the top level of a module",
                )
                .with_op(&name));
            }
            let mut own = Own::new();
            let gathered = self.gather(&head, &mut own)?;
            let own = own.iter().map(|&(name, index)| (name.to_owned(), self.tables.loaded(index).clone()));
            let attributes = own.chain(gathered.discardable).collect();
            self.module.symbols.push((name, attributes));
        }
        Ok(())
    }

    /// Calls [`Self::head`] for ops outside of functions. These ops are few, so the code is not inlined.
    #[inline(never)]
    fn outer_head(&mut self, cursor: &mut Cursor<'a>) -> Result<Head> {
        self.head(cursor)
    }

    #[inline(always)]
    fn head(&mut self, cursor: &mut Cursor<'a>) -> Result<Head> {
        let offset = cursor.pos();
        let name = cursor.index()?;
        if name >= self.names.len() {
            return Err(
                cursor.error(format_args!("op name {name} does not exist; the program has {}", self.names.len()))
            );
        }
        let mask = cursor.byte()?;
        if mask & 0x80 != 0 {
            return Err(cursor.error(format_args!("unknown op field in mask {mask:#04x}")));
        }
        let location = locations::read(cursor, self.tables.container.attributes.len())?;
        if matches!(self.names[name].role, Role::Unknown | Role::Newer) {
            let error = self.names[name].unknown(&self.tables.container);
            return Err(self.place(error, offset, name, location));
        }
        let has = |bit: u8| mask & bit != 0;
        let dictionary = if has(0x01) { Some(cursor.index()?) } else { None };
        let properties = if has(0x40) {
            let index = cursor.index()?;
            let count = self.tables.container.properties.len();
            if index >= count {
                return Err(cursor.error(format_args!("properties {index} do not exist; the program has {count}")));
            }
            Some(index)
        } else {
            None
        };
        let results = if has(0x02) { numbers(cursor)? } else { ValueIds::new() };
        let operands = if has(0x04) { numbers(cursor)? } else { ValueIds::new() };
        if has(0x08) && !cursor.list(Cursor::index)?.is_empty() {
            return Err(cursor
                .error("StableHLO does not support branches between blocks")
                .with_op(&self.names[name].full()));
        }
        if has(0x20) {
            use_lists(cursor, results.len())?;
        }
        let (regions, isolated) = if has(0x10) { cursor.flagged()? } else { (0, false) };
        let regions = cursor.check_count(regions)?;
        Ok(Head { offset, name, location, dictionary, properties, results, operands, regions, isolated })
    }

    /// Returns a cursor over the properties of an op, if the op has any.
    fn properties(&self, head: &Head) -> Option<Cursor<'a>> {
        let range = self.tables.container.properties.get(head.properties?)?;
        Some(Cursor::new(self.tables.container.file, range.clone()))
    }

    /// Returns whether an op's regions are in a separate section.
    pub(super) fn has_section(&self, head: &Head) -> bool {
        head.isolated && self.tables.container.bytecode_version >= 2
    }

    pub(super) fn section(&self, cursor: &mut Cursor<'a>) -> Result<Cursor<'a>> {
        match cursor.section()? {
            (IR_SECTION, content) => Ok(content),
            (id, _) => Err(cursor.error(format_args!("section {id} in the place of regions"))),
        }
    }

    /// Returns a copy of the attributes in the op's dictionary.
    fn dictionary(&mut self, head: &Head) -> Result<Attributes> {
        head.dictionary.map_or(Ok(Attributes::new()), |index| self.dictionary_at(head.offset, index))
    }

    fn dictionary_at(&mut self, offset: usize, index: usize) -> Result<Attributes> {
        self.tables.load(&Cursor::new(self.tables.container.file, offset..offset), index)?;
        match self.tables.loaded(index) {
            Attribute::Dictionary(entries) => Ok(entries.clone()),
            _ => Err(Error::at(ErrorKind::Encoding, offset, "an op's attributes must be a dictionary")),
        }
    }

    /// Separates the op's inherent attributes from its discardable attributes. Decodes all attributes except for the
    /// type of a function. Appends the attributes in the op's properties to `own`. The caller provides `own`,
    /// because returning the list would copy it.
    pub(super) fn gather(&mut self, head: &Head, own: &mut Own) -> Result<Gathered> {
        const POSITIONAL: Names = names!(
            " attr0 attr1 attr2 attr3 attr4 attr5 attr6 attr7 attr8 attr9 attr10 attr11 attr12 attr13 attr14 attr15 \
             attr16 attr17 attr18 attr19 attr20 attr21 attr22 attr23"
        );
        if let Some(mut cursor) = self.properties(head) {
            let name = &self.names[head.name];
            let mut names = name.attributes.unwrap_or(POSITIONAL).iter();
            while !cursor.is_empty()
                && let Some(attribute) = names.next()
            {
                // The properties of VHLO ops are attribute indices. Ops of other dialects may encode their properties
                // differently.
                let index = cursor.index()?;
                if !name.vhlo && name.attributes.is_none() && index >= self.tables.container.attributes.len() {
                    own.clear();
                    return Ok(Gathered { named: Attributes::new(), discardable: self.dictionary(head)? });
                }
                // The text of a function type may be long and is not needed, so do not decode it.
                let bare = attribute == "function_type" && self.tables.type_of_attribute(index).is_some();
                if !bare {
                    self.tables.load(&cursor, index)?;
                }
                own.push((attribute, index));
            }
            let name = &self.names[head.name];
            if name.vhlo && (!cursor.is_empty() || name.attributes.is_some() && names.next().is_some()) {
                let expected = name.attributes.map_or(own.len(), |names| names.iter().count());
                return Err(Error::at(
                    ErrorKind::Encoding,
                    head.offset,
                    format_args!("the op's properties do not hold the {expected} attributes expected"),
                ));
            }
            return Ok(Gathered { named: Attributes::new(), discardable: self.dictionary(head)? });
        }
        let all = self.dictionary(head)?;
        let name = &self.names[head.name];
        if !name.vhlo || self.all_in_properties(head) {
            return Ok(Gathered { named: Attributes::new(), discardable: all });
        }
        // Artifacts without properties keep all attributes of an op in the dictionary, so separate the inherent
        // attributes by name.
        let base = name.base();
        let (named, discardable) = all.into_iter().partition(|(attribute, _)| is_attribute(base, attribute));
        Ok(Gathered { named, discardable })
    }

    pub(super) fn region(&mut self, cursor: &mut Cursor<'a>, scope: &mut Scope, depth: usize) -> Result<Region> {
        let blocks = cursor.varint()?;
        if blocks == 0 {
            return Ok(Region::default());
        }
        if blocks != 1 {
            return Err(cursor.error(format_args!("a region must have one block, not {blocks}")));
        }
        if depth > MAX_NESTING {
            return Err(Error::at(
                ErrorKind::Limit,
                cursor.pos(),
                format_args!("regions nest deeper than {MAX_NESTING}"),
            ));
        }
        let count = cursor.count()?;
        let base = scope.extent;
        let end = base + count;
        // The file stores each value in at least one byte, so it cannot define more values than it has bytes.
        if end > self.tables.container.file.len() {
            return Err(cursor.error(format_args!("a region announces {count} values, more than the program can hold")));
        }
        scope.extent = end;
        if depth == 1 {
            scope.values.reserve(count);
        }
        scope.slots.resize(end, UNDEFINED);
        let mut numbers = Numbers { next: base, end };
        let mut region = Region::default();
        let (ops, has_args) = cursor.flagged()?;
        if has_args {
            region.args = self.block_arguments(cursor, scope, &mut numbers)?;
        }
        let count = cursor.check_count(ops)?;
        // Reserve memory for all ops of a function at once. The lists of nested regions grow on demand, because they
        // are short and many of them can be open at the same time.
        region.ops.reserve_exact(if depth == 1 { count.min(cursor.remaining() / 4) } else { count.min(4) });
        for _ in 0..count {
            let inner = self.op(cursor, scope, &mut numbers, &mut region.ops)?;
            if inner.count > 0
                && let Some(op) = region.ops.last_mut()
            {
                self.regions(cursor, scope, depth, inner, &mut op.regions)?;
            }
        }
        if numbers.next != end {
            let announced = end - base;
            return Err(
                cursor.error(format_args!("a region announces {announced} values but defines {}", numbers.next - base))
            );
        }
        scope.extent = base;
        scope.slots.truncate(base);
        Ok(region)
    }

    fn block_arguments(
        &mut self,
        cursor: &mut Cursor<'a>,
        scope: &mut Scope,
        numbers: &mut Numbers,
    ) -> Result<Vec<ValueId>> {
        let version = self.tables.container.bytecode_version;
        let count = cursor.count()?;
        let mut args = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            let (ty, located) = if version >= 4 {
                let (index, located) = cursor.flagged()?;
                let index = usize::try_from(index).map_err(|_| cursor.error("type number out of range"))?;
                (index, located)
            } else {
                (cursor.index()?, true)
            };
            let value = scope.add(&mut self.tables, cursor.pos(), ty)?;
            if located {
                // The IR does not store the locations of block arguments, so skip the index.
                cursor.index()?;
            }
            numbers.define(scope, cursor, value)?;
            args.push(value);
        }
        if version >= 3 && cursor.byte()? != 0 {
            use_lists(cursor, count)?;
        }
        Ok(args)
    }

    /// Reads an op without its regions. The caller reads the regions afterwards, so that nested ops need less stack.
    fn op(
        &mut self,
        cursor: &mut Cursor<'a>,
        scope: &mut Scope,
        numbers: &mut Numbers,
        ops: &mut Vec<Op>,
    ) -> Result<Inner> {
        let head = self.head(cursor)?;
        let (offset, name, location) = (head.offset, head.name, head.location);
        let inner = Inner { count: head.regions, isolated: head.isolated };
        let read = match self.names[name].role {
            Role::Cast => self.cast(cursor, scope, numbers, &head),
            Role::Op => self.shallow(cursor, scope, numbers, head, ops),
            _ => Err(Error::new(ErrorKind::Structure, "may only be at the top level of a module")),
        };
        match read {
            Ok(()) => Ok(inner),
            Err(e) => Err(self.place(e, offset, name, location)),
        }
    }

    /// Adds the offset and the name of an op to an error, and records the op's location for [`Self::run`].
    #[cold]
    fn place(&mut self, error: Error, offset: usize, name: usize, location: LocationId) -> Error {
        self.failed = location;
        error.with_offset(offset).with_op(&self.names[name].full())
    }

    /// Removes a cast. Its results become aliases of its operands.
    fn cast(&mut self, cursor: &Cursor<'_>, scope: &mut Scope, numbers: &mut Numbers, head: &Head) -> Result<()> {
        if head.operands.len() != head.results.len() || head.regions > 0 {
            return Err(Error::new(ErrorKind::Structure, "must have as many results as operands"));
        }
        for (slot, ty) in head.operands.iter().zip(&head.results) {
            let value = scope.resolve(slot.0)?;
            let (actual, ty) = (&scope.values[value], self.tables.value_type(head.offset, ty.0 as usize)?);
            if *actual != **ty {
                return Err(Error::new(
                    ErrorKind::Type,
                    format_args!("casts {actual} to {ty}, which are different types"),
                ));
            }
            numbers.define(scope, cursor, value)?;
        }
        Ok(())
    }

    /// Adds the results of an op to `scope`, and appends the op to `ops`, without its regions. `head` contains the op's
    /// other fields.
    #[inline]
    fn shallow(
        &mut self,
        cursor: &Cursor<'_>,
        scope: &mut Scope,
        numbers: &mut Numbers,
        mut head: Head,
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        for operand in &mut head.operands {
            *operand = scope.resolve(operand.0)?;
        }
        for result in &mut head.results {
            *result = scope.add(&mut self.tables, head.offset, result.0 as usize)?;
            numbers.define(scope, cursor, *result)?;
        }
        // Ops with the same name and the same properties have the same kind, so reuse the cached kind.
        let known = if self.all_in_properties(&head) { self.cache.find(head.name, head.properties) } else { None };
        let Some(known) = known else {
            let (kind, attributes) = self.kind(scope, &head)?;
            let Head { operands, results, location, .. } = head;
            ops.push(Op { kind, operands, results, regions: Vec::new(), attributes, location });
            return Ok(());
        };
        self.tables.charge(head.offset, known.weight)?;
        let Head { dictionary, operands, results, location, .. } = head;
        ops.push(Op {
            kind: known.kind.clone(),
            operands,
            results,
            regions: Vec::new(),
            attributes: known.extra.clone(),
            location,
        });
        if let (Some(index), Some(op)) = (dictionary, ops.last_mut()) {
            op.attributes.append(&mut self.dictionary_at(head.offset, index)?);
        }
        Ok(())
    }

    /// Returns whether the name and the properties determine the op's kind. In that case, the dictionary contains only
    /// discardable attributes.
    #[inline]
    fn all_in_properties(&self, head: &Head) -> bool {
        head.properties.is_some() || head.dictionary.is_none() || self.tables.container.bytecode_version >= 5
    }

    /// Builds the kind of an op that is not in the cache. Caches the kind if all ops with the same name and the same
    /// properties have the same kind.
    fn kind(&mut self, scope: &Scope, head: &Head) -> Result<(OpKind, Attributes)> {
        let mut own = Own::new();
        let gathered = self.gather(head, &mut own)?;
        let name = &self.names[head.name];
        // Do not cache constants, because they all differ. Do not cache ops whose kind depends on the ranks of their
        // operands.
        let lasting = !matches!(
            name.code,
            Opcode::Constant
                | Opcode::Broadcast
                | Opcode::Dot
                | Opcode::ReduceWindow
                | Opcode::SelectAndScatter
                | Opcode::Sort
        );
        let weight = own.iter().map(|&(_, index)| self.tables.weight(index)).sum();
        if lasting {
            self.tables.charge(head.offset, weight)?;
        }
        // Push each attribute, because `SmallVec::extend` takes longer for so few.
        let mut named: SmallVec<[(&str, &Attribute); 12]> = SmallVec::new();
        for &(name, index) in &own {
            named.push((name, self.tables.loaded(index)));
        }
        for (name, value) in &gathered.named {
            named.push((name, value));
        }
        // Only the kinds of unknown ops contain the name.
        let full = if name.code == Opcode::Other { name.full() } else { String::new() };
        let raw = UntypedOp {
            code: name.code,
            name: &full,
            attributes: Named(&named),
            operands: &head.operands,
            values: &scope.values,
        };
        let (kind, mut extra) = kind(&raw)?;
        if lasting && self.all_in_properties(head) {
            let known = CachedOp { name: head.name, kind: kind.clone(), extra: extra.clone(), weight };
            self.cache.add(head.properties, known);
        }
        extra.extend(gathered.discardable);
        Ok((kind, extra))
    }

    fn regions(
        &mut self,
        cursor: &mut Cursor<'a>,
        scope: &mut Scope,
        depth: usize,
        inner: Inner,
        regions: &mut Vec<Region>,
    ) -> Result<()> {
        regions.reserve_exact(inner.count.min(4));
        if !inner.isolated {
            for _ in 0..inner.count {
                regions.push(self.region(cursor, scope, depth + 1)?);
            }
            return Ok(());
        }
        // Value indices start at 0 again in isolated regions, but the values belong to the same function.
        let (slots, extent) = (std::mem::take(&mut scope.slots), std::mem::take(&mut scope.extent));
        let mut section = if self.tables.container.bytecode_version >= 2 { Some(self.section(cursor)?) } else { None };
        for _ in 0..inner.count {
            regions.push(self.region(section.as_mut().unwrap_or(cursor), scope, depth + 1)?);
        }
        (scope.slots, scope.extent) = (slots, extent);
        section.as_ref().map_or(Ok(()), finished)
    }
}

/// Number of an op's regions, and whether the regions are isolated.
struct Inner {
    count: usize,
    isolated: bool,
}

/// Reads a list of type indices or value indices. They are stored as value ids until they are resolved.
#[inline(always)]
fn numbers(cursor: &mut Cursor<'_>) -> Result<ValueIds> {
    let count = cursor.count()?;
    // An index that does not fit into a `u32` refers to no value, like `UNDEFINED`.
    let number = |number| u32::try_from(number).map_or(UNDEFINED, ValueId);
    let mut few = [UNDEFINED; 4];
    if let Some(slots) = few.get_mut(..count) {
        for slot in slots {
            *slot = number(cursor.varint()?);
        }
        return Ok(ValueIds::from_buf_and_len(few, count));
    }
    let mut list = ValueIds::with_capacity(count);
    for _ in 0..count {
        list.push(number(cursor.varint()?));
    }
    Ok(list)
}

/// Skips use-list orders, which only matter for MLIR's C++ data structures.
fn use_lists(cursor: &mut Cursor<'_>, values: usize) -> Result<()> {
    let lists = if values > 1 { cursor.count()? } else { 1 };
    for _ in 0..lists {
        if values > 1 {
            cursor.varint()?;
        }
        let (count, _pairs) = cursor.flagged()?;
        for _ in 0..cursor.check_count(count)? {
            cursor.varint()?;
        }
    }
    Ok(())
}

/// Returns the value of a string attribute, or the name of a symbol. Replaces invalid UTF-8 with replacement
/// characters.
pub(super) fn symbol(attribute: &Attribute) -> Option<Cow<'_, str>> {
    match attribute {
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes)),
        Attribute::Symbol(name) => Some(name.into()),
        _ => None,
    }
}

pub(super) fn finished(cursor: &Cursor<'_>) -> Result<()> {
    if cursor.is_empty() {
        Ok(())
    } else {
        Err(cursor.error(format_args!("{} bytes left over after the last op", cursor.remaining())))
    }
}
