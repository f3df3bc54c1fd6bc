// SPDX-License-Identifier: MIT OR Apache-2.0
//! An OCR server on ONNX Runtime, whose memory is cachalot's. `examples/servers/README.md` has its interface.

mod chunks;
mod detection;
mod http;
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

use server::Server;
use settings::Settings;

/// How often the server looks whether it is idle.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Threads for requests that have no image.
const OTHERS: usize = 8;

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
    let library = settings.ort_library.display();
    ort::init_from(&settings.ort_library)
        .map_err(|error| format!("SERVER_ORT={library}: {error}"))?
        .commit();
    let server = Arc::new(Server::new(&settings)?);
    let served = serve(&settings, &server);
    // Also where it could not be served.
    let closed = Arc::into_inner(server).ok_or("somebody still has the server")?.close();
    served.and(closed)?;
    println!("closed, and nothing is left");
    Ok(())
}

/// Until the process is told to end. Nobody has the server any more then.
fn serve(settings: &Settings, server: &Arc<Server>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(settings.workers + OTHERS)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let (stop, stopped) = mpsc::channel::<()>();
    let trimmed = Arc::clone(server);
    let trimmer = std::thread::spawn(move || {
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            trimmed.trim_when_idle();
        }
    });
    let routes = routes::routes(Arc::clone(server), settings.workers);
    let served = runtime.block_on(http::serve(&settings.address, routes));
    drop(runtime); // and with it what connections still hold
    drop(stop);
    trimmer.join().map_err(|_| "the trimmer has failed")?;
    served.map_err(|error| format!("SERVER_ADDRESS={}: {error}", settings.address))
}
