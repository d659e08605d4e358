//! The layer `override`.

use pjrt_sys::slot;
use pjrt_types::ErrorCode;

use super::devices::Visible;
use super::programs::Programs;
use super::queries::{Devices, Memory};
use super::synchronous;
use crate::core::{Call, TablePlan};
use crate::function::Function;
use crate::groups::starts_work;
use crate::layer::{Layer, Outcome, Step};

/// The layer `override`. It saves and replaces programs, hides devices, changes the values that queries return, and
/// makes calls synchronous. Without any setting, the layer changes nothing.
#[derive(Debug, Default)]
pub struct Override {
    programs: Programs,
    /// The platform name that the framework sees.
    pub platform_name: Option<String>,
    /// The platform version string that the framework sees.
    pub platform_version: Option<String>,
    /// The device kind (the vendor's name of the model) that the framework sees for each device.
    pub device_kind: Option<String>,
    /// The major and minor version that the table announces. The table keeps its size.
    pub api_version: Option<(u32, u32)>,
    /// The values that devices report about their memory.
    pub memory: Memory,
    /// Whether calls that start runs and transfers return only when the work has ended or a time limit has passed.
    pub synchronous: bool,
    visible: Visible,
}

impl Override {
    /// Creates a layer that saves and replaces programs according to `programs`, and has no other settings.
    #[must_use]
    pub fn new(programs: Programs) -> Self {
        Self { programs, ..Self::default() }
    }

    /// Selects the devices that the framework sees. The layer hides all other devices.
    pub fn set_devices(&mut self, devices: Devices) {
        self.visible = Visible::new(devices);
    }

    /// Returns the settings for saving and replacing programs.
    #[must_use]
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Returns whether the layer has no settings, and therefore changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let texts = [&self.platform_name, &self.platform_version, &self.device_kind];
        let has_text = texts.into_iter().any(Option::is_some);
        let has_answer = self.api_version.is_some() || !self.memory.is_empty() || !self.visible.is_everything();
        !(has_text || has_answer || self.synchronous || !self.programs.is_empty())
    }

    /// Returns the string that replaces an output of a function, with the names of the output field and of its length
    /// field. Returns `None` if no setting replaces an output of the function.
    fn text(&self, function: &Function) -> Option<(&str, &'static str, &'static str)> {
        let (value, text, length) = match function.name {
            "PJRT_Client_PlatformName" | "PJRT_TopologyDescription_PlatformName" => {
                (&self.platform_name, "platform_name", "platform_name_size")
            }
            "PJRT_Client_PlatformVersion" | "PJRT_TopologyDescription_PlatformVersion" => {
                (&self.platform_version, "platform_version", "platform_version_size")
            }
            "PJRT_DeviceDescription_Kind" => (&self.device_kind, "device_kind", "device_kind_size"),
            _ => return None,
        };
        value.as_deref().map(|value| (value, text, length))
    }

    fn is_memory_query(&self, function: &Function) -> bool {
        !self.memory.is_empty() && function.name == "PJRT_Device_MemoryStats"
    }
}

impl Layer for Override {
    fn name(&self) -> &'static str {
        "override"
    }

    fn wants(&self, function: &Function) -> bool {
        self.text(function).is_some()
            || self.is_memory_query(function)
            || self.visible.wants(function)
            || self.programs.wants(function)
            || self.synchronous && starts_work(function)
    }

    fn plan(&self, plan: &mut TablePlan) {
        if let Some((major, minor)) = self.api_version {
            (plan.major, plan.minor) = (major, minor);
        }
    }

    fn before(&self, call: &mut Call) -> Step {
        if let Some(program) = call.program()
            && let Err(reason) = self.programs.exchange(call, &program)
        {
            return Step::answer(ErrorCode::FAILED_PRECONDITION, format!("layer `override`: {reason}"));
        }
        if call.is::<slot::PJRT_Client_Destroy>() {
            self.visible.forget(call.address_of("client"));
        }
        Step::Continue(0)
    }

    fn after(&self, call: &mut Call, _: u64, outcome: Outcome) {
        let function = call.function();
        if self.is_memory_query(function) {
            return self.memory.answer(call, outcome);
        }
        if outcome.failed() {
            return;
        }
        if let Some((value, text, length)) = self.text(function)
            && let (Some(text), Some(length)) = (function.field(text), function.field(length))
        {
            call.set_text(text, length, value);
        }
        self.visible.answer(call);
        if self.synchronous {
            synchronous::wait(call);
        }
    }
}
