//! The admin listener: metrics, health, status, drain, and a page that shows them live.
//!
//! With a token, everything but the probes and the page's empty frame needs it. Without one the
//! listener is on loopback, and what a browser could be talked into sending there is refused
//! (`browsers`).

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{State, browsers, connections, latency, status};
use crate::metrics::{Seen, render};

/// Prometheus text format 0.0.4.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The live page: one file without any other.
pub(super) const PAGE: &str = include_str!("page.html");

/// Only the page's own script and style, and requests to this listener.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'";

/// Serves until dropped.
pub(super) async fn serve(listener: TcpListener, state: Arc<State>) -> io::Result<()> {
    connections::serve(listener, router(state), connections::PATIENCE).await
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
        .layer(middleware::from_fn_with_state(state.clone(), browsers::refuse_tricks))
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
