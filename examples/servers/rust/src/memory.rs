// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose memory ONNX Runtime uses; what is known of it, and what can be set.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cachalot::{Allocator, Driver, Tenant, TenantOptions};
use serde_json::{Value, json};

use crate::onnxruntime::Registration;
use crate::settings::{Mode, Settings};

const DEVICE: i32 = 0;

pub struct Memory {
    mode: Mode,
    /// Only where it is cachalot's.
    cachalot: Option<Cachalot>,
    watermark: AtomicU64,
    idle_ms: AtomicU64,
    /// One change at a time: each has several parts.
    changes: Mutex<()>,
}

struct Cachalot {
    allocator: Allocator,
    registration: Registration,
}

/// What a request wants to be changed.
#[derive(Default)]
struct Change<'a> {
    config: Option<&'a str>,
    /// `None` inside: no limit.
    limit: Option<Option<u64>>,
    watermark: Option<u64>,
    idle_ms: Option<u64>,
}

impl<'a> Change<'a> {
    fn parse(wanted: &'a Value) -> Result<Self, String> {
        let mut change = Self::default();
        for (key, value) in wanted.as_object().ok_or("a JSON object is expected")? {
            let number = || {
                whole(value).ok_or_else(|| format!("'{key}' is no whole number from 0 to 2^63 - 1"))
            };
            match key.as_str() {
                "config" => change.config = Some(value.as_str().ok_or("'config' is no text")?),
                "memory_limit_bytes" if value.is_null() => change.limit = Some(None),
                "memory_limit_bytes" => change.limit = Some(Some(number()?)),
                "watermark_bytes" => change.watermark = Some(number()?),
                "idle_ms" => change.idle_ms = Some(number()?),
                _ => return Err(format!("there is no '{key}'")),
            }
        }
        Ok(change)
    }
}

/// A number that every language has.
pub fn whole(value: &Value) -> Option<u64> {
    value.as_i64().and_then(|number| u64::try_from(number).ok())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Memory {
    /// ONNX Runtime has to be loaded.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let cachalot = match settings.mode {
            Mode::Cachalot => {
                let driver = Driver::open(&settings.driver).map_err(text)?;
                let allocator = Allocator::builder().driver(driver).build().map_err(text)?;
                let registration = Registration::new(&allocator)?;
                Some(Cachalot { allocator, registration })
            }
            _ => None,
        };
        Ok(Self {
            mode: settings.mode,
            cachalot,
            watermark: settings.watermark.into(),
            idle_ms: AtomicU64::new(settings.idle.as_millis() as u64),
            changes: Mutex::default(),
        })
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn allocator(&self) -> Option<&Allocator> {
        self.cachalot.as_ref().map(|cachalot| &cachalot.allocator)
    }

    pub fn create_tenant(&self, options: TenantOptions) -> Result<Option<Tenant>, String> {
        self.allocator().map(|allocator| allocator.create_tenant(options)).transpose().map_err(text)
    }

    pub fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms.load(Ordering::Relaxed))
    }

    pub fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Relaxed)
    }

    /// Gives back what is free, down to so many reserved bytes; how many went.
    pub fn trim(&self, keep: u64, min_idle: Duration) -> Option<Result<u64, String>> {
        Some(self.allocator()?.trim(DEVICE, keep, min_idle).map_err(text))
    }

    /// The statistics by name, and those of each tenant; nothing of it where the memory is not cachalot's.
    pub fn stats(&self) -> Result<Value, String> {
        let Some(Cachalot { allocator, registration }) = &self.cachalot else {
            return Ok(json!({}));
        };
        let stats = allocator.stats(DEVICE).map_err(text)?;
        let rows: serde_json::Map<String, Value> = stats
            .rows(allocator.release())
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let tenants = allocator.tenant_stats(DEVICE).map_err(text)?;
        let info = registration.info();
        Ok(json!({
            "allocator": rows,
            "tenants": tenants,
            "onnxruntime": {
                "version": info.version,
                "live_blocks": info.live_blocks,
                "requests": info.requests,
                "reserves": info.reserves,
                "failures": info.failures,
            },
        }))
    }

    pub fn summary(&self) -> Option<Result<String, String>> {
        Some(self.allocator()?.memory_summary(DEVICE, false).map_err(text))
    }

    pub fn metrics(&self) -> Option<Result<String, String>> {
        Some(self.allocator()?.metrics().map_err(text))
    }

    pub fn config(&self) -> Result<Value, String> {
        let mut config = json!({ "watermark_bytes": self.watermark(), "idle_ms": self.idle().as_millis() as u64 });
        let Some(allocator) = self.allocator() else { return Ok(config) };
        let settings = allocator.settings().map_err(text)?;
        config["config"] = allocator.config().map_err(text)?.into();
        config["memory_limit_bytes"] = allocator.memory_limit(DEVICE).map_err(text)?.into();
        config["settings"] = json!({
            "max_split_size": (settings.max_split_size != u64::MAX).then_some(settings.max_split_size),
            "garbage_collection_threshold": settings.garbage_collection_threshold,
            "expandable_segments": settings.expandable_segments,
            "roundup_power2_divisions": settings.roundup_power2_divisions,
        });
        Ok(config)
    }

    /// What a JSON object names is changed; with an error nothing is, but for the options before a
    /// mistake in their text.
    pub fn configure(&self, wanted: &Value) -> Result<(), String> {
        let change = Change::parse(wanted)?;
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match self.allocator() {
            Some(allocator) => {
                if let Some(config) = change.config {
                    allocator.configure(config).map_err(text)?;
                }
                if let Some(limit) = change.limit {
                    allocator.set_memory_limit(DEVICE, limit).map_err(text)?;
                }
            }
            None if change.config.is_some() || change.limit.is_some() => {
                return Err("the memory is not cachalot's".into());
            }
            None => {}
        }
        if let Some(watermark) = change.watermark {
            self.watermark.store(watermark, Ordering::Relaxed);
        }
        if let Some(idle) = change.idle_ms {
            self.idle_ms.store(idle, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends it; an error if anything of it is still in use.
    pub fn close(self) -> Result<(), String> {
        let Some(Cachalot { allocator, registration }) = self.cachalot else { return Ok(()) };
        registration.close()?;
        allocator.check().map_err(text)?;
        allocator.close().map_err(|(_, error)| text(error))
    }
}
