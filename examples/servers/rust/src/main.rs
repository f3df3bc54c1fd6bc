// SPDX-License-Identifier: MIT OR Apache-2.0
//! An OCR server on ONNX Runtime, whose memory is cachalot's. `examples/servers/README.md` has its interface.

mod detection;
mod image;
mod memory;
mod onnxruntime;
mod pool;
mod recognition;
mod routes;
mod server;
mod settings;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use server::Server;
use settings::Settings;

/// How often the server looks whether it is idle.
const LOOK_EVERY: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let settings = Settings::from_env()?;
    ort::init_from(&settings.ort_library).map_err(|error| error.to_string())?.commit();
    let server = Arc::new(Server::new(&settings)?);

    let (stop, stopped) = mpsc::channel::<()>();
    let trimmed = Arc::clone(&server);
    let trimmer = std::thread::spawn(move || {
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            trimmed.trim_when_idle();
        }
    });

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(settings.workers)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let served = runtime.block_on(serve(&settings.address, Arc::clone(&server)));
    drop(runtime); // and with it what connections still hold
    drop(stop);
    trimmer.join().map_err(|_| "the trimmer has failed")?;
    served.map_err(|error| error.to_string())?;

    let server = Arc::into_inner(server).ok_or("somebody still has the server")?;
    server.close()?;
    println!("closed, and nothing is left");
    Ok(())
}

/// Until the process is told to end; what was begun is ended first.
async fn serve(address: &str, server: Arc<Server>) -> std::io::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let ended = async move {
        std::future::poll_fn(|context| {
            if terminated.poll_recv(context).is_ready() || interrupted.poll_recv(context).is_ready()
            {
                return std::task::Poll::Ready(());
            }
            std::task::Poll::Pending
        })
        .await;
    };
    axum::serve(listener, routes::routes(server)).with_graceful_shutdown(ended).await
}
