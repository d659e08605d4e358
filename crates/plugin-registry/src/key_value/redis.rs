//! A key-value store on a Redis server.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pjrt::{ErrorCode, KeyValueStore};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult, Value};

use super::answer::{Answer, late};
use super::deadline::{Deadline, LARGEST_VALUE, Pauses, shortened};
use super::redis_connection::{Connection, unexpected};

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
/// [`Prefixed`](super::Prefixed) and [`Redis::with_expiry`]. Values have at most 16 MiB.
pub struct Redis {
    info: ConnectionInfo,
    name: String,
    /// A connection that no operation uses. An operation that finds none opens another connection, so that operations
    /// of several threads do not wait for each other.
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
        // The address may contain a password, so the message does not repeat it.
        let malformed = |cause: redis::RedisError| RedisError {
            code: ErrorCode::INVALID_ARGUMENT,
            message: format!("the key-value store's address is not a Redis address ({cause}); write redis://host:port"),
            cause,
        };
        let info = address.into_connection_info().map_err(malformed)?;
        if !matches!(info.addr(), ConnectionAddr::Tcp(..)) {
            let why = "only TCP without TLS is supported";
            return Err(malformed((redis::ErrorKind::InvalidClientConfig, why).into()));
        }
        let name = format!("the key-value store redis://{}", info.addr());
        let store = Self { info, name, connection: Mutex::new(None), operation: OPERATION, expiry: None };
        let deadline = Deadline::after(store.operation);
        let pinged = Connection::open(&store.info, deadline).and_then(|mut connection| {
            connection.send(&redis::cmd("PING").get_packed_command(), deadline)?;
            match connection.receive(deadline)? {
                Value::SimpleString(pong) if pong == "PONG" => Ok(connection),
                _ => Err(unexpected("it did not answer PONG")),
            }
        });
        let connection = pinged.map_err(|error| {
            let (code, message) = store.fault("PING", &error);
            RedisError { code, message, cause: error }
        })?;
        *store.kept() = Some(connection);
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

    fn kept(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
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
            ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
                (ErrorCode::INTERNAL, "; check that the address is that of a Redis server")
            }
            _ => (ErrorCode::INTERNAL, "; check the server's configuration and log"),
        };
        (code, format!("{}: {operation}: {}{remedy}", self.name, shortened(&error.to_string())))
    }

    /// Runs an idempotent command. Repeats it on a new connection after I/O errors until the deadline.
    fn run<T>(
        &self,
        operation: &str,
        deadline: Deadline,
        command: impl Fn(&mut Connection, Deadline) -> RedisResult<T>,
    ) -> Answer<T> {
        let mut pauses = Pauses::new();
        loop {
            let attempt = self.attempt(deadline);
            let kept = self.kept().take();
            let ready = kept.map_or_else(|| Connection::open(&self.info, attempt), Ok);
            let result = ready.and_then(|mut connection| {
                let value = command(&mut connection, attempt)?;
                // After an error, the state of the connection is unknown, so it is closed.
                *self.kept() = Some(connection);
                Ok(value)
            });
            match result {
                Ok(value) => return Ok(value),
                Err(error) if error.is_io_error() && !deadline.is_over() => {
                    tracing::debug!(store = %self.name, %error, "trying the key-value store again");
                    pauses.sleep(deadline);
                }
                Err(error) => return Err(self.fault(operation, &error)),
            }
        }
    }

    /// Returns the deadline of one attempt.
    fn attempt(&self, deadline: Deadline) -> Deadline {
        Deadline::after(deadline.left_to_answer(self.operation))
    }

    fn fetch(&self, key: &str, deadline: Deadline) -> Answer<Option<Vec<u8>>> {
        let get = redis::cmd("GET").arg(key).get_packed_command();
        self.run(&format!("GET {key:?}"), deadline, |connection, attempt| {
            connection.send(&get, attempt)?;
            connection.receive_value(attempt)
        })
    }

    /// Subscribes to the channel of a key, and waits until the key is set. Returns `None` after the deadline.
    fn listen(&self, key: &str, deadline: Deadline) -> Result<Option<Vec<u8>>, Wait> {
        let channel = channel_of(key);
        let start = self.attempt(deadline);
        let mut connection = Connection::open(&self.info, start).map_err(Wait::Broken)?;
        let subscribe = redis::cmd("SUBSCRIBE").arg(&channel).get_packed_command();
        connection.send(&subscribe, start).map_err(Wait::Broken)?;
        let mut notice = |event: &str, deadline| {
            let answer = connection.receive(deadline)?;
            let text =
                |value: &Value, text: &str| matches!(value, Value::BulkString(bytes) if bytes == text.as_bytes());
            match &answer {
                Value::Array(parts) if matches!(&parts[..], [name, to, _] if text(name, event) && text(to, &channel)) => {
                    Ok(())
                }
                _ => Err(unexpected("it did not send a notice of the channel")),
            }
        };
        notice("subscribe", start).map_err(Wait::Broken)?;
        // A `SET` before the subscription sent no notification, so read the key once more.
        let mut found = self.fetch(key, deadline).map_err(Wait::Failed)?;
        while found.is_none() && !deadline.is_over() {
            match notice("message", deadline) {
                Ok(()) => found = self.fetch(key, deadline).map_err(Wait::Failed)?,
                Err(error) if error.is_timeout() && deadline.is_over() => break,
                Err(error) => return Err(Wait::Broken(error)),
            }
        }
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
        if value.len() > LARGEST_VALUE {
            let message = format!("{}: SET {key:?}: the value has more than 16 MiB; store a smaller one", self.name);
            return Err((ErrorCode::INVALID_ARGUMENT, message));
        }
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value);
        if let Some(expiry) = self.expiry {
            set.arg("PX").arg(u64::try_from(expiry.as_millis()).unwrap_or(u64::MAX >> 2).max(1));
        }
        let mut both = redis::pipe();
        both.atomic().add_command(set).cmd("PUBLISH").arg(channel_of(key)).arg("");
        let both = both.get_packed_pipeline();
        self.run(&format!("SET {key:?}"), Deadline::after(self.operation), |connection, attempt| {
            connection.send(&both, attempt)?;
            // The server answers `MULTI`, queues both commands, and answers them together.
            if connection.receive(attempt)? != Value::Okay {
                return Err(unexpected("it did not begin a transaction"));
            }
            for _ in 0..2 {
                match connection.receive(attempt)? {
                    Value::SimpleString(text) if text == "QUEUED" => {}
                    _ => return Err(unexpected("it did not queue a command of a transaction")),
                }
            }
            match connection.receive(attempt)? {
                Value::Array(done) if matches!(done[..], [Value::Okay, Value::Int(_)]) => Ok(()),
                _ => Err(unexpected("it did not confirm the transaction")),
            }
        })
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("name", &self.name).finish_non_exhaustive()
    }
}
