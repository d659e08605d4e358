//! A key-value store in an etcd cluster.

use std::fmt;
use std::time::Duration;

use pjrt::{ErrorCode, KeyValueStore};

use super::answer::{Answer, late};
use super::deadline::{Deadline, Pauses};
use super::etcd_gateway::{Fault, Found, Gateway};

/// Default timeout of `put` and `try_get`, which have no timeout parameter.
const OPERATION: Duration = Duration::from_secs(10);

/// Maximum duration of one watch. Starting a new watch detects a server that vanished without closing its connection.
const WATCH: Duration = Duration::from_secs(60);

/// The error of opening an etcd store.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct EtcdError {
    code: ErrorCode,
    message: String,
    #[source]
    cause: Option<ureq::Error>,
}

impl EtcdError {
    /// Returns the error code, such as `INVALID_ARGUMENT` for a malformed address, `UNAVAILABLE` if no server answers,
    /// or `UNAUTHENTICATED` for a wrong or missing password.
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

/// A key-value store in an etcd cluster, for processes on all hosts that can reach the cluster.
///
/// The requests use the JSON gateway of etcd 3.4 and newer, over HTTP without TLS. If a server does not answer, the
/// store tries the next server, with growing pauses, until the operation's timeout. A process that waits for a key
/// reads the key, and then watches it from the next revision, so it misses no change. [`get`](KeyValueStore::get) has a
/// timeout parameter. The timeout of `put` and `try_get` is ten seconds, or the value of
/// [`Etcd::with_operation_timeout`].
///
/// By default, etcd keeps keys forever, so different runs must use different keys. See [`Prefixed`](super::Prefixed)
/// and [`Etcd::with_expiry`]. etcd rejects empty keys, and by default also values of more than 1.5 MiB.
/// This store reads values of at most 16 MiB.
pub struct Etcd {
    gateway: Gateway,
    name: String,
    operation: Duration,
    expiry: Option<Duration>,
}

impl Etcd {
    /// Opens the store at the addresses of one or more servers of a cluster, separated by commas:
    /// `http://host:port,http://host:port`. If the cluster requires a user, write `user:password@` before a host, and
    /// percent-encode special characters. The default port is 2379.
    ///
    /// # Errors
    ///
    /// Returns an error if an address is malformed, no server answers, or a server rejects the user or does not offer
    /// the JSON gateway.
    pub fn open(addresses: &str) -> Result<Self, EtcdError> {
        let gateway = Gateway::new(addresses).map_err(|reason| EtcdError {
            code: ErrorCode::INVALID_ARGUMENT,
            message: format!("the key-value store's address is not an etcd address: {reason}"),
            cause: None,
        })?;
        let name = format!("the key-value store {}", gateway.endpoints().join(","));
        let store = Self { gateway, name, operation: OPERATION, expiry: None };
        for server in 1.. {
            match store.gateway.range("pjrt", store.attempt(Deadline::after(store.operation))) {
                Ok(_) => break,
                Err(fault) if fault.is_transient() && server < store.gateway.endpoints().len() => {}
                // This request reads the key `pjrt`. The user may have access to other keys only.
                Err(fault) if fault.code == ErrorCode::PERMISSION_DENIED => break,
                Err(Fault { code, message, cause }) => {
                    return Err(EtcdError { code, message: format!("{}: {message}", store.name), cause });
                }
            }
        }
        Ok(store)
    }

    /// Sets the timeout of `put` and `try_get`.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation = timeout;
        self
    }

    /// Sets the time after which the cluster deletes a key, rounded up to whole seconds. Each key has its own etcd
    /// lease. Every process must read the key before it expires.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Duration) -> Self {
        self.expiry = Some(expiry);
        self
    }

    /// Returns the deadline of one attempt. It leaves time for one attempt at each server.
    fn attempt(&self, deadline: Deadline) -> Deadline {
        let servers = u32::try_from(self.gateway.endpoints().len()).unwrap_or(u32::MAX);
        Deadline::after(deadline.left_to_answer(self.operation / servers))
    }

    /// Runs an idempotent request. Repeats it after transient errors until the deadline.
    fn run<T>(&self, operation: &str, deadline: Deadline, request: impl Fn(Deadline) -> Result<T, Fault>) -> Answer<T> {
        let mut pauses = Pauses::new();
        loop {
            match request(self.attempt(deadline)) {
                Ok(value) => return Ok(value),
                Err(fault) if fault.is_transient() && !deadline.is_over() => {
                    tracing::debug!(store = %self.name, error = fault.message, "trying the key-value store again");
                    pauses.sleep(deadline);
                }
                Err(fault) => return Err(self.error(operation, &fault)),
            }
        }
    }

    fn error(&self, operation: &str, fault: &Fault) -> (ErrorCode, String) {
        (fault.code, format!("{}: {operation}: {}", self.name, fault.message))
    }

    fn fetch(&self, key: &str, deadline: Deadline) -> Answer<Found> {
        self.run(&format!("range {key:?}"), deadline, |attempt| self.gateway.range(key, attempt))
    }
}

impl KeyValueStore for Etcd {
    fn get(&self, key: &str, timeout: Duration) -> Answer<Vec<u8>> {
        let deadline = Deadline::after(timeout);
        let mut pauses = Pauses::new();
        loop {
            let Found { value, revision } = self.fetch(key, deadline)?;
            if let Some(value) = value {
                return Ok(value);
            }
            if deadline.is_over() {
                return late(key, timeout, &self.name);
            }
            match self.gateway.watch(key, revision.saturating_add(1), Deadline::after(deadline.left(WATCH))) {
                Ok(Some(value)) => return Ok(value),
                // The pause matters only if the server ends each watch at once.
                Ok(None) => pauses.sleep(deadline),
                Err(fault) if fault.is_transient() => {
                    tracing::debug!(store = %self.name, error = fault.message, "watching the key-value store again");
                    pauses.sleep(deadline);
                }
                Err(fault) => return Err(self.error(&format!("watch {key:?}"), &fault)),
            }
        }
    }

    fn try_get(&self, key: &str) -> Answer<Option<Vec<u8>>> {
        self.fetch(key, Deadline::after(self.operation)).map(|found| found.value)
    }

    fn put(&self, key: &str, value: &[u8]) -> Answer<()> {
        self.run(&format!("put {key:?}"), Deadline::after(self.operation), |attempt| {
            let lease = match self.expiry {
                Some(expiry) => {
                    let seconds = expiry.as_secs().saturating_add(u64::from(expiry.subsec_nanos() > 0)).max(1);
                    Some(self.gateway.grant(seconds, attempt)?)
                }
                None => None,
            };
            self.gateway.put(key, value, lease.as_deref(), attempt)
        })
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("name", &self.name).finish_non_exhaustive()
    }
}
