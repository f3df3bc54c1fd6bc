// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP interface of examples/servers/README.md.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::image::DecodeError;
use crate::pool::Failure;
use crate::server::{InferError, Server};

/// The most bytes of a request.
const MAX_BODY: usize = 32 << 20;

type Shared = State<Arc<Server>>;

pub fn routes(server: Arc<Server>) -> Router {
    Router::new()
        .route("/infer", post(infer))
        .route("/stats", get(stats))
        .route("/memory", get(memory))
        .route("/metrics", get(metrics))
        .route("/config", get(config).post(configure))
        .route("/trim", post(trim))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(server)
}

fn answer(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn error(status: StatusCode, text: impl Into<String>) -> Response {
    answer(status, &json!({ "error": text.into() }))
}

fn answer_or_error(result: Result<Value, String>) -> Response {
    match result {
        Ok(value) => answer(StatusCode::OK, &value),
        Err(text) => error(StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

/// Text of cachalot's, which there is only where the memory is its own.
fn text(content_type: &'static str, result: Option<Result<String, String>>) -> Response {
    match result {
        Some(Ok(text)) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Some(Err(text)) => error(StatusCode::INTERNAL_SERVER_ERROR, text),
        None => error(StatusCode::NOT_FOUND, "the memory is not cachalot's"),
    }
}

async fn infer(State(server): Shared, body: Bytes) -> Response {
    // Not on the threads that serve connections. The runtime has as many of these as requests are worked
    // on at a time; the others wait for one.
    let result = tokio::task::spawn_blocking(move || server.infer(&body)).await;
    match result {
        Ok(Ok(value)) => answer(StatusCode::OK, &value),
        Ok(Err(InferError::Decode(DecodeError::TooLarge(text)))) => {
            error(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        Ok(Err(InferError::Decode(DecodeError::Malformed(text)))) => {
            error(StatusCode::BAD_REQUEST, text)
        }
        Ok(Err(InferError::Run(Failure::Exhausted(exhausted)))) => answer(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "error": exhausted.error, "report": exhausted.report }),
        ),
        Ok(Err(InferError::Run(Failure::Other(text)))) => {
            error(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
        Err(panic) => error(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()),
    }
}

async fn stats(State(server): Shared) -> Response {
    answer_or_error(server.stats())
}

async fn memory(State(server): Shared) -> Response {
    text("text/plain; charset=utf-8", server.memory.summary())
}

async fn metrics(State(server): Shared) -> Response {
    text("text/plain; version=0.0.4; charset=utf-8", server.memory.metrics())
}

async fn config(State(server): Shared) -> Response {
    answer_or_error(server.memory.config())
}

async fn configure(State(server): Shared, body: Bytes) -> Response {
    let parsed = serde_json::from_slice(&body).map_err(|error| error.to_string());
    match parsed.and_then(|wanted| server.configure(&wanted)) {
        Ok(()) => answer_or_error(server.memory.config()),
        Err(text) => error(StatusCode::BAD_REQUEST, text),
    }
}

/// Without a body everything that is free goes.
async fn trim(State(server): Shared, body: Bytes) -> Response {
    let Some((keep, idle)) = trim_numbers(&body) else {
        let text = "an object with keep_bytes and min_idle_ms, numbers of 0 or more, is expected";
        return error(StatusCode::BAD_REQUEST, text);
    };
    let released = server.memory.trim(keep, Duration::from_millis(idle));
    answer_or_error(released.map(|bytes| json!({ "released_bytes": bytes })))
}

fn trim_numbers(body: &[u8]) -> Option<(u64, u64)> {
    if body.is_empty() {
        return Some((0, 0));
    }
    let (mut keep, mut idle) = (0, 0);
    for (key, value) in serde_json::from_slice::<Value>(body).ok()?.as_object()? {
        match key.as_str() {
            "keep_bytes" => keep = value.as_u64()?,
            "min_idle_ms" => idle = value.as_u64()?,
            _ => return None,
        }
    }
    Some((keep, idle))
}
