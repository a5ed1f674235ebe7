//! The admin listener: metrics, health, status, drain, and a page that shows them live.
//!
//! With a token, everything but the probes and the page's empty frame needs it. Without one the
//! listener is on loopback, and what a browser could be talked into sending there is refused: a
//! `Host` that is no address (DNS rebinding), and a request that another site's page made.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;

use super::{State, latency, limits, status};
use crate::metrics::{Seen, render};

/// Prometheus text format 0.0.4.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long accepting pauses after an error that stays.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The live page: one file without any other.
pub(super) const PAGE: &str = include_str!("page.html");

/// Only the page's own script and style, and requests to this listener.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'";

/// Serves until dropped.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) -> io::Result<()> {
    let listener = Accepting(tokio::net::TcpListener::from_std(listener)?);
    axum::serve(listener, router(state)).await
}

/// A listener that is answered for when clients of the cores have taken every descriptor.
struct Accepting(tokio::net::TcpListener);

impl axum::serve::Listener for Accepting {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let mut accepted = self.0.accept().await;
            if accepted.as_ref().is_err_and(limits::is_out_of_descriptors) {
                let again = |context: &mut Context<'_>| {
                    Poll::Ready(limits::with_reserve(|| self.0.poll_accept(context)))
                };
                match poll_fn(again).await {
                    Poll::Ready(again) => accepted = again,
                    Poll::Pending => continue,
                }
            }
            match accepted {
                Ok(accepted) => return accepted,
                // A peer that left before it was accepted; the next one waits already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn router(state: Arc<State>) -> Router {
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/v1/status", get(show_status))
        .route("/v1/latency", get(show_latency))
        .route("/drain", post(drain))
        .layer(middleware::from_fn_with_state(state.clone(), authorise));
    Router::new()
        .route("/", get(page))
        .route("/healthz/live", get(live))
        .route("/healthz/announce", get(announce))
        .route("/readyz", get(ready))
        .merge(guarded)
        .layer(middleware::from_fn_with_state(state.clone(), refuse_browsers_tricks))
        .with_state(state)
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    let text = render::render(&state.snapshots(), &state.instance());
    ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response()
}

async fn show_status(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let (cores, instance) = (state.snapshots(), state.instance());
    Json(status::document(&cores, &instance, state.settings(), &state.not_ready()))
}

async fn show_latency(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let instance = state.instance();
    let seen = render::merged(&state.snapshots())
        .unwrap_or_else(|| Seen::new(instance.engines.len(), instance.keys.len()));
    Json(latency::document(&seen, &instance))
}

async fn drain(Shared(state): Shared<Arc<State>>) -> Response {
    state.drain("POST /drain");
    (StatusCode::ACCEPTED, Json(json!({ "state": "draining" }))).into_response()
}

async fn live(Shared(state): Shared<Arc<State>>) -> Response {
    verdict("live", state.not_live())
}

async fn ready(Shared(state): Shared<Arc<State>>) -> Response {
    verdict("ready", state.not_ready())
}

async fn announce(Shared(state): Shared<Arc<State>>) -> Response {
    verdict("announce", state.not_announced())
}

/// 200 without reasons, else 503 and the reasons.
fn verdict(what: &str, reasons: Vec<String>) -> Response {
    let status = match reasons.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ what: reasons.is_empty(), "reasons": reasons }))).into_response()
}

async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
    ];
    (headers, PAGE).into_response()
}

/// The configured token, as `Authorization: Bearer TOKEN`. Digests are compared, so that time tells
/// nothing of the token.
async fn authorise(
    Shared(state): Shared<Arc<State>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = &state.settings().admin.token else {
        return next.run(request).await;
    };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    if given.is_some_and(|given| Sha256::digest(given) == Sha256::digest(token)) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"hedgerow admin\"")];
    (StatusCode::UNAUTHORIZED, challenge, "want Authorization: Bearer TOKEN (admin.token_file)\n")
        .into_response()
}

async fn refuse_browsers_tricks(
    Shared(state): Shared<Arc<State>>,
    headers: HeaderMap,
    request: Request,
    next: Next,
) -> Response {
    let has_token = state.settings().admin.token.is_some();
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    if !has_token && !host.is_none_or(is_address) {
        return (
            StatusCode::FORBIDDEN,
            "without a token, use an address or localhost as the host\n",
        )
            .into_response();
    }
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    let is_own = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some() && authority == host
    };
    let is_foreign = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if is_foreign || !origin.is_none_or(is_own) {
        return (StatusCode::FORBIDDEN, "another site's page may not ask here\n").into_response();
    }
    next.run(request).await
}

/// Whether a `Host` is `localhost` or an IP address, with or without a port: nobody else's name.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}
