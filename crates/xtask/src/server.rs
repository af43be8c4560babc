//! The development server: static files on the loopback address with the headers that a good host sends.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::Request;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tower_http::services::ServeDir;

/// What the page may do, sent with every answer. `wasm-unsafe-eval` lets WebAssembly compile and
/// nothing else; `https:` lets people name a model anywhere; `blob:` reads a picked file.
pub const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
    connect-src 'self' https: blob:; img-src 'self' data: blob:; style-src 'self'; object-src 'none'; \
    base-uri 'none'; form-action 'none'";

const MODEL_FILES: [&str; 3] = ["gguf", "safetensors", "json"];

/// Takes the asked port, or 8000, or a free one when nobody asked and 8000 is taken.
pub fn listen(address: Ipv4Addr, port: Option<u16>) -> Result<TcpListener> {
    let bind = |port| TcpListener::bind((address, port));
    match port {
        Some(port) => bind(port).with_context(|| format!("port {port} cannot be used")),
        None => bind(8000)
            .or_else(|_| bind(0))
            .context("no port can be used"),
    }
}

/// Serves until the process ends.
pub fn run(listener: TcpListener, site: &Path, models: Option<&Path>) -> Result<()> {
    if let Some(models) = models {
        ensure!(models.is_dir(), "{} is not a folder", models.display());
    }
    listener.set_nonblocking(true)?;
    let router = router(site, models);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, router).await.context("serving")
        })
}

fn router(site: &Path, models: Option<&Path>) -> Router {
    let mut router = Router::new();
    if let Some(models) = models {
        let folder = models.to_owned();
        let list = Router::new().route("/", get(move || async move { listing(&folder) }));
        let files = ServeDir::new(models)
            .append_index_html_on_directories(false)
            .fallback(list);
        router = router.nest_service("/models", files);
    }
    router
        .fallback_service(ServeDir::new(site))
        .layer(middleware::from_fn(headers))
}

/// Every model file below a folder, as JSON: `[{"path": ..., "bytes": ...}]`.
fn listing(folder: &Path) -> Response {
    let mut files = Vec::new();
    collect(folder, "", 3, &mut files);
    files.sort_by_key(|file| file["path"].as_str().unwrap_or_default().to_owned());
    (
        [(header::CONTENT_TYPE, "application/json")],
        Value::from(files).to_string(),
    )
        .into_response()
}

fn collect(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<Value>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if path.is_dir() && depth > 0 {
            collect(&path, &format!("{name}/"), depth - 1, files);
        } else if let Ok(data) = fs::metadata(&path)
            && path
                .extension()
                .is_some_and(|kind| MODEL_FILES.iter().any(|known| kind == *known))
        {
            files.push(json!({ "path": name, "bytes": data.len() }));
        }
    }
}

async fn headers(request: Request, next: Next) -> Response {
    // A foreign page must not reach this server under a name of its own (DNS rebinding).
    if !is_local(request.headers().get(header::HOST)) {
        return (
            StatusCode::FORBIDDEN,
            "This server answers to localhost alone.\n",
        )
            .into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let immutable = is_hashed(request.uri().path());
    let mut response = next.run(request).await;
    let found = response.status().is_success();
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value))
    };
    set(
        header::CACHE_CONTROL,
        if immutable && found {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        },
    );
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    set(
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    );
    if let Ok(policy) = HeaderValue::from_str(&format!("{POLICY}; frame-ancestors 'none'")) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn is_local(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host.and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1")
}

/// Whether a path names a file by its content: `name-<16 hex digits>.<extension>`.
fn is_hashed(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split('.')
        .next()
        .and_then(|stem| stem.rsplit_once('-'))
        .is_some_and(|(_, hash)| {
            hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// A server in a thread of its own, for the tests; it ends with the process.
pub fn start(site: &Path, models: &Path) -> Result<SocketAddr> {
    let listener = listen(Ipv4Addr::LOCALHOST, Some(0))?;
    let address = listener.local_addr()?;
    let (site, models) = (site.to_owned(), models.to_owned());
    std::thread::spawn(move || {
        if let Err(error) = run(listener, &site, Some(&models)) {
            eprintln!("The server ended: {error:#}");
        }
    });
    Ok(address)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::UNIX_EPOCH;

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        (
            String::from_utf8(answer[..end].to_vec())
                .unwrap()
                .to_lowercase(),
            answer[end + 4..].to_vec(),
        )
    }

    fn get(address: SocketAddr, path: &str, more: &str) -> (String, Vec<u8>) {
        ask(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n"),
        )
    }

    fn site() -> (std::path::PathBuf, SocketAddr) {
        let stamp = UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let folder =
            std::env::temp_dir().join(format!("xtask-server-{}-{stamp}", std::process::id()));
        fs::create_dir_all(folder.join("models/deep")).unwrap();
        fs::write(folder.join("index.html"), "<p>page</p>").unwrap();
        fs::write(folder.join("page-0123456789abcdef.wasm"), "0123456789").unwrap();
        fs::write(folder.join("models/deep/a.gguf"), "GGUF").unwrap();
        fs::write(folder.join("models/secret.txt"), "no").unwrap();
        let address = start(&folder, &folder.join("models")).unwrap();
        (folder, address)
    }

    #[test]
    fn types_caching_and_policy() {
        let (folder, address) = site();
        let (head, body) = get(address, "/", "");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/html"), "{head}");
        assert!(head.contains("cache-control: no-cache"), "{head}");
        assert!(
            head.contains("content-security-policy: default-src 'self'"),
            "{head}"
        );
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert_eq!(body, b"<p>page</p>");
        let (head, _) = get(address, "/page-0123456789abcdef.wasm", "");
        assert!(head.contains("content-type: application/wasm"), "{head}");
        assert!(head.contains("immutable"), "{head}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn ranges() {
        let (folder, address) = site();
        let (head, body) = get(
            address,
            "/page-0123456789abcdef.wasm",
            "Range: bytes=3-5\r\n",
        );
        assert!(head.starts_with("http/1.1 206"), "{head}");
        assert!(head.contains("content-range: bytes 3-5/10"), "{head}");
        assert_eq!(body, b"345");
        let (head, _) = get(
            address,
            "/page-0123456789abcdef.wasm",
            "Range: bytes=20-\r\n",
        );
        assert!(head.starts_with("http/1.1 416"), "{head}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn models_are_listed_and_served() {
        let (folder, address) = site();
        let (_, body) = get(address, "/models/", "");
        assert_eq!(body, br#"[{"path":"deep/a.gguf","bytes":4}]"#);
        assert_eq!(get(address, "/models/deep/a.gguf", "").1, b"GGUF");
        let (head, _) = get(address, "/models/none.gguf", "");
        assert!(head.starts_with("http/1.1 404"), "{head}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_outside_the_folder_and_no_foreign_name() {
        let (folder, address) = site();
        for path in [
            "/../Cargo.toml",
            "/models/../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
        ] {
            assert!(
                get(address, path, "").0.starts_with("http/1.1 404"),
                "{path}"
            );
        }
        let (head, _) = ask(
            address,
            "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        );
        assert!(head.starts_with("http/1.1 403"), "{head}");
        fs::remove_dir_all(folder).unwrap();
    }
}
