//! A connection to a Redis server. The crate `redis` encodes commands and decodes answers. The connection limits the
//! time and the size of each answer, because the timeouts of that crate apply to single reads, and its answers have any
//! size.

use std::io::{self, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, Parser, RedisError, RedisResult, Value};

use super::deadline::{Deadline, LARGEST_VALUE};

/// Maximum size in bytes of all bytes that are read for one answer: a value, and the lengths around it.
const LARGEST_ANSWER: usize = LARGEST_VALUE + 64;
/// Maximum size in bytes of an answer that contains no value.
const LARGEST_SHORT_ANSWER: usize = 64 << 10;

/// The longest wait for one read or write. The deadline ends the operation.
const WAIT: Duration = Duration::from_secs(60);

pub(super) struct Connection {
    stream: TcpStream,
    parser: Parser,
}

/// Reads from a socket until a deadline, and at most a number of bytes.
struct Limited<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
    left: usize,
}

impl Read for Limited<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = to.len().min(self.left);
        let Some(to) = to.get_mut(..len).filter(|to| !to.is_empty()) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.stream.set_read_timeout(Some(self.deadline.left_or_late(WAIT)?))?;
        let count = self.stream.read(to).map_err(|error| match error.kind() {
            // Some systems report a timeout in this way.
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        self.left -= count;
        Ok(count)
    }
}

/// Returns the error for an answer that a Redis server does not send.
pub(super) fn unexpected(why: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, why).into()
}

impl Connection {
    /// Connects before the deadline, and selects the user and the database.
    pub(super) fn open(info: &ConnectionInfo, deadline: Deadline) -> RedisResult<Self> {
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err((ErrorKind::InvalidClientConfig, "the address is not that of a TCP port").into());
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host.as_str(), *port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, deadline.left_or_late(WAIT)?) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let mut connection = Self { stream, parser: Parser::new() };
                    connection.set_up(info, deadline)?;
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }
        Err(last.into())
    }

    fn set_up(&mut self, info: &ConnectionInfo, deadline: Deadline) -> RedisResult<()> {
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = settings.username() {
                auth.arg(user);
            }
            self.expect_ok(auth.arg(password), deadline)?;
        }
        if settings.db() != 0 {
            self.expect_ok(redis::cmd("SELECT").arg(settings.db()), deadline)?;
        }
        Ok(())
    }

    fn expect_ok(&mut self, command: &Cmd, deadline: Deadline) -> RedisResult<()> {
        self.send(&command.get_packed_command(), deadline)?;
        match self.receive(deadline)? {
            Value::Okay => Ok(()),
            _ => Err(unexpected("it did not answer OK")),
        }
    }

    pub(super) fn send(&mut self, mut bytes: &[u8], deadline: Deadline) -> RedisResult<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(deadline.left_or_late(WAIT)?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    /// Reads an answer that contains no value.
    pub(super) fn receive(&mut self, deadline: Deadline) -> RedisResult<Value> {
        self.read(deadline, LARGEST_SHORT_ANSWER)
    }

    /// Reads an answer to `GET`.
    pub(super) fn receive_value(&mut self, deadline: Deadline) -> RedisResult<Option<Vec<u8>>> {
        match self.read(deadline, LARGEST_ANSWER)? {
            Value::Nil => Ok(None),
            Value::BulkString(value) => Ok(Some(value)),
            _ => Err(unexpected("it answered GET with something else than a value")),
        }
    }

    fn read(&mut self, deadline: Deadline, limit: usize) -> RedisResult<Value> {
        let mut from = Limited { stream: &self.stream, deadline, left: limit };
        match self.parser.parse_value(&mut from) {
            Err(_) if from.left == 0 => Err(unexpected("its answer is too large")),
            answer => answer?.extract_error(),
        }
    }
}
