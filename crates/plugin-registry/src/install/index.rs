//! Pages of package indexes: the JSON form of PEP 691, or otherwise the HTML form of PEP 503.

use std::io::Read;

use serde_json::Value;
use ureq::ResponseExt;
use url::Url;

use super::error::InstallError;
use super::html::{attribute, links};
use super::http::{Address, Http, network};
use super::wheel_name::WheelName;

/// Maximum size in bytes of a page. The largest page of the public index has about 30 MB.
const LARGEST_PAGE: u64 = 128 << 20;
/// The forms of a page, in the order of preference.
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01";

/// A package index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    address: Address,
    /// The package for which this is the vendor's index. Such an index is often a file store, whose status 403 means
    /// that it does not have a package.
    pub(super) vendor_of: Option<&'static str>,
}

/// A wheel in an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexFile {
    pub(super) file: String,
    pub(super) wheel: WheelName,
    pub(super) address: Address,
    /// Hash of the file in lowercase hexadecimal.
    pub(super) sha256: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) yanked: bool,
    /// Whether the index has the file's metadata as a file of its own, and the hash of this file.
    pub(super) metadata: Option<Option<String>>,
}

impl Index {
    /// Parses the address of an index, which is the folder of the packages' pages.
    pub(super) fn new(text: &str) -> Result<Self, InstallError> {
        let invalid = |why: &str| InstallError::IndexUrl { url: without_password(text), why: why.to_owned() };
        let mut url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid("only http and https are supported"));
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        Ok(Self { address: Address::new(url), vendor_of: None })
    }

    /// Parses the address of a vendor's public index with a package.
    pub(super) fn vendor(text: &str, package: &'static str) -> Result<Self, InstallError> {
        Self::new(text).map(|index| Self { vendor_of: Some(package), ..index })
    }

    /// Returns the address without user and password.
    pub(super) fn url(&self) -> &Url {
        &self.address.url
    }

    /// Reads the page of a package, which is given by its normalized name. The wheels are in the order of the page.
    /// Returns `None` if the index does not have the package.
    pub(super) fn wheels(&self, http: &Http, package: &str) -> Result<Option<Vec<IndexFile>>, InstallError> {
        let mut page = self.address.clone();
        page.url.set_path(&format!("{}{package}/", page.url.path()));
        let answer = match http.find(&page, ACCEPT) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(None),
            Err(InstallError::Status { status: 403, .. }) if self.vendor_of.is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        // Links are relative to the last address of a redirection, whose server may not get the credentials.
        let last = Url::parse(&answer.get_uri().to_string());
        let page = last.map_or(page.clone(), |url| page.linked(url));
        let is_json = answer.body().mime_type().is_some_and(|mime| mime.contains("json"));
        let mut bytes = Vec::new();
        answer
            .into_body()
            .into_reader()
            .take(LARGEST_PAGE + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| network(&page, &error))?;
        let page_error = |message: String| InstallError::IndexPage { url: page.url.to_string(), message };
        if bytes.len() as u64 > LARGEST_PAGE {
            return Err(page_error(format!("it is larger than {LARGEST_PAGE} bytes")));
        }
        let files = if is_json {
            let json: Value = serde_json::from_slice(&bytes).map_err(|error| page_error(error.to_string()))?;
            let files = json["files"].as_array().ok_or_else(|| page_error("it has no list `files`".to_owned()))?;
            files.iter().filter_map(|file| from_json(file, &page)).collect()
        } else {
            let text = String::from_utf8_lossy(&bytes);
            if !text.contains('<') {
                return Err(page_error("it is neither JSON nor HTML".to_owned()));
            }
            from_html(&text, &page)
        };
        Ok(Some(files.into_iter().filter(|file| file.wheel.package == package).collect()))
    }
}

fn from_json(file: &Value, page: &Address) -> Option<IndexFile> {
    let name = file["filename"].as_str()?;
    let hash = |json: &Value| json["sha256"].as_str().and_then(sha256);
    // The older name of the field comes second.
    let metadata = ["core-metadata", "dist-info-metadata"].iter().map(|field| &file[*field]);
    let metadata = metadata.into_iter().find(|value| !value.is_null()).and_then(|value| match value {
        Value::Bool(has) => has.then_some(None),
        hashes => Some(hash(hashes)),
    });
    Some(IndexFile {
        file: name.to_owned(),
        wheel: WheelName::parse(name)?,
        address: page.linked(page.url.join(file["url"].as_str()?).ok()?),
        sha256: hash(&file["hashes"]),
        size: file["size"].as_u64(),
        yanked: !matches!(file["yanked"], Value::Null | Value::Bool(false)),
        metadata,
    })
}

fn from_html(text: &str, page: &Address) -> Vec<IndexFile> {
    let links = links(text).into_iter();
    links
        .filter_map(|(link, text)| {
            let url = page.url.join(attribute(&link, "href")?).ok()?;
            let path = url.path().rsplit('/').next().unwrap_or_default();
            let named = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
            let file = if named.ends_with(".whl") { named } else { text };
            let hash = |text: &str| text.strip_prefix("sha256=").and_then(sha256);
            let metadata = ["data-core-metadata", "data-dist-info-metadata"];
            let metadata = metadata.iter().find_map(|name| attribute(&link, name));
            Some(IndexFile {
                wheel: WheelName::parse(&file)?,
                file,
                sha256: url.fragment().and_then(hash),
                size: None,
                yanked: attribute(&link, "data-yanked").is_some(),
                metadata: metadata.filter(|value| *value != "false").map(hash),
                address: page.linked(url),
            })
        })
        .collect()
}

/// Returns a hash in lower case if it is one.
fn sha256(text: &str) -> Option<String> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}

/// Removes a password from an address that may be invalid.
fn without_password(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &text[..start + 3], &text[end + 1..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let url = |text: &str| Index::new(text).map(|index| index.url().to_string()).unwrap_or_default();
        assert_eq!(url("https://example.com/simple"), "https://example.com/simple/");
        assert_eq!(url("http://me:secret@[::1]:8080"), "http://[::1]:8080/");
        for text in ["", "example.com", "ftp://example.com", "file:///simple", "https://"] {
            assert!(Index::new(text).is_err(), "{text}");
        }
        let error = Index::new("https:://me:secret@example.com/").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn forms_agree() {
        let page = Address::new("https://example.com/simple/a/".parse().unwrap());
        let hash = "AB".repeat(32);
        let html = format!(
            "<a href='../../f/a-1-py3-none-any.whl#sha256={hash}' data-core-metadata='true' data-yanked>a</a>
             <a href='a-2.tar.gz'>a-2.tar.gz</a>"
        );
        let json = serde_json::json!({
            "filename": "a-1-py3-none-any.whl",
            "url": "/f/a-1-py3-none-any.whl",
            "hashes": { "sha256": hash },
            "yanked": "broken",
            "core-metadata": true
        });
        let file = from_json(&json, &page).unwrap();
        assert_eq!(file.sha256, Some("ab".repeat(32)));
        assert!(file.yanked && file.metadata == Some(None));
        assert_eq!(file.address.url.as_str(), "https://example.com/f/a-1-py3-none-any.whl");
        assert_eq!(from_html(&html, &page), [file]);
    }
}
