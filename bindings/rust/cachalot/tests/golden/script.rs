// SPDX-License-Identifier: MIT OR Apache-2.0
//! A script under way: the allocator and the device that it runs on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use cachalot::{
    Action, Address, Allocator, Block, Error, HistoryOptions, LogLevel, Release, Result, Sim,
    SimLog, SimOptions, Stream, TraceEntry,
};

use crate::compare::{Comparison, ErrorRules, Line};
use crate::expected::Operation;
use crate::operations;

pub enum Verdict {
    Equal { lines: usize },
    Different(String),
    NotComparable(String),
}

/// What the words of `log` switch on here.
#[derive(Clone, Copy, Default)]
pub struct LogWords {
    pub observer: bool,
    pub rejection: bool,
    pub context: bool,
    pub metadata: bool,
    pub counter: bool,
    pub whole_text: bool,
}

/// What the closures share with the script.
#[derive(Default)]
pub struct Shared {
    lines: Vec<Line>,
    rejections: Vec<String>,
    pub log: LogWords,
    /// The number of the operation, counted from 1.
    operation: u64,
    pub current_stream: Stream,
    pub live: HashMap<i64, Block>,
    pub raw: HashMap<i64, Block>,
    /// What the free-memory closure is to free.
    pub armed: Vec<i64>,
    pub release: Option<Release>,
}

pub struct Script {
    pub sim: Sim,
    pub devices: i32,
    pub release: Release,
    config: String,
    allocator: Option<Allocator>,
    pub shared: Arc<Mutex<Shared>>,
    /// The address that an id had last.
    pub last: HashMap<i64, Address>,
    pub caching: bool,
    pub sim_log: SimLog,
    /// The lines of the operation, or from it on all, can not be compared on purpose.
    pub exempt_operation: bool,
    pub exempt_text: bool,
    pub exempt_rest: bool,
    started: bool,
}

impl Script {
    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    pub fn allocator(&self) -> Allocator {
        self.allocator.clone().expect("operations run with an allocator only")
    }

    pub fn is_backend_async(&self) -> bool {
        self.allocator().backend() == "cudaMallocAsync"
    }

    /// Adds a line behind the device's calls that came before it.
    pub fn add(&self, line: impl Into<String>) {
        add(&self.shared, &self.sim, line.into());
    }

    pub fn answer(&self, text: impl std::fmt::Display) {
        self.add(format!("# {text}"));
    }

    /// The value of a call that worked; else its failure is added.
    pub fn worked<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| fail(&self.shared, &self.sim, error, false)).ok()
    }

    /// Frees a tensor's block; nothing if the id is not live.
    pub fn free_live(&self, id: i64) {
        free_live(&self.shared, &self.sim, id);
    }

    /// Makes the allocator, if there is none. False if that failed: then the script has ended.
    fn start(&mut self) -> bool {
        if self.started {
            return self.allocator.is_some();
        }
        self.started = true;
        cachalot::set_metadata("").unwrap();
        let (log, context) = (self.shared.clone(), self.shared.clone());
        let sim = self.sim.clone();
        let built = Allocator::builder()
            .driver(&self.sim)
            .config(self.config.as_str())
            .release(self.release)
            .caching(true)
            .log(move |level, message| {
                if level == LogLevel::Warning {
                    let first = message.split('\n').next().unwrap_or("");
                    add(&log, &sim, format!("W {first}"));
                }
            })
            .contexts(
                move || {
                    // A capture is asked for while a call is under way, so the lock is free.
                    let shared = context.lock().unwrap();
                    if shared.log.context { shared.operation } else { 0 }
                },
                |_| String::new(),
            )
            .build();
        match built {
            Ok(allocator) => self.allocator = Some(allocator),
            Err(error) => {
                fail(&self.shared, &self.sim, error, true);
                return false;
            }
        }
        if !self.is_backend_async() {
            self.attach().unwrap();
        }
        true
    }

    fn attach(&self) -> Result<()> {
        let allocator = self.allocator();
        let (shared, sim) = (self.shared.clone(), self.sim.clone());
        allocator
            .observe_trace(move |entry| {
                let marks = metadata_marks(&shared.lock().unwrap(), entry);
                add(&shared, &sim, format!("T {}{marks}", entry_text(entry)));
            })?
            .keep();
        allocator
            .record_history(&HistoryOptions::recording(1).clear(true))?;
        let (shared, sim) = (self.shared.clone(), self.sim.clone());
        // The closure must not keep its own allocator alive.
        let asked = std::sync::OnceLock::new();
        let limits = Arc::new(asked);
        let limit_of = limits.clone();
        allocator
            .observe_out_of_memory(move |numbers| {
                if !shared.lock().unwrap().log.observer {
                    return;
                }
                let limit: Option<u64> = limit_of
                    .get()
                    .and_then(WeakAllocator::get)
                    .and_then(|allocator| allocator.memory_limit(numbers.device).unwrap());
                let line = format!(
                    "O {} {} {} {}",
                    numbers.device,
                    numbers.segment_size,
                    limit.unwrap_or(numbers.device_total),
                    numbers.device_free
                );
                add(&shared, &sim, line);
            })?
            .keep();
        let shared = self.shared.clone();
        allocator
            .observe_rejection(move |rejection| {
                let mut shared = shared.lock().unwrap();
                if shared.log.rejection {
                    shared.rejections.push(format!(
                        "J {} {} {} {}",
                        rejection.device,
                        rejection.segment_size,
                        rejection.reserved,
                        rejection.device_total
                    ));
                }
            })?
            .keep();
        let (shared, sim) = (self.shared.clone(), self.sim.clone());
        allocator
            .on_free_memory(move |_, _| {
                let armed = std::mem::take(&mut shared.lock().unwrap().armed);
                if armed.is_empty() {
                    return false;
                }
                add(&shared, &sim, "C callback".into());
                armed.into_iter().for_each(|id| free_live(&shared, &sim, id));
                true
            })?
            .keep();
        Ok(())
    }
}
