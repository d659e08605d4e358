//! Features of the platform and of the process.

use crate::features::calls::no_memory_stats;
use crate::{Backend, Layout, MemoryStats, NamedValue, ProcessInfo, Result, Shape, TopologyInfo};

/// A backend that names its platform and the platform's version.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Platform`",
    label = "`Platform` is not implemented",
    note = "write `impl Platform for {Self} {{ … }}`, or remove `.platform()` from `Backend::FEATURES`"
)]
pub trait Platform: Backend {
    /// Returns the name of the platform, or `None` to use [`DevicePlugin::NAME`](crate::DevicePlugin::NAME). The
    /// default implementation returns `None`.
    fn platform_name(&self) -> Option<String> {
        None
    }

    /// Returns a human-readable version of the platform, such as the driver's version. The default implementation
    /// returns an empty string. A serialized executable contains this version. If a platform of another version loads
    /// the executable, the SDK compiles the program again.
    fn platform_version(&self) -> String {
        String::new()
    }

    /// Returns the attributes of the topology that the devices form. The default implementation returns no attributes.
    fn topology_attributes(&self) -> Vec<NamedValue> {
        Vec::new()
    }
}

/// A backend that runs in one of several processes that drive devices together.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `Distributed`",
    label = "`Distributed` is not implemented",
    note = "write `impl Distributed for {Self} {{ … }}`, or remove `.distributed()` from `Backend::FEATURES`"
)]
pub trait Distributed: Backend {
    /// Returns the index of this process among the processes that drive devices together.
    fn process_index(&self) -> i32;

    /// Receives the list of processes that take part in a distributed run, each time the list changes.
    ///
    /// # Errors
    ///
    /// Returns any error that the backend reports. Frameworks then end the process.
    fn update_global_process_info(&self, processes: &[ProcessInfo]) -> Result<()> {
        let _ = processes;
        Ok(())
    }
}

/// A backend with its own exit hook.
///
/// Frameworks such as PyTorch/XLA never destroy their client, so the process may end while a client exists. Without a
/// hook, the SDK waits for its own work, for at most 5 seconds. The SDK waits until all deferred launches have ended,
/// including launches whose arguments have not arrived, and until the SDK's launch and completion threads are idle. The
/// SDK does not wait for a backend's own threads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `AtExit`",
    label = "`AtExit` is not implemented",
    note = "write `impl AtExit for {Self} {{ … }}`, or remove `.at_exit()` from `Backend::FEATURES`"
)]
pub trait AtExit: Backend {
    /// Returns a function that runs if the process ends while this client exists. Called once, when the client is
    /// created.
    ///
    /// If the result is `Some`, the SDK does not wait for its own work. Return `Some(Box::new(|| ()))` to disable the
    /// wait. If the result is `None`, the SDK waits in the same way as without this feature.
    ///
    /// A backend with its own threads stops these threads in the closure, or waits until they are idle. The threads
    /// must not call a driver or the framework after the destructors of static objects have begun to run. The closure
    /// holds the objects that it needs, such as the queue. The closure must not hold the backend, which may be
    /// destroyed at the same time.
    ///
    /// - **When:** The closure runs once, in a function that the first client registers with the C library's `atexit`.
    ///   The closure runs after `main` has returned, or within `exit`, and before the destructors of static objects
    ///   that were created before the first client. The closure does not run after `_exit`, `abort` or a signal, or in
    ///   a forked process. The closure runs only on Unix, because other systems end a process's threads first. If the
    ///   client is destroyed earlier, the closure is dropped without being run, and the backend's destructor ends its
    ///   work.
    /// - **Thread:** The closure runs on the thread that ends the process. This may be a thread of the backend that
    ///   runs a callback of the framework. Other threads keep running and may still call the plugin.
    /// - **Allowed work:** The closure may do anything that the backend does on other threads, but it should not
    ///   complete events. Completing an event calls the framework's callbacks and wakes the framework's threads. A
    ///   thread that returns to Python after Python has been finalized ends the process with an error. An event that
    ///   never becomes ready is harmless. The closure must return soon, so limit each wait to a few seconds.
    /// - **Afterwards:** The framework may still call the plugin, for instance to destroy the client in one of its own
    ///   destructors. Such calls must return, possibly with an error.
    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>>;
}

/// A backend whose devices store arrays in other orders than row-major.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `StorageLayouts`",
    label = "`StorageLayouts` is not implemented",
    note = "write `impl StorageLayouts for {Self} {{ … }}`, or remove `.storage_layouts()` from `Backend::FEATURES`"
)]
pub trait StorageLayouts: Backend {
    /// Returns the layout in which devices store arrays of this shape unless a framework requests another layout.
    /// `None` means row-major. The SDK reports this layout to frameworks and follows its dimension order. A backend
    /// receives the dimensions of each array in storage order, from the slowest varying to the fastest, so all its data
    /// is dense and row-major. For example, with the layout `{0,1}`, the backend receives an array `f32[2,3]` as
    /// `f32[3,2]`. The backend applies the tiles itself. The data that it exchanges with the SDK has no tiles.
    ///
    /// Frameworks may request any dimension order, but only the tiles that this function returns. Programs use the
    /// framework's order of dimensions. [`ExecutableInfo::parameter_layouts`](crate::ExecutableInfo::parameter_layouts)
    /// describes how a program's parameters are stored. A dimension of extent 1 does not affect the bytes. Without
    /// tiles, a program may therefore receive `f32[1,5]` for a parameter that is stored as `f32[5,1]`.
    fn default_layout(topology: &TopologyInfo, shape: &Shape) -> Option<Layout>;
}

/// A backend whose devices keep statistics of their memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lists a feature that it does not implement: `MemoryStatistics`",
    label = "`MemoryStatistics` is not implemented",
    note = "write `impl MemoryStatistics for {Self} {{ … }}`, or remove `.memory_statistics()` from `Backend::FEATURES`"
)]
pub trait MemoryStatistics: Backend {
    /// Returns the memory statistics of a device. `device` is an index into [`Backend::devices`].
    ///
    /// # Errors
    ///
    /// Returns `UNIMPLEMENTED` for a device without statistics.
    fn memory_stats(&self, device: usize) -> Result<MemoryStats>;

    /// Resets the peaks and counts in [`MemoryStatistics::memory_stats`].
    ///
    /// # Errors
    ///
    /// The default implementation returns `UNIMPLEMENTED`.
    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        Err(no_memory_stats(device))
    }
}
