// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that a script consists of, and the calls that each one stands for.

use std::collections::{BTreeSet, VecDeque};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use cachalot::{
    Address, ContextLevel, HistoryOptions, PoolId, PoolOptions, PoolSource, Request, Route, Sim,
    SimCalls, SimFailure, SimLog, Stream,
};

use crate::expected::Operation;
use crate::script::{Script, Shared, add, recorded_addresses};
use crate::{checkpoints, pinned, report, sharing};

/// Scripts allocate on device 0.
pub const DEVICE: i32 = 0;

/// The words of an operation behind its first.
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn maybe(&mut self) -> Option<&'a str> {
        let left = self.0.trim_start();
        if left.is_empty() {
            return None;
        }
        let end = left.find(' ').unwrap_or(left.len());
        self.0 = &left[end..];
        Some(&left[..end])
    }

    pub fn word(&mut self) -> &'a str {
        self.maybe().expect("a word is missing")
    }

    pub fn number<T: FromStr<Err: std::fmt::Debug>>(&mut self) -> T {
        self.word().parse().unwrap()
    }

    fn maybe_number(&mut self) -> Option<u64> {
        self.maybe().map(|word| word.parse().unwrap())
    }

    pub fn hex(&mut self) -> u64 {
        parse_hex(self.word())
    }

    /// N is (0, N), gN is (N, 0).
    pub fn pool(&mut self) -> PoolId {
        let word = self.word();
        match word.strip_prefix('g') {
            Some(number) => PoolId::of_graph(number.parse().unwrap()),
            None => PoolId::of_user(word.parse().unwrap()),
        }
    }

    /// What may stand behind a pool that requests are routed to.
    pub fn route(&mut self) -> Route {
        match self.maybe() {
            None => Route::All,
            Some("never") => Route::None,
            Some(stream) => Route::Stream(Stream(parse_hex(stream))),
        }
    }

    pub fn rest(self) -> &'a str {
        self.0.trim_start()
    }
}

pub fn parse_hex(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

/// A process's environment is not the test's to change.
pub fn is_unbuilt(word: &str) -> bool {
    word == "env"
}

pub fn needs_no_allocator(word: &str) -> bool {
    ["config", "device", "log", "fabric", "fabric_device", "sharing"].contains(&word)
}

/// A pool's own source of segments: hands out the recorded addresses and prints its calls.
struct RecordedSource {
    shared: Arc<Mutex<Shared>>,
    sim: Sim,
}

/// What the sources of a thread's script are to do; each script is replayed on one thread.
#[derive(Default)]
struct OwnCalls {
    addresses: VecDeque<Address>,
    failures: u64,
    made_up: u64,
}

thread_local! {
    static OWN: std::cell::RefCell<OwnCalls> = std::cell::RefCell::default();
}

impl PoolSource for RecordedSource {
    fn allocate(&self, size: u64, _device: i32, stream: Stream) -> Option<Address> {
        let address = OWN.with_borrow_mut(|own| {
            if own.failures > 0 {
                own.failures -= 1;
                return None;
            }
            own.made_up += 1;
            Some(own.addresses.pop_front().unwrap_or(0x6000_0000_0000 + (own.made_up << 32)))
        });
        let text = address.map_or("null".into(), |address| format!("{address:x}"));
        add(&self.shared, &self.sim, format!("D own_malloc {size} {:x} {text}", stream.0));
        address
    }

    fn free(&self, address: Address, _size: u64, _device: i32, _stream: Stream) {
        add(&self.shared, &self.sim, format!("D own_free {address:x}"));
    }
}

pub fn run(script: &mut Script, operation: &Operation<'_>) {
    let recorded = recorded_addresses(&operation.expected, &["D own_malloc "]);
    OWN.with_borrow_mut(|own| own.addresses = recorded.into());
    let mut words = Words(&operation.line[operation.word.len()..]);
    match operation.word {
        "config" | "device" | "addresses" => {}
        "log" => log(script, words),
        "fabric" | "fabric_device" => fabric(script, operation.word, words.number()),
        "a" | "at" | "raw" => allocate(script, operation.word, words),
        "f" | "delete" | "r" => block(script, operation.word, words),
        "work" | "done" | "step" | "sync" | "capture" | "capture_end" | "node" | "fork"
        | "join" | "graph_memory" | "process" => device(script, operation.word, words),
        "fail" | "error" | "event_error" | "free_error" | "pending_error" | "own_fail" => {
            failure(script, operation.word, words)
        }
        "empty" | "fraction" | "get_fraction" | "set" | "enable" | "is_enabled" | "callback"
        | "peer" | "current" | "metadata" | "annotate" | "annotate_at" | "history"
        | "reset_peak" | "reset_accumulated" => control(script, operation.word, words),
        "capture_mark" => {
            script.worked(script.allocator().capture_begin(DEVICE));
        }
        "capture_unmark" => {
            script.worked(script.allocator().capture_end(DEVICE));
        }
        "ha" | "hf" | "hr" | "hr_at" => pinned::run(script, operation, words),
        word if word.starts_with("host_") => pinned::run(script, operation, words),
        "sharing" | "share" | "import" | "open" | "import_close" => {
            sharing::run(script, operation.word, words);
        }
        "checkpoint" => checkpoints::take(script, words),
        "restore" => checkpoints::restore(script, operation, words),
        word if word.starts_with("pool_") => pool(script, word, words),
        word => question(script, word, words),
    }
}

// ---- Blocks -------------------------------------------------------------------------------------

fn allocate(script: &mut Script, word: &str, mut words: Words<'_>) {
    let id: i64 = words.number();
    let size: u64 = words.number();
    let stream = Stream(words.hex());
    if word != "raw" {
        script.shared().current_stream = stream;
    } else if size >= 1 << 60 {
        script.exempt_rest = true; // The raw entry point has no such limit.
        return;
    } else if size == 0 && !script.caching {
        script.exempt_operation = true; // It asks the driver for 0 bytes.
    }
    let current = script.shared().current_stream;
    let mut request = Request::new(size).device(DEVICE).stream(stream).current_stream(current);
    if word == "at" {
        let reference: i64 = words.number();
        let offset: i64 = words.maybe().map_or(0, |word| word.parse().unwrap());
        let last = script.last.get(&reference).copied().unwrap_or(0);
        let mut address = last.wrapping_add_signed(offset);
        if address == 0 {
            // There is no address 0 to ask for; one that is never in cached memory stands for it.
            script.exempt_text = true;
            address = 512;
        }
        request = request.at(address);
    }
    let Some(block) = script.worked(script.allocator().allocate_with(&request)) else { return };
    if !script.exempt_operation {
        script.add(format!("R {:x}", block.address()));
    }
    script.last.insert(id, block.address());
    if word == "raw" {
        let former = script.shared().raw.insert(id, block);
        assert!(former.is_none(), "an id of a raw block is used twice");
        return;
    }
    // The block that the id had before is freed after the new one was obtained.
    script.free_live(id);
    script.shared().live.insert(id, block);
}

fn block(script: &mut Script, word: &str, mut words: Words<'_>) {
    let current = script.shared().current_stream;
    match word {
        "f" => {
            let id: i64 = words.number();
            script.free_live(id);
            let Some(block) = ({ script.shared().raw.remove(&id) }) else { return };
            free_raw(script, block);
        }
        "delete" => {
            let address = words.hex();
            if script.is_backend_async() || !script.caching {
                script.exempt_operation = true;
                return;
            }
            script.worked(script.allocator().free(address));
        }
        _ => {
            let id: i64 = words.number();
            let stream = Stream(words.hex());
            // Closures that see the call take the lock.
            let Some(block) = ({ script.shared().live.remove(&id) }) else { return };
            let recorded = block.record_stream_on_stream(stream, current);
            script.shared().live.insert(id, block);
            script.worked(recorded);
        }
    }
}

/// The raw free acts by the mode in force, the library's by how the block was made. Where the two
/// differ PyTorch refuses, or gives a segment away under its blocks.
fn free_raw(script: &mut Script, block: cachalot::Block) {
    if script.is_backend_async() {
        if block.address() == 0 {
            script.sim.set_pending_error(0).unwrap();
            script.exempt_operation = true;
            return;
        }
        script.worked(block.free());
        return;
    }
    if let Ok(info) = block.info() {
        if script.caching && info.uncached {
            script.exempt_operation = true;
            block.leak();
            return;
        }
        if !script.caching && !info.uncached {
            script.exempt_rest = true;
            return;
        }
    }
    let current = script.shared().current_stream;
    script.worked(block.free_on_stream(current));
}

// ---- Limits, options, history -------------------------------------------------------------------

fn control(script: &mut Script, word: &str, mut words: Words<'_>) {
    let allocator = script.allocator();
    let current = script.shared().current_stream;
    match word {
        "empty" => {
            for device in 0..script.devices {
                let emptied = allocator.empty_device_cache_on_stream(device, current);
                if script.worked(emptied).is_none() {
                    return;
                }
            }
        }
        "fraction" => {
            script.worked(allocator.set_memory_fraction(DEVICE, words.number()));
        }
        "get_fraction" => {
            if let Some(fraction) = script.worked(allocator.memory_fraction(DEVICE)) {
                script.add(format!("= fraction {}", report::all_digits(fraction)));
            }
        }
        "set" => {
            script.worked(allocator.configure(words.rest()));
        }
        "enable" => {
            script.caching = words.word() != "0";
            script.worked(allocator.set_caching_enabled(script.caching));
        }
        "is_enabled" => {
            script.answer(format_args!("enabled {}", yes_no(allocator.is_caching_enabled())))
        }
        "callback" => {
            while let Some(id) = words.maybe() {
                script.shared().armed.push(id.parse().unwrap());
            }
        }
        "peer" => {
            script.worked(allocator.enable_peer_access(words.number(), words.number()));
        }
        "current" => script.shared().current_stream = Stream(words.hex()),
        "metadata" => {
            // The library keeps metadata for threads, so no backend can warn of it.
            script.exempt_operation = script.is_backend_async();
            script.worked(cachalot::set_metadata(words.rest()));
        }
        "annotate" => {
            let id: i64 = words.number();
            let address = script.shared().live.get(&id).map(|block| block.address());
            if let Some(address) = address {
                script.worked(allocator.annotate(address, words.rest()));
            }
        }
        "annotate_at" => {
            let address = words.hex();
            script.worked(allocator.annotate(address, words.rest()));
        }
        "history" => history(script, words),
        "reset_peak" => {
            script.worked(allocator.reset_peak_stats(DEVICE));
        }
        _ => {
            script.worked(allocator.reset_accumulated_stats(DEVICE));
        }
    }
}

fn history(script: &mut Script, mut words: Words<'_>) {
    let level = words.word();
    let mut options = HistoryOptions::recording(1).enabled(level != "off");
    options = options.context(match level {
        "all" => ContextLevel::All,
        "alloc" => ContextLevel::Alloc,
        "state" => ContextLevel::State,
        _ => ContextLevel::Never,
    });
    if let Some(entries) = words.maybe_number() {
        options = options.max_entries(entries);
    }
    let mut skipped = Vec::new();
    while let Some(word) = words.maybe() {
        if word == "clear" {
            options = options.clear(true);
        } else {
            skipped.push(word);
        }
    }
    script.worked(script.allocator().record_history(&options.skip_actions(skipped.join(","))));
}

fn yes_no(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

// ---- Questions ----------------------------------------------------------------------------------

fn question(script: &mut Script, word: &str, mut words: Words<'_>) {
    let allocator = script.allocator();
    let address_of =
        |script: &Script, id: i64| script.shared().live.get(&id).map(|block| block.address());
    match word {
        "stats" => report::stats(script),
        "snapshot" => report::snapshot(script, PoolId::DEFAULT),
        "trace" => report::history(script),
        "settings" => report::settings(script),
        "end" => {
            report::stats(script);
            if !script.is_backend_async() {
                report::snapshot(script, PoolId::DEFAULT);
            }
        }
        "supports_metadata" => {
            script.answer(format_args!("metadata {}", yes_no(!script.is_backend_async())));
        }
        "context_of" => {
            let context = match address_of(script, words.number()) {
                None => Some(0),
                Some(address) => script.worked(allocator.context_of(address)),
            };
            match context {
                None => {}
                Some(0) => script.answer("context none"),
                Some(context) => script.answer(format_args!("context line {context}")),
            }
        }
        "base" => {
            let Some(address) = address_of(script, words.number()) else { return };
            if let Some((base, size)) = script.worked(allocator.base_allocation(address)) {
                script.answer(format_args!("base {base:x} {size}"));
            }
        }
        "largest" => {
            let at_least = words.maybe_number().unwrap_or(0);
            let current = script.shared().current_stream;
            let largest = allocator.largest_block_on_stream(DEVICE, at_least, current);
            if let Some(size) = script.worked(largest) {
                script.answer(format_args!("largest {size}"));
            }
        }
        "expandable_sizes" => {
            for row in script.worked(allocator.expandable_segments(DEVICE)).into_iter().flatten() {
                let kind = if row.is_small { "small" } else { "large" };
                script.answer(format_args!(
                    "expandable {:x} {kind} {}",
                    row.stream.0, row.mapped_size
                ));
            }
        }
        "expandable_totals" => {
            if let Some(totals) = script.worked(allocator.expandable_totals()) {
                script.answer(format_args!("expandable_totals {} {}", totals.bytes, totals.count));
            }
        }
        "reserve_class" => {
            let stream = words.hex();
            script.worked(allocator.set_reserve_class(stream, words.rest()));
        }
        "reserve_class_of" => {
            if let Some(name) = script.worked(allocator.reserve_class(words.hex())) {
                script.answer(format_args!("reserve_class \"{name}\""));
            }
        }
        "default_reserve" => {
            let name = words.word();
            script.worked(allocator.set_default_reserve(name, words.number()));
        }
        "reserve_of" => {
            let name = words.rest();
            let Some(reserve) = script.worked(allocator.reserve(DEVICE, name)) else { return };
            let bytes = reserve.reserve_bytes.map_or("none".into(), |bytes| bytes.to_string());
            let known = if reserve.is_class_known { "known" } else { "unknown" };
            script.answer(format_args!(
                "reserve \"{name}\" {bytes} {known} {}",
                reserve.segment_bytes
            ));
        }
        word => panic!("unknown operation '{word}'"),
    }
}

// ---- Pools --------------------------------------------------------------------------------------

fn pool(script: &mut Script, word: &str, mut words: Words<'_>) {
    let key = script.allocator().pool(DEVICE, words.pool());
    let current = script.shared().current_stream;
    match word {
        "pool_create" => {
            let mut options = PoolOptions::new();
            let flags: Vec<&str> = std::iter::from_fn(|| words.maybe()).collect();
            if flags.contains(&"own") {
                let (shared, sim) = (script.shared.clone(), script.sim.clone());
                options = options.source(RecordedSource { shared, sim });
            }
            if script.worked(key.create(options)).is_none() {
                return;
            }
            if flags.contains(&"use_on_oom") {
                script.worked(key.set_use_on_oom(true));
            }
            if flags.contains(&"no_split") {
                script.worked(key.set_no_split());
            }
        }
        "pool_begin" => {
            script.worked(key.begin(words.route()));
        }
        "pool_end" => {
            script.worked(key.end_on_stream(current));
        }
        "pool_release" => {
            script.worked(key.release());
        }
        "pool_empty" => {
            script.worked(key.empty_on_stream(current));
        }
        "pool_oom_on" => {
            script.worked(key.set_use_on_oom(true));
        }
        "pool_oom_off" => {
            script.worked(key.set_use_on_oom(false));
        }
        "pool_no_split" => {
            script.worked(key.set_no_split());
        }
        "pool_count" => {
            if let Some(count) = script.worked(key.use_count()) {
                script.answer(format_args!("count {count}"));
            }
        }
        "pool_snapshot" => report::snapshot(script, key.id()),
        "pool_live" => {
            let ids: Vec<i64> =
                std::iter::from_fn(|| words.maybe()).map(|word| word.parse().unwrap()).collect();
            let addresses: BTreeSet<Address> = {
                let shared = script.shared();
                ids.iter().filter_map(|id| shared.live.get(id)).map(|b| b.address()).collect()
            };
            let addresses: Vec<Address> = addresses.into_iter().collect();
            if let Some(equal) = script.worked(key.has_live(&addresses)) {
                script.answer(format_args!("live {}", yes_no(equal)));
            }
        }
        word => panic!("unknown operation '{word}'"),
    }
}

// ---- The device ---------------------------------------------------------------------------------

fn device(script: &mut Script, word: &str, mut words: Words<'_>) {
    let sim = script.sim.clone();
    match word {
        "work" => sim.queue_work(DEVICE, words.hex()),
        "done" => sim.finish_stream(DEVICE, words.hex()),
        "step" => sim.finish_oldest(DEVICE, words.hex()),
        "sync" => (0..script.devices).try_for_each(|device| sim.finish_device(device)),
        "capture" => sim.begin_capture(DEVICE, words.hex(), words.number()),
        "capture_end" => sim.end_capture(DEVICE, words.number()),
        "node" => sim.add_node(DEVICE, words.hex()),
        "fork" => sim.fork_capture(DEVICE, words.hex(), words.hex()),
        "join" => sim.join_capture(DEVICE, words.hex(), words.hex()),
        "graph_memory" => sim.set_graph_memory(DEVICE, words.number(), words.number()),
        _ => sim.add_process(DEVICE, words.number(), words.number()),
    }
    .unwrap();
}

// ---- Failures -----------------------------------------------------------------------------------

fn failure(script: &mut Script, word: &str, mut words: Words<'_>) {
    let allocating =
        SimCalls::ALLOCATE | SimCalls::CREATE | SimCalls::POOL_ALLOCATE | SimCalls::HOST_ALLOCATE;
    match word {
        "fail" => {
            let count = words.number();
            let code = if count == 0 { 0 } else { SimFailure::OUT_OF_MEMORY };
            let after = words.maybe_number().unwrap_or(0);
            order(script, allocating, code, after, count);
        }
        "error" => order_one(script, allocating | SimCalls::RESERVE, words),
        "event_error" => {
            let calls = SimCalls::EVENT_CREATE | SimCalls::EVENT_RECORD | SimCalls::EVENT_QUERY;
            order_one(script, calls, words);
        }
        "free_error" => order_one(script, SimCalls::HOST_FREE, words),
        "pending_error" => script.sim.set_pending_error(words.number()).unwrap(),
        _ => OWN.with_borrow_mut(|own| own.failures = words.number()),
    }
}

fn order_one(script: &mut Script, calls: SimCalls, mut words: Words<'_>) {
    let code = words.number();
    order(script, calls, code, words.maybe_number().unwrap_or(0), 1);
}

/// Lets calls fail, instead of what was ordered for them before. Code 0 only calls that off, for which
/// `sim` has no word: a failure of the same code that never comes takes its place.
pub fn order(script: &mut Script, calls: SimCalls, code: i32, after: u64, count: u64) {
    let former = script.ordered.insert(calls, code).unwrap_or(0);
    if former != 0 && former != code {
        script.sim.fail(SimFailure::new(calls, former).after(u64::MAX)).unwrap();
    }
    if code != 0 {
        script.sim.fail(SimFailure::new(calls, code).after(after).count(count)).unwrap();
    }
}

pub fn call_off_failures(script: &mut Script) {
    for calls in script.ordered.keys().copied().collect::<Vec<_>>() {
        order(script, calls, 0, 0, 0);
    }
    script.sim.set_pending_error(0).unwrap();
}

thread_local! {
    /// What the device says of its fabric, and of creating memory with a fabric handle.
    static FABRIC: std::cell::Cell<(Option<bool>, i32)> = const { std::cell::Cell::new((Some(false), 0)) };
}

fn fabric(script: &mut Script, word: &str, number: i32) {
    let (mut state, mut code) = FABRIC.get();
    if word == "fabric" {
        code = number;
    } else {
        state = (number >= 0).then_some(number > 0);
    }
    FABRIC.set((state, code));
    script.sim.set_fabric(DEVICE, state, code).unwrap();
}

/// Each script begins with a device that knows of none of this.
pub fn reset() {
    FABRIC.set((Some(false), 0));
    OWN.with_borrow_mut(|own| *own = OwnCalls::default());
}

fn log(script: &mut Script, mut words: Words<'_>) {
    while let Some(word) = words.maybe() {
        let mut shared = script.shared();
        let log = &mut shared.log;
        let mut device_word = SimLog::NONE;
        match word {
            "observer" => log.observer = true,
            "rejection" => log.rejection = true,
            "context" => log.context = true,
            "metadata" => log.metadata = true,
            "counter" => log.counter = true,
            "whole_text" => log.whole_text = true,
            "flush" => {}
            "handles" => device_word = SimLog::HANDLES,
            "query" => log.query = true,
            "capture_mode" => device_word = SimLog::CAPTURE_MODES,
            word => panic!("no word of log: '{word}'"),
        }
        drop(shared);
        script.sim_log = script.sim_log | device_word;
        script.sim.log_calls(script.sim_log).unwrap();
    }
}
