// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the environment says. `examples/servers/README.md` lists the variables.

use std::env::VarError;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Each has a thread of its own.
const MOST_WORKERS: usize = 4096;

/// Whose memory ONNX Runtime's sessions use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// cachalot, shared by all sessions.
    Cachalot,
    /// ONNX Runtime's arena, one a session.
    Arena,
    /// The same, made smaller after each run.
    ArenaShrink,
    /// Neither: each request goes to `malloc`.
    NoArena,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Cachalot => "cachalot",
            Mode::Arena => "arena",
            Mode::ArenaShrink => "arena-shrink",
            Mode::NoArena => "none",
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Mode::Cachalot, Mode::Arena, Mode::ArenaShrink, Mode::NoArena]
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| "it is none of cachalot, arena, arena-shrink, none".into())
    }
}

pub struct Settings {
    pub address: String,
    pub models: PathBuf,
    pub ort_library: PathBuf,
    pub driver: String,
    pub mode: Mode,
    /// Of each model.
    pub sessions: usize,
    /// Requests that are worked on at a time.
    pub workers: usize,
    pub idle: Duration,
    pub watermark: u64,
}

fn text(name: &str, default: &str) -> Result<String, String> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value),
        Err(error @ VarError::NotUnicode(_)) => Err(format!("{name}: {error}")),
        _ => Ok(default.into()),
    }
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(name: &str, default: &str) -> Result<T, String> {
    let value = text(name, default)?;
    value.parse().map_err(|error| format!("{name}={value}: {error}"))
}

impl Settings {
    pub fn from_env() -> Result<Self, String> {
        let settings = Self {
            address: text("SERVER_ADDRESS", "127.0.0.1:8080")?,
            models: text("SERVER_MODELS", "build/onnxruntime/models")?.into(),
            ort_library: text("SERVER_ORT", "build/onnxruntime/lib/libonnxruntime.so")?.into(),
            driver: text("CACHALOT_DRIVER", "host:4GiB")?,
            mode: parsed("SERVER_ALLOCATOR", "cachalot")?,
            sessions: parsed("SERVER_SESSIONS", "2")?,
            workers: parsed("SERVER_WORKERS", "8")?,
            idle: Duration::from_millis(parsed("SERVER_IDLE_MS", "2000")?),
            watermark: parsed("SERVER_WATERMARK", "67108864")?,
        };
        if settings.sessions == 0 {
            return Err("SERVER_SESSIONS=0: at least 1 is needed".into());
        }
        if settings.workers == 0 || settings.workers > MOST_WORKERS {
            let workers = settings.workers;
            return Err(format!("SERVER_WORKERS={workers}: from 1 to {MOST_WORKERS} are possible"));
        }
        Ok(settings)
    }
}
