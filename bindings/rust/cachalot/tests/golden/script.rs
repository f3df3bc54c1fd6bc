// SPDX-License-Identifier: MIT OR Apache-2.0
//! A script under way: the allocator and the device that it runs on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use cachalot::{
    Action, Address, Allocator, Block, Checkpoint, Error, HistoryOptions, LogLevel, Release,
    Result, Sim, SimCalls, SimLog, SimOptions, Stream, TraceEntry,
};

use crate::compare::{Comparison, ErrorRules, Line};
use crate::expected::Operation;
use crate::operations;
use crate::pinned::Pinned;
use crate::sharing::Sharing;

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
    pub query: bool,
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
    /// A defect of PyTorch that the library mends has just changed a decision.
    mended: bool,
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
    pub pinned: Pinned,
    pub checkpoints: HashMap<String, Checkpoint>,
    pub sharing: Sharing,
    /// The codes of the failures that were ordered last.
    pub ordered: HashMap<SimCalls, i32>,
    pub caching: bool,
    pub sim_log: SimLog,
    /// The lines of the operation, or from it on all, cannot be compared on purpose.
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
                if level == LogLevel::Difference {
                    log.lock().unwrap().mended = true;
                }
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
        allocator.record_history(&HistoryOptions::recording(1).clear(true))?;
        let (shared, sim) = (self.shared.clone(), self.sim.clone());
        let weak = allocator.downgrade();
        allocator
            .observe_out_of_memory(move |numbers| {
                if !shared.lock().unwrap().log.observer {
                    return;
                }
                let allocator = weak.upgrade().expect("a call is under way");
                let limit = allocator.memory_limit(numbers.device).unwrap();
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

// ---- Lines --------------------------------------------------------------------------------------

/// Moves the device's calls since the last time into the lines.
fn take_calls(shared: &Mutex<Shared>, sim: &Sim) {
    let calls = sim.read_calls().unwrap();
    let mut shared = shared.lock().unwrap();
    let all = shared.log.query;
    // The file has queries that fail, and others only where it asks for them. Of segments it has those
    // that could be opened.
    let has = |call: &&str| {
        let is_query = call.starts_with("event_query ");
        let is_asked_for = all || !is_query || call.contains(" error ");
        is_asked_for && !call.starts_with("ipc_open error ")
    };
    let lines = calls.lines().filter(has).map(|call| Line::Text(format!("D {call}")));
    shared.lines.extend(lines);
}

pub fn add(shared: &Mutex<Shared>, sim: &Sim, line: String) {
    take_calls(shared, sim);
    shared.lock().unwrap().lines.push(Line::Text(line));
}

fn fail(shared: &Mutex<Shared>, sim: &Sim, error: Error, at_init: bool) {
    take_calls(shared, sim);
    shared.lock().unwrap().lines.push(Line::Failure { error, at_init });
}

fn free_live(shared: &Mutex<Shared>, sim: &Sim, id: i64) {
    let (block, current) = {
        let mut shared = shared.lock().unwrap();
        (shared.live.remove(&id), shared.current_stream)
    };
    let Some(block) = block else { return };
    if let Err(error) = block.free_on_stream(current) {
        fail(shared, sim, error, false);
    }
}

pub fn entry_text(entry: &TraceEntry) -> String {
    let action: Action = entry.action;
    format!("{} {:x} {} {:x}", action, entry.address, entry.size, entry.stream.0)
}

/// The texts behind a history entry that `log metadata` asks for.
pub fn metadata_marks(shared: &Shared, entry: &TraceEntry) -> String {
    if !shared.log.metadata {
        return String::new();
    }
    let mut marks = format!(" metadata \"{}\"", entry.metadata);
    if shared.release == Some(Release::V2_15) {
        marks += &format!(" internal \"{}\"", entry.internal_metadata);
    }
    marks + &format!(" pool {},{}", entry.pool.first, entry.pool.second)
}

// ---- Replaying ----------------------------------------------------------------------------------

/// The addresses at the ends of lines such as "D malloc 512 7f0000000000".
pub fn recorded_addresses(expected: &[&str], starts: &[&str]) -> Vec<Address> {
    expected
        .iter()
        .filter(|line| starts.iter().any(|start| line.starts_with(start)))
        .filter(|line| !line.contains(" error "))
        .filter_map(|line| Address::from_str_radix(line.rsplit(' ').next()?, 16).ok())
        .collect()
}

fn setup(file: &[Operation<'_>], release: Release) -> Script {
    let (mut config, mut capacity, mut devices) = (String::new(), 80 << 30, 1);
    for operation in file {
        match operation.word {
            "config" => config = operation.line.get("config ".len()..).unwrap_or("").to_owned(),
            "device" => {
                let mut words = operation.line.split(' ').skip(1);
                capacity = words.next().unwrap().parse().unwrap();
                devices = words.nth(1).map_or(1, |word| word.parse().unwrap());
            }
            _ => {}
        }
    }
    let options = SimOptions::new().capacity(capacity).device_count(devices);
    let sim = Sim::new(options).unwrap();
    let sim_log = SimLog::CALLS | SimLog::QUERIES;
    sim.log_calls(sim_log).unwrap();
    Script {
        sim,
        devices,
        release,
        config,
        allocator: None,
        shared: Arc::new(Mutex::new(Shared { release: Some(release), ..Shared::default() })),
        last: HashMap::new(),
        pinned: Pinned::default(),
        checkpoints: HashMap::new(),
        sharing: Sharing::default(),
        ordered: HashMap::new(),
        caching: true,
        sim_log,
        exempt_operation: false,
        exempt_text: false,
        exempt_rest: false,
        started: false,
    }
}

pub fn replay(file: &[Operation<'_>], release: Release) -> Verdict {
    if let Some(operation) = file.iter().find(|operation| operations::is_unbuilt(operation.word)) {
        return Verdict::NotComparable(format!("operation '{}'", operation.word));
    }
    operations::reset();
    let mut script = setup(file, release);
    let mut comparison = Comparison::default();
    let mut lines = 0;
    for (index, operation) in file.iter().enumerate() {
        script.begin(index as u64 + 1, operation);
        if operations::needs_no_allocator(operation.word) || script.start() {
            operations::run(&mut script, operation);
        }
        let actual = script.end();
        if script.exempt_rest || script.shared().mended {
            break;
        }
        if script.exempt_operation {
            continue;
        }
        let rules = ErrorRules {
            whole_text: script.shared().log.whole_text,
            kind_only: script.exempt_text,
        };
        if let Some(first) = comparison.first_difference(&operation.expected, &actual, rules) {
            return Verdict::Different(format!(
                "line {}: {}\n  expected {:?}\n  actual   {:?}",
                operation.number,
                operation.line,
                operation.expected.get(first),
                actual.get(first)
            ));
        }
        lines += actual.len();
    }
    script.finish();
    Verdict::Equal { lines }
}

impl Script {
    fn begin(&mut self, number: u64, operation: &Operation<'_>) {
        let mut shared = self.shared();
        shared.operation = number;
        shared.lines.clear();
        drop(shared);
        (self.exempt_operation, self.exempt_text) = (false, false);
        let starts = ["D malloc ", "D reserve ", "D malloc_async ", "D ipc_open "];
        let addresses = recorded_addresses(&operation.expected, &starts);
        self.sim.give_addresses(0, &addresses).unwrap();
        self.pinned.read_ranges(&operation.expected);
    }

    fn end(&mut self) -> Vec<Line> {
        take_calls(&self.shared, &self.sim);
        let mut shared = self.shared();
        let rejections = std::mem::take(&mut shared.rejections);
        shared.lines.extend(rejections.into_iter().map(Line::Text));
        std::mem::take(&mut shared.lines)
    }

    /// Drops everything: blocks first, then the allocator, which must end.
    fn finish(mut self) {
        let live = std::mem::take(&mut self.shared().live);
        let raw = std::mem::take(&mut self.shared().raw);
        operations::call_off_failures(&mut self);
        let sharing = std::mem::take(&mut self.sharing);
        drop((live, raw, std::mem::take(&mut self.pinned), sharing));
        if let Some(allocator) = self.allocator.take() {
            allocator.close_all().expect("nothing else has a share of it");
        }
    }
}
