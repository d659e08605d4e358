//! Attributes of a function's arguments and results, such as donation, shardings, memory kinds and layouts.

use std::fmt::Write;

use crate::ir::{Attribute, Attributes, ElementType, Type};

/// An argument of a function: its type and its attributes.
///
/// ```
/// use stablehlo::builder::{Argument, ModuleBuilder, Sharding};
/// use stablehlo::ir::{ElementType, TensorType};
///
/// let module = ModuleBuilder::new("step");
/// module.mesh("mesh", &[("data", 2)])?;
/// module.function("main", |f| {
///     let ty = TensorType::new([4], ElementType::F32);
///     // The first result may reuse the memory of the argument.
///     let cache = f.argument(Argument::new(ty).donated_to(0).sharding(&Sharding::mesh("mesh").dimension(&["data"])))?;
///     f.add(cache, cache)
/// })?;
/// let module = module.build()?;
/// assert!(module.funcs[0].arg_attribute(0, "tf.aliasing_output").is_some());
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Argument {
    ty: Type,
    attributes: Attributes,
}

/// The attributes of a result of a function. See [`FunctionBuilder::output`](super::FunctionBuilder::output).
#[derive(Clone, Debug, Default)]
pub struct Output {
    attributes: Attributes,
}

impl Argument {
    /// Creates an argument of this type without attributes.
    #[must_use]
    pub fn new(ty: impl Into<Type>) -> Self {
        Self { ty: ty.into(), attributes: Attributes::new() }
    }

    /// Donates the buffer of the argument to the result with this index (`tf.aliasing_output`). The result must have
    /// the same size as the argument.
    #[must_use]
    pub fn donated_to(self, result: u32) -> Self {
        self.attribute("tf.aliasing_output", Attribute::Integer(result.into(), ElementType::I32))
    }

    /// Donates the buffer of the argument (`jax.buffer_donor`). The compiler selects a result of suitable size for it.
    #[must_use]
    pub fn donated(self) -> Self {
        self.attribute("jax.buffer_donor", Attribute::Bool(true))
    }

    /// Sets the sharding of the argument.
    #[must_use]
    pub fn sharding(self, sharding: &Sharding) -> Self {
        self.attribute(sharding.name(), sharding.attribute())
    }

    /// Sets the kind of memory that holds the argument, such as `device` or `pinned_host` (`mhlo.memory_kind`).
    #[must_use]
    pub fn memory_kind(self, kind: &str) -> Self {
        self.attribute("mhlo.memory_kind", string(kind))
    }

    /// Sets the layout of the argument (`mhlo.layout_mode`). `order` lists the dimensions of the argument from minor to
    /// major.
    #[must_use]
    pub fn minor_to_major(self, order: &[usize]) -> Self {
        self.attribute("mhlo.layout_mode", layout(order))
    }

    /// Sets an attribute. Replaces an attribute of the same name.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        set(&mut self.attributes, name, value);
        self
    }

    pub(super) fn into_parts(self) -> (Type, Attributes) {
        (self.ty, self.attributes)
    }
}

impl<T: Into<Type>> From<T> for Argument {
    fn from(ty: T) -> Self {
        Self::new(ty)
    }
}

impl Output {
    /// Creates a result without attributes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the sharding of the result.
    #[must_use]
    pub fn sharding(self, sharding: &Sharding) -> Self {
        self.attribute(sharding.name(), sharding.attribute())
    }

    /// Sets the kind of memory that holds the result, such as `device` or `pinned_host` (`mhlo.memory_kind`).
    #[must_use]
    pub fn memory_kind(self, kind: &str) -> Self {
        self.attribute("mhlo.memory_kind", string(kind))
    }

    /// Sets the layout of the result (`mhlo.layout_mode`). `order` lists the dimensions of the result from minor to
    /// major.
    #[must_use]
    pub fn minor_to_major(self, order: &[usize]) -> Self {
        self.attribute("mhlo.layout_mode", layout(order))
    }

    /// Sets the name that the framework uses for the result (`jax.result_info`).
    #[must_use]
    pub fn info(self, name: &str) -> Self {
        self.attribute("jax.result_info", string(name))
    }

    /// Sets an attribute. Replaces an attribute of the same name.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: Attribute) -> Self {
        set(&mut self.attributes, name, value);
        self
    }

    pub(super) fn into_attributes(self) -> Attributes {
        self.attributes
    }
}

fn set(attributes: &mut Attributes, name: &str, value: Attribute) {
    attributes.retain(|(known, _)| known != name);
    attributes.push((name.to_owned(), value));
}

fn layout(minor_to_major: &[usize]) -> Attribute {
    let order: Vec<String> = minor_to_major.iter().map(usize::to_string).collect();
    string(&format!("{{{}}}", order.join(",")))
}

pub(super) fn string(text: &str) -> Attribute {
    Attribute::String(text.as_bytes().to_vec().into())
}

/// Distribution of a tensor over devices, as an attribute of Shardy (`sdy.sharding`) or of GSPMD (`mhlo.sharding`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// Sharding over a mesh: the name of the mesh, the axes that shard each dimension, and the axes along which the
    /// tensor is replicated.
    Mesh { mesh: String, dimensions: Vec<Vec<String>>, replicated: Vec<String> },
    /// Sharding in XLA's text form.
    Gspmd(String),
}

impl Sharding {
    /// Creates a sharding over a mesh, in Shardy's form. Call [`Self::dimension`] for each dimension of the tensor. To
    /// add the mesh to the module, call [`ModuleBuilder::mesh`](super::ModuleBuilder::mesh).
    #[must_use]
    pub fn mesh(name: &str) -> Self {
        Self(Form::Mesh { mesh: name.to_owned(), dimensions: Vec::new(), replicated: Vec::new() })
    }

    /// Shards the tensor's next dimension along these axes of the mesh. An empty list leaves the dimension unsharded.
    /// Has no effect on a sharding in GSPMD's form.
    #[must_use]
    pub fn dimension(mut self, axes: &[&str]) -> Self {
        if let Form::Mesh { dimensions, .. } = &mut self.0 {
            dimensions.push(axes.iter().map(|axis| (*axis).to_owned()).collect());
        }
        self
    }

    /// Replicates the tensor along these axes of the mesh. Has no effect on a sharding in GSPMD's form.
    #[must_use]
    pub fn replicated_along(mut self, axes: &[&str]) -> Self {
        if let Form::Mesh { replicated, .. } = &mut self.0 {
            replicated.extend(axes.iter().map(|axis| (*axis).to_owned()));
        }
        self
    }

    /// Creates a sharding from XLA's text form, such as `{devices=[2,1]<=[2]}`.
    #[must_use]
    pub fn gspmd(text: &str) -> Self {
        Self(Form::Gspmd(text.to_owned()))
    }

    /// Creates a sharding in GSPMD's form that stores the whole tensor on every device.
    #[must_use]
    pub fn replicated() -> Self {
        Self::gspmd("{replicated}")
    }

    /// Creates a sharding in GSPMD's form that splits each dimension `d` into `parts[d]` tiles. The tiles are assigned
    /// to the devices in row-major order.
    #[must_use]
    pub fn tiled(parts: &[u32]) -> Self {
        let list: Vec<String> = parts.iter().map(u32::to_string).collect();
        let devices: u64 = parts.iter().map(|&n| u64::from(n)).product();
        Self::gspmd(&format!("{{devices=[{}]<=[{devices}]}}", list.join(",")))
    }

    /// Returns whether the sharding is in Shardy's form.
    #[must_use]
    pub fn is_shardy(&self) -> bool {
        matches!(self.0, Form::Mesh { .. })
    }

    /// Returns the name of the attribute that holds the sharding.
    pub(super) fn name(&self) -> &'static str {
        if self.is_shardy() { "sdy.sharding" } else { "mhlo.sharding" }
    }

    pub(super) fn attribute(&self) -> Attribute {
        let (mesh, dimensions, replicated) = match &self.0 {
            Form::Gspmd(text) => return string(text),
            Form::Mesh { mesh, dimensions, replicated } => (mesh, dimensions, replicated),
        };
        let quoted = |axes: &[String]| axes.iter().map(|axis| format!("\"{axis}\"")).collect::<Vec<_>>().join(", ");
        let dimensions: Vec<String> = dimensions.iter().map(|axes| format!("{{{}}}", quoted(axes))).collect();
        let mut text = format!("#sdy.sharding<@{mesh}, [{}]", dimensions.join(", "));
        if !replicated.is_empty() {
            let _ = write!(text, ", replicated={{{}}}", quoted(replicated));
        }
        text.push('>');
        Attribute::Other(text)
    }
}
