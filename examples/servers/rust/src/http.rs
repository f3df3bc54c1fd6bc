// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: taken until the process is told to end, and none without an end.

use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How long the head of a request may take, and then its body; at the end, all that was begun.
pub const SLOWEST: Duration = Duration::from_secs(20);

/// Until the process is told to end; what was begun is ended first, and what then is left of it is dropped
/// with the runtime.
pub async fn serve(address: &str, routes: Router) -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SLOWEST);
    let open = GracefulShutdown::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        };
        let service = TowerToHyperService::new(routes.clone());
        let connection = open.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(connection); // an error of it is that the client has gone
    }
    drop(listener);
    // Who takes longer has not sent a request, or does not read an answer.
    let _ = tokio::time::timeout(SLOWEST, open.shutdown()).await;
    Ok(())
}
