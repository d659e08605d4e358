//! Writes the module, its functions, regions and ops, and assigns value indices.

use smallvec::{SmallVec, smallvec};

use super::attributes::{find, named};
use super::bytes::Buffer;
use super::encoder::{Dialect, Encoder};
use super::locations::Locations;
use super::repeated::{OpFields, Repeated};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::text::function_type;
use crate::verify::VerifyLevel;

/// Table indices of the fields of a function that `func_record` does not add, and the function's name.
struct Signature<'a> {
    /// The type as an attribute.
    ty: usize,
    /// The attributes of the arguments and of the results.
    lists: [usize; 2],
    name: &'a str,
    visibility: &'a str,
}

/// Maximum number of attributes for which the writer reserves memory before it starts.
const MAX_ROOM: usize = 1024;

/// Approximate number of bytes of an op that defines a value.
const OP_SIZE: usize = 12;

/// Maximum size in bytes of the memory that the writer reserves for ops.
const MAX_OPS_ROOM: usize = 1 << 16;

/// Inherent attributes of `func.func`. All other attributes are discardable.
const FUNC_OWN: [&str; 5] = ["arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"];

/// Verifies a module, and writes it as a portable artifact of this StableHLO version. The version must be between
/// [`Version::OLDEST`] and [`Version::NEWEST`].
///
/// Readers of this version and of later versions accept the artifact.
///
/// # Errors
///
/// Returns an error if `version` is outside this range, if the module does not pass [`verify`](crate::verify()) at
/// level [`VerifyLevel::FULL`], or if an op, attribute or type requires a newer version. Shardy's ops and attributes
/// require 1.11.0. The error names the op, the required version and the source location.
pub fn write(module: &Module, version: Version) -> Result<Vec<u8>> {
    if version < Version::OLDEST || version > Version::NEWEST {
        return Err(Error::new(
            ErrorKind::Version,
            format_args!(
                "artifacts can be written for StableHLO {} to {}, not {version}",
                Version::OLDEST,
                Version::NEWEST
            ),
        ));
    }
    crate::verify::verify(module, VerifyLevel::FULL)?;
    Writer::new(module, version).run()
}

struct Writer<'a> {
    module: &'a Module,
    encoder: Encoder,
    locations: Locations,
    repeated: Repeated<'a>,
}

/// Values of one function, and the number of value indices that the open regions have reserved.
struct Scope<'a> {
    func: &'a Func,
    /// Index of each value. VHLO ops use these indices to refer to values.
    numbers: Vec<usize>,
    /// Table index of each VHLO type that is already written, by the type's position in `func.values`.
    types: Vec<Option<usize>>,
    extent: usize,
}

/// Dialect of the op that contains a region, which determines the types of the region's values.
#[derive(Clone, Copy, PartialEq)]
enum RegionDialect {
    /// A VHLO op. The values have VHLO types.
    Artifact,
    /// An op of another dialect. Its arguments and terminators have MLIR's builtin types. Casts convert between these
    /// types and the VHLO types.
    Foreign,
}

/// Indices of operands or types.
type Indices = SmallVec<[usize; 4]>;

/// Encoded fields of an op, except for its regions.
struct Record {
    name: usize,
    location: usize,
    dictionary: Option<usize>,
    properties: Option<usize>,
    results: Indices,
    operands: Indices,
    regions: usize,
    isolated: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(module: &'a Module, version: Version) -> Self {
        // Large programs repeat most attributes, so limit the estimate.
        let values: usize = module.funcs.iter().map(|func| func.values.len()).sum();
        let mut encoder = Encoder::new(version, values.max(module.locations.len()).min(MAX_ROOM));
        let locations = Locations::new(module, &mut encoder);
        Self { module, encoder, locations, repeated: Repeated::default() }
    }

    pub(super) fn run(mut self) -> Result<Vec<u8>> {
        let module = self.module;
        let values: usize = module.funcs.iter().map(|func| func.values.len()).sum();
        let mut body = ops_buffer(values);
        body.size(1);
        body.size(0);
        body.flagged(module.symbols.len() + module.funcs.len(), false);
        for (name, attributes) in &module.symbols {
            let label = find(attributes, "sym_name").and_then(Attribute::as_str).unwrap_or_default();
            self.symbol(&mut body, name, attributes).map_err(|e| e.with_op(name).with_func(label))?;
        }
        for func in &module.funcs {
            self.func(&mut body, func).map_err(|e| e.with_func(&func.name))?;
        }
        let mut pairs: Vec<(&str, usize)> = Vec::new();
        for (name, value) in &module.attributes {
            pairs.push((name, self.encoder.builtin_attribute(value)));
        }
        let name = module.name.as_ref().map(|name| self.encoder.builtin_string(name.as_bytes()));
        let properties = if self.encoder.bytecode >= 5 {
            // The module's name and visibility are optional properties.
            let mut buffer = Buffer::default();
            match name {
                Some(name) => buffer.flagged(name, true),
                None => buffer.varint(0),
            }
            buffer.varint(0);
            Some(self.encoder.properties(buffer))
        } else {
            pairs.extend(name.map(|name| ("sym_name", name)));
            None
        };
        let dictionary = if pairs.is_empty() { None } else { Some(self.encoder.builtin_pairs(pairs)) };
        let record = Record {
            name: self.encoder.op_name(Dialect::Builtin, "module"),
            location: self.locations.number(module, &mut self.encoder, LocationId(0)),
            dictionary,
            properties,
            results: Indices::new(),
            operands: Indices::new(),
            regions: 1,
            isolated: true,
        };
        let mut ir = Buffer::with_room(body.0.len() + 32);
        ir.flagged(1, false);
        self.record(&mut ir, &record);
        self.isolated(&mut ir, &body);
        Ok(self.encoder.finish(&ir.0))
    }

    /// Writes the fields of an op that precede its regions.
    fn record(&self, out: &mut Buffer, record: &Record) {
        let has = [!record.results.is_empty(), !record.operands.is_empty(), record.regions > 0];
        let fields = OpFields { name: record.name, dictionary: record.dictionary, properties: record.properties };
        Self::head(out, fields, record.location, has);
        if !record.results.is_empty() {
            out.indices(&record.results);
        }
        if !record.operands.is_empty() {
            out.indices(&record.operands);
        }
        if record.regions > 0 {
            out.flagged(record.regions, record.isolated);
        }
    }

    /// Writes the fields of an op that precede its results. `results`, `operands` and `regions` are whether the op has
    /// any of them.
    fn head(out: &mut Buffer, fields: OpFields, location: usize, [results, operands, regions]: [bool; 3]) {
        out.size(fields.name);
        let has = |present: bool, bit: u8| if present { bit } else { 0 };
        let mask = has(fields.dictionary.is_some(), 0x01)
            | has(results, 0x02)
            | has(operands, 0x04)
            | has(regions, 0x10)
            | has(fields.properties.is_some(), 0x40);
        out.byte(mask);
        out.size(location);
        if let Some(dictionary) = fields.dictionary {
            out.size(dictionary);
        }
        if let Some(properties) = fields.properties {
            out.size(properties);
        }
    }

    /// Writes the regions of an isolated op. Since bytecode version 2, they are in a separate section.
    fn isolated(&self, out: &mut Buffer, regions: &Buffer) {
        if self.encoder.bytecode >= 2 {
            out.section(4, &regions.0);
        } else {
            out.0.extend_from_slice(&regions.0);
        }
    }

    fn location(&mut self, id: LocationId) -> usize {
        self.locations.number(self.module, &mut self.encoder, id)
    }

    /// Adds the dictionary and the properties of a VHLO op to the tables, and returns their indices. In bytecode
    /// versions without properties, the op's inherent attributes are in the dictionary.
    fn own_and_discardable(
        &mut self,
        own: &[(&'static str, usize)],
        discardable: Vec<(&str, usize)>,
    ) -> (Option<usize>, Option<usize>) {
        let mut pairs = discardable;
        let mut properties = None;
        if self.encoder.bytecode >= 5 {
            if !own.is_empty() {
                let mut buffer = self.encoder.buffer();
                own.iter().for_each(|&(_, number)| buffer.size(number));
                properties = Some(self.encoder.properties(buffer));
            }
        } else {
            pairs.extend(own.iter().copied());
        }
        let dictionary = if pairs.is_empty() { None } else { Some(self.encoder.builtin_pairs(pairs)) };
        (dictionary, properties)
    }

    /// Writes a mesh or a function without a body.
    fn symbol(&mut self, out: &mut Buffer, name: &str, attributes: &Attributes) -> Result<()> {
        if name == "func.func" {
            let Some(Attribute::Type(Type::Other(ty))) = find(attributes, "function_type") else {
                return Err(Error::new(ErrorKind::Attribute, "attribute `function_type` must be a function type"));
            };
            let (inputs, results) = function_type(ty)
                .ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("`{ty}` is not a function type")))?;
            let encoder = &mut self.encoder;
            let (inputs, results) = (encoder.vhlo_types(&inputs)?, encoder.vhlo_types(&results)?);
            let ty = encoder.vhlo_function(&inputs, &results);
            let ty = encoder.vhlo_type_attribute(ty);
            let mut list = |name| match find(attributes, name) {
                Some(list) => encoder.vhlo_attribute(list),
                None => Ok(encoder.vhlo_array(&[])),
            };
            let lists = [list("arg_attrs")?, list("res_attrs")?];
            let text = |name| find(attributes, name).and_then(Attribute::as_str).unwrap_or_default();
            let signature = Signature { ty, lists, name: text("sym_name"), visibility: text("sym_visibility") };
            let record = self.func_record(&signature, attributes, LocationId(0))?;
            self.record(out, &record);
            let mut body = Buffer::default();
            body.size(0);
            self.isolated(out, &body);
            return Ok(());
        }
        let numbers = self.encoder.foreign(name, attributes)?;
        let own = crate::ops::shardy_attributes(name).unwrap_or_default();
        let rest: Attributes = attributes.iter().filter(|(n, _)| !own.iter().any(|name| name == n)).cloned().collect();
        let record = self.foreign_record(name, &numbers, &rest, LocationId(0));
        self.record(out, &record);
        Ok(())
    }

    fn foreign_record(&mut self, name: &str, numbers: &[usize], rest: &Attributes, location: LocationId) -> Record {
        let base = name.strip_prefix("sdy.").unwrap_or(name);
        let mut buffer = Buffer::default();
        numbers.iter().for_each(|&number| buffer.size(number));
        Record {
            name: self.encoder.op_name(Dialect::Shardy, base),
            location: self.location(location),
            dictionary: (!rest.is_empty()).then(|| self.encoder.builtin_dictionary(rest)),
            properties: (!numbers.is_empty()).then(|| self.encoder.properties(buffer)),
            results: Indices::new(),
            operands: Indices::new(),
            regions: 0,
            isolated: false,
        }
    }

    /// Adds the name, the visibility and the discardable attributes of a function to the tables, and returns the
    /// function's record. Ignores inherent attributes in `attributes`.
    fn func_record(
        &mut self,
        signature: &Signature<'_>,
        attributes: &Attributes,
        location: LocationId,
    ) -> Result<Record> {
        let &Signature { ty, lists: [arguments, results], name, visibility } = signature;
        let name = self.encoder.vhlo_string(name.as_bytes());
        let visibility = self.encoder.vhlo_string(visibility.as_bytes());
        let own = [
            ("arg_attrs", arguments),
            ("function_type", ty),
            ("res_attrs", results),
            ("sym_name", name),
            ("sym_visibility", visibility),
        ];
        let mut discardable = Vec::new();
        for (name, value) in attributes.iter().filter(|(name, _)| !FUNC_OWN.contains(&name.as_str())) {
            discardable.push((name.as_str(), self.encoder.vhlo_attribute(value).map_err(|e| named(e, name))?));
        }
        let (dictionary, properties) = self.own_and_discardable(&own, discardable);
        Ok(Record {
            name: self.encoder.vhlo_name("func", false),
            location: self.location(location),
            dictionary,
            properties,
            results: Indices::new(),
            operands: Indices::new(),
            regions: 1,
            isolated: true,
        })
    }

    fn func(&mut self, out: &mut Buffer, func: &'a Func) -> Result<()> {
        let numbers = vec![usize::MAX; func.values.len()];
        let mut scope = Scope { func, numbers, types: Vec::new(), extent: 0 };
        let record = self
            .defined_func(&mut scope)
            .map_err(|e| e.with_op("func.func").with_location(self.module.location(func.location)))?;
        self.record(out, &record);
        let mut body = ops_buffer(func.values.len());
        self.region(&mut body, &mut scope, &func.body, RegionDialect::Artifact)?;
        self.isolated(out, &body);
        Ok(())
    }

    /// Adds the type and the attributes of a function with a body to the tables, and returns the function's record.
    fn defined_func(&mut self, scope: &mut Scope<'_>) -> Result<Record> {
        let func = scope.func;
        let mut inputs = Indices::new();
        for &value in func.args() {
            inputs.push(self.value_type(scope, value)?);
        }
        let results = self.encoder.vhlo_types(&func.results)?;
        let ty = self.encoder.vhlo_function(&inputs, &results);
        let ty = self.encoder.vhlo_type_attribute(ty);
        let mut list = |entries: &[Attributes]| {
            let mut items = Indices::new();
            if entries.iter().any(|entries| !entries.is_empty()) {
                for entries in entries {
                    items.push(self.encoder.vhlo_dictionary(entries)?);
                }
            }
            Ok(self.encoder.vhlo_array(&items))
        };
        let lists = [list(&func.arg_attributes)?, list(&func.result_attributes)?];
        let visibility = crate::print::visibility(func).unwrap_or_default();
        let signature = Signature { ty, lists, name: &func.name, visibility };
        self.func_record(&signature, &func.attributes, func.location)
    }

    /// Adds the VHLO type of a value to the type table, and returns its index.
    fn value_type(&mut self, scope: &mut Scope<'_>, value: ValueId) -> Result<usize> {
        let position = scope.func.values.position(value) as usize;
        if let Some(&Some(known)) = scope.types.get(position) {
            return Ok(known);
        }
        let index = self.encoder.vhlo_type(scope.func.ty(value))?;
        if scope.types.len() <= position {
            scope.types.resize(position + 1, None);
        }
        scope.types[position] = Some(index);
        Ok(index)
    }

    /// Returns the number of ops that are written for an op, including casts, and the number of values that these ops
    /// define.
    fn extent(op: &Op, inside: RegionDialect) -> (usize, usize) {
        let casts = match &op.kind {
            OpKind::Return if inside == RegionDialect::Foreign => op.operands.len(),
            kind if is_foreign(kind) => op.operands.len() + op.results.len(),
            _ => 0,
        };
        (1 + casts, op.results.len() + casts)
    }

    fn region(
        &mut self,
        out: &mut Buffer,
        scope: &mut Scope<'a>,
        region: &'a Region,
        inside: RegionDialect,
    ) -> Result<()> {
        if region.ops.is_empty() {
            out.size(0);
            return Ok(());
        }
        out.size(1);
        let entry_casts = if inside == RegionDialect::Foreign { region.args.len() } else { 0 };
        let (mut ops, mut values) = (entry_casts, entry_casts + region.args.len());
        for op in &region.ops {
            let (more_ops, more_values) = Self::extent(op, inside);
            ops += more_ops;
            values += more_values;
        }
        out.size(values);
        let base = scope.extent;
        scope.extent += values;
        let mut next = base;
        out.flagged(ops, !region.args.is_empty());
        if !region.args.is_empty() {
            self.arguments(out, scope, region, inside, &mut next)?;
        }
        if inside == RegionDialect::Foreign {
            for &arg in &region.args {
                let number = scope.numbers[arg.0 as usize];
                let ty = self.value_type(scope, arg)?;
                scope.numbers[arg.0 as usize] = self.cast(out, number, ty, LocationId(0), &mut next);
            }
        }
        for op in &region.ops {
            let module = self.module;
            self.op(out, scope, op, inside, &mut next)
                .map_err(|e| e.with_op(&op.kind.name()).with_location(module.location(op.location)))?;
        }
        scope.extent = base;
        Ok(())
    }

    fn arguments(
        &mut self,
        out: &mut Buffer,
        scope: &mut Scope<'a>,
        region: &Region,
        inside: RegionDialect,
        next: &mut usize,
    ) -> Result<()> {
        let unknown = self.location(LocationId(0));
        out.size(region.args.len());
        for &arg in &region.args {
            let ty = if inside == RegionDialect::Foreign {
                self.encoder.builtin_type(scope.func.ty(arg))
            } else {
                self.value_type(scope, arg)?
            };
            if self.encoder.bytecode >= 4 {
                out.flagged(ty, true);
            } else {
                out.size(ty);
            }
            out.size(unknown);
            scope.numbers[arg.0 as usize] = *next;
            *next += 1;
        }
        if self.encoder.bytecode >= 3 {
            // The byte 0 means that there are no use-list orders.
            out.byte(0);
        }
        Ok(())
    }

    /// Writes a cast between VHLO types and MLIR's builtin types. Returns the value index of its result.
    fn cast(&mut self, out: &mut Buffer, operand: usize, ty: usize, at: LocationId, next: &mut usize) -> usize {
        let record = Record {
            name: self.encoder.op_name(Dialect::Builtin, "unrealized_conversion_cast"),
            location: self.location(at),
            dictionary: None,
            properties: None,
            results: smallvec![ty],
            operands: smallvec![operand],
            regions: 0,
            isolated: false,
        };
        self.record(out, &record);
        *next += 1;
        *next - 1
    }

    fn op(
        &mut self,
        out: &mut Buffer,
        scope: &mut Scope<'a>,
        op: &'a Op,
        inside: RegionDialect,
        next: &mut usize,
    ) -> Result<()> {
        let terminator = inside == RegionDialect::Foreign && matches!(op.kind, OpKind::Return);
        if terminator || is_foreign(&op.kind) {
            return self.foreign_op(out, scope, op, terminator, next);
        }
        let fields = self.artifact_fields(scope, op)?;
        let location = self.location(op.location);
        // Write a composite without regions if its regions contain no ops, because old StableHLO versions do not allow
        // regions in a composite.
        let bare = matches!(op.kind, OpKind::Composite { .. }) && op.regions.iter().all(|r| r.ops.is_empty());
        let regions = if bare { &[] } else { &op.regions[..] };
        let has = [!op.results.is_empty(), !op.operands.is_empty(), !regions.is_empty()];
        Self::head(out, fields, location, has);
        if !op.results.is_empty() {
            out.size(op.results.len());
            for &value in &op.results {
                out.size(self.value_type(scope, value)?);
                scope.numbers[value.0 as usize] = *next;
                *next += 1;
            }
        }
        if !op.operands.is_empty() {
            out.list(op.operands.iter(), |b, v| b.size(scope.numbers[v.0 as usize]));
        }
        if !regions.is_empty() {
            out.flagged(regions.len(), false);
        }
        for region in regions {
            self.region(out, scope, region, RegionDialect::Artifact)?;
        }
        Ok(())
    }

    /// Writes an op of a dialect other than StableHLO, and the casts of its operands and results. `terminator` is
    /// whether the op ends a region of such an op.
    fn foreign_op(
        &mut self,
        out: &mut Buffer,
        scope: &mut Scope<'a>,
        op: &'a Op,
        terminator: bool,
        next: &mut usize,
    ) -> Result<()> {
        let mut operands: Indices = op.operands.iter().map(|v| scope.numbers[v.0 as usize]).collect();
        for (number, &value) in operands.iter_mut().zip(&op.operands) {
            let ty = self.encoder.builtin_type(scope.func.ty(value));
            *number = self.cast(out, *number, ty, op.location, next);
        }
        let mut record = match &op.kind {
            OpKind::Other { name, attributes } if !terminator => {
                let numbers = self.encoder.foreign(name, attributes)?;
                self.foreign_record(name, &numbers, &op.attributes, op.location)
            }
            _ => self.foreign_record("sdy.return", &[], &op.attributes, op.location),
        };
        for &value in &op.results {
            record.results.push(self.encoder.builtin_type(scope.func.ty(value)));
            scope.numbers[value.0 as usize] = *next;
            *next += 1;
        }
        record.operands = operands;
        record.regions = op.regions.len();
        self.record(out, &record);
        for region in &op.regions {
            self.region(out, scope, region, RegionDialect::Foreign)?;
        }
        for &value in &op.results {
            let number = scope.numbers[value.0 as usize];
            let ty = self.value_type(scope, value)?;
            scope.numbers[value.0 as usize] = self.cast(out, number, ty, op.location, next);
        }
        Ok(())
    }

    fn artifact_fields(&mut self, scope: &Scope<'_>, op: &'a Op) -> Result<OpFields> {
        if let Some(fields) = self.repeated.find(op) {
            self.encoder.check_types(scope.func, op)?;
            return Ok(fields);
        }
        let fields = self.op_fields(scope, op)?;
        self.repeated.add(op, fields);
        Ok(fields)
    }

    /// Adds the name and the attributes of an op to the tables, and returns their indices.
    fn op_fields(&mut self, scope: &Scope<'_>, op: &Op) -> Result<OpFields> {
        let spelled = self.encoder.spell(scope.func, op)?;
        let mut discardable = Vec::new();
        for (name, value) in op.attributes.iter().filter(|(name, _)| !crate::ops::is_own(&op.kind, name)) {
            discardable.push((name.as_str(), self.encoder.vhlo_attribute(value).map_err(|e| named(e, name))?));
        }
        let (dictionary, properties) = self.own_and_discardable(&spelled.attributes, discardable);
        Ok(OpFields { name: spelled.name, dictionary, properties })
    }
}

/// Returns an empty buffer with room for ops that define this many values.
fn ops_buffer(values: usize) -> Buffer {
    Buffer::with_room((values * OP_SIZE).min(MAX_OPS_ROOM) + 32)
}

/// Returns whether an op belongs to a dialect other than StableHLO.
fn is_foreign(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Other { name, .. } if !name.starts_with("stablehlo."))
}
