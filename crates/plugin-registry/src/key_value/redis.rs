//! A key-value store on a Redis server.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pjrt::{ErrorCode, KeyValueStore};
use redis::{Client, Connection, IntoConnectionInfo};

use super::answer::{Answer, late};
use super::deadline::{Deadline, Pauses};

/// Default timeout of `put` and `try_get`, which have no timeout parameter.
const OPERATION: Duration = Duration::from_secs(10);

/// The error of opening a Redis store.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RedisError {
    code: ErrorCode,
    message: String,
    #[source]
    cause: redis::RedisError,
}

impl RedisError {
    /// Returns the error code, such as `INVALID_ARGUMENT` for a malformed address, `UNAVAILABLE` if the server does not
    /// answer, or `UNAUTHENTICATED` for a wrong or missing password.
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

/// A key-value store on a Redis server, for processes on all hosts that can reach the server.
///
/// A process that waits for a key does not poll. It subscribes to a channel on which the key's writer publishes a
/// message. If the connection breaks, the store opens a new one, with growing pauses, until the operation's timeout.
/// [`get`](KeyValueStore::get) has a timeout parameter. The timeout of `put` and `try_get` is ten seconds, or the value
/// of [`Redis::with_operation_timeout`].
///
/// By default, the server keeps keys forever, so different runs must use different keys. See
/// [`Prefixed`](super::Prefixed) and [`Redis::with_expiry`].
pub struct Redis {
    client: Client,
    name: String,
    connection: Mutex<Option<Connection>>,
    operation: Duration,
    expiry: Option<Duration>,
}

impl Redis {
    /// Opens the store at an address: `redis://host:port/database`, with `user:password@` before the host if the server
    /// requires it.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is malformed, the server does not answer, or the server rejects the user.
    pub fn open(address: &str) -> Result<Self, RedisError> {
        let info = address.into_connection_info().map_err(|error| {
            // The address may contain a password, so the message does not repeat it.
            let message =
                format!("the key-value store's address is not a Redis address ({error}); write redis://host:port");
            RedisError { code: ErrorCode::INVALID_ARGUMENT, message, cause: error }
        })?;
        let name = format!("the key-value store redis://{}", info.addr());
        let client = Client::open(info).map_err(|error| RedisError {
            code: ErrorCode::INVALID_ARGUMENT,
            message: format!("{name}: {error}"),
            cause: error,
        })?;
        let store = Self { client, name, connection: Mutex::new(None), operation: OPERATION, expiry: None };
        let pinged = store.connect(store.operation).and_then(|mut connection| {
            redis::cmd("PING").query::<String>(&mut connection)?;
            Ok(connection)
        });
        let connection = pinged.map_err(|error| {
            let (code, message) = store.fault("PING", &error);
            RedisError { code, message, cause: error }
        })?;
        *store.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        Ok(store)
    }

    /// Sets the timeout of `put` and `try_get`.
    #[must_use]
    pub fn with_operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation = timeout;
        self
    }

    /// Sets the time after which the server deletes a key. Every process must read the key before it expires.
    #[must_use]
    pub fn with_expiry(mut self, expiry: Duration) -> Self {
        self.expiry = Some(expiry);
        self
    }

    /// Opens a connection with a timeout for connecting, for each read and for each write.
    fn connect(&self, timeout: Duration) -> redis::RedisResult<Connection> {
        let connection = self.client.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(connection)
    }

    /// Converts an error of the server or the connection to an error code and a message.
    fn fault(&self, operation: &str, error: &redis::RedisError) -> (ErrorCode, String) {
        use redis::{ErrorKind, ServerErrorKind};
        let (code, remedy) = match error.kind() {
            ErrorKind::Io => {
                (ErrorCode::UNAVAILABLE, "; check that the server is running and that the address is right")
            }
            ErrorKind::AuthenticationFailed => (ErrorCode::UNAUTHENTICATED, "; write redis://user:password@host:port"),
            ErrorKind::Server(ServerErrorKind::NoPerm) => (ErrorCode::PERMISSION_DENIED, ""),
            _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => {
                (ErrorCode::UNAUTHENTICATED, "; write redis://user:password@host:port")
            }
            _ if error.code() == Some("OOM") => (ErrorCode::RESOURCE_EXHAUSTED, ""),
            _ => (ErrorCode::INTERNAL, ""),
        };
        (code, format!("{}: {operation}: {error}{remedy}", self.name))
    }

    /// Runs an idempotent command. Repeats it on a new connection after I/O errors until the deadline.
    fn run<T>(
        &self,
        operation: &str,
        deadline: Deadline,
        command: impl Fn(&mut Connection) -> redis::RedisResult<T>,
    ) -> Answer<T> {
        let mut pauses = Pauses::new();
        loop {
            let left = deadline.left_to_answer(self.operation);
            let attempt = {
                let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
                let ready = match kept.take() {
                    Some(connection) => connection
                        .set_read_timeout(Some(left))
                        .and_then(|()| connection.set_write_timeout(Some(left)))
                        .map(|()| connection),
                    None => self.connect(left),
                };
                ready.and_then(|mut connection| {
                    let result = command(&mut connection);
                    // After an I/O error, the state of the connection is unknown. Do not use the connection again.
                    if result.as_ref().err().is_none_or(|error| !error.is_io_error()) {
                        *kept = Some(connection);
                    }
                    result
                })
            };
            match attempt {
                Ok(value) => return Ok(value),
                Err(error) if error.is_io_error() && !deadline.is_over() => {
                    tracing::debug!(store = %self.name, %error, "trying the key-value store again");
                    pauses.sleep(deadline);
                }
                Err(error) => return Err(self.fault(operation, &error)),
            }
        }
    }

    fn fetch(&self, key: &str, deadline: Deadline) -> Answer<Option<Vec<u8>>> {
        self.run(&format!("GET {key:?}"), deadline, |connection| redis::cmd("GET").arg(key).query(connection))
    }

    /// Subscribes to the channel of a key, and waits until the key is set. Returns `None` after the deadline, or after
    /// an hour without a message.
    fn listen(&self, key: &str, deadline: Deadline) -> Result<Option<Vec<u8>>, Wait> {
        let broken = |error: redis::RedisError| Wait::Broken(error);
        let mut connection = self.connect(deadline.left_to_answer(self.operation)).map_err(broken)?;
        let mut channel = connection.as_pubsub();
        channel.subscribe(channel_of(key)).map_err(broken)?;
        // A `SET` before the subscription sent no notification, so read the key once more.
        let mut found = self.fetch(key, deadline).map_err(Wait::Failed)?;
        while found.is_none() && !deadline.is_over() {
            channel.set_read_timeout(Some(deadline.left(Duration::from_secs(3600)))).map_err(broken)?;
            match channel.get_message() {
                Ok(_) => found = self.fetch(key, deadline).map_err(Wait::Failed)?,
                // The deadline has passed, or the wait has lasted an hour.
                Err(error) if error.is_timeout() => break,
                Err(error) => return Err(broken(error)),
            }
        }
        // Dropping `channel` unsubscribes. The short timeout limits the wait for the server's answer.
        let _ = channel.set_read_timeout(Some(Duration::from_millis(1)));
        Ok(found)
    }
}

/// The reason why waiting for a key failed.
enum Wait {
    /// Connecting, subscribing or receiving a message failed.
    Broken(redis::RedisError),
    /// A command failed. Waiting again would fail as well.
    Failed((ErrorCode, String)),
}

/// Returns the channel on which the writer of a key publishes a message.
fn channel_of(key: &str) -> String {
    format!("pjrt-put:{key}")
}

impl KeyValueStore for Redis {
    fn get(&self, key: &str, timeout: Duration) -> Answer<Vec<u8>> {
        let deadline = Deadline::after(timeout);
        if let Some(value) = self.fetch(key, deadline)? {
            return Ok(value);
        }
        let mut pauses = Pauses::new();
        while !deadline.is_over() {
            match self.listen(key, deadline) {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => {}
                Err(Wait::Failed(fault)) => return Err(fault),
                Err(Wait::Broken(error)) if error.is_io_error() => {
                    tracing::debug!(store = %self.name, %error, "listening to the key-value store again");
                    pauses.sleep(deadline);
                    if deadline.is_over() {
                        return Err(self.fault(&format!("SUBSCRIBE {key:?}"), &error));
                    }
                }
                Err(Wait::Broken(error)) => return Err(self.fault(&format!("SUBSCRIBE {key:?}"), &error)),
            }
        }
        late(key, timeout, &self.name)
    }

    fn try_get(&self, key: &str) -> Answer<Option<Vec<u8>>> {
        self.fetch(key, Deadline::after(self.operation))
    }

    fn put(&self, key: &str, value: &[u8]) -> Answer<()> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value);
        if let Some(expiry) = self.expiry {
            set.arg("PX").arg(u64::try_from(expiry.as_millis()).unwrap_or(u64::MAX >> 2).max(1));
        }
        let mut both = redis::pipe();
        both.atomic().add_command(set).ignore().cmd("PUBLISH").arg(channel_of(key)).arg("").ignore();
        self.run(&format!("SET {key:?}"), Deadline::after(self.operation), |connection| both.query(connection))
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("name", &self.name).finish_non_exhaustive()
    }
}
