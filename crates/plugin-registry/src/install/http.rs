//! HTTP requests: proxies, certificates, credentials, and repetition after transient errors.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ureq::http::{HeaderValue, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};
use url::Url;

use super::error::InstallError;

/// Pauses before a request is repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// The longest wait for a connection, and for the next bytes of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that sends requests.
#[derive(Debug)]
pub(super) struct Http {
    agent: Agent,
}

/// An address and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The address without user, password and fragment.
    pub(super) url: Url,
    /// Value of the header `Authorization`.
    credentials: Option<HeaderValue>,
}

impl Address {
    /// Separates the credentials from an address.
    pub(super) fn new(mut url: Url) -> Self {
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pair = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or_default()));
        let mut credentials = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok();
        // `Debug` then does not show the value.
        credentials.iter_mut().for_each(|value| value.set_sensitive(true));
        let credentials = credentials.filter(|_| !url.username().is_empty() || url.password().is_some());
        // These fail only for addresses that cannot have credentials.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        Self { url, credentials }
    }

    /// Returns an address on a page of this address. It has the credentials of the page if it is on the same server.
    pub(super) fn linked(&self, url: Url) -> Self {
        let mut linked = Self::new(url);
        if linked.credentials.is_none() && linked.url.origin() == self.url.origin() {
            linked.credentials.clone_from(&self.credentials);
        }
        linked
    }
}

impl Http {
    /// Creates a client with the proxy of the environment and the certificates of the system. If the system has none,
    /// as in a minimal container, uses Mozilla's list.
    pub(super) fn new() -> Self {
        // Unreadable certificates of the system do not prevent the use of the others.
        let certificates = rustls_native_certs::load_native_certs().certs;
        let certificates: Vec<_> = certificates.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
        let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some());
        let roots = match certificates.as_slice() {
            [] if !named => RootCerts::WebPki,
            certificates => RootCerts::new_with_certs(certificates),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .user_agent(concat!("pjrt/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .build()
            .new_agent();
        Self { agent }
    }

    /// Requests a document. Returns `None` if the server does not have it.
    pub(super) fn find(&self, address: &Address, accept: &str) -> Result<Option<Response<Body>>, InstallError> {
        let answer = self.send(address, &[("accept", accept)])?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            StatusCode::OK => Ok(Some(answer)),
            other => Err(status(address, other)),
        }
    }

    /// Requests the bytes of a file from `start` to before `end`, or to the end of the file. The answer is the whole
    /// file if the server does not send parts.
    pub(super) fn range(
        &self,
        address: &Address,
        start: u64,
        end: Option<u64>,
    ) -> Result<Response<Body>, InstallError> {
        let last = end.map(|end| end.saturating_sub(1).to_string()).unwrap_or_default();
        let range = format!("bytes={start}-{last}");
        // Without an encoding, lengths and positions are those of the file.
        let headers = [("range", range.as_str()), ("accept-encoding", "identity")];
        let answer = self.send(address, if start == 0 && end.is_none() { &headers[1..] } else { &headers })?;
        match answer.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => Ok(answer),
            other => Err(status(address, other)),
        }
    }

    /// Sends a request, and repeats it after transient errors.
    fn send(&self, address: &Address, headers: &[(&str, &str)]) -> Result<Response<Body>, InstallError> {
        let mut pauses = PAUSES.iter();
        loop {
            let mut request = self.agent.get(address.url.as_str());
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if let Some(credentials) = &address.credentials {
                request = request.header("authorization", credentials);
            }
            // An address with encryption must not lead to one without.
            let request = request.config().https_only(address.url.scheme() == "https").build();
            let result = request.call();
            let transient = match &result {
                Ok(answer) => answer.status().is_server_error() || answer.status() == StatusCode::TOO_MANY_REQUESTS,
                Err(error) => is_transient(error),
            };
            match pauses.next().filter(|_| transient) {
                Some(pause) => {
                    tracing::debug!(url = %address.url, "repeats a request");
                    sleep(*pause);
                }
                None => return result.map_err(|error| network(address, &error)),
            }
        }
    }
}

fn is_transient(error: &ureq::Error) -> bool {
    // The name of a host that exists may be unknown for a moment, but a wrong name is more likely.
    use ureq::Error::{ConnectionFailed, Io, Protocol, Timeout};
    matches!(error, Io(_) | Timeout(_) | ConnectionFailed | Protocol(_))
}

/// Creates the error for a connection that failed.
pub(super) fn network(address: &Address, error: &dyn std::error::Error) -> InstallError {
    InstallError::Network { url: address.url.to_string(), message: error.to_string() }
}

fn status(address: &Address, status: StatusCode) -> InstallError {
    InstallError::Status { url: address.url.to_string(), status: status.as_u16() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_on_their_server() {
        let page = Address::new("https://me:p%40ss@example.com/simple/a/#x".parse().unwrap());
        assert_eq!(page.url.as_str(), "https://example.com/simple/a/");
        assert_eq!(page.credentials.as_ref().map(HeaderValue::as_bytes), Some(&b"Basic bWU6cEBzcw=="[..]));
        assert!(!format!("{page:?}").contains("bWU6"));
        let linked = |text: &str| page.linked(page.url.join(text).unwrap()).credentials.is_some();
        assert!(
            linked("../../files/a.whl") && !linked("https://other.example/a.whl") && !linked("http://example.com/a")
        );
    }
}
