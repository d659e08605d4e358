//! Manifest of Tenstorrent's accelerators, through tt-xla.

use super::lists::{linux, owned, pci};
use crate::capabilities::{Capabilities, ProgramFormat, ProgramFormats};
use crate::manifest::Hardware;
use crate::{Manifest, Ownership};

/// Returns the manifest for Tenstorrent's accelerators.
pub(super) fn tenstorrent() -> Manifest {
    let mut tt = Manifest::new("tt");
    tt.aliases = owned(&["tenstorrent"]);
    tt.display_name = "Tenstorrent".to_owned();
    tt.vendor = "Tenstorrent".to_owned();
    tt.description = "Tenstorrent accelerators through tt-xla".to_owned();
    tt.homepage = "https://github.com/tenstorrent/tt-xla".to_owned();
    tt.library = linux(&["pjrt_plugin_tt.so"]);
    tt.hardware = Hardware {
        device_nodes: owned(&["/dev/tenstorrent/*"]),
        pci: vec![pci("1e52", &["401e", "b140", "faca"], &[])],
    };
    // A board hangs if a process ends without releasing it.
    tt.ownership = Ownership::PerProcess;
    tt.shutdown_symbol = Some("tt_pjrt_shutdown".to_owned());
    tt.capabilities = Capabilities {
        donation: true,
        program_formats: ProgramFormats::preferring(ProgramFormat::Mlir),
        ..Capabilities::default()
    };
    tt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::legacy;

    #[test]
    fn reads_only_stablehlo() {
        let tt = tenstorrent();
        // tt-xla torch_plugin_tt/__init__.py:21-57 sets XLA_STABLEHLO_COMPILE=1.
        let settings = legacy::environment(&tt.capabilities, "tt");
        assert_eq!(settings.len(), 1);
        assert_eq!((settings[0].variable, settings[0].value.as_str()), ("XLA_STABLEHLO_COMPILE", "1"));
        // The same file calls this function at exit.
        assert_eq!(tt.shutdown_symbol.as_deref(), Some("tt_pjrt_shutdown"));
        // The `__init__.py:16-18` of the package libtt 0.1.3 adds `tt` to JAX's list of platforms with donation.
        assert!(tt.capabilities.donation);
        // Only donation and program_formats differ from the defaults.
        assert_eq!(tt.capabilities.changes().len(), 2);
        // The PCI IDs are from module.c and enumerate.h of Tenstorrent's kernel driver.
        assert_eq!((tt.hardware.pci[0].vendor.as_str(), tt.hardware.pci[0].devices.len()), ("1e52", 3));
    }
}
