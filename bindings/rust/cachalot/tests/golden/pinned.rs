// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of pinned memory.
//!
//! That of `sim` is the system's: its addresses are not those of the file, and its calls name none. So
//! addresses are printed as they lie in the ranges of the file, each of which stands for the memory that
//! its first block begins. Which range a `host_free` gives back shows in the requests behind it only.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use cachalot::{Address, Error, PinnedBlock, Stat, Stream};

use crate::expected::Operation;
use crate::operations::{DEVICE, Words, parse_hex};
use crate::report;
use crate::script::Script;

/// The pinned memory of a script.
#[derive(Default)]
pub struct Pinned {
    blocks: HashMap<i64, PinnedBlock<MaybeUninit<u8>>>,
    /// What PyTorch's allocator got until now, the latest last.
    ranges: Vec<Range>,
}

struct Range {
    begin: Address,
    size: u64,
    /// How far the library's lies behind it, once that is known.
    shift: Option<u64>,
}

impl Pinned {
    /// Reads lines such as "D host_alloc 512 0 7f0000000000".
    pub fn read_ranges(&mut self, expected: &[&str]) {
        for line in expected {
            let words: Vec<&str> = line.split(' ').collect();
            let ["D", "host_alloc" | "host_register", size, _, begin] = words[..] else { continue };
            if let Ok(begin) = Address::from_str_radix(begin, 16) {
                self.ranges.push(Range { begin, size: size.parse().unwrap(), shift: None });
            }
        }
    }

    /// What the file calls the address that a request got, for which it has another one. The latest range
    /// counts: others may be gone.
    fn file_address(&mut self, address: Address, expected: Address) -> Address {
        let mut latest = self.ranges.iter_mut().rev();
        match latest.find(|range| expected.wrapping_sub(range.begin) < range.size) {
            None => address,
            Some(range) => {
                address.wrapping_sub(*range.shift.get_or_insert(address.wrapping_sub(range.begin)))
            }
        }
    }
}

pub fn run(script: &mut Script, operation: &Operation<'_>, mut words: Words<'_>) {
    let allocator = script.allocator();
    match operation.word {
        "ha" => allocate(script, operation, words.number(), words.number()),
        "hf" => free(script, words.number()),
        "hr" => record(script, words.number(), words.hex(), 0),
        "hr_at" => record(script, words.number(), words.hex(), words.number()),
        "host_empty" => {
            script.worked(allocator.empty_pinned_cache());
        }
        "host_pool_begin" => {
            let key = allocator.pinned_pool(words.pool());
            script.worked(key.begin(DEVICE, words.route()));
        }
        "host_pool_end" => {
            script.worked(allocator.pinned_pool(words.pool()).end());
        }
        "host_pool_release" => {
            let released = allocator.pinned_pool(words.pool()).release();
            // PyTorch's text for a pool that it does not know is a line of the C++ library.
            script.exempt_text = matches!(released, Err(Error::InvalidArgument(_)));
            script.worked(released);
        }
        "host_sleep" => std::thread::sleep(Duration::from_millis(words.number())),
        "host_stats" => stats(script),
        "host_reset_peak" => {
            script.worked(allocator.reset_pinned_peak_stats());
        }
        "host_reset_accumulated" => {
            script.worked(allocator.reset_pinned_accumulated_stats());
        }
        word => panic!("unknown operation '{word}'"),
    }
}

fn allocate(script: &mut Script, operation: &Operation<'_>, id: i64, size: u64) {
    if isize::try_from(size).is_err() {
        script.exempt_operation = true; // The crate refuses it by itself.
        return;
    }
    let current = script.shared().current_stream;
    let obtained = script.allocator().allocate_pinned_uninit_on_stream(size, DEVICE, current);
    let Some(block) = script.worked(obtained) else { return };
    let answer = operation.expected.iter().find_map(|line| line.strip_prefix("R "));
    let expected = answer.map_or(0, parse_hex);
    let address = script.pinned.file_address(block.address(), expected);
    script.add(format!("R {address:x}"));
    free(script, id);
    script.pinned.blocks.insert(id, block);
}

fn free(script: &mut Script, id: i64) {
    if let Some(block) = script.pinned.blocks.remove(&id) {
        script.worked(block.free());
    }
}

fn record(script: &mut Script, id: i64, stream: u64, offset: u64) {
    let Some(block) = script.pinned.blocks.get(&id) else { return };
    if offset != 0 {
        script.exempt_operation = true; // Only a block can be recorded, at its beginning.
        return;
    }
    match block.record_stream(DEVICE, Stream(stream)) {
        Err(Error::InvalidArgument(_)) => script.answer("unknown"),
        recorded => {
            if script.worked(recorded).is_some() {
                script.answer("known");
            }
        }
    }
}

fn stats(script: &mut Script) {
    let Some(stats) = script.worked(script.allocator().pinned_stats()) else { return };
    let add = |name: &str, stat: &Stat| {
        script.add(format!("= host_{name} {}", report::numbers(stat)));
    };
    add("allocations", &stats.allocations);
    add("allocated_bytes", &stats.allocated_bytes);
    add("active_requests", &stats.active_requests);
    add("active_bytes", &stats.active_bytes);
    script.add(format!(
        "= host_counters alloc {} free {} alloc_times {} free_times {}",
        stats.allocations.allocated,
        stats.allocations.freed,
        stats.allocate_times.count,
        stats.free_times.count
    ));
}

/// An expected line of a call of pinned memory in the words of `sim`, to which an error 2 is an out of
/// memory.
pub fn as_sim_prints(line: &str) -> Option<String> {
    let words: Vec<&str> = line.strip_prefix("D ")?.split(' ').collect();
    let (call, outcome) = match words[..] {
        [call @ ("host_alloc" | "host_register"), size, _, ref outcome @ ..] => {
            (format!("{call} {size}"), outcome)
        }
        [call @ ("host_free" | "host_unregister"), _, ref outcome @ ..] => {
            (call.to_owned(), outcome)
        }
        _ => return None,
    };
    let outcome = match outcome {
        ["oom"] | ["error", "2"] => " oom".to_owned(),
        ["error", code] => format!(" error {code}"),
        _ => String::new(),
    };
    Some(format!("D {call}{outcome}"))
}
