//! Plugins without hardware for the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::{Backend, ClientOptions, Descriptor, DevicePlugin, Library, Manifest, Result};
use plugin_registry::{Error, HardwareProbe, LockFolder, PluginEntry, PluginRegistry};

/// A device in host memory that cannot run programs.
pub(crate) struct FakeDevice;

impl Backend for FakeDevice {
    device_plugin_testing::one_device!("fake");
    device_plugin_testing::host_memory!();
    device_plugin_testing::no_programs!();

    fn create(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&["size"])?;
        Ok(Self)
    }
}

/// Defines plugins with a [`FakeDevice`].
macro_rules! fake {
    ($($plugin:ident $name:literal { $($more:tt)* })*) => {
        $(
            pub(crate) struct $plugin;

            #[device_plugin::device_plugin]
            impl device_plugin::DevicePlugin for $plugin {
                const NAME: &'static str = $name;
                type Backend = $crate::fakes::FakeDevice;
                $($more)*
            }
        )*
    };
}
pub(crate) use fake;

/// Counts the calls of a shutdown hook.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Creates an empty folder for one test.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Creates a registry that finds no hardware, and that has its own folder for lock files.
pub(crate) fn registry(test: &str) -> PluginRegistry {
    let folder = folder(test);
    let (machine, locks) = (HardwareProbe::at(folder.join("root")), LockFolder::at(folder.join("locks")));
    PluginRegistry::builder().hardware(machine).locks(locks).build()
}

/// Returns the description of a fake plugin with a changed manifest.
pub(crate) fn described<P: DevicePlugin>(change: impl FnOnce(&mut Manifest)) -> Descriptor {
    let own = device_plugin::descriptor::<P>().unwrap();
    let Library::Static(table) = own.library() else { panic!("{own:?}") };
    let mut manifest = own.manifest().clone();
    change(&mut manifest);
    Descriptor::new(manifest, Library::Static(*table), Arc::new(())).unwrap()
}

/// Returns the description of a plugin whose library does not exist.
pub(crate) fn of_file(name: &str, change: impl FnOnce(&mut Manifest)) -> Descriptor {
    let mut manifest = Manifest::new(name);
    change(&mut manifest);
    // SAFETY: R1 (the library is trusted): the file does not exist, so no code runs.
    let library = unsafe { Library::path(format!("lib{name}_which_no_loader_finds.so")) };
    Descriptor::new(manifest, library, Arc::new(())).unwrap()
}

/// Registers a library.
pub(crate) fn register_library(
    registry: &PluginRegistry,
    path: impl AsRef<Path>,
    manifest: Option<Manifest>,
) -> Result<PluginEntry, Error> {
    // SAFETY: R1 (the library is trusted): the tests register only their own libraries, and files that are not
    // libraries.
    unsafe { registry.register_library(path, manifest) }
}

/// Returns the path of the library of a plugin that exports a shutdown function.
pub(crate) fn closing_plugin() -> PathBuf {
    device_plugin_testing::library("closing_plugin")
}
