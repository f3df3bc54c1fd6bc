// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP interface of examples/servers/README.md.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::http::SLOWEST;
use crate::image::DecodeError;
use crate::memory::whole;
use crate::pool::Failure;
use crate::server::{InferError, Server};

/// The most bytes of an image, and of an object.
const MAX_IMAGE: usize = 32 << 20;
const MAX_OBJECT: usize = 64 << 10;

#[derive(Clone)]
struct Shared {
    server: Arc<Server>,
    /// Who has a permit is worked on; the others wait.
    workers: Arc<Semaphore>,
}

pub fn routes(server: Arc<Server>, workers: usize) -> Router {
    let shared = Shared { server, workers: Arc::new(Semaphore::new(workers)) };
    // HEAD would be answered as GET is.
    Router::new()
        .route("/infer", post(infer))
        .route("/stats", get(stats).head(no_method))
        .route("/memory", get(memory).head(no_method))
        .route("/metrics", get(metrics).head(no_method))
        .route("/config", get(config).head(no_method).post(configure))
        .route("/trim", post(trim))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(shared.clone(), note))
        .with_state(shared)
}

/// A body is garbage once it is answered, also one that was refused.
async fn note(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let has_body = request.method() == Method::POST;
    let response = next.run(request).await;
    if has_body {
        shared.server.touch();
    }
    response
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
        None => no_cachalot(),
    }
}

fn no_cachalot() -> Response {
    error(StatusCode::NOT_FOUND, "the memory is not cachalot's")
}

async fn no_path(uri: Uri) -> Response {
    error(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()))
}

async fn no_method(method: Method, uri: Uri) -> Response {
    error(StatusCode::METHOD_NOT_ALLOWED, format!("{} has no {method}", uri.path()))
}

/// All of a request's body, of so many bytes at most.
struct Body<const MOST: usize>(Bytes);

impl<S: Send + Sync, const MOST: usize> FromRequest<S> for Body<MOST> {
    type Rejection = Response;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Response> {
        DefaultBodyLimit::max(MOST).apply(&mut request);
        let read = tokio::time::timeout(SLOWEST, Bytes::from_request(request, state)).await;
        let (status, text) = match read {
            Ok(Ok(bytes)) => return Ok(Self(bytes)),
            Ok(Err(rejection)) => match rejection.status() {
                large @ StatusCode::PAYLOAD_TOO_LARGE => {
                    (large, format!("the body has more than {MOST} bytes"))
                }
                status => (status, rejection.body_text()),
            },
            Err(_) => {
                let text = format!("the body has not come within {} s", SLOWEST.as_secs());
                (StatusCode::REQUEST_TIMEOUT, text)
            }
        };
        Err(error(status, text))
    }
}

/// Does what may wait for others, and so not on the threads that serve connections.
async fn apart(
    server: Arc<Server>,
    work: impl FnOnce(&Server) -> Response + Send + 'static,
) -> Response {
    let done = tokio::task::spawn_blocking(move || work(&server)).await;
    done.unwrap_or_else(|panic| error(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()))
}

async fn infer(State(shared): State<Shared>, body: Result<Body<MAX_IMAGE>, Response>) -> Response {
    let response = match body {
        Ok(Body(image)) => {
            // Who goes away while he waits is not worked on.
            let permit = shared.workers.acquire_owned().await.expect("nobody closes it");
            apart(Arc::clone(&shared.server), move |server| {
                let _permit = permit;
                answer_to_image(server, &image)
            })
            .await
        }
        Err(refused) => refused,
    };
    shared.server.count(response.status());
    response
}

fn answer_to_image(server: &Server, image: &[u8]) -> Response {
    match server.infer(image) {
        Ok(value) => answer(StatusCode::OK, &value),
        Err(InferError::Decode(DecodeError::TooLarge(text))) => {
            error(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        Err(InferError::Decode(DecodeError::Malformed(text))) => {
            error(StatusCode::BAD_REQUEST, text)
        }
        Err(InferError::Run(Failure::Exhausted(exhausted))) => answer(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "error": exhausted.error, "report": exhausted.report }),
        ),
        Err(InferError::Run(Failure::Other(text))) => {
            error(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

async fn stats(State(shared): State<Shared>) -> Response {
    apart(shared.server, |server| answer_or_error(server.stats())).await
}

async fn memory(State(shared): State<Shared>) -> Response {
    apart(shared.server, |server| text("text/plain; charset=utf-8", server.memory.summary())).await
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    apart(shared.server, |server| text(content_type, server.memory.metrics())).await
}

async fn config(State(shared): State<Shared>) -> Response {
    apart(shared.server, |server| answer_or_error(server.memory.config())).await
}

async fn configure(State(shared): State<Shared>, Body(body): Body<MAX_OBJECT>) -> Response {
    apart(shared.server, move |server| {
        let parsed = serde_json::from_slice(&body).map_err(|error| error.to_string());
        match parsed.and_then(|wanted| server.configure(&wanted)) {
            Ok(()) => answer_or_error(server.memory.config()),
            Err(text) => error(StatusCode::BAD_REQUEST, text),
        }
    })
    .await
}

/// Without a body everything that is free goes.
async fn trim(State(shared): State<Shared>, Body(body): Body<MAX_OBJECT>) -> Response {
    let Some((keep, idle)) = trim_numbers(&body) else {
        let text = "an object with keep_bytes and min_idle_ms, whole numbers from 0 to 2^63 - 1, is expected";
        return error(StatusCode::BAD_REQUEST, text);
    };
    apart(shared.server, move |server| {
        let Some(released) = server.memory.trim(keep, Duration::from_millis(idle)) else {
            return no_cachalot();
        };
        answer_or_error(released.map(|bytes| json!({ "released_bytes": bytes })))
    })
    .await
}

fn trim_numbers(body: &[u8]) -> Option<(u64, u64)> {
    if body.is_empty() {
        return Some((0, 0));
    }
    let (mut keep, mut idle) = (0, 0);
    for (key, value) in serde_json::from_slice::<Value>(body).ok()?.as_object()? {
        match key.as_str() {
            "keep_bytes" => keep = whole(value)?,
            "min_idle_ms" => idle = whole(value)?,
            _ => return None,
        }
    }
    Some((keep, idle))
}
