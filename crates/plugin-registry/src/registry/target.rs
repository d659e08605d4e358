//! Derives the rules for programs from a plugin's capabilities.

use pjrt::stablehlo::ir::{self, Module};
use pjrt::stablehlo::{DeviceRules, ForPlugin, Target};
use pjrt::{ElementType, Program};
use plugin_manifest::Capabilities;
use plugin_manifest::capabilities::RngBitGenerator;

use super::entry::PluginEntry;
use super::loaded::LoadedPlugin;

impl PluginEntry {
    /// Returns the program formats that the plugin's compiler reads, and the rules for programs on its devices. The
    /// plugin's capabilities determine the rules: dense gathers and scatters, replaced and supported element types, the
    /// algorithm for random bits, and donation.
    pub fn target(&self) -> Target {
        target(self.capabilities(), false)
    }
}

impl LoadedPlugin {
    /// Returns the program formats that the plugin's compiler reads, and the rules for programs on its devices. See
    /// [`PluginEntry::target`].
    pub fn target(&self) -> Target {
        target(self.capabilities(), false)
    }

    /// Returns [`Self::target`] with automatic mixed precision: dot products and convolutions use operands of the
    /// default type in the plugin's `autocast` capability. If the plugin has no such capability, returns
    /// [`Self::target`].
    pub fn autocast_target(&self) -> Target {
        target(self.capabilities(), true)
    }

    /// Converts a module to a program for the plugin, with the rules of [`Self::target`].
    ///
    /// # Errors
    ///
    /// Returns an error if [`ForPlugin::for_target`] returns an error.
    pub fn program(&self, module: &Module) -> Result<Program, pjrt::Error> {
        Program::for_target(module, self.plugin(), &self.target())
    }

    /// Returns the capabilities of the entry. If the library was found without a manifest, returns those that the
    /// library exports.
    fn capabilities(&self) -> &Capabilities {
        let entry = self.entry();
        if entry.record.has_own_manifest { entry.capabilities() } else { &self.descriptor().manifest().capabilities }
    }
}

fn target(capabilities: &Capabilities, autocast: bool) -> Target {
    let formats = capabilities.program_formats.as_slice().iter().map(|format| format.name());
    Target::new().formats(formats).rules(rules(capabilities, autocast))
}

fn rules(capabilities: &Capabilities, autocast: bool) -> DeviceRules {
    let mut rules = DeviceRules::new().donation(capabilities.donation);
    if let Some(factor) = capabilities.dense_gather_factor {
        rules = rules.dense_gather(u64::from(factor.get()) * 10);
    }
    if let Some(factor) = capabilities.dense_scatter_factor {
        rules = rules.dense_scatter(factor.get().into());
    }
    for from in ir::ElementType::all() {
        let Ok(declared) = ElementType::try_from(from) else { continue };
        let stored = capabilities.stored_as(declared);
        if let (true, Ok(to)) = (stored != declared, ir::ElementType::try_from(stored)) {
            rules = rules.replaced(from, to);
        }
    }
    if let Some(supported) = &capabilities.supported_dtypes {
        rules = rules.supported(supported.iter().filter_map(|&element| element.try_into().ok()));
    }
    match capabilities.rng_bit_generator {
        RngBitGenerator::Philox => rules = rules.rng(ir::RngAlgorithm::Philox),
        RngBitGenerator::ThreeFry => rules = rules.rng(ir::RngAlgorithm::ThreeFry),
        _ => {}
    }
    let short = capabilities.autocast.as_ref().filter(|_| autocast).map(|autocast| autocast.default_dtype);
    match short.map(ir::ElementType::try_from) {
        Some(Ok(short)) => rules.autocast(short),
        _ => rules,
    }
}
