// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server without its HTTP: images in, text out, and memory that goes back when nobody asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::detection;
use crate::image::{DecodeError, Image};
use crate::memory::Memory;
use crate::pool::{Failure, Pool, Turn};
use crate::recognition::{self, Alphabet};
use crate::settings::Settings;

pub struct Server {
    detection: Pool,
    recognition: Pool,
    alphabet: Alphabet,
    /// Answers of each kind.
    served: AtomicU64,
    exhausted: AtomicU64,
    failed: AtomicU64,
    activity: Mutex<Activity>,
    /// The last: sessions and tenants end before.
    pub memory: Memory,
}

/// Who works, and since when nobody does.
struct Activity {
    working: usize,
    since: Instant,
    is_trimmed: bool,
}

impl Activity {
    fn touch(&mut self) {
        self.since = Instant::now();
        self.is_trimmed = false;
    }
}

/// Somebody works, until this is dropped.
struct Working<'a>(&'a Server);

impl<'a> Working<'a> {
    fn begin(server: &'a Server) -> Self {
        server.activity().working += 1;
        Self(server)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.working -= 1;
        activity.touch();
    }
}

pub enum InferError {
    Decode(DecodeError),
    Run(Failure),
}

impl Server {
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let memory = Memory::new(settings)?;
        let turn = Turn::default();
        let pool = |name: &str| {
            let path = settings.models.join(format!("{name}.onnx"));
            Pool::new(name, &path, settings.sessions, &memory, &turn)
        };
        let detection = pool("detection")?;
        let recognition = pool("recognition")?;
        let alphabet = Alphabet::new(&recognition.metadata("character")?);
        Ok(Self {
            detection,
            recognition,
            alphabet,
            served: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            activity: Mutex::new(Activity { working: 0, since: Instant::now(), is_trimmed: false }),
            memory,
        })
    }

    /// The text in a PNG image.
    pub fn infer(&self, bytes: &[u8]) -> Result<Value, InferError> {
        let _working = Working::begin(self);
        let image = Image::decode(bytes).map_err(InferError::Decode)?;
        let mut boxes = Vec::new();
        for rect in detection::find_text(&self.detection, &image).map_err(InferError::Run)? {
            let text = recognition::read_text(&self.recognition, &self.alphabet, &image, rect)
                .map_err(InferError::Run)?;
            if let Some(text) = text {
                boxes.push(json!({
                    "box": [rect.left, rect.top, rect.right, rect.bottom],
                    "score": text.score,
                    "text": text.text,
                }));
            }
        }
        Ok(json!({ "width": image.width, "height": image.height, "boxes": boxes }))
    }

    /// Counts an answer to a request for text.
    pub fn count(&self, status: StatusCode) {
        let count = match status {
            StatusCode::OK => &self.served,
            StatusCode::SERVICE_UNAVAILABLE => &self.exhausted,
            _ => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// To be called again and again: gives memory back once nobody has asked for the idle time.
    pub fn trim_when_idle(&self) {
        let mut activity = self.activity();
        let idle = self.memory.idle();
        if activity.working > 0 || activity.is_trimmed || activity.since.elapsed() < idle {
            return;
        }
        activity.is_trimmed = true;
        drop(activity);
        let trimmed = self.memory.trim(self.memory.watermark(), Duration::ZERO);
        if let Some(Err(error)) = trimmed {
            eprintln!("memory is not given back: {error}");
        }
        give_back_free_memory();
    }

    /// Somebody has asked for something, who may have left memory behind.
    pub fn touch(&self) {
        self.activity().touch();
    }

    /// Changes what a JSON object names.
    pub fn configure(&self, wanted: &Value) -> Result<(), String> {
        self.memory.configure(wanted)?;
        self.activity().is_trimmed = false; // the watermark may be another one
        Ok(())
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stats(&self) -> Result<Value, String> {
        let mut stats = self.memory.stats()?;
        let (detection_sessions, detection_evicted) = self.detection.counts();
        let (recognition_sessions, recognition_evicted) = self.recognition.counts();
        stats["server"] = json!({
            "mode": self.memory.mode().name(),
            "served": self.served.load(Ordering::Relaxed),
            "exhausted": self.exhausted.load(Ordering::Relaxed),
            "failed": self.failed.load(Ordering::Relaxed),
            "sessions": { "detection": detection_sessions, "recognition": recognition_sessions },
            "evicted": { "detection": detection_evicted, "recognition": recognition_evicted },
            "rss_bytes": resident_bytes(),
        });
        Ok(stats)
    }

    /// Closes everything; an error if memory is in use that nobody should have.
    pub fn close(self) -> Result<(), String> {
        self.detection.close()?;
        self.recognition.close()?;
        self.memory.close()
    }
}

/// The C library's, where bodies and images were: it keeps what lies below memory that is in use.
fn give_back_free_memory() {
    // SAFETY: it may be called at any time, by any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What the process has of the machine's memory.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE
}
