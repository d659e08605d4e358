//! Clients that do not keep to the protocol.

use crate::server::Started;

#[test]
fn wrong_token_is_refused() {
    let server = Started::tcp();
    assert!(server.connect().is_ok());
    std::fs::write(server.token(), "another token, as long as the right one").unwrap();
    let error = server.connect().unwrap_err();
    assert!(error.message().contains("token is wrong"), "{error}");
    std::fs::remove_file(server.token()).unwrap();
    let error = server.connect().unwrap_err();
    assert!(error.message().contains("PJRT_REMOTE_TOKEN_FILE"), "{error}");
}
