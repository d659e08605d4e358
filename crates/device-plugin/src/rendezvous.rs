//! Data exchange between the processes of a distributed run at start-up.

use std::fmt;
use std::time::{Duration, Instant};

use crate::serialized_format::{Reader, Writer};
use crate::{ClientOptions, DeviceInfo, Error, ErrorCode, KeyValueStore, Result};

/// The first bytes of a serialized list of devices. The digit is the version of the format.
const MAGIC: &[u8] = b"device-plugin devices 1\n";
/// Default time that the processes wait for each other.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A key-value store that all processes share, for [`Rendezvous`]. The framework's [`KeyValueStore`] implements it.
pub trait RendezvousStore: Send + Sync {
    /// Returns the value of a key. If the key is not set, waits until another process sets it, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Returns `DEADLINE_EXCEEDED` if no process sets the key in time, and the errors of the store.
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>>;

    /// Returns the value of a key, or `None` if it is not set.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store.
    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Sets the value of a key for all processes.
    ///
    /// # Errors
    ///
    /// Returns the errors of the store. A store may reject a second value for a key.
    fn put(&self, key: &str, value: &[u8]) -> Result<()>;
}

impl RendezvousStore for KeyValueStore {
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        self.get(key, timeout)
    }

    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.try_get(key)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.put(key, value)
    }
}

/// Exchanges data between the processes of a distributed run, such as their addresses, versions and devices.
///
/// A backend creates a rendezvous in [`Backend::create`](crate::Backend::create) with [`Rendezvous::from_options`]. One
/// deadline, which is set when the rendezvous is created, applies to all waiting. Each error of an exchange names the
/// process at fault.
///
/// The following example uses threads instead of processes, and a store in memory:
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Condvar, Mutex};
/// use std::time::Duration;
///
/// use device_plugin::{DeviceInfo, Error, ErrorCode, Rendezvous, RendezvousStore, Result};
///
/// #[derive(Default)]
/// struct InMemory {
///     values: Mutex<HashMap<String, Vec<u8>>>,
///     changed: Condvar,
/// }
///
/// impl RendezvousStore for InMemory {
///     fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
///         let absent = |values: &mut HashMap<String, Vec<u8>>| !values.contains_key(key);
///         let values = self.values.lock().unwrap();
///         let (values, _) = self.changed.wait_timeout_while(values, timeout, absent).unwrap();
///         values.get(key).cloned().ok_or_else(|| Error::new(ErrorCode::DEADLINE_EXCEEDED, format!("no value for {key}")))
///     }
///
///     fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
///         Ok(self.values.lock().unwrap().get(key).cloned())
///     }
///
///     fn put(&self, key: &str, value: &[u8]) -> Result<()> {
///         self.values.lock().unwrap().insert(key.to_owned(), value.to_vec());
///         self.changed.notify_all();
///         Ok(())
///     }
/// }
///
/// /// Joins the other process, and returns the devices of both. A backend calls this in `Backend::create`.
/// fn join(store: &InMemory, rank: usize) -> Result<Vec<DeviceInfo>> {
///     let rendezvous = Rendezvous::new(store, "example", rank, 2)?.with_timeout(Duration::from_secs(60));
///     let version = b"driver 7";
///     if let Some(other) = rendezvous.exchange("version", version)?.iter().position(|other| other != version) {
///         return Err(Error::failed_precondition(format!("process {other} has another driver")));
///     }
///     rendezvous.exchange_devices(vec![DeviceInfo::new(0, "example"), DeviceInfo::new(1, "example")])
/// }
///
/// let store = InMemory::default();
/// let (first, second) = std::thread::scope(|scope| {
///     let first = scope.spawn(|| join(&store, 0));
///     let second = join(&store, 1);
///     (first.join(), second)
/// });
/// let (first, second) = (first.unwrap()?, second?);
/// let shown = |devices: &[DeviceInfo]| devices.iter().map(|d| (d.id, d.process_index, d.addressable)).collect::<Vec<_>>();
/// assert_eq!(shown(&first), [(0, 0, true), (1, 0, true), (2, 1, false), (3, 1, false)]);
/// assert_eq!(shown(&second), [(0, 0, false), (1, 0, false), (2, 1, true), (3, 1, true)]);
/// # Ok::<(), Error>(())
/// ```
pub struct Rendezvous<'a> {
    store: &'a dyn RendezvousStore,
    name: String,
    rank: usize,
    size: usize,
    timeout: Duration,
    deadline: Instant,
}

impl<'a> Rendezvous<'a> {
    /// Creates a rendezvous of `size` processes. This process has the rank `rank`. `name` distinguishes the rendezvous
    /// from those of other plugins in the same store.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if `rank` is not less than `size`.
    pub fn new(store: &'a dyn RendezvousStore, name: impl Into<String>, rank: usize, size: usize) -> Result<Self> {
        if rank >= size {
            return Err(Error::invalid_argument(format!(
                "this process has the rank {rank} (node_id) in a run of {size} processes (num_nodes); ranks count from 0"
            )));
        }
        let deadline = Instant::now() + TIMEOUT;
        Ok(Self { store, name: name.into(), rank, size, timeout: TIMEOUT, deadline })
    }

    /// Creates the rendezvous that a framework requests with the options `node_id` and `num_nodes`. Returns `None` if
    /// both options are missing or if `num_nodes` is 1.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if only one of the options is present or if their values are invalid, and
    /// `FAILED_PRECONDITION` if the framework passed no key-value store.
    pub fn from_options(options: &'a ClientOptions, name: impl Into<String>) -> Result<Option<Self>> {
        let (rank, size) = match (options.int("node_id")?, options.int("num_nodes")?) {
            (None, None) => return Ok(None),
            (Some(rank), Some(size)) => (rank, size),
            (rank, _) => {
                let (given, missing) = if rank.is_some() { ("node_id", "num_nodes") } else { ("num_nodes", "node_id") };
                return Err(Error::invalid_argument(format!(
                    "option {given} was given without {missing}; a run of several processes needs both"
                )));
            }
        };
        let count = |value: i64, what: &str| {
            let count = usize::try_from(value).ok().filter(|_| i32::try_from(value).is_ok());
            count.ok_or_else(|| Error::invalid_argument(format!("option {what} is {value}; it counts from 0")))
        };
        let (rank, size) = (count(rank, "node_id")?, count(size, "num_nodes")?);
        if rank >= size {
            return Err(Error::invalid_argument(format!(
                "option node_id is {rank} and num_nodes is {size}; node_id must be from 0 to num_nodes - 1"
            )));
        }
        if size == 1 {
            return Ok(None);
        }
        let store = options.key_value_store().ok_or_else(|| {
            Error::failed_precondition(format!(
                "process {rank} of {size} has no key-value store to find the others; pass one when the client is created"
            ))
        })?;
        Self::new(store, name, rank, size).map(Some)
    }

    /// Sets the total time that this process waits for the others, counted from now. The default is 5 minutes.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        (self.timeout, self.deadline) = (timeout, Instant::now() + timeout);
        self
    }

    /// Returns the rank of this process.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of processes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the time left until the deadline.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn key(&self, topic: &str, rank: usize) -> String {
        format!("{}/{topic}/{rank}", self.name)
    }

    /// Publishes `value` to all processes. Returns the values of all processes, sorted by rank. `topic` identifies the
    /// exchange. Use each topic only once.
    ///
    /// # Errors
    ///
    /// Returns `DEADLINE_EXCEEDED` if the value of a process did not appear, and names the process. Returns
    /// `ALREADY_EXISTS` if another process has the same rank, and `FAILED_PRECONDITION` if the processes disagree on
    /// their number. Also returns the errors of the store.
    pub fn exchange(&self, topic: &str, value: &[u8]) -> Result<Vec<Vec<u8>>> {
        let own = self.key(topic, self.rank);
        let twice = || {
            Error::new(
                ErrorCode::ALREADY_EXISTS,
                format!(
                    "another process of this run has the rank {} too, or this process created its client twice; the \
                     key {own:?} already has another value",
                    self.rank
                ),
            )
        };
        let failed = |error: Error, rank: usize, what: &str| {
            let (key, us) = (self.key(topic, rank), self.rank);
            error.context(format_args!("process {us} of {}: {what} (key {key:?})", self.size))
        };
        let mut framed = u64::try_from(self.size).unwrap_or(u64::MAX).to_le_bytes().to_vec();
        framed.extend_from_slice(value);
        let is_other = |value: Option<Vec<u8>>| value.is_some_and(|value| value != framed);
        let look = || self.store.try_get(&own).map_err(|error| failed(error, self.rank, "cannot read the store"));
        if is_other(look()?) {
            return Err(twice());
        }
        self.store.put(&own, &framed).map_err(|error| match error.code() {
            ErrorCode::ALREADY_EXISTS => twice(),
            _ => failed(error, self.rank, "cannot write to the store"),
        })?;
        let mut values = Vec::with_capacity(self.size);
        for rank in 0..self.size {
            let what = format!("process {rank} did not appear within {} s", self.timeout.as_secs_f32());
            let value = self.store.get(&self.key(topic, rank), self.time_left());
            let value = value.map_err(|error| failed(error, rank, &what))?;
            let Some((size, value)) = value.split_first_chunk::<8>() else {
                return Err(failed(Error::internal("the value is too short"), rank, "cannot read the store"));
            };
            let size = u64::from_le_bytes(*size);
            if size != self.size as u64 {
                return Err(Error::failed_precondition(format!(
                    "process {} was started as one of {} processes, but process {rank} as one of {size}; pass the same \
                     num_nodes to all",
                    self.rank, self.size
                )));
            }
            values.push(value.to_vec());
        }
        // If the store replaces values, a second process with this rank becomes visible only now.
        if is_other(look()?) {
            return Err(twice());
        }
        Ok(values)
    }

    /// Waits until all processes have reached the barrier `name`. Use each barrier only once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rendezvous::exchange`].
    pub fn barrier(&self, name: &str) -> Result<()> {
        self.exchange(&format!("barrier/{name}"), &[]).map(drop)
    }

    /// Exchanges the devices of all processes, for [`Backend::devices`](crate::Backend::devices) and
    /// [`TopologyInfo`](crate::TopologyInfo). `own` contains the devices of this process.
    ///
    /// The result contains the devices of all processes, sorted by rank, with ids counted from 0. The devices of other
    /// processes are not addressable.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rendezvous::exchange`], and `INTERNAL` if the list of another process cannot be read.
    pub fn exchange_devices(&self, own: Vec<DeviceInfo>) -> Result<Vec<DeviceInfo>> {
        let mut out = Writer::new(MAGIC);
        out.count(own.len());
        for device in &own {
            out.int(device.local_hardware_id.into());
            out.text(&device.kind);
            out.text(&device.debug_string);
            out.text(&device.display_string);
            out.values(&device.attributes);
        }
        let mut all: Vec<DeviceInfo> = Vec::new();
        for (rank, bytes) in self.exchange("devices", &out.finish())?.iter().enumerate() {
            let list = read_devices(bytes)
                .map_err(|error| Error::internal(format!("the devices of process {rank}: {}", error.message())))?;
            for mut device in list {
                device.id = i32::try_from(all.len()).map_err(|_| Error::internal("too many devices"))?;
                device.process_index = i32::try_from(rank).unwrap_or(i32::MAX);
                device.addressable = rank == self.rank;
                all.push(device);
            }
        }
        Ok(all)
    }
}

fn read_devices(bytes: &[u8]) -> Result<Vec<DeviceInfo>> {
    let mut from = Reader::new(bytes, MAGIC, "a list of devices")?;
    let mut list = Vec::new();
    for _ in 0..from.count()? {
        let mut device = DeviceInfo::new(0, "");
        device.local_hardware_id = from.int32()?;
        (device.kind, device.debug_string, device.display_string) = (from.text()?, from.text()?, from.text()?);
        device.attributes = from.values()?;
        list.push(device);
    }
    from.finish()?;
    Ok(list)
}

impl fmt::Debug for Rendezvous<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Rendezvous");
        shown.field("name", &self.name).field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Condvar, Mutex};

    use super::*;
    use crate::NamedValue;

    #[derive(Default)]
    struct InMemory {
        values: Mutex<HashMap<String, Vec<u8>>>,
        changed: Condvar,
    }

    impl RendezvousStore for InMemory {
        fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
            let absent = |values: &mut HashMap<String, Vec<u8>>| !values.contains_key(key);
            let values = self.values.lock().unwrap();
            let (values, _) = self.changed.wait_timeout_while(values, timeout, absent).unwrap();
            values.get(key).cloned().ok_or_else(|| Error::new(ErrorCode::DEADLINE_EXCEEDED, "not set"))
        }

        fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.values.lock().unwrap().get(key).cloned())
        }

        fn put(&self, key: &str, value: &[u8]) -> Result<()> {
            self.values.lock().unwrap().insert(key.to_owned(), value.to_vec());
            self.changed.notify_all();
            Ok(())
        }
    }

    /// Runs a function on one thread for each rank.
    fn each<T: Send>(
        store: &InMemory,
        ranks: &[usize],
        size: usize,
        run: impl Fn(&Rendezvous<'_>) -> T + Sync,
    ) -> Vec<T> {
        let run =
            |rank| run(&Rendezvous::new(store, "test", rank, size).unwrap().with_timeout(Duration::from_secs(60)));
        let run = &run;
        std::thread::scope(|scope| {
            let threads: Vec<_> = ranks.iter().map(|rank| scope.spawn(move || run(*rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn values_are_in_the_order_of_ranks() {
        let store = InMemory::default();
        let seen = each(&store, &[2, 0, 1], 3, |rendezvous| {
            rendezvous.barrier("start").unwrap();
            rendezvous.exchange("name", format!("p{}", rendezvous.rank()).as_bytes()).unwrap()
        });
        for values in seen {
            assert_eq!(values, [b"p0", b"p1", b"p2"]);
        }
    }

    #[test]
    fn devices_keep_what_describes_them() {
        let mut own = DeviceInfo::new(7, "kind");
        own.local_hardware_id = 3;
        own.attributes = vec![NamedValue::new("cores", 4i64)];
        let all = each(&InMemory::default(), &[0, 1], 2, |rendezvous| rendezvous.exchange_devices(vec![own.clone()]));
        let mut expected = vec![own.clone(), own];
        (expected[0].id, expected[1].id, expected[1].process_index, expected[1].addressable) = (0, 1, 1, false);
        assert_eq!(all[0].as_ref().unwrap(), &expected);
        (expected[0].addressable, expected[1].addressable) = (false, true);
        assert_eq!(all[1].as_ref().unwrap(), &expected);
    }

    #[test]
    fn absent_process_is_named() {
        let store = InMemory::default();
        let rendezvous = Rendezvous::new(&store, "test", 0, 2).unwrap().with_timeout(Duration::from_millis(20));
        let error = rendezvous.barrier("start").unwrap_err();
        assert_eq!(error.code(), ErrorCode::DEADLINE_EXCEEDED);
        assert!(error.message().contains("process 1"), "{error}");
    }

    #[test]
    fn second_process_of_a_rank_is_refused() {
        let store = InMemory::default();
        store.put("test/name/0", b"12345678other").unwrap();
        let errors = each(&store, &[0], 2, |rendezvous| rendezvous.exchange("name", b"mine").unwrap_err().code());
        assert_eq!(errors, [ErrorCode::ALREADY_EXISTS]);
    }

    #[test]
    fn numbers_of_processes_must_agree() {
        let store = InMemory::default();
        store.put("test/name/0", &[&3u64.to_le_bytes()[..], b"other"].concat()).unwrap();
        let errors = each(&store, &[1], 2, |rendezvous| rendezvous.exchange("name", b"mine").unwrap_err().code());
        assert_eq!(errors, [ErrorCode::FAILED_PRECONDITION]);
    }

    #[test]
    fn options_must_agree() {
        let code = |options: &[(&str, i64)]| {
            let values: Vec<_> = options.iter().map(|(name, value)| NamedValue::new(*name, *value)).collect();
            let options = ClientOptions::new(values);
            Rendezvous::from_options(&options, "test").map(|found| found.is_some()).map_err(|error| error.code())
        };
        assert_eq!(code(&[]), Ok(false));
        assert_eq!(code(&[("node_id", 0), ("num_nodes", 1)]), Ok(false));
        for wrong in [&[("node_id", 0)][..], &[("num_nodes", 2)], &[("node_id", 2), ("num_nodes", 2)]] {
            assert_eq!(code(wrong), Err(ErrorCode::INVALID_ARGUMENT));
        }
        assert_eq!(code(&[("node_id", -1), ("num_nodes", 2)]), Err(ErrorCode::INVALID_ARGUMENT));
        assert_eq!(code(&[("node_id", 0), ("num_nodes", 2)]), Err(ErrorCode::FAILED_PRECONDITION));
    }
}
