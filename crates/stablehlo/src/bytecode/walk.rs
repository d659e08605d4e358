//! The IR section: module, functions, regions and ops.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::container::IR_SECTION;
use super::cursor::Cursor;
use super::entries::Tables;
use super::locations::Locations;
use super::names::{Name, Role, resolve};
use crate::MAX_NESTING;
use crate::attributes::Named;
use crate::error::{Error, Result};
use crate::ir::*;
use crate::ops::{Code, is_attribute};
use crate::typed::{Raw, kind};

/// A slot that is numbered but not defined yet.
const UNDEFINED: ValueId = ValueId(u32::MAX);

/// The values of one function and how the file numbers them.
#[derive(Default)]
pub(super) struct Scope {
    /// Value of each number in use.
    slots: Vec<ValueId>,
    /// Numbers taken by the regions open now.
    extent: usize,
    /// Types of all values of the function.
    pub(super) values: ValueTypes,
}

impl Scope {
    fn add(&mut self, ty: Arc<Type>) -> Result<ValueId> {
        let id = u32::try_from(self.values.len()).map_err(|_| Error::new("a function has more than 2^32 values"))?;
        self.values.push(ty);
        Ok(ValueId(id))
    }

    fn define(&mut self, slot: usize, value: ValueId) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, UNDEFINED);
        }
        self.slots[slot] = value;
    }
}

/// The numbers of the values a region defines, in order of appearance.
struct Numbers {
    next: usize,
    end: usize,
}

impl Numbers {
    fn take(&mut self, cursor: &Cursor<'_>) -> Result<usize> {
        if self.next == self.end {
            return Err(cursor.error("a region defines more values than announced"));
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The fields of an op before its regions.
pub(super) struct Head {
    pub(super) offset: usize,
    name: usize,
    pub(super) location: LocationId,
    /// Attribute number of the dictionary.
    dictionary: Option<usize>,
    /// Number of the properties, and where they are.
    properties: Option<(usize, Range<usize>)>,
    results: SmallVec<[Arc<Type>; 2]>,
    operands: SmallVec<[usize; 4]>,
    pub(super) regions: usize,
    isolated: bool,
}

/// What an op's name and properties were found to mean.
struct Known {
    name: usize,
    kind: OpKind,
    extra: Attributes,
    /// What a copy costs.
    weight: usize,
}

/// What ops were found to mean.
#[derive(Default)]
struct Kinds {
    /// Position in `known`, from 1, by the number of the properties; 0 where there is none yet.
    by_properties: Vec<u32>,
    known: Vec<Known>,
}

impl Kinds {
    fn find(&self, name: usize, properties: usize) -> Option<&Known> {
        let position = self.by_properties.get(properties)?.checked_sub(1)?;
        self.known.get(position as usize).filter(|known| known.name == name)
    }

    /// Keeps what the first op of these properties means.
    fn add(&mut self, properties: usize, known: Known) {
        if self.by_properties.len() <= properties {
            self.by_properties.resize(properties + 1, 0);
        }
        if self.by_properties[properties] == 0
            && let Ok(position) = u32::try_from(self.known.len() + 1)
        {
            self.by_properties[properties] = position;
            self.known.push(known);
        }
    }
}

/// One op with its attributes by name.
#[derive(Default)]
pub(super) struct Gathered {
    /// Numbers of the attributes in the op's properties.
    pub(super) own: SmallVec<[(&'static str, usize); 8]>,
    /// The same, of files that have no properties.
    pub(super) named: Attributes,
    pub(super) discardable: Attributes,
}

pub(super) struct Walk<'a> {
    pub(super) tables: Tables<'a>,
    names: Vec<Name>,
    kinds: Kinds,
    locations: Locations,
    pub(super) module: Module,
}

impl<'a> Walk<'a> {
    pub(super) fn new(tables: Tables<'a>) -> Result<Self> {
        let names = resolve(&tables.container)?;
        let locations = Locations::new(tables.container.attributes.len());
        let module = Module { version: tables.container.stablehlo_version, ..Module::default() };
        Ok(Self { tables, names, kinds: Kinds::default(), locations, module })
    }

    /// Reads the whole section: an implicit block with one module.
    pub(super) fn run(mut self) -> Result<Module> {
        let mut cursor = self.tables.container.ir.clone();
        let (ops, has_args) = cursor.flagged()?;
        if ops != 1 || has_args {
            return Err(cursor.error(format!("expected one module, found {ops} top-level ops")));
        }
        let head = self.head(&mut cursor)?;
        if self.names[head.name].role != Role::Module {
            return Err(Error::at(head.offset, format!("expected a module, found {}", self.names[head.name].full)));
        }
        self.module_attributes(&head)?;
        if head.regions != 1 {
            return Err(cursor.error(format!("a module must have one region, not {}", head.regions)));
        }
        if self.has_section(&head) {
            let mut inner = self.section(&mut cursor)?;
            self.module_body(&mut inner)?;
            finished(&inner)?;
        } else {
            self.module_body(&mut cursor)?;
        }
        finished(&cursor)?;
        self.module.locations = self.locations.finish(&mut self.tables)?;
        Ok(self.module)
    }

    fn module_attributes(&mut self, head: &Head) -> Result<()> {
        let mut attributes = self.dictionary(head)?;
        // Old files keep the symbol name among the other attributes, newer ones in two optional properties.
        if let Some(at) = attributes.iter().position(|(name, _)| name == "sym_name") {
            self.module.name = symbol(&attributes.remove(at).1);
        }
        if let Some((_, range)) = head.properties.clone() {
            let mut cursor = Cursor::new(self.tables.container.file, range);
            let (index, present) = cursor.flagged()?;
            if present {
                let index = usize::try_from(index).map_err(|_| cursor.error("attribute index out of range"))?;
                self.tables.load(&cursor, index)?;
                self.module.name = symbol(self.tables.loaded(index));
            }
        }
        self.module.attributes = attributes;
        Ok(())
    }

    fn module_body(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        let blocks = cursor.varint()?;
        if blocks != 1 {
            return Err(cursor.error(format!("a module must have one block, not {blocks}")));
        }
        cursor.varint()?;
        let (ops, has_args) = cursor.flagged()?;
        if has_args {
            return Err(cursor.error("a module takes no arguments"));
        }
        for _ in 0..cursor.check_count(ops)? {
            let head = self.head(cursor)?;
            let role = self.names[head.name].role;
            if role == Role::Func {
                self.func(cursor, &head)?;
                continue;
            }
            let name = self.names[head.name].full.clone();
            if role == Role::Module || head.regions > 0 || !head.operands.is_empty() || !head.results.is_empty() {
                return Err(Error::at(head.offset, "only functions and symbols may stand at the top of a module")
                    .with_op(&name));
            }
            let gathered = self.gather(&head)?;
            let own = gathered.own.iter().map(|&(name, index)| (name.to_owned(), self.tables.loaded(index).clone()));
            let attributes = own.chain(gathered.discardable).collect();
            self.module.symbols.push((name, attributes));
        }
        Ok(())
    }

    fn head(&mut self, cursor: &mut Cursor<'a>) -> Result<Head> {
        let offset = cursor.pos();
        let name = cursor.index()?;
        if name >= self.names.len() {
            return Err(cursor.error(format!("op name {name} does not exist; the program has {}", self.names.len())));
        }
        let mask = cursor.byte()?;
        if mask & 0x80 != 0 {
            return Err(cursor.error(format!("unknown op field in mask {mask:#04x}")));
        }
        let location = self.locations.read(cursor)?;
        let has = |bit: u8| mask & bit != 0;
        let dictionary = if has(0x01) { Some(cursor.index()?) } else { None };
        let properties = if has(0x40) {
            let index = cursor.index()?;
            let all = &self.tables.container.properties;
            let range = all.get(index).cloned();
            let range = range.ok_or_else(|| {
                cursor.error(format!("properties {index} do not exist; the program has {}", all.len()))
            })?;
            Some((index, range))
        } else {
            None
        };
        let mut results = SmallVec::new();
        if has(0x02) {
            for _ in 0..cursor.count()? {
                results.push(self.tables.value_type(cursor)?);
            }
        }
        let mut operands = SmallVec::new();
        if has(0x04) {
            for _ in 0..cursor.count()? {
                operands.push(cursor.index()?);
            }
        }
        if has(0x08) && !cursor.list(Cursor::index)?.is_empty() {
            return Err(cursor
                .error("branches between blocks have no place in StableHLO")
                .with_op(&self.names[name].full));
        }
        if has(0x20) {
            use_lists(cursor, results.len())?;
        }
        let (regions, isolated) = if has(0x10) { cursor.flagged()? } else { (0, false) };
        let regions = cursor.check_count(regions)?;
        Ok(Head { offset, name, location, dictionary, properties, results, operands, regions, isolated })
    }

    /// Whether an op's regions are in a section of their own.
    pub(super) fn has_section(&self, head: &Head) -> bool {
        head.isolated && self.tables.container.bytecode_version >= 2
    }

    pub(super) fn section(&self, cursor: &mut Cursor<'a>) -> Result<Cursor<'a>> {
        match cursor.section()? {
            (IR_SECTION, content) => Ok(content),
            (id, _) => Err(cursor.error(format!("section {id} in the place of regions"))),
        }
    }

    /// The attributes in the dictionary, copied.
    fn dictionary(&mut self, head: &Head) -> Result<Attributes> {
        let Some(index) = head.dictionary else { return Ok(Attributes::new()) };
        let here = Cursor::new(self.tables.container.file, head.offset..head.offset);
        self.tables.load(&here, index)?;
        match self.tables.loaded(index) {
            Attribute::Dictionary(entries) => Ok(entries.clone()),
            _ => Err(Error::at(head.offset, "an op's attributes must be a dictionary")),
        }
    }

    /// Sorts an op's attributes into its own and discardable ones, and loads them.
    pub(super) fn gather(&mut self, head: &Head) -> Result<Gathered> {
        const POSITIONAL: [&str; 24] = [
            "attr0", "attr1", "attr2", "attr3", "attr4", "attr5", "attr6", "attr7", "attr8", "attr9", "attr10",
            "attr11", "attr12", "attr13", "attr14", "attr15", "attr16", "attr17", "attr18", "attr19", "attr20",
            "attr21", "attr22", "attr23",
        ];
        let mut own = SmallVec::new();
        if let Some((_, range)) = head.properties.clone() {
            let mut cursor = Cursor::new(self.tables.container.file, range);
            let name = &self.names[head.name];
            let names = name.attributes.unwrap_or(&POSITIONAL);
            for &attribute in names {
                if cursor.is_empty() {
                    break;
                }
                // Only portable artifacts promise plain references; other dialects may have a richer layout.
                let index = cursor.index()?;
                if !name.vhlo && name.attributes.is_none() && index >= self.tables.container.attributes.len() {
                    return Ok(Gathered {
                        own: SmallVec::new(),
                        named: Attributes::new(),
                        discardable: self.dictionary(head)?,
                    });
                }
                self.tables.load(&cursor, index)?;
                own.push((attribute, index));
            }
            let name = &self.names[head.name];
            if name.vhlo && (!cursor.is_empty() || name.attributes.is_some_and(|names| names.len() != own.len())) {
                let expected = name.attributes.map_or(own.len(), <[_]>::len);
                return Err(Error::at(
                    head.offset,
                    format!("the op's properties do not hold the {expected} attributes expected"),
                ));
            }
            return Ok(Gathered { own, named: Attributes::new(), discardable: self.dictionary(head)? });
        }
        let all = self.dictionary(head)?;
        let name = &self.names[head.name];
        if !name.vhlo {
            return Ok(Gathered { own, named: Attributes::new(), discardable: all });
        }
        // Artifacts before properties keep every attribute in the dictionary.
        let base = name.full.split_once('.').map_or("", |(_, base)| base);
        let (named, discardable) = all.into_iter().partition(|(attribute, _)| is_attribute(base, attribute));
        Ok(Gathered { own, named, discardable })
    }

    pub(super) fn region(&mut self, cursor: &mut Cursor<'a>, scope: &mut Scope, depth: usize) -> Result<Region> {
        let blocks = cursor.varint()?;
        if blocks == 0 {
            return Ok(Region::default());
        }
        if blocks != 1 {
            return Err(cursor.error(format!("a region must have one block, not {blocks}")));
        }
        if depth > MAX_NESTING {
            return Err(cursor.error(format!("regions nest deeper than {MAX_NESTING}")));
        }
        let count = cursor.count()?;
        let base = scope.extent;
        let end = base + count;
        // Every number open at once belongs to a value that takes bytes of its own.
        if end > self.tables.container.file.len() {
            return Err(cursor.error(format!("a region announces {count} values, more than the program can hold")));
        }
        scope.extent = end;
        let mut numbers = Numbers { next: base, end };
        let mut region = Region::default();
        let (ops, has_args) = cursor.flagged()?;
        if has_args {
            region.args = self.block_arguments(cursor, scope, &mut numbers)?;
        }
        let count = cursor.check_count(ops)?;
        // The ops of a function take room at once. Regions are many and small, and open inside each other.
        region.ops.reserve(if depth == 1 { count.min(cursor.remaining() / 4) } else { count.min(4) });
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
                cursor.error(format!("a region announces {announced} values but defines {}", numbers.next - base))
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
                (self.tables.value_type_at(cursor, index)?, located)
            } else {
                (self.tables.value_type(cursor)?, true)
            };
            if located {
                // Arguments keep no location.
                cursor.index()?;
            }
            let value = scope.add(ty)?;
            scope.define(numbers.take(cursor)?, value);
            args.push(value);
        }
        if version >= 3 && cursor.byte()? != 0 {
            use_lists(cursor, count)?;
        }
        Ok(args)
    }

    /// Reads an op without its regions, which the caller reads next: so that nesting costs little stack.
    fn op(
        &mut self,
        cursor: &mut Cursor<'a>,
        scope: &mut Scope,
        numbers: &mut Numbers,
        ops: &mut Vec<Op>,
    ) -> Result<Inner> {
        let head = self.head(cursor)?;
        let (offset, name) = (head.offset, head.name);
        let inner = Inner { count: head.regions, isolated: head.isolated };
        let read = match self.names[name].role {
            Role::Module | Role::Func => Err(Error::new("may only stand at the top of a module")),
            Role::Cast => self.cast(cursor, scope, numbers, &head),
            Role::Op => self.shallow(cursor, scope, numbers, head, ops),
        };
        match read {
            Ok(()) => Ok(inner),
            Err(e) => Err(e.with_offset(offset).with_op(&self.names[name].full)),
        }
    }

    /// The results of a cast are its operands under other names.
    fn cast(&mut self, cursor: &Cursor<'_>, scope: &mut Scope, numbers: &mut Numbers, head: &Head) -> Result<()> {
        if head.operands.len() != head.results.len() || head.regions > 0 {
            return Err(Error::new("must have as many results as operands"));
        }
        for (&slot, ty) in head.operands.iter().zip(&head.results) {
            let value = resolve_slot(scope, slot)?;
            let actual = &scope.values[value];
            if *actual != **ty {
                return Err(Error::new(format!("casts {actual} to {ty}, which are different types")));
            }
            scope.define(numbers.take(cursor)?, value);
        }
        Ok(())
    }

    /// Reads the op without its regions.
    fn shallow(
        &mut self,
        cursor: &Cursor<'_>,
        scope: &mut Scope,
        numbers: &mut Numbers,
        head: Head,
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        let operands = head.operands.iter().map(|&slot| resolve_slot(scope, slot)).collect::<Result<ValueIds>>()?;
        // The same properties mean the same in another op of that name.
        let again = head.properties.as_ref().and_then(|(index, _)| self.kinds.find(head.name, *index));
        let again = again.map(|known| known.weight);
        let mut gathered = match again {
            Some(_) => Gathered { discardable: self.dictionary(&head)?, ..Gathered::default() },
            None => self.gather(&head)?,
        };
        let mut results = ValueIds::new();
        for ty in head.results {
            let value = scope.add(ty)?;
            scope.define(numbers.take(cursor)?, value);
            results.push(value);
        }
        let location = head.location;
        if let (Some(weight), Some((index, _))) = (again, &head.properties) {
            self.tables.charge(head.offset, weight)?;
            if let Some(Known { kind, extra, .. }) = self.kinds.find(head.name, *index) {
                let (kind, mut attributes) = (kind.clone(), extra.clone());
                attributes.append(&mut gathered.discardable);
                ops.push(Op { kind, operands, results, regions: Vec::new(), attributes, location });
            }
            return Ok(());
        }
        // Constants are all different, and what some ops mean depends on the ranks of their operands.
        let lasting = !matches!(
            self.names[head.name].code,
            Code::Constant | Code::Broadcast | Code::Dot | Code::ReduceWindow | Code::SelectAndScatter | Code::Sort
        );
        let weight = gathered.own.iter().map(|&(_, index)| self.tables.weight(index)).sum();
        if lasting {
            self.tables.charge(head.offset, weight)?;
        }
        let name = &self.names[head.name];
        let mut named: SmallVec<[(&str, &Attribute); 8]> =
            gathered.own.iter().map(|&(name, index)| (name, self.tables.loaded(index))).collect();
        named.extend(gathered.named.iter().map(|(name, value)| (name.as_str(), value)));
        let raw = Raw {
            code: name.code,
            name: &name.full,
            attributes: Named(&named),
            operands: &operands,
            values: &scope.values,
        };
        let (kind, mut extra) = kind(&raw)?;
        if let (true, Some((index, _))) = (lasting, &head.properties) {
            self.kinds.add(*index, Known { name: head.name, kind: kind.clone(), extra: extra.clone(), weight });
        }
        let attributes = if extra.is_empty() {
            gathered.discardable
        } else {
            extra.append(&mut gathered.discardable);
            extra
        };
        ops.push(Op { kind, operands, results, regions: Vec::new(), attributes, location });
        Ok(())
    }

    fn regions(
        &mut self,
        cursor: &mut Cursor<'a>,
        scope: &mut Scope,
        depth: usize,
        inner: Inner,
        regions: &mut Vec<Region>,
    ) -> Result<()> {
        if !inner.isolated {
            for _ in 0..inner.count {
                regions.push(self.region(cursor, scope, depth + 1)?);
            }
            return Ok(());
        }
        // Isolated regions number their values from zero again, though they are values of the same function.
        let (slots, extent) = (std::mem::take(&mut scope.slots), std::mem::take(&mut scope.extent));
        let mut section = if self.tables.container.bytecode_version >= 2 { Some(self.section(cursor)?) } else { None };
        for _ in 0..inner.count {
            regions.push(self.region(section.as_mut().unwrap_or(cursor), scope, depth + 1)?);
        }
        (scope.slots, scope.extent) = (slots, extent);
        section.as_ref().map_or(Ok(()), finished)
    }
}

/// The regions an op announces.
struct Inner {
    count: usize,
    isolated: bool,
}

fn resolve_slot(scope: &Scope, slot: usize) -> Result<ValueId> {
    match scope.slots.get(slot) {
        Some(&value) if value != UNDEFINED => Ok(value),
        _ => Err(Error::new(format!("operand number {slot} is used before it is defined"))),
    }
}

/// Use-list orders restore a C++ data structure; they are read and dropped.
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

pub(super) fn symbol(attribute: &Attribute) -> Option<String> {
    match attribute {
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Attribute::Symbol(name) => Some(name.clone()),
        _ => None,
    }
}

pub(super) fn finished(cursor: &Cursor<'_>) -> Result<()> {
    if cursor.is_empty() {
        Ok(())
    } else {
        Err(cursor.error(format!("{} bytes left over after the last op", cursor.remaining())))
    }
}
