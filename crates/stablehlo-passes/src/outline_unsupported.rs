//! The pass `outline_unsupported`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use stablehlo::ir::{Func, Location, LocationId, Locations, Module, Op, OpKind, Region, ValueId, ValueIds, ValueTypes};
use stablehlo::{Error, ErrorKind, Result};

use crate::effects::keeps_order;
use crate::names::Names;
use crate::outline::outline;

/// The result of [`outline_unsupported`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outlined {
    /// The program. Its entry function calls the new functions.
    pub module: Module,
    /// The new functions.
    pub functions: Vec<OutlinedFunction>,
}

/// A function of ops that a device does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlinedFunction {
    /// Name of the function in the module.
    pub name: String,
    /// The ops that were moved to the function, in program order. Does not list ops of regions, and copied constants.
    pub ops: Vec<OutlinedOp>,
}

/// An op that a device does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlinedOp {
    /// Name of the op, such as `stablehlo.sort`. The name of a custom call includes its target.
    pub name: String,
    /// Source location of the op, as [`Module::location`] formats it. Empty if no location is recorded.
    pub location: String,
}

/// Moves the ops that a device does not support into private functions, so that the host can run them. Returns `None`
/// if the device supports all ops.
///
/// Each region gets as few functions as possible. A function contains several ops if no op of the device must run
/// between them. A call replaces the ops of a function. The ops of the device keep their order, except that an op that
/// needs results of a call runs after it. Custom calls with side effects, collectives, random numbers and ops with
/// tokens keep their order among themselves.
///
/// `is_supported` receives an op of the entry function, and that function. If it returns `false` for an op, the op
/// moves with its regions. If it returns `true` for a `while`, `if` or `case`, only unsupported ops of its regions
/// move, so that a region may contain calls. Other ops move with their regions if `is_supported` returns `false` for
/// an op of a region, such as an op of the body of a `reduce`.
///
/// A function contains its own copies of constants, of `iota`, and of broadcasts, conversions and reshapes of them. All
/// other values from outside are arguments.
///
/// The module must be verified and must not contain calls. Call [`stablehlo::inline`] first. To avoid functions whose
/// results are not used, also call [`eliminate_dead_code`](crate::eliminate_dead_code).
///
/// ```
/// use stablehlo::VerifyLevel;
/// use stablehlo::ir::{OpKind, Unary};
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///   %0 = stablehlo.tan %x : tensor<2xf32>
///   %1 = stablehlo.add %0, %x : tensor<2xf32>
///   return %1 : tensor<2xf32>
/// }", VerifyLevel::FULL)?;
/// let is_supported = |op: &stablehlo::ir::Op, _: &stablehlo::ir::Func| !matches!(op.kind, OpKind::Unary(Unary::Tan));
/// let outlined = stablehlo_passes::outline_unsupported(&module, is_supported)?.expect("`tan` is not supported");
/// assert_eq!(outlined.functions[0].ops[0].name, "stablehlo.tan");
/// let function = outlined.module.func(&outlined.functions[0].name).expect("the new function");
/// assert!(matches!(function.body.ops[0].kind, OpKind::Unary(Unary::Tan)));
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the module has no entry function, or if the entry function contains a call.
pub fn outline_unsupported(
    module: &Module,
    mut is_supported: impl FnMut(&Op, &Func) -> bool,
) -> Result<Option<Outlined>> {
    let Some(entry) = module.entry() else {
        let message = "the module has no entry function; name one function `main`";
        return Err(Error::new(ErrorKind::Structure, message));
    };
    if let Some(OpKind::Call { callee }) =
        entry.body.all_ops().map(|op| &op.kind).find(|kind| matches!(kind, OpKind::Call { .. }))
    {
        let message = format_args!("function `{}` calls `{callee}`; call `stablehlo::inline` first", entry.name);
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut pass = Pass {
        module,
        entry,
        is_supported: &mut is_supported,
        visited: 0,
        cheap: HashMap::new(),
        names: Names::new(module),
        locations: module.locations.clone(),
        funcs: Vec::new(),
        functions: Vec::new(),
    };
    let body = pass.region(&entry.body)?;
    let Pass { locations, funcs, functions, .. } = pass;
    if functions.is_empty() {
        return Ok(None);
    }
    let mut outlined = Outlined { module: Module { locations, ..module.clone() }, functions };
    if let Some(main) = outlined.module.funcs.iter_mut().find(|func| func.name == entry.name) {
        main.body = body;
    }
    outlined.module.funcs.extend(funcs);
    Ok(Some(outlined))
}

struct Pass<'m> {
    module: &'m Module,
    entry: &'m Func,
    is_supported: &'m mut dyn FnMut(&Op, &Func) -> bool,
    /// Number of visited ops.
    visited: usize,
    /// The visited ops that functions copy, by their result, with their number.
    cheap: HashMap<ValueId, (usize, &'m Op)>,
    names: Names,
    locations: Locations,
    /// The new functions.
    funcs: Vec<Func>,
    functions: Vec<OutlinedFunction>,
}

/// An op of a region.
struct Node<'m> {
    /// Number of the op in program order.
    number: usize,
    op: &'m Op,
    /// The op with rewritten regions. `None` if the device does not support the op.
    device: Option<Op>,
    /// The values that the op and its regions use, except for values that a function copies.
    uses: Vec<ValueId>,
}

impl Node<'_> {
    fn is_on_host(&self) -> bool {
        self.device.is_none()
    }
}

/// Returns the values that an op and its regions use, and do not define.
fn used(op: &Op) -> impl Iterator<Item = ValueId> {
    op.operands.iter().copied().chain(op.captures())
}

impl<'m> Pass<'m> {
    /// Returns the region with calls in place of the unsupported ops.
    fn region(&mut self, region: &'m Region) -> Result<Region> {
        let Some((end, body)) = region.ops.split_last() else { return Ok(region.clone()) };
        let nodes = body.iter().map(|op| self.node(op)).collect::<Result<Vec<_>>>()?;
        let nodes = self.without_copied(nodes, end);
        let mut ops = self.ordered(nodes, end)?;
        ops.push(end.clone());
        Ok(Region { args: region.args.clone(), ops })
    }

    fn node(&mut self, op: &'m Op) -> Result<Node<'m>> {
        let number = self.visited;
        self.visited += 1;
        if self.is_cheap(op) {
            self.cheap.extend(op.results.iter().map(|&result| (result, (number, op))));
        }
        if !self.runs_on_device(op) {
            let uses = used(op).filter(|value| !self.cheap.contains_key(value)).collect();
            return Ok(Node { number, op, device: None, uses });
        }
        let regions = if has_parts(op) {
            op.regions.iter().map(|region| self.region(region)).collect::<Result<_>>()?
        } else {
            op.regions.clone()
        };
        let device = op.copied(op.operands.clone(), op.results.clone(), regions);
        Ok(Node { number, op, uses: used(&device).collect(), device: Some(device) })
    }

    fn runs_on_device(&mut self, op: &Op) -> bool {
        let mut is_supported = |op: &Op| matches!(op.kind, OpKind::Return) || (self.is_supported)(op, self.entry);
        is_supported(op) && (has_parts(op) || op.regions.iter().flat_map(Region::all_ops).all(is_supported))
    }

    /// Returns whether it costs less to compute the op twice than to move its result.
    fn is_cheap(&self, op: &Op) -> bool {
        match op.kind {
            OpKind::Constant(_) | OpKind::Iota { .. } => true,
            OpKind::BroadcastInDim { .. } | OpKind::Convert | OpKind::Reshape => {
                op.operands.iter().all(|operand| self.cheap.contains_key(operand))
            }
            _ => false,
        }
    }

    /// Removes the ops that only functions use, because the functions contain copies of them.
    fn without_copied(&self, nodes: Vec<Node<'m>>, end: &Op) -> Vec<Node<'m>> {
        let mut live: HashSet<ValueId> = end.operands.iter().copied().collect();
        let mut kept = Vec::with_capacity(nodes.len());
        for node in nodes.into_iter().rev() {
            let result = node.op.results.first();
            if result.is_some_and(|result| self.cheap.contains_key(result) && !live.contains(result)) {
                continue;
            }
            live.extend(&node.uses);
            kept.push(node);
        }
        kept.reverse();
        kept
    }

    /// Returns the ops of the device and the calls, in an order in which values are defined before they are used.
    fn ordered(&mut self, nodes: Vec<Node<'m>>, end: &Op) -> Result<Vec<Op>> {
        let Units { units, successors, mut waits, mut needed } = Units::new(&nodes, &self.entry.values);
        needed.extend(&end.operands);
        let mut nodes: Vec<Option<Node<'m>>> = nodes.into_iter().map(Some).collect();
        let mut ops = Vec::with_capacity(units.len() + 1);
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..units.len()).filter(|&unit| waits[unit] == 0).map(Reverse).collect();
        while let Some(Reverse(unit)) = ready.pop() {
            let members: Vec<Node<'m>> = units[unit].iter().filter_map(|&member| nodes[member].take()).collect();
            if members.iter().any(Node::is_on_host) {
                ops.push(self.call(&members, &needed)?);
            } else {
                ops.extend(members.into_iter().filter_map(|member| member.device));
            }
            for &successor in &successors[unit] {
                waits[successor] -= 1;
                if waits[successor] == 0 {
                    ready.push(Reverse(successor));
                }
            }
        }
        Ok(ops)
    }

    /// Creates a function of these ops, and returns a call of the function.
    fn call(&mut self, members: &[Node<'m>], needed: &HashSet<ValueId>) -> Result<Op> {
        let name = self.names.next("unsupported");
        // With the copies, in program order.
        let mut ops: BTreeMap<usize, &Op> = members.iter().map(|member| (member.number, member.op)).collect();
        let mut operands: Vec<ValueId> = members.iter().flat_map(|member| used(member.op)).collect();
        while let Some(operand) = operands.pop() {
            if let Some(&(number, op)) = self.cheap.get(&operand)
                && ops.insert(number, op).is_none()
            {
                operands.extend(&op.operands);
            }
        }
        let results = members.iter().flat_map(|member| &member.op.results).filter(|result| needed.contains(result));
        let results: ValueIds = results.copied().collect();
        let outline = outline(&name, ops.into_values(), &results, &self.entry.values)?;
        let ops = members.iter().map(|member| OutlinedOp {
            name: op_name(&member.op.kind),
            location: self.module.location(member.op.location),
        });
        self.functions.push(OutlinedFunction { name: name.clone(), ops: ops.collect() });
        self.funcs.push(outline.func);
        let location = self.location(members);
        Ok(Op { location, ..Op::new(OpKind::Call { callee: name }, outline.operands, results) })
    }

    /// Returns the location of the ops.
    fn location(&mut self, members: &[Node<'_>]) -> LocationId {
        let mut places: Vec<LocationId> = members.iter().map(|member| member.op.location).collect();
        places.dedup();
        match (&places[..], u32::try_from(self.locations.len())) {
            (&[one], _) => one,
            (_, Ok(id)) => {
                self.locations.push(Location::Fused(places));
                LocationId(id)
            }
            (_, Err(_)) => LocationId::default(),
        }
    }
}

/// Returns whether parts of the op's regions can run on the device and other parts on the host.
fn has_parts(op: &Op) -> bool {
    matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case)
}

fn op_name(kind: &OpKind) -> String {
    match kind {
        OpKind::CustomCall { call_target_name, .. } => format!("{} @{call_target_name}", kind.name()),
        _ => kind.name(),
    }
}

/// The ops of a region in groups. A group is one op of the device, or the ops of one function.
struct Units {
    /// The indices of the nodes of each unit. The units are in the order of their first nodes.
    units: Vec<Vec<usize>>,
    /// The units that must come after each unit. A unit may occur more than once.
    successors: Vec<Vec<usize>>,
    /// How often each unit occurs in `successors`.
    waits: Vec<usize>,
    /// The values that a unit uses and another unit defines.
    needed: HashSet<ValueId>,
}

impl Units {
    fn new(nodes: &[Node<'_>], types: &ValueTypes) -> Self {
        let mut made = Self { units: Vec::new(), successors: Vec::new(), waits: Vec::new(), needed: HashSet::new() };
        // The node and the unit that define each value.
        let mut definers: HashMap<ValueId, usize> = HashMap::new();
        // The level of a node is the highest number of changes between the device and the host on a path to it. Host
        // nodes have odd levels. All host nodes of a level become one unit: if a path between two of them contained an
        // op of the device, the second one would have a higher level. There cannot be fewer units, because the longest
        // path needs one for each odd level.
        let mut levels: Vec<usize> = Vec::with_capacity(nodes.len());
        let mut unit_of: Vec<usize> = Vec::with_capacity(nodes.len());
        let mut host_units: HashMap<usize, usize> = HashMap::new();
        let mut last_with_order = None;
        for (index, node) in nodes.iter().enumerate() {
            let mut before: Vec<usize> = node.uses.iter().filter_map(|value| definers.get(value).copied()).collect();
            if keeps_order(node.op, types) {
                before.extend(last_with_order.replace(index));
            }
            let level_after =
                |&other: &usize| levels[other] + usize::from(nodes[other].is_on_host() != node.is_on_host());
            let level = before.iter().map(level_after).max().unwrap_or(0).max(usize::from(node.is_on_host()));
            let new = made.units.len();
            let unit = if node.is_on_host() { *host_units.entry(level).or_insert(new) } else { new };
            if unit == new {
                made.units.push(Vec::new());
                made.successors.push(Vec::new());
                made.waits.push(0);
            }
            made.units[unit].push(index);
            for other in before.into_iter().map(|other| unit_of[other]).filter(|&other| other != unit) {
                made.successors[other].push(unit);
                made.waits[unit] += 1;
            }
            let is_needed = |value: &&ValueId| definers.get(value).is_some_and(|&other| unit_of[other] != unit);
            made.needed.extend(node.uses.iter().filter(is_needed));
            levels.push(level);
            unit_of.push(unit);
            definers.extend(node.op.results.iter().map(|&result| (result, index)));
        }
        made
    }
}
