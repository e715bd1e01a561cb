//! `--listen`: `/healthz` and `/metrics` of a long-running verb over HTTP. The one place that knows hyper.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections served at once; more wait in the backlog.
const CONNECTIONS: usize = 32;
/// A connection that has not sent its request by then is closed.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the pages say.
pub trait Pages: Send + Sync + 'static {
    /// Body of `/metrics`: Prometheus text.
    fn metrics(&self) -> String;
    /// `Ok` with a word, or what is wrong.
    fn health(&self) -> Result<String, String>;
}

/// Binds the address; the pages are served until the listener is dropped.
///
/// # Errors
/// The address is taken, or not ours.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves for ever. Spawn it and abort it.
pub async fn serve(listener: TcpListener, pages: Arc<dyn Pages>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file handles, most likely: let some go.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answer = answer(&request, &*pages);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .keep_alive(false)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), answer);
            // A peer that hangs up or sends nonsense is its own affair.
            let _ = connection.await;
            drop(place);
        });
    }
}

fn answer<B>(request: &Request<B>, pages: &dyn Pages) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => match pages.health() {
            Ok(word) => (StatusCode::OK, format!("{word}\n")),
            Err(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        },
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, pages.metrics()),
        (&Method::GET | &Method::HEAD, _) => (StatusCode::NOT_FOUND, "/healthz or /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    struct Fixed;

    impl Pages for Fixed {
        fn metrics(&self) -> String {
            "m 1\n".to_owned()
        }

        fn health(&self) -> Result<String, String> {
            Err("nobody answers".to_owned())
        }
    }

    async fn ask(request: &[u8]) -> String {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(serve(listener, Arc::new(Fixed)));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        server.abort();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn pages_and_their_codes() {
        let metrics = ask(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("m 1\n"), "{metrics}");
        let health = ask(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(health.starts_with("HTTP/1.1 503") && health.contains("nobody answers"), "{health}");
        assert!(ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.starts_with("HTTP/1.1 404"));
        assert!(
            ask(b"POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
                .await
                .starts_with("HTTP/1.1 405")
        );
    }

    #[tokio::test]
    async fn nonsense_ends_the_connection_only() {
        assert!(ask(b"\x16\x03\x01 hello\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    }
}
