//! Checks a program against a [`SupportTable`].

use std::collections::HashMap;
use std::fmt;

use ::stablehlo::ir::{Attribute, ElementType, Func, Module, Op, OpKind, Type};

use super::{AttributeRule, OperationRule, Reason, Verdict};
use crate::diagnostic::{Fault, Faults};
use crate::{Depth, Manifest, Program, Support, SupportTable};

/// Maximum number of different reasons that a check of a program collects for each answer. Further reasons are dropped,
/// so that the answer for a large program stays short.
const MAX_REASONS: usize = 64;

impl Reason {
    /// Creates the reason for a program that cannot be read.
    pub fn unreadable(error: &::stablehlo::Error) -> Self {
        Self {
            operation: error.op().map(str::to_owned),
            location: error.location().map(str::to_owned),
            ..Self::new(format!("the program cannot be read: {}", error.message()))
        }
    }
}

/// A table that is prepared for checking many programs.
#[derive(Debug)]
pub struct Checker {
    rules: HashMap<String, Rule>,
    complete: bool,
    host_fallback: bool,
    dynamic_shapes: bool,
    max_rank: Option<usize>,
}

/// The rule of an operation, with its type groups expanded.
#[derive(Debug)]
struct Rule {
    rule: OperationRule,
    /// The allowed types. Empty if all types are allowed.
    types: Vec<ElementType>,
}

impl Checker {
    /// Validates a table and prepares it for checks.
    ///
    /// # Errors
    ///
    /// Returns an error if the table has faults. The error contains all of them, each with its field.
    pub fn new(table: &SupportTable) -> Result<Self, Faults> {
        let mut faults = table.validate();
        let mut rules = HashMap::with_capacity(table.operations.len());
        for (name, rule) in &table.operations {
            let mut types = Vec::new();
            for ty in table.element_types(&rule.types) {
                match ElementType::from_name(ty) {
                    Some(ty) => types.push(ty),
                    None => faults.push(Fault::new(
                        format!("operations.{name}.types"),
                        format!(
                            "{ty:?} is not an element type of StableHLO; known are {}",
                            ElementType::all().map(ElementType::name).collect::<Vec<_>>().join(", ")
                        ),
                    )),
                }
            }
            rules.insert(name.clone(), Rule { rule: rule.clone(), types });
        }
        Faults::check(faults)?;
        let SupportTable { complete, host_fallback, dynamic_shapes, max_rank, .. } = *table;
        Ok(Self { rules, complete, host_fallback, dynamic_shapes, max_rank })
    }

    /// Checks a serialized program, as a framework would send it to the plugin. With the feature `hlo`, programs in HLO
    /// are checked by the StableHLO names of their instructions.
    pub fn program(&self, program: &Program, depth: Depth) -> Support {
        match crate::program_reader::read(program, stablehlo::VerifyLevel::FULL) {
            Some(Ok(module)) => self.module(&module, depth),
            Some(Err(error)) => Support::No(vec![Reason::unreadable(&error)]),
            None => Support::Maybe(vec![Reason::new(format!(
                "programs in format {:?} cannot be checked without compiling; this build checks the formats {}",
                program.format(),
                crate::program_reader::FORMATS.join(", ")
            ))]),
        }
    }

    /// Checks a parsed program as [`Self::program`] does.
    pub fn module(&self, module: &Module, depth: Depth) -> Support {
        let mut walk = Walk { checker: self, module, depth, no: Vec::new(), maybe: Vec::new(), host: Vec::new() };
        for func in &module.funcs {
            if depth >= Depth::Types {
                for ty in &func.results {
                    walk.value(None, ty, None);
                }
            }
            for op in func.body.all_ops().filter(|op| !matches!(op.kind, OpKind::Return)) {
                walk.op(func, op);
            }
        }
        if !walk.no.is_empty() {
            return Support::No(walk.no);
        }
        if depth == Depth::Compile {
            walk.maybe.push(Reason::new("only compiling can find the remaining errors"));
        }
        match walk {
            Walk { maybe, .. } if !maybe.is_empty() => Support::Maybe(maybe),
            Walk { host, .. } if !host.is_empty() => Support::Host(host),
            _ => Support::Yes,
        }
    }

    /// Returns the name of an operation for messages, and the operation's rule. A rule for one call target or composite
    /// takes precedence over a rule for the operation, and a rule for the dialect applies last.
    fn rule(&self, kind: &OpKind) -> (String, Option<&Rule>) {
        let name = kind.name();
        let full = match kind {
            OpKind::CustomCall { call_target_name: of, .. } | OpKind::Composite { name: of, .. } => {
                format!("{name}({of})")
            }
            _ => name.clone(),
        };
        let dialect = name.split('.').next().unwrap_or(&name);
        let rule = self.rules.get(&full).or_else(|| self.rules.get(&name));
        let rule = rule.or_else(|| self.rules.get(&format!("{dialect}.*")));
        (full, rule)
    }
}

/// The value of an attribute in the spelling that rules use.
struct Spelled {
    values: Vec<String>,
    list: bool,
}

impl Spelled {
    fn new(attribute: &Attribute) -> Self {
        match attribute {
            Attribute::Array(items) => Self { values: items.iter().map(spell).collect(), list: true },
            Attribute::DenseArray(literal) | Attribute::Tensor(literal) => {
                let boolean = literal.ty.element == ElementType::Bool;
                let number = |value: i64| if boolean { (value != 0).to_string() } else { value.to_string() };
                match literal.integers() {
                    Some(values) => Self { values: values.into_iter().map(number).collect(), list: true },
                    None => Self { values: vec![format!("{literal:?}")], list: false },
                }
            }
            one => Self { values: vec![spell(one)], list: false },
        }
    }
}

impl fmt::Display for Spelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(", ");
        if self.list { write!(f, "[{values}]") } else { f.write_str(&values) }
    }
}

/// Formats one attribute value in the spelling that rules use. An enumeration value becomes its keyword.
fn spell(attribute: &Attribute) -> String {
    if let Some(integer) = attribute.as_integer() {
        return match attribute {
            Attribute::Bool(value) => value.to_string(),
            _ => integer.to_string(),
        };
    }
    match attribute {
        Attribute::Unit => "true".to_owned(),
        Attribute::Float(value, _) => value.to_string(),
        Attribute::Other(text) => {
            let word = text.strip_prefix("#stablehlo<").and_then(|text| text.strip_suffix('>'));
            word.and_then(|word| word.split_whitespace().last()).unwrap_or(text).to_owned()
        }
        other => other.as_str().map_or_else(|| format!("{other:?}"), str::to_owned),
    }
}

impl AttributeRule {
    /// Returns the reasons why a value is not supported. The list is empty if the value is supported.
    fn faults(&self, value: &Spelled) -> Vec<String> {
        let mut faults = Vec::new();
        let unknown = |value: &&String| !self.one_of.is_empty() && !self.one_of.contains(value);
        if value.values.iter().find(unknown).is_some() {
            faults.push(format!("the device supports only {}", self.one_of.join(", ")));
        }
        let numbers = value.values.iter().filter_map(|value| value.parse::<i64>().ok());
        let (least, most) = (self.at_least.unwrap_or(i64::MIN), self.at_most.unwrap_or(i64::MAX));
        if numbers.clone().any(|number| number < least) {
            faults.push(format!("the device supports only values of at least {least}"));
        }
        if numbers.clone().any(|number| number > most) {
            faults.push(format!("the device supports only values of at most {most}"));
        }
        if let Some(length) = self.max_length.filter(|&length| value.list && value.values.len() > length) {
            faults.push(format!(
                "the device supports at most {length} elements, but the list has {}",
                value.values.len()
            ));
        }
        faults
    }
}

/// Adds a reason. Reasons that differ only in their locations are counted together.
fn add(reasons: &mut Vec<Reason>, reason: Reason) {
    let full = reasons.len() >= MAX_REASONS;
    let known = reasons.iter_mut().find(|known| {
        (&known.operation, &known.attribute, &known.ty, &known.message)
            == (&reason.operation, &reason.attribute, &reason.ty, &reason.message)
    });
    match known {
        Some(known) => known.count += 1,
        None if full => {}
        None => reasons.push(reason),
    }
}

/// Returns the source location of an operation, if the program contains it.
fn location(module: &Module, op: &Op) -> Option<String> {
    Some(module.location(op.location).to_owned()).filter(|location| !location.is_empty())
}

struct Walk<'a> {
    checker: &'a Checker,
    module: &'a Module,
    depth: Depth,
    no: Vec<Reason>,
    maybe: Vec<Reason>,
    host: Vec<Reason>,
}

impl Walk<'_> {
    /// Adds a reason why the device does not support an operation.
    fn unsupported(&mut self, reason: Reason) {
        add(if self.checker.host_fallback { &mut self.host } else { &mut self.no }, reason);
    }

    fn op(&mut self, func: &Func, op: &Op) {
        let (name, rule) = self.checker.rule(&op.kind);
        let module = self.module;
        let place = |reason| Reason { operation: Some(name.clone()), location: location(module, op), ..reason };
        let Some(rule) = rule else {
            // A call needs no rule of its own, because the walk also checks the called function.
            if matches!(op.kind, OpKind::Call { .. }) {
                return;
            }
            if self.checker.complete {
                self.unsupported(place(Reason::new("the device does not support the operation")));
            } else {
                add(&mut self.maybe, place(Reason::new("the plugin's table does not list the operation")));
            }
            return;
        };
        match rule.rule.support {
            Verdict::Yes => {}
            Verdict::No => return add(&mut self.no, place(Reason::new(rule.rule.reason.clone()))),
            Verdict::Maybe => add(&mut self.maybe, place(Reason::new(rule.rule.reason.clone()))),
        }
        if self.depth >= Depth::Attributes {
            self.attributes(op, rule, place);
        }
        if self.depth >= Depth::Types {
            for &value in op.operands.iter().chain(&op.results) {
                self.value(Some((op, rule)), func.ty(value), Some(&name));
            }
        }
    }

    fn attributes(&mut self, op: &Op, rule: &Rule, place: impl Fn(Reason) -> Reason) {
        if rule.rule.attributes.is_empty() {
            return;
        }
        let own = op.own_attributes();
        for (name, value) in own.iter().chain(&op.attributes) {
            let Some(allowed) = rule.rule.attributes.get(name) else { continue };
            let value = Spelled::new(value);
            for message in allowed.faults(&value) {
                let attribute = Some(format!("{name} = {value}"));
                self.unsupported(place(Reason { attribute, ..Reason::new(message) }));
            }
        }
    }

    fn value(&mut self, of: Option<(&Op, &Rule)>, ty: &Type, name: Option<&str>) {
        let tensor = match ty {
            Type::Tensor(tensor) => tensor,
            Type::Tuple(types) => return types.iter().for_each(|ty| self.value(of, ty, name)),
            _ => return,
        };
        let module = self.module;
        let unsupported = |message: String| Reason {
            operation: name.map(str::to_owned),
            ty: Some(tensor.to_string()),
            location: of.and_then(|(op, _)| location(module, op)),
            ..Reason::new(message)
        };
        if let Some((_, rule)) = of
            && !rule.types.is_empty()
            && !rule.types.contains(&tensor.element)
        {
            let message = format!("the device does not support the operation for elements of type {}", tensor.element);
            self.unsupported(unsupported(message));
        }
        let most = of.and_then(|(_, rule)| rule.rule.max_rank).or(self.checker.max_rank);
        if let Some(most) = most.filter(|&most| tensor.rank() > most) {
            let message = format!("the device supports at most {most} dimensions, but the type has {}", tensor.rank());
            self.unsupported(unsupported(message));
        }
        if !self.checker.dynamic_shapes && !tensor.is_static() {
            let message = "the device does not support dynamic shapes; make every extent constant";
            add(&mut self.no, unsupported(message.to_owned()));
        }
    }
}

impl Manifest {
    /// Returns `No` for an artifact whose StableHLO version the plugin does not read, because the compiler would reject
    /// it, too. Returns `None` for any other program.
    pub(crate) fn refuses_version(&self, program: &Program) -> Option<Support> {
        let error = crate::artifact::check(program, self.capabilities.stablehlo).err()?;
        Some(Support::No(vec![Reason::new(error.message())]))
    }

    /// Returns whether the devices can run a program, according to the StableHLO versions and the table in the
    /// manifest. Returns `Maybe` if the manifest has no table and does not exclude the program's version.
    ///
    /// # Errors
    ///
    /// Returns an error if the table has faults. The error contains all of them.
    pub fn supports(&self, program: &Program, depth: Depth) -> Result<Support, Faults> {
        if let Some(no) = self.refuses_version(program) {
            return Ok(no);
        }
        match &self.supported_programs {
            Some(table) => Ok(Checker::new(table)?.program(program, depth)),
            None => Ok(Support::Maybe(vec![Reason::new(format!(
                "the plugin {:?} does not declare which programs it supports; compile the program to find out",
                self.name
            ))])),
        }
    }
}
