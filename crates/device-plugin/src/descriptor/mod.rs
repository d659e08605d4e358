//! The description of a plugin written in Rust.

#[cfg(feature = "stablehlo")]
#[cfg(test)]
#[allow(unsafe_code, reason = "its plugin names a library")]
mod support_tests;
#[cfg(test)]
mod tests;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::abi::table::shared_api::SharedApi;
use crate::c_view::descriptor::{CDescriptor, ExportedPlugin, dp_descriptor};
use crate::contain::contain;
use crate::per_type::PerType;
use crate::{
    Backend, Depth, Descriptor, DevicePlugin, EnvPlan, Environment, Fault, Faults, Hooks, Library, Manifest,
    ProcessTopology, Program, Registered, Result, Support,
};

/// Returns the description of the plugin `P`. If the plugin has a backend, [`Library::This`] is replaced by the
/// function table of the backend.
///
/// # Errors
///
/// Returns all faults of the description. A panic of the plugin is reported as a fault, too.
pub fn descriptor<P: DevicePlugin>() -> Result<Descriptor, Faults> {
    contained::<P>()?.checked()
}

/// Returns the same description as [`descriptor`], without checking the manifest.
fn contained<P: DevicePlugin>() -> Result<Descriptor, Faults> {
    let contained = contain(|| Ok(Rust::<P>::descriptor()));
    contained.unwrap_or_else(|panic| Err(Fault::new("descriptor", panic.message()).into()))
}

/// Returns the registration of `P` for the list of plugins that are linked into a program.
pub(crate) const fn registered<P: DevicePlugin>() -> Registered {
    Registered::new(P::NAME, || (TypeId::of::<P>(), std::any::type_name::<P>()), contained::<P>)
}

/// The C descriptions, one for each plugin type. They are never freed.
static DESCRIPTORS: PerType<CDescriptor> = PerType::new();

/// The description that [`c_descriptor`] returns if even a description with an error cannot be created.
static UNDESCRIBED: CDescriptor = CDescriptor::UNDESCRIBED;

/// Returns the description of `P` for C. The pointer is the same on each call and never null. If the description has
/// faults, its `error` field names them.
pub(crate) fn c_descriptor<P: DevicePlugin>() -> *const dp_descriptor {
    let descriptor = contain(|| Ok(DESCRIPTORS.get_or_make::<P>(CDescriptor::leak::<Rust<P>>)));
    descriptor.unwrap_or(&UNDESCRIBED).as_ptr()
}

/// Implements [`ExportedPlugin`], the description and hooks of a plugin, for the Rust type `P`.
struct Rust<P>(PhantomData<fn() -> P>);

impl<P: DevicePlugin> ExportedPlugin for Rust<P> {
    const CONFIGURES: bool = P::CONFIGURES;
    const HOOKS: Self = Self(PhantomData);

    fn name() -> &'static str {
        P::name()
    }

    fn library() -> Library {
        match P::library() {
            Library::This if <P::Backend as Backend>::FEATURES.present => Library::Static(P::shared_api()),
            other => other,
        }
    }

    fn descriptor() -> Result<Descriptor, Faults> {
        let mut manifest = Manifest::new(P::name());
        manifest.version = P::VERSION.to_owned();
        manifest.aliases = P::ALIASES.iter().map(|&alias| alias.to_owned()).collect();
        manifest.capabilities = P::capabilities();
        manifest.capabilities.stablehlo = manifest.capabilities.stablehlo.or_else(P::stablehlo_versions);
        manifest.create_options = P::options();
        manifest.process = P::process();
        manifest.ownership = P::ownership();
        let manifest = P::manifest(manifest);
        let library = Self::library();
        if let Library::This = library {
            let message = "the plugin has neither a backend nor a library; write `type Backend = …;`, or \
                           `fn library() -> Library { unsafe { Library::beside(\"libexample.so\") } }`";
            return Err(Fault::new("library", message).into());
        }
        Ok(Descriptor::unchecked(manifest, library, Arc::new(Self::HOOKS)))
    }
}

impl<P: DevicePlugin> Hooks for Rust<P> {
    fn configure(&self, topology: &ProcessTopology, environment: &Environment) -> Option<Result<EnvPlan>> {
        P::CONFIGURES.then(|| P::configure(topology, environment))
    }

    fn supports(&self, program: &Program, depth: Depth) -> Option<Result<Support>> {
        P::supports(program, depth).map(Ok)
    }

    fn shutdown(&self) {
        P::shutdown();
    }
}
