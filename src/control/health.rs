//! Whether this instance lives, is ready, and wants traffic; and the way to make it leave.
//!
//! Live: the process answers. Ready: every core has warm pools, and no drain has begun. Announce:
//! as ready; what a router's health check looks at.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};

use super::Inputs;

/// The health endpoints and the drain.
pub fn routes(inputs: Arc<Inputs>) -> Router {
    Router::new()
        .route("/healthz/live", get(|| async { "live\n" }))
        .route("/readyz", get(ready))
        .route("/healthz/announce", get(ready))
        .route("/drain", post(drain))
        .with_state(inputs)
}

/// 200 if ready, else 503 with the reason.
async fn ready(State(inputs): State<Arc<Inputs>>) -> (StatusCode, String) {
    let cores = inputs.commons.settings.server.cpus.len();
    let warm = inputs.warm_cores.load(Ordering::Acquire);
    if inputs.commons.is_draining.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    if warm < cores {
        let why = format!("{warm} of {cores} cores have opened their connections to engines\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why);
    }
    (StatusCode::OK, "ready\n".to_owned())
}

/// Begins the drain; the process ends when the last request is answered.
async fn drain(State(inputs): State<Arc<Inputs>>) -> (StatusCode, &'static str) {
    tracing::info!("draining: asked by the admin listener");
    inputs.commons.is_draining.store(true, Ordering::Relaxed);
    (StatusCode::ACCEPTED, "draining\n")
}
