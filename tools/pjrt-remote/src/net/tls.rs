//! TLS connections. The client knows the server by the SHA-256 of its certificate, so the certificate may be
//! self-signed.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};
use sha2::{Digest, Sha256};

use crate::net::address::Fingerprint;

/// Maximum size of a TLS record.
const RECORD: usize = 17 << 10;
/// Maximum number of bytes that are encrypted together.
const PART: usize = 64 << 10;

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    Fingerprint(Sha256::digest(certificate).into())
}

/// The certificate and the key of a server.
#[derive(Clone, Debug)]
pub struct Identity {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
}

impl Identity {
    /// Reads a certificate and its key from PEM files.
    ///
    /// # Errors
    ///
    /// Returns a message if the files cannot be read or do not fit together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let fail = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| fail(certificate, &error))?;
        let first = chain.first().ok_or_else(|| fail(certificate, &"the file has no certificate"))?;
        let fingerprint = fingerprint(first);
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| fail(key, &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config =
            builder.with_no_client_auth().with_single_cert(chain, secret).map_err(|error| fail(key, &error))?;
        Ok(Self { config: Arc::new(config), fingerprint })
    }

    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

/// Accepts the certificate with a fingerprint only.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: CryptoProvider,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if fingerprint(certificate) == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A socket whose reads fail after a deadline.
struct Until<'a> {
    tcp: &'a TcpStream,
    deadline: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.tcp.set_read_timeout(Some(left))?;
        self.tcp.read(to)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TLS connection after the handshake. One thread may read while another one writes.
#[derive(Debug)]
pub(crate) struct TlsStream {
    /// The socket, with the bytes that the session has not taken.
    tcp: BufReader<TcpStream>,
    /// The state that the halves of the connection share.
    session: Arc<Mutex<Connection>>,
    /// Memory for the records to be written.
    records: Vec<u8>,
}

impl TlsStream {
    /// Exchanges the messages of the handshake within `time`.
    fn new(tcp: TcpStream, mut connection: Connection, time: Duration) -> io::Result<Self> {
        let mut socket = Until { tcp: &tcp, deadline: Instant::now() + time };
        while connection.is_handshaking() || connection.wants_write() {
            connection.complete_io(&mut socket)?;
        }
        tcp.set_read_timeout(None)?;
        Ok(Self::half(tcp, Arc::new(Mutex::new(connection))))
    }

    fn half(tcp: TcpStream, session: Arc<Mutex<Connection>>) -> Self {
        Self { tcp: BufReader::with_capacity(RECORD, tcp), session, records: Vec::new() }
    }

    /// Becomes the client of a server with this certificate.
    pub(crate) fn client(tcp: TcpStream, fingerprint: &Fingerprint, time: Duration) -> io::Result<Self> {
        let provider = ring::default_provider();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider.clone()));
        let builder = builder.with_safe_default_protocol_versions().map_err(invalid)?;
        let verifier = Pinned { fingerprint: fingerprint.clone(), provider };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        // The fingerprint names the server, so its name does not matter.
        let name = ServerName::from(tcp.peer_addr()?.ip());
        let config = Arc::new(builder.with_no_client_auth());
        let connection = ClientConnection::new(config, name).map_err(invalid)?;
        Self::new(tcp, connection.into(), time)
    }

    /// Becomes the server of a client.
    pub(crate) fn server(tcp: TcpStream, identity: &Identity, time: Duration) -> io::Result<Self> {
        let connection = ServerConnection::new(Arc::clone(&identity.config)).map_err(invalid)?;
        Self::new(tcp, connection.into(), time)
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.tcp.get_ref()
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::half(self.tcp().try_clone()?, Arc::clone(&self.session)))
    }
}

impl Read for TlsStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            {
                let mut connection = lock(&self.session);
                match connection.reader().read(to) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The other side may end the connection without a notice, because messages have a length.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    read => return read,
                }
                if !self.tcp.buffer().is_empty() {
                    connection.read_tls(&mut self.tcp)?;
                    connection.process_new_packets().map_err(invalid)?;
                    // What the session answers, such as new keys, is sent with the next write.
                    continue;
                }
            }
            // Does not hold the lock, so that the other half can write meanwhile.
            if self.tcp.fill_buf()?.is_empty() {
                // Tell the session, whose reader then returns what is left.
                lock(&self.session).read_tls(&mut io::empty())?;
            }
        }
    }
}

impl Write for TlsStream {
    /// Encrypts some of the bytes and writes the records. Only one half of the connection may do this, because the
    /// records must keep their order.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.records.clear();
        let count = {
            let mut connection = lock(&self.session);
            let count = connection.writer().write(&bytes[..bytes.len().min(PART)])?;
            while connection.wants_write() {
                connection.write_tls(&mut self.records)?;
            }
            count
        };
        self.tcp.get_mut().write_all(&self.records)?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn both_sides_send_at_the_same_time() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let identity = Identity::read(&data.join("certificate.pem"), &data.join("key.pem")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(5_000_000).collect();
        let exchange = |mut stream: TlsStream| {
            let mut reader = stream.try_clone().unwrap();
            std::thread::scope(|scope| {
                let received = scope.spawn(move || {
                    let mut received = vec![0; 5_000_000];
                    reader.read_exact(&mut received).map(|()| received)
                });
                stream.write_all(&bytes)?;
                received.join().unwrap()
            })
        };
        const SOON: Duration = Duration::from_secs(20);
        let accept = || TlsStream::server(listener.accept().unwrap().0, &identity, SOON);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| exchange(accept().unwrap()));
            let client = exchange(TlsStream::client(connect(), identity.fingerprint(), SOON).unwrap());
            assert!(client.unwrap() == bytes && server.join().unwrap().unwrap() == bytes);
            let server = scope.spawn(accept);
            assert!(TlsStream::client(connect(), &Fingerprint([7; 32]), SOON).is_err());
            assert!(server.join().unwrap().is_err());
        });
    }
}
