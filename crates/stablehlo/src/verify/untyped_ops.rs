//! Rules of ops without their own kind: collectives, dynamic shapes, batch norms and channels.
//!
//! The readers normalize their attributes, which have the artifact's names.

use super::asynchronous;
use super::control::{region_reduces, region_yields_elements};
use super::shapes::{agree, tensors, within};
use super::site::{Site, ensure};
use super::slot::Slot;
use super::string_attributes::field;
use crate::error::{Error, Result};
use crate::ir::*;

/// Requirements on the ids in replica groups.
#[derive(Clone, Copy, PartialEq)]
enum Groups {
    /// Any ids.
    Subset,
    /// Every id, counted from 0.
    All,
    /// Every id, counted from 0, in groups of equal size.
    AllOfOneSize,
}

/// The op and its raw attributes.
pub(super) struct Rules<'s, 'a> {
    pub(super) site: &'s Site<'a>,
    pub(super) attributes: &'a Attributes,
}

pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    let OpKind::Other { name, attributes } = &site.op.kind else { return Ok(()) };
    let Some(base) = name.strip_prefix("stablehlo.") else { return Ok(()) };
    let rules = Rules { site, attributes };
    match base {
        "all_gather" => rules.all_gather(),
        "all_reduce" => rules.all_reduce(),
        "reduce_scatter" => rules.reduce_scatter(),
        "all_to_all" => rules.all_to_all(),
        "collective_permute" => rules.collective_permute(),
        "collective_broadcast" => {
            rules.groups(Groups::Subset)?;
            rules.root()?;
            rules.same_shapes()
        }
        "collective_reduce" => {
            rules.groups(Groups::Subset)?;
            rules.root()?;
            rules.at_least(1)?;
            for result in 0..rules.result_count(site.op.operands.len() - rules.roots()) {
                let (operand, slot) = tensors!(site.operand_tensor(result), site.slot(result));
                slot.element_may_be(operand.element);
                slot.shape_is(&operand.shape)?;
            }
            rules.reduces()
        }
        "cross-replica-sum" => rules.groups(Groups::All),
        "batch_norm_training" => rules.batch_norm(3, 3),
        "batch_norm_inference" => rules.batch_norm(5, 1),
        "batch_norm_grad" => rules.batch_norm(5, 3),
        "map" => rules.map(),
        "rng" => rules.rng(),
        "infeed" => {
            rules.tokens(&[0], true)?;
            rules.infeed()
        }
        "recv" => {
            rules.tokens(&[0], true)?;
            rules.channel(3)?;
            rules.tensors_but_last()
        }
        "outfeed" => rules.tokens(&[site.op.operands.len().saturating_sub(1)], false),
        "send" => {
            rules.tokens(&[site.op.operands.len().saturating_sub(1)], false)?;
            rules.channel(2)
        }
        "dynamic_reshape" => rules.dynamic_reshape(),
        "dynamic_iota" => {
            rules.dynamic_shape(0, 1)?;
            let result = tensors!(site.result_tensor(0));
            within(rules.index("iota_dimension")?, result.rank(), "iota_dimension")
        }
        "dynamic_broadcast_in_dim" => rules.dynamic_broadcast(),
        "dynamic_pad" => rules.dynamic_pad(),
        "real_dynamic_slice" => rules.per_dimension_operands(4, 1),
        "dynamic_gather" => rules.dynamic_gather(),
        "dynamic_conv" => rules.dynamic_conv(),
        "set_dimension_size" => rules.set_dimension_size(),
        "einsum" => rules.counts(2, 1),
        "unary_einsum" | "uniform_quantize" | "uniform_dequantize" => rules.at_least(1),
        "async_start" => asynchronous::start(site),
        "async_done" => asynchronous::done(site),
        "torch_index_select" => rules.counts(2, 1),
        _ => Ok(()),
    }
}

impl<'a> Rules<'_, 'a> {
    pub(super) fn find(&self, name: &str) -> Option<&'a Attribute> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// A dimension or a position.
    pub(super) fn index(&self, name: &str) -> Result<usize> {
        match self.find(name).and_then(Attribute::as_integer).map(usize::try_from) {
            Some(Ok(value)) => Ok(value),
            _ => Err(Error::new(format_args!("attribute `{name}` must be an integer that is not negative"))),
        }
    }

    pub(super) fn counts(&self, operands: usize, results: usize) -> Result<()> {
        let op = self.site.op;
        ensure!(op.operands.len() == operands, "must have {operands} operands, not {}", op.operands.len());
        let made = self.result_count(results);
        ensure!(made == results, "must have {results} results, not {made}");
        Ok(())
    }

    /// The number of results, or `wanted` if they are inferred.
    fn result_count(&self, wanted: usize) -> usize {
        if self.site.wanted.is_some() { wanted } else { self.site.op.results.len() }
    }

    /// The reducer takes two scalars. It is not checked if the types of the results are inferred from it.
    fn reduces(&self) -> Result<()> {
        if self.site.wanted.is_some() { Ok(()) } else { region_reduces(self.site, 0, 1) }
    }

    pub(super) fn at_least(&self, operands: usize) -> Result<()> {
        let count = self.site.op.operands.len();
        ensure!(count >= operands, "must have at least {operands} operands, not {count}");
        Ok(())
    }

    /// There must be as many results as operands, all of them tensors.
    fn pairs(&self) -> Result<Vec<(&'a TensorType, Slot<'a>)>> {
        let op = self.site.op;
        ensure!(
            op.operands.len() == self.result_count(op.operands.len()) && !op.operands.is_empty(),
            "must have as many results as operands, and at least one"
        );
        let mut pairs = Vec::with_capacity(op.operands.len());
        for i in 0..op.operands.len() {
            if let (Some(operand), Some(result)) = (self.site.operand_tensor(i)?, self.site.slot(i)?) {
                pairs.push((operand, result));
            }
        }
        Ok(pairs)
    }

    /// Each result must have the shape and element type of its operand.
    fn same_shapes(&self) -> Result<()> {
        // A dynamic root is an additional operand.
        let op = self.site.op;
        let data = op.operands.len().saturating_sub(self.roots());
        let results = self.result_count(data);
        ensure!(op.operands.len() >= results && results > 0, "has more results than operands");
        for i in 0..results {
            let (operand, result) = tensors!(self.site.operand_tensor(i), self.site.slot(i));
            result.element_is(operand.element)?;
            result.shape_is(&operand.shape)?;
        }
        Ok(())
    }

    /// Checks replica groups: rows of distinct ids, in which short rows are padded with -1.
    fn groups(&self, kind: Groups) -> Result<()> {
        let global = self.find("use_global_device_ids").and_then(Attribute::as_integer) == Some(1);
        let channel = self.find("channel_id").and_then(Attribute::as_integer).unwrap_or(0);
        ensure!(
            !global || channel > 0,
            "attribute `channel_id` must be positive with `use_global_device_ids`, not {channel}"
        );
        let literal = match self.find("replica_groups") {
            Some(Attribute::Tensor(literal)) => literal,
            Some(Attribute::Other(text)) => return self.mesh(text),
            _ => return Err(Error::new("attribute `replica_groups` is missing or not a tensor")),
        };
        ensure!(literal.ty.rank() == 2, "attribute `replica_groups` must have two dimensions, not {}", literal.ty);
        let Some(ids) = literal.integers() else {
            return Err(Error::new("attribute `replica_groups` must hold integers, one per device"));
        };
        let mut seen = std::collections::HashSet::with_capacity(ids.len());
        for &id in &ids {
            ensure!(id >= -1, "attribute `replica_groups` holds the negative id {id}");
            ensure!(id == -1 || seen.insert(id), "attribute `replica_groups` holds id {id} twice");
            ensure!(
                id >= 0 || kind != Groups::AllOfOneSize,
                "the replica groups must have one size; id -1 fills one up"
            );
        }
        if kind != Groups::Subset {
            let missing = (0..seen.len()).find(|&id| i64::try_from(id).is_ok_and(|id| !seen.contains(&id)));
            ensure!(missing.is_none(), "attribute `replica_groups` leaves out id {}", missing.unwrap_or(0));
        }
        Ok(())
    }

    /// For groups along the axes of a mesh, checks that a mesh given by name exists.
    fn mesh(&self, text: &str) -> Result<()> {
        let (Some(name), Some(module)) = (field(text, "<mesh").and_then(|m| m.strip_prefix('@')), self.site.module)
        else {
            return Ok(());
        };
        let named = |attributes: &Attributes| {
            attributes.iter().any(|(n, value)| n == "sym_name" && value.as_str() == Some(name))
        };
        let known = module.symbols.iter().any(|(_, a)| named(a)) || module.func(name).is_some();
        ensure!(known, "attribute `replica_groups` names the mesh @{name}, which does not exist");
        Ok(())
    }

    fn all_gather(&self) -> Result<()> {
        self.groups(Groups::AllOfOneSize)?;
        let dimension = self.index("all_gather_dim")?;
        for (operand, result) in self.pairs()? {
            result.element_is(operand.element)?;
            within(dimension, operand.rank(), "all_gather_dim")?;
            let from = operand.shape[dimension];
            let mut expected = operand.shape.clone();
            let Some(actual) = result.actual() else {
                if let Some(devices) = self.group_size() {
                    expected[dimension] = if from == DYNAMIC { DYNAMIC } else { from.saturating_mul(devices) };
                    result.shape_is(&expected)?;
                }
                continue;
            };
            let to = actual.shape.get(dimension).copied().unwrap_or(DYNAMIC);
            // The number of participating devices may depend on the number of partitions, which the program does not
            // contain.
            expected[dimension] = to;
            result.shape_is(&expected)?;
            let whole = from == DYNAMIC || to == DYNAMIC || (if from == 0 { to == 0 } else { to % from == 0 });
            ensure!(whole, "dimension {dimension} of {actual} is not a multiple of that of {operand}");
        }
        Ok(())
    }

    fn all_reduce(&self) -> Result<()> {
        self.groups(Groups::All)?;
        for (operand, result) in self.pairs()? {
            result.element_may_be(operand.element);
            result.shape_is(&operand.shape)?;
        }
        self.reduces()
    }

    fn reduce_scatter(&self) -> Result<()> {
        self.groups(Groups::AllOfOneSize)?;
        let dimension = self.index("scatter_dimension")?;
        for (operand, result) in self.pairs()? {
            within(dimension, operand.rank(), "scatter_dimension")?;
            result.element_may_be(operand.element);
            let mut expected = operand.shape.clone();
            let from = operand.shape[dimension];
            ensure!(from != 0, "dimension {dimension} of {operand} has no elements to scatter");
            let Some(actual) = result.actual() else {
                if let Some(devices) = self.group_size() {
                    let whole = from == DYNAMIC || from % devices == 0;
                    ensure!(whole, "dimension {dimension} of {operand} is not a multiple of the {devices} devices");
                    expected[dimension] = if from == DYNAMIC { DYNAMIC } else { from / devices };
                    result.shape_is(&expected)?;
                }
                continue;
            };
            let to = actual.shape.get(dimension).copied().unwrap_or(DYNAMIC);
            expected[dimension] = to;
            result.shape_is(&expected)?;
            let whole = from == DYNAMIC || to == DYNAMIC || (to != 0 && from % to == 0);
            ensure!(whole, "dimension {dimension} of {operand} is not a multiple of that of {actual}");
        }
        self.reduces()
    }

    fn all_to_all(&self) -> Result<()> {
        self.groups(Groups::AllOfOneSize)?;
        let (split, concat) = (self.index("split_dimension")?, self.index("concat_dimension")?);
        let count = i64::try_from(self.index("split_count")?).unwrap_or(i64::MAX);
        ensure!(count > 0, "attribute `split_count` must be positive");
        if let Some(Attribute::Tensor(groups)) = self.find("replica_groups") {
            let size = groups.ty.shape.get(1).copied().unwrap_or(0);
            ensure!(size == count, "replica groups have {size} members, but `split_count` is {count}");
        }
        for (operand, result) in self.pairs()? {
            result.element_is(operand.element)?;
            within(split, operand.rank(), "split_dimension")?;
            within(concat, operand.rank(), "concat_dimension")?;
            let mut expected = operand.shape.clone();
            if expected[split] != DYNAMIC {
                ensure!(expected[split] % count == 0, "dimension {split} of {operand} cannot be split in {count}");
                expected[split] /= count;
            }
            if expected[concat] != DYNAMIC {
                expected[concat] = expected[concat].saturating_mul(count);
            }
            result.shape_is(&expected)?;
        }
        Ok(())
    }

    fn collective_permute(&self) -> Result<()> {
        let Some(Attribute::Tensor(literal)) = self.find("source_target_pairs") else {
            return Err(Error::new("attribute `source_target_pairs` is missing or not a tensor"));
        };
        let pairs = literal.integers().unwrap_or_default();
        ensure!(
            pairs.is_empty() || (literal.ty.rank() == 2 && literal.ty.shape[1] == 2),
            "attribute `source_target_pairs` must hold pairs, not {}",
            literal.ty
        );
        for (which, name) in ["source", "target"].into_iter().enumerate() {
            let mut seen = std::collections::HashSet::new();
            for &id in pairs.iter().skip(which).step_by(2) {
                ensure!(id >= 0, "attribute `source_target_pairs` holds the negative id {id}");
                ensure!(seen.insert(id), "id {id} is a {name} twice in `source_target_pairs`");
            }
        }
        self.same_shapes()
    }

    fn batch_norm(&self, operands: usize, results: usize) -> Result<()> {
        self.counts(operands, results)?;
        let operand = tensors!(self.site.operand_tensor(0));
        let feature = self.index("feature_index")?;
        within(feature, operand.rank(), "feature_index")?;
        // The gradient of the output has the shape of the operand. Every other operand has one entry per feature.
        let gradient = results == 3 && operands == 5;
        for i in 1..operands {
            let other = tensors!(self.site.operand_tensor(i));
            let expected = if gradient && i == 4 { operand.shape.clone() } else { vec![operand.shape[feature]] };
            ensure!(
                agree(&other.shape, &expected),
                "operand {i} is {other} but must be {}",
                TensorType::new(expected, other.element)
            );
        }
        for i in 0..results {
            let result = tensors!(self.site.slot(i));
            let expected = if i == 0 { operand.shape.clone() } else { vec![operand.shape[feature]] };
            result.element_may_be(operand.element);
            result.shape_is(&expected)?;
        }
        Ok(())
    }

    fn map(&self) -> Result<()> {
        self.at_least(1)?;
        if let (Some(list), Some(first)) =
            (self.find("dimensions").and_then(Attribute::as_integers), self.site.operand_tensor(0)?)
        {
            let every = list.len() == first.rank() && list.iter().zip(0i64..).all(|(&d, want)| d == want);
            ensure!(every, "`dimensions` must be every dimension of {first} in order, not {list:?}");
        }
        let (first, result) = tensors!(self.site.operand_tensor(0), self.site.slot(0));
        for i in 0..self.site.op.operands.len() {
            let operand = tensors!(self.site.operand_tensor(i));
            ensure!(agree(&operand.shape, &first.shape), "operands {first} and {operand} differ in shape");
        }
        result.element_may_be(first.element);
        result.shape_is(&first.shape)?;
        if self.site.wanted.is_some() { Ok(()) } else { region_yields_elements(self.site, 0) }
    }

    fn rng(&self) -> Result<()> {
        self.counts(3, 1)?;
        let (a, b, shape) =
            tensors!(self.site.operand_tensor(0), self.site.operand_tensor(1), self.site.operand_tensor(2));
        let result = tensors!(self.site.result_tensor(0));
        ensure!(a.shape.is_empty() && b.shape.is_empty(), "the bounds {a} and {b} must be scalars");
        ensure!(a.element == b.element && a.element == result.element, "bounds and result differ in element type");
        self.shape_operand(2, shape, result)
    }

    /// The number of operands that are a dynamic root.
    fn roots(&self) -> usize {
        usize::from(self.find("has_dynamic_root").and_then(Attribute::as_integer) == Some(1))
    }

    /// The number of devices in each group, if the program contains it. It does not if the groups contain replicas, each
    /// of which stands for all of its partitions.
    fn group_size(&self) -> Option<i64> {
        let global = self.find("use_global_device_ids").and_then(Attribute::as_integer) == Some(1);
        let channel = self.find("channel_id").and_then(Attribute::as_integer).unwrap_or(0);
        match self.find("replica_groups") {
            Some(Attribute::Tensor(groups)) if global || channel <= 0 => {
                groups.ty.shape.get(1).copied().filter(|&devices| devices > 0)
            }
            _ => None,
        }
    }

    /// Checks that the last operand of a collective with a dynamic root holds as many `i32` numbers as there are data
    /// operands.
    fn root(&self) -> Result<()> {
        if self.find("has_dynamic_root").and_then(Attribute::as_integer) != Some(1) {
            return Ok(());
        }
        let data = self.site.op.operands.len().saturating_sub(1);
        ensure!(data > 0, "must have an operand besides the root");
        let root = tensors!(self.site.operand_tensor(data));
        let count = i64::try_from(data).unwrap_or(i64::MAX);
        let fits = root.element == ElementType::I32 && agree(&root.shape, &[count]);
        ensure!(fits, "the root is {root} but must be tensor<{count}xi32>");
        Ok(())
    }

    /// All results except the last must be tensors.
    fn tensors_but_last(&self) -> Result<()> {
        let results = self.site.results();
        let count = results.len().saturating_sub(1);
        for (i, ty) in results.take(count).enumerate() {
            ensure!(matches!(ty, Type::Tensor(_) | Type::Other(_)), "result {i} must be a tensor, not {ty}");
        }
        Ok(())
    }

    /// The results must be tensors. Their layouts are lists of dimensions.
    fn infeed(&self) -> Result<()> {
        self.tensors_but_last()?;
        let Some(Attribute::Array(layouts)) = self.find("layout") else { return Ok(()) };
        let tensors = self.site.op.results.len().saturating_sub(1);
        // Artifacts store an absent layout as an empty one.
        let stated = !layouts.is_empty();
        ensure!(!stated || layouts.len() == tensors, "`layout` has {} entries for {tensors} tensors", layouts.len());
        for layout in layouts {
            let list = matches!(layout, Attribute::Array(items) if items.iter().all(|d| d.as_integer().is_some()));
            ensure!(list, "`layout` must hold lists of dimensions");
        }
        Ok(())
    }

    /// Checks the type of a channel: `host` for a transfer to or from the host, otherwise 1 (between devices).
    fn channel(&self, host: i64) -> Result<()> {
        let transfer =
            self.find("is_host_transfer").is_some_and(|a| *a == Attribute::Bool(true) || *a == Attribute::Unit);
        let wanted = if transfer { host } else { 1 };
        let channel = self.find("channel_type").and_then(Attribute::as_integer).unwrap_or(0);
        ensure!(
            channel == 0 || channel == wanted,
            "attribute `channel_type` must be {wanted} where `is_host_transfer` is {transfer}, not {channel}"
        );
        Ok(())
    }

    /// The operands at these positions must be tokens, and also the last result or the only one.
    fn tokens(&self, operands: &[usize], last: bool) -> Result<()> {
        for &at in operands {
            let ty = self.site.operand(at)?;
            ensure!(*ty == Type::Token, "operand {at} must be a token, not {ty}");
        }
        let results = self.site.op.results.len();
        ensure!(last || results == 1, "must have one result, not {results}");
        let ty = self.site.result(results.saturating_sub(1))?;
        ensure!(*ty == Type::Token, "the last result must be a token, not {ty}");
        Ok(())
    }
}
