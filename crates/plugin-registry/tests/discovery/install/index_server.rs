//! A package index on a local port.
#![allow(unreachable_pub, reason = "the modules of a test")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::wheels::{Wheel, sha256};

/// What the server sends for a path.
#[derive(Clone, Default)]
pub struct Route {
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// HTTP status. 0 is 200.
    pub status: u16,
    /// Whether the server ignores requests for a part.
    pub whole_only: bool,
    /// Number of bytes after which the server closes the connection, for each of the next requests.
    pub cuts: Vec<usize>,
    /// Address to which the server redirects.
    pub location: String,
    /// Whether each answer takes a moment.
    pub slow: bool,
}

/// A package index. It ends with the process.
pub struct IndexServer {
    pub port: u16,
    routes: Arc<Mutex<HashMap<String, Route>>>,
    /// Path and range of each request.
    log: Arc<Mutex<Vec<String>>>,
}

impl IndexServer {
    /// Starts an index with wheels in the JSON form.
    pub fn start(wheels: &[Wheel]) -> Self {
        let server = Self::empty();
        for wheel in wheels {
            server.add(wheel, |_| {});
        }
        server
    }

    pub fn empty() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (routes, log) = (Arc::new(Mutex::new(HashMap::new())), Arc::new(Mutex::new(Vec::new())));
        let (served, written) = (Arc::clone(&routes), Arc::clone(&log));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (routes, log) = (Arc::clone(&served), Arc::clone(&written));
                std::thread::spawn(move || serve(stream, &routes, &log));
            }
        });
        Self { port, routes, log }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/simple", self.port)
    }

    /// Adds a wheel. `change` may change its entry in the page.
    pub fn add(&self, wheel: &Wheel, change: impl FnOnce(&mut Value)) {
        let (file, bytes) = (wheel.file_name(), wheel.bytes());
        let mut entry = json!({
            "filename": file,
            "url": format!("../../files/{file}"),
            "hashes": { "sha256": sha256(&bytes) },
            "size": bytes.len(),
            "yanked": false,
        });
        change(&mut entry);
        let path = format!("/simple/{}/", wheel.name);
        let mut routes = self.routes.lock().unwrap();
        let page = routes.entry(path).or_insert_with(|| Route {
            kind: "application/vnd.pypi.simple.v1+json",
            body: br#"{"files":[]}"#.to_vec(),
            ..Route::default()
        });
        let mut json: Value = serde_json::from_slice(&page.body).unwrap();
        json["files"].as_array_mut().unwrap().push(entry);
        page.body = json.to_string().into_bytes();
        let route = Route { kind: "application/octet-stream", body: bytes, ..Route::default() };
        routes.insert(format!("/files/{file}"), route);
    }

    /// Adds wheels of one package in the HTML form, without their sizes.
    pub fn add_html(&self, wheels: &[Wheel]) {
        let mut page = "<!DOCTYPE html><html><body><h1>Links</h1>\n".to_owned();
        for wheel in wheels {
            let (file, bytes) = (wheel.file_name(), wheel.bytes());
            writeln!(page, "<a href=\"/files/{file}#sha256={}\">{file}</a><br>", sha256(&bytes)).unwrap();
            self.route(&format!("/files/{file}"), Route { body: bytes, ..Route::default() });
        }
        let path = format!("/simple/{}/", wheels[0].name);
        self.route(&path, Route { kind: "text/html", body: page.into_bytes(), ..Route::default() });
    }

    pub fn route(&self, path: &str, route: Route) {
        self.routes.lock().unwrap().insert(path.to_owned(), route);
    }

    /// Changes what the server sends for a wheel.
    pub fn change(&self, wheel: &Wheel, change: impl FnOnce(&mut Route)) {
        let path = format!("/files/{}", wheel.file_name());
        change(self.routes.lock().unwrap().get_mut(&path).unwrap());
    }

    /// Returns the requests for files since the last call, without those for the ends of files.
    pub fn downloads(&self) -> Vec<String> {
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        let is_download = |line: &String| line.starts_with("/files/") && (line.ends_with(' ') || line.ends_with('-'));
        log.into_iter().filter(is_download).collect()
    }
}

fn serve(mut stream: TcpStream, routes: &Mutex<HashMap<String, Route>>, log: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let headers: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let range =
            headers.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
        log.lock().unwrap().push(format!("{path} {}", range.clone().unwrap_or_default()));
        let mut table = routes.lock().unwrap();
        let Some(route) = table.get_mut(&path) else {
            drop(table);
            if stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
            continue;
        };
        let is_file = path.starts_with("/files/");
        let whole = is_file && range.as_ref().is_none_or(|range| range.ends_with('-'));
        let cut = if whole && !route.cuts.is_empty() { Some(route.cuts.remove(0)) } else { None };
        let route = route.clone();
        drop(table);
        if route.slow {
            std::thread::sleep(Duration::from_millis(300));
        }
        let (head, body) = answer(&route, range.filter(|_| is_file && !route.whole_only));
        let body = &body[..cut.unwrap_or(body.len()).min(body.len())];
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_err() || cut.is_some() {
            return;
        }
    }
}

fn answer(route: &Route, range: Option<String>) -> (String, Vec<u8>) {
    let total = route.body.len();
    let kind = if route.kind.is_empty() { "application/octet-stream" } else { route.kind };
    let bounds = range.as_deref().and_then(|range| range.split_once('-'));
    let bounds = bounds.map(|(start, end)| (start.parse().unwrap(), end.parse().map_or(total, |end: usize| end + 1)));
    match bounds {
        _ if route.status != 0 => (format!("HTTP/1.1 {} No\r\ncontent-length: 0\r\n\r\n", route.status), Vec::new()),
        _ if !route.location.is_empty() => {
            (format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", route.location), Vec::new())
        }
        Some((start, _)) if start >= total => ("HTTP/1.1 416 No\r\ncontent-length: 0\r\n\r\n".to_owned(), Vec::new()),
        Some((start, end)) => {
            let body = route.body[start..end.min(total)].to_vec();
            let range = format!("content-range: bytes {start}-{}/{total}", start + body.len() - 1);
            let length = body.len();
            (format!("HTTP/1.1 206 Part\r\n{range}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"), body)
        }
        None => {
            (format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {total}\r\n\r\n"), route.body.clone())
        }
    }
}
