// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of checkpoints.
//!
//! PyTorch frees blocks and puts segments back in the order of a table of pointers, which differs from
//! run to run. So the expected lines say the order, and the library is given it.

use std::mem;

use cachalot::{Address, Checkpoint};

use crate::expected::Operation;
use crate::operations::{DEVICE, Words, parse_hex};
use crate::script::Script;

pub fn take(script: &mut Script, mut words: Words<'_>) {
    let name = words.word().to_owned();
    let taken = script.allocator().pool(DEVICE, words.pool()).checkpoint();
    if let Some(checkpoint) = script.worked(taken) {
        script.checkpoints.insert(name, checkpoint);
    }
}

pub fn restore(script: &mut Script, operation: &Operation<'_>, mut words: Words<'_>) {
    let Some(checkpoint) = script.checkpoints.get(words.word()) else {
        script.exempt_operation = true; // It could not be taken. The oracle has an error of its own.
        return;
    };
    let ordered = in_expected_order(checkpoint, &operation.expected);
    let mut freed = free_as_expected(script, &operation.expected);
    // A restore frees blocks whoever has them: all are given up, and what is left is taken back.
    let given_up = give_up(script);
    // SAFETY: nobody has a block, and addresses of `sim` are never read or written through.
    let applied = unsafe { script.allocator().apply_checkpoint(DEVICE, &ordered) };
    if let Ok(changes) = &applied {
        freed.extend(&changes.freed);
    }
    take_back(script, given_up, &freed);
    let Some(changes) = script.worked(applied) else { return };
    for address in freed {
        script.add(format!("X freed {address:x}"));
    }
    for (id, address) in (words.number()..).zip(changes.created) {
        script.add(format!("X created {address:x}"));
        // SAFETY: it was handed out just now, and nobody else has it.
        let block = unsafe { script.allocator().adopt_raw(address) };
        script.shared().live.insert(id, block);
        script.last.insert(id, address);
    }
}

/// PyTorch's restore begins with the frees of all blocks of the pool.
fn free_as_expected(script: &Script, expected: &[&str]) -> Vec<Address> {
    let mut freed = Vec::new();
    for address in addresses(expected, "T free_requested ", Some("T alloc ")) {
        let id = {
            let shared = script.shared();
            let found = shared.live.iter().find(|(_, block)| block.address() == address);
            found.map(|(id, _)| *id)
        };
        if let Some(id) = id {
            script.free_live(id);
            freed.push(address);
        }
    }
    freed
}

fn give_up(script: &Script) -> Vec<(i64, Address)> {
    let mut shared = script.shared();
    assert!(shared.raw.is_empty(), "no script has raw blocks and checkpoints");
    mem::take(&mut shared.live).into_iter().map(|(id, block)| (id, block.leak())).collect()
}

fn take_back(script: &Script, given_up: Vec<(i64, Address)>, freed: &[Address]) {
    for (id, address) in given_up {
        if !freed.contains(&address) {
            let block = script.allocator().adopt(address).unwrap();
            script.shared().live.insert(id, block);
        }
    }
}

/// Segments by the hand-outs of their first blocks, and behind them the one that was not found. Those of
/// which nothing is expected come last.
fn in_expected_order(checkpoint: &Checkpoint, expected: &[&str]) -> Checkpoint {
    let mut order = addresses(expected, "T alloc ", None);
    order.extend(addresses(expected, "E error  could not find ", None));
    let mut ordered = checkpoint.clone();
    ordered.segments.sort_by_key(|segment| {
        let found = order.iter().position(|address| *address == segment[0].address);
        found.unwrap_or(order.len())
    });
    ordered
}

/// The addresses behind lines that begin so, up to the first that begins as the other text.
fn addresses(expected: &[&str], start: &str, until: Option<&str>) -> Vec<Address> {
    expected
        .iter()
        .take_while(|line| until.is_none_or(|until| !line.starts_with(until)))
        .filter_map(|line| line.strip_prefix(start)?.split(' ').next())
        .map(parse_hex)
        .collect()
}
