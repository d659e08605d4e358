//! A module under construction.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use super::annotations::string;
use super::function::{FinishedFunction, FunctionBuilder};
use super::state::At;
use super::value::Values;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{self, *};
use crate::verify::{VerifyLevel, verify};

/// Builds a program, which is a [`Module`] with functions.
///
/// ```
/// use stablehlo::builder::ModuleBuilder;
/// use stablehlo::ir::{ElementType, TensorType};
///
/// let module = ModuleBuilder::new("quadratic");
/// let square = module.function("square", |f| {
///     f.private();
///     let x = f.argument(TensorType::new([4], ElementType::F32))?;
///     f.multiply(x, x)
/// })?;
/// module.function("main", |f| {
///     let x = f.argument(TensorType::new([4], ElementType::F32))?;
///     f.call(&square, [x])
/// })?;
/// let module = module.build()?;
/// assert_eq!(module.funcs.len(), 2);
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ModuleBuilder {
    state: RefCell<ModuleState>,
}

#[derive(Debug, Default)]
struct ModuleState {
    module: Module,
    locations: Vec<ir::Location>,
}

/// Handle to a function that other functions of the module can call. It contains the types of the function's arguments
/// and results.
#[derive(Clone, Debug)]
pub struct Callee(Arc<Signature>);

#[derive(Debug)]
struct Signature {
    name: String,
    arguments: Vec<Type>,
    results: Vec<Type>,
}

impl Callee {
    /// Returns the symbol name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the types of the arguments.
    #[must_use]
    pub fn arguments(&self) -> &[Type] {
        &self.0.arguments
    }

    /// Returns the types of the results.
    #[must_use]
    pub fn results(&self) -> &[Type] {
        &self.0.results
    }
}

impl ModuleBuilder {
    /// Creates an empty module with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let module = Module { name: Some(name.into()), ..Module::default() };
        Self { state: RefCell::new(ModuleState { module, locations: vec![ir::Location::Unknown] }) }
    }

    /// Adds a function that the closure builds. The closure returns the function's results. Use the name `main` for the
    /// entry function of the program.
    ///
    /// The closure may add other functions to the module, and call these functions.
    ///
    /// # Errors
    ///
    /// Returns an error if the closure returns an error, if a result is not valid, or if the module already has a
    /// function with this name.
    #[track_caller]
    pub fn function<R: Values>(
        &self,
        name: impl Into<String>,
        body: impl FnOnce(&FunctionBuilder) -> Result<R>,
    ) -> Result<Callee> {
        let at = Location::caller();
        let builder = FunctionBuilder::new(name);
        let results = body(&builder)?;
        self.add_at(builder.finish(results)?, at)
    }

    /// Adds a finished function.
    ///
    /// # Errors
    ///
    /// Returns an error if the module already has a function with this name.
    #[track_caller]
    pub fn add(&self, function: FinishedFunction) -> Result<Callee> {
        self.add_at(function, Location::caller())
    }

    fn add_at(&self, function: FinishedFunction, at: At) -> Result<Callee> {
        let mut state = self.state.borrow_mut();
        let ModuleState { module, locations } = &mut *state;
        let FinishedFunction { mut func, locations: own, is_placed } = function;
        if module.func(&func.name).is_some() {
            let error = Error::new(
                ErrorKind::Reference,
                format_args!("the module has a function @{} already; choose another name", func.name),
            );
            let error = error.with_op("func.func").with_func(&func.name);
            return Err(if is_placed { error.with_location(at.to_string()) } else { error });
        }
        // Location 0 is `Unknown` in every function and in the module, so it is not copied.
        let offset = u32::try_from(locations.len() - 1).unwrap_or(0);
        locations.extend(own.into_iter().skip(1).map(|location| match location {
            ir::Location::Name(name, place) => ir::Location::Name(name, shifted(place, offset)),
            location => location,
        }));
        func.location = shifted(func.location, offset);
        let mut regions = vec![&mut func.body];
        while let Some(region) = regions.pop() {
            for op in &mut region.ops {
                op.location = shifted(op.location, offset);
                regions.extend(&mut op.regions);
            }
        }
        let signature = Signature {
            name: func.name.clone(),
            arguments: func.args().iter().map(|&value| func.ty(value).clone()).collect(),
            results: func.results.clone(),
        };
        module.funcs.push(func);
        Ok(Callee(Arc::new(signature)))
    }

    /// Adds a mesh of devices in Shardy's form. `axes` lists the name and the size of each axis.
    ///
    /// # Errors
    ///
    /// Returns an error if the module already has a mesh with this name, or if an axis has the size 0.
    #[track_caller]
    pub fn mesh(&self, name: &str, axes: &[(&str, u32)]) -> Result<()> {
        let place = |e: Error| e.with_op("sdy.mesh").with_location(Location::caller().to_string());
        if let Some((axis, _)) = axes.iter().find(|(_, size)| *size == 0) {
            return Err(place(Error::new(
                ErrorKind::Attribute,
                format_args!("axis `{axis}` of mesh @{name} must have at least one device"),
            )));
        }
        let axes: Vec<String> = axes.iter().map(|(axis, size)| format!("\"{axis}\"={size}")).collect();
        let mesh = Attribute::Other(format!("#sdy.mesh<[{}]>", axes.join(", ")));
        let attributes = vec![("mesh".to_owned(), mesh), ("sym_name".to_owned(), string(name))];
        let symbols = &mut self.state.borrow_mut().module.symbols;
        if symbols.iter().any(|(_, known)| known.contains(&attributes[1])) {
            return Err(place(Error::new(
                ErrorKind::Reference,
                format_args!("the module has a mesh @{name} already; choose another name"),
            )));
        }
        symbols.push(("sdy.mesh".to_owned(), attributes));
        Ok(())
    }

    /// Sets the number of partitions (`mhlo.num_partitions`). Each partition executes a part of one program.
    pub fn partitions(&self, count: u32) -> &Self {
        self.attribute("mhlo.num_partitions", Attribute::Integer(count.into(), ElementType::I32))
    }

    /// Sets the number of replicas (`mhlo.num_replicas`). Each replica executes the program on different data.
    pub fn replicas(&self, count: u32) -> &Self {
        self.attribute("mhlo.num_replicas", Attribute::Integer(count.into(), ElementType::I32))
    }

    /// Sets an attribute of the module. Replaces an attribute of the same name.
    pub fn attribute(&self, name: &str, value: Attribute) -> &Self {
        let attributes = &mut self.state.borrow_mut().module.attributes;
        attributes.retain(|(known, _)| known != name);
        attributes.push((name.to_owned(), value));
        self
    }

    /// Verifies the module at level [`VerifyLevel::FULL`] and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error if the module violates a rule that involves several ops or functions. For example, a called
    /// function is not in the module, a sharding refers to a mesh that does not exist, or an operand that is a constant
    /// has an invalid value.
    pub fn build(self) -> Result<Module> {
        let ModuleState { mut module, locations } = self.state.into_inner();
        module.locations = locations.into();
        verify(&module, VerifyLevel::FULL)?;
        Ok(module)
    }
}

fn shifted(id: LocationId, offset: u32) -> LocationId {
    if id.0 == 0 { id } else { LocationId(id.0.saturating_add(offset)) }
}
