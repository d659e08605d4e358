//! Sends requests over HTTP without TLS to the JSON gateway, which every etcd server offers in addition to gRPC.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use pjrt::ErrorCode;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use ureq::http::Uri;
use ureq::{Agent, Body};

use super::deadline::{Deadline, LARGEST_VALUE, shortened};
use super::etcd_answers::{Authenticated, Grant, Pair, Range, Unusable, Watched, parse, reader};

/// The default port for etcd clients.
const PORT: u16 = 2379;

/// Maximum size in bytes of an answer that contains a value in base64, and of all answers to one watch.
const LARGEST_ANSWER: u64 = (LARGEST_VALUE as u64).div_ceil(3) * 4 + LARGEST_SHORT_ANSWER;
/// Maximum size in bytes of an answer that contains no value.
const LARGEST_SHORT_ANSWER: u64 = 1 << 20;
/// The longest wait for an answer. The deadline ends the operation.
const WAIT: Duration = Duration::from_secs(3600);

/// The error of a request.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: ErrorCode,
    pub(super) message: String,
    pub(super) cause: Option<ureq::Error>,
}

impl Fault {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: None }
    }

    /// Returns whether a later attempt, or an attempt at another server, may succeed.
    pub(super) fn is_transient(&self) -> bool {
        self.code == ErrorCode::UNAVAILABLE
    }

    fn connection(error: ureq::Error) -> Self {
        let (code, remedy) = match &error {
            ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => {
                (ErrorCode::INTERNAL, "check that the address is that of an etcd server")
            }
            _ => (ErrorCode::UNAVAILABLE, "check that the server is running and that the address is right"),
        };
        Self { code, message: format!("{error}; {remedy}"), cause: Some(error) }
    }

    /// Creates the error for an answer with an unsuccessful HTTP status.
    fn answer(status: u16, text: &str) -> Self {
        match serde_json::from_str::<Value>(text) {
            Ok(error) if error["code"].is_u64() => {
                let message = error["message"].as_str().or_else(|| error["error"].as_str());
                Self::status(message, error["code"].as_u64())
            }
            _ if status == 404 => Self::new(
                ErrorCode::UNIMPLEMENTED,
                "the server does not have etcd's JSON gateway; use the client address of etcd 3.4 or newer",
            ),
            _ => {
                let (code, remedy) = match status {
                    300..400 => {
                        (ErrorCode::INTERNAL, "; redirects are not followed, so write the server's own address")
                    }
                    500.. => (ErrorCode::UNAVAILABLE, ""),
                    _ => (ErrorCode::INTERNAL, "; check that the address is that of an etcd server"),
                };
                Self::new(code, format!("HTTP status {status}: {}{remedy}", shortened(text.trim())))
            }
        }
    }

    /// Creates the error for a gRPC error. The gRPC codes have the same values as PJRT's error codes.
    fn status(message: Option<&str>, code: Option<u64>) -> Self {
        let message = message.unwrap_or("unknown error");
        let raw = code.and_then(|raw| u32::try_from(raw).ok());
        let code = match raw.map_or(ErrorCode::UNKNOWN, ErrorCode::from_raw) {
            ErrorCode::INVALID_ARGUMENT if is_about_credentials(message) => ErrorCode::UNAUTHENTICATED,
            code => code,
        };
        let remedy = match code {
            ErrorCode::UNAUTHENTICATED => "; write http://user:password@host:port",
            _ if message.contains("authentication is not enabled") => "; write the address without user and password",
            _ => "",
        };
        Self::new(code, format!("{}{remedy}", shortened(message)))
    }
}

/// Returns whether an `INVALID_ARGUMENT` error of etcd concerns a missing or wrong user or password.
fn is_about_credentials(message: &str) -> bool {
    ["user name is empty", "authentication failed"].iter().any(|text| message.contains(text))
}

/// The value of a key, if the key is set, and the revision of the store at which the key was read.
pub(super) struct Found {
    pub(super) value: Option<Vec<u8>>,
    pub(super) revision: i64,
}

#[derive(PartialEq, Eq)]
struct Credentials {
    user: String,
    password: String,
}

/// The JSON gateways of all servers in a cluster.
pub(super) struct Gateway {
    agent: Agent,
    /// Addresses of the servers, without credentials: `http://host:port`.
    endpoints: Vec<String>,
    /// Index of the server that receives requests, modulo the number of servers. Incremented after a transient error.
    current: AtomicUsize,
    credentials: Option<Credentials>,
    token: Mutex<Option<String>>,
}

impl Gateway {
    /// Parses comma-separated addresses.
    pub(super) fn new(addresses: &str) -> Result<Self, String> {
        let (mut endpoints, mut credentials) = (Vec::new(), None);
        for address in addresses.split(',') {
            let (endpoint, own) = endpoint(address.trim())?;
            if own.is_some() && credentials.is_some() && own != credentials {
                return Err("addresses of one cluster have different users or passwords".to_owned());
            }
            credentials = credentials.or(own);
            endpoints.push(endpoint);
        }
        // Ignore the proxy settings of the environment, because addresses within a cluster need no proxy.
        // A redirect would send keys, values and tokens to a server that the user did not name.
        let agent =
            Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0).build().new_agent();
        Ok(Self { agent, endpoints, current: AtomicUsize::new(0), credentials, token: Mutex::new(None) })
    }

    pub(super) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Reads a key and the current revision of the store.
    pub(super) fn range(&self, key: &str, deadline: Deadline) -> Result<Found, Fault> {
        let request = json!({ "key": encode(key.as_bytes()) });
        let answer: Range = self.call("/v3/kv/range", &request, LARGEST_ANSWER, deadline)?;
        let value = answer.kvs.0.map(|pair| value_of(&pair, key)).transpose()?;
        let revision = answer.header.revision.and_then(|text| text.parse().ok());
        let revision = revision.filter(|revision| *revision > 0).ok_or_else(|| unreadable("/v3/kv/range"))?;
        Ok(Found { value, revision })
    }

    /// Sets a key. If `lease` is given, the server deletes the key when the lease expires.
    pub(super) fn put(&self, key: &str, value: &[u8], lease: Option<&str>, deadline: Deadline) -> Result<(), Fault> {
        let mut request = json!({ "key": encode(key.as_bytes()), "value": encode(value) });
        if let Some(lease) = lease {
            request["lease"] = json!(lease);
        }
        self.call::<IgnoredAny>("/v3/kv/put", &request, LARGEST_SHORT_ANSWER, deadline).map(drop)
    }

    /// Requests a lease that expires after `seconds`. Returns the id of the lease.
    pub(super) fn grant(&self, seconds: u64, deadline: Deadline) -> Result<String, Fault> {
        let request = json!({ "TTL": seconds.to_string() });
        self.call("/v3/lease/grant", &request, LARGEST_SHORT_ANSWER, deadline).map(|grant: Grant| grant.id)
    }

    /// Waits until a key is set at `revision` or later. Returns `None` after the deadline, or if the server ended the
    /// watch without a reason or because a compaction has deleted the history at `revision`.
    pub(super) fn watch(&self, key: &str, revision: i64, deadline: Deadline) -> Result<Option<Vec<u8>>, Fault> {
        let request = json!({
            "create_request": { "key": encode(key.as_bytes()), "start_revision": revision.to_string() }
        });
        let body = self.send("/v3/watch", &request, deadline)?;
        // The answer contains JSON documents, and ends when the client closes the connection.
        let messages = serde_json::Deserializer::from_reader(reader(body, LARGEST_ANSWER, deadline));
        for message in messages.into_iter::<Watched>() {
            let message = match message.map_err(Unusable::from) {
                Ok(message) => message,
                Err(Unusable::Connection(ureq::Error::Timeout(_))) => return Ok(None),
                Err(error) => return Err(self.unusable(error, "/v3/watch")),
            };
            if let Some(error) = message.error {
                return Err(Fault::status(error.message.as_deref(), error.grpc_code));
            }
            let changes = message.result;
            if let Some(event) = changes.events.0 {
                return value_of(&event.kv, key).map(Some);
            }
            if changes.canceled {
                return match changes.cancel_reason {
                    Some(reason) if changes.compact_revision.is_none() => {
                        let message = format!("the server ended the watch: {}", shortened(&reason));
                        Err(Fault::new(ErrorCode::PERMISSION_DENIED, message))
                    }
                    _ => Ok(None),
                };
            }
        }
        Err(Fault::new(ErrorCode::UNAVAILABLE, "the server closed the connection"))
    }

    /// Sends a request whose answer is one JSON document.
    fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        request: &Value,
        limit: u64,
        deadline: Deadline,
    ) -> Result<T, Fault> {
        parse(self.send(path, request, deadline)?, limit, deadline).map_err(|error| self.unusable(error, path))
    }

    /// Sends a request, with an authentication token if the addresses contain a user. If a cached token has expired,
    /// requests a new token once.
    fn send(&self, path: &str, request: &Value, deadline: Deadline) -> Result<Body, Fault> {
        let (token, is_old) = self.token(deadline)?;
        match self.post(path, request, token.as_deref(), deadline) {
            Err(fault) if is_old && fault.code == ErrorCode::UNAUTHENTICATED => {
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let (token, _) = self.token(deadline)?;
                self.post(path, request, token.as_deref(), deadline)
            }
            answer => answer,
        }
    }

    /// Returns the user's authentication token, if the addresses contain a user, and whether the token was cached.
    fn token(&self, deadline: Deadline) -> Result<(Option<String>, bool), Fault> {
        let Some(Credentials { user, password }) = &self.credentials else { return Ok((None, false)) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_some() {
            return Ok((known, true));
        }
        let path = "/v3/auth/authenticate";
        let body = self.post(path, &json!({ "name": user, "password": password }), None, deadline)?;
        let answer = parse(body, LARGEST_SHORT_ANSWER, deadline).map_err(|error| self.unusable(error, path))?;
        let Authenticated { token } = answer;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok((Some(token), false))
    }

    /// Sends a request to the current server.
    fn post(&self, path: &str, request: &Value, token: Option<&str>, deadline: Deadline) -> Result<Body, Fault> {
        let endpoint = &self.endpoints[self.current.load(Ordering::Relaxed) % self.endpoints.len()];
        let mut builder = self.agent.post(format!("{endpoint}{path}")).content_type("application/json");
        if let Some(token) = token {
            builder = builder.header("Authorization", token);
        }
        let sent = builder.config().timeout_global(Some(deadline.left(WAIT))).build().send(request.to_string());
        let (status, body) = match sent {
            Ok(response) => (response.status(), response.into_body()),
            Err(error) => return Err(self.fail(error)),
        };
        if status.is_success() {
            return Ok(body);
        }
        let fault =
            Fault::answer(status.as_u16(), &read(body, LARGEST_SHORT_ANSWER).map_err(|error| self.fail(error))?);
        if fault.is_transient() {
            self.next_server();
        }
        Err(fault)
    }

    fn unusable(&self, error: Unusable, path: &str) -> Fault {
        match error {
            Unusable::Connection(error) => self.fail(error),
            Unusable::Unreadable => unreadable(path),
        }
    }

    /// Creates the error for a failed connection to the current server, and switches to the next server.
    fn fail(&self, error: ureq::Error) -> Fault {
        self.next_server();
        Fault::connection(error)
    }

    fn next_server(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }
}

/// Parses an address. Returns the address without credentials, and the credentials.
fn endpoint(address: &str) -> Result<(String, Option<Credentials>), String> {
    let form = "write http://host:port, or several addresses with commas between them";
    // The address may contain a password, so the messages do not repeat it.
    let uri: Uri = address.parse().map_err(|error| format!("the address is malformed ({error}); {form}"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err("connections with TLS are not supported; \
                        write the http address of a proxy on this host, such as `etcd grpc-proxy`"
                .to_owned());
        }
        _ => return Err(format!("the address does not begin with http://; {form}")),
    }
    let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
        return Err(format!("the address has no host; {form}"));
    };
    let (own, place) = match authority.as_str().rsplit_once('@') {
        Some((own, place)) => (Some(own), place),
        None => (None, authority.as_str()),
    };
    if host.is_empty() || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(format!("the address has more or less than a host and a port; {form}"));
    }
    let port = uri.port_u16();
    if place != host && port.is_none() {
        return Err(format!("the port is not a number; {form}"));
    }
    let credentials = match own {
        Some(own) => {
            let (user, password) = own.split_once(':').unwrap_or((own, ""));
            let decode = |text| percent_decode_str(text).decode_utf8().map(String::from);
            match (decode(user), decode(password)) {
                (Ok(user), Ok(password)) => Some(Credentials { user, password }),
                _ => return Err("the user or password in the address is not UTF-8".to_owned()),
            }
        }
        None => None,
    };
    Ok((format!("http://{host}:{}", port.unwrap_or(PORT)), credentials))
}

fn read(body: Body, limit: u64) -> Result<String, ureq::Error> {
    body.into_with_config().limit(limit).read_to_string()
}

fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes the value of the key-value pair of `key`.
fn value_of(pair: &Pair, key: &str) -> Result<Vec<u8>, Fault> {
    if pair.key.as_deref() != Some(&encode(key.as_bytes())) {
        return Err(unreadable(&format!("a request for the key {key:?}")));
    }
    let text = pair.value.as_deref().unwrap_or_default();
    STANDARD.decode(text).map_err(|error| {
        Fault::new(
            ErrorCode::DATA_LOSS,
            format!("the value is not base64: {error}; check that the address is that of etcd"),
        )
    })
}

fn unreadable(what: &str) -> Fault {
    let message =
        format!("the answer to {what} is not what etcd's gateway answers; check that the address is that of etcd");
    Fault::new(ErrorCode::INTERNAL, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let gateway = Gateway::new("http://a:1, http://u%40:p%3a@b,http://[::1]:7/").map_err(drop);
        let gateway = gateway.unwrap_or_else(|()| panic!("not read"));
        assert_eq!(gateway.endpoints(), ["http://a:1", "http://b:2379", "http://[::1]:7"]);
        let own = gateway.credentials.as_ref().map(|own| (own.user.as_str(), own.password.as_str()));
        assert_eq!(own, Some(("u@", "p:")));
        let two_users = "http://a:b@c,http://d:e@f";
        for wrong in ["", "a", "a:1", "https://a", "http://", "http://a/b", "http://a?b", "http://a:x", two_users] {
            assert!(Gateway::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_that_are_not_from_etcd() {
        let code = |status, text| Fault::answer(status, text).code;
        assert_eq!(code(404, "not found"), ErrorCode::UNIMPLEMENTED);
        assert_eq!(code(502, "<html>"), ErrorCode::UNAVAILABLE);
        assert_eq!(code(400, "[]"), ErrorCode::INTERNAL);
        assert_eq!(code(503, r#"{"code": 14, "message": "no leader"}"#), ErrorCode::UNAVAILABLE);
        assert_eq!(code(400, r#"{"code": 3, "error": "etcdserver: user name is empty"}"#), ErrorCode::UNAUTHENTICATED);
    }
}
