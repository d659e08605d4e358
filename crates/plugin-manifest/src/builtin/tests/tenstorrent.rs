//! Tenstorrent's accelerators.

use crate::Manifest;
use crate::capabilities::legacy;

fn tenstorrent() -> Manifest {
    super::known("tt")
}

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
