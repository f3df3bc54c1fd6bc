// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes as calls of the safe interface, over a simulated device: whatever they are, nothing may
//! crash, hang, or leave the accounts wrong.

use std::collections::VecDeque;
use std::time::Duration;

use cachalot::{
    Allocator, Block, Config, HistoryOptions, Label, Observer, Pool, PoolOptions, PoolScope,
    Release, ReportOptions, Request, Route, Sim, SimCalls, SimFailure, SimOptions, Stream, Tenant,
    TenantOptions,
};

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// Sizes of all magnitudes.
    fn size(&mut self) -> u64 {
        let (mantissa, shift) = (u64::from(self.next()), self.next() % 34);
        (mantissa << shift) + u64::from(shift % 3)
    }

    fn stream(&mut self) -> Stream {
        Stream(u64::from(self.next() % 4) * 0x10)
    }
}

#[derive(Default)]
struct World {
    blocks: VecDeque<Block>,
    leaked: Vec<u64>,
    pools: Vec<Pool>,
    scopes: Vec<PoolScope>,
    tenants: Vec<Tenant>,
    labels: Vec<Label>,
    observers: Vec<Observer>,
}

pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let sim = Sim::new(SimOptions::new().capacity(1 << 30)).unwrap();
    let first = bytes.next();
    let config = Config::new().expandable_segments(first & 1 != 0);
    let config = if first & 2 != 0 { config.max_split_size_mb(64) } else { config };
    let release = if first & 4 != 0 { Release::V2_11 } else { Release::V2_15 };
    let allocator = Allocator::builder()
        .driver(&sim)
        .config(config)
        .release(release)
        .track_labels(first & 8 != 0)
        .build()
        .unwrap();
    let mut world = World::default();
    while !bytes.0.is_empty() {
        step(&allocator, &sim, &mut world, &mut bytes);
    }
    finish(allocator, world);
}

fn keep<T>(list: &mut Vec<T>, made: cachalot::Result<T>) {
    if list.len() < 8 {
        list.extend(made.ok());
    }
}

fn step(allocator: &Allocator, sim: &Sim, world: &mut World, bytes: &mut Bytes<'_>) {
    match bytes.next() % 32 {
        0..=7 => {
            let (size, stream) = (bytes.size(), bytes.stream());
            world.blocks.extend(allocator.allocate(size, 0, stream).ok());
        }
        8..=12 => drop(world.blocks.pop_front()),
        13 => drop(world.blocks.pop_back().map(|block| block.free_on_stream(bytes.stream()))),
        14 => world.leaked.extend(world.blocks.pop_front().map(Block::leak)),
        15 => {
            if let Some(address) = world.leaked.pop() {
                // An empty block is no secret of anybody.
                world.blocks.push_back(allocator.adopt(address).expect("it was leaked"));
            }
        }
        16 => {
            let address = world.blocks.front().map_or(u64::from(bytes.next()), Block::address);
            assert!(address == 0 || allocator.free(address).is_err(), "it has an owner");
        }
        17 => {
            if let Some(block) = world.blocks.back() {
                let _ = block.record_stream(bytes.stream());
            }
        }
        18 => sim.queue_work(0, bytes.stream()).unwrap(),
        19 => sim.finish_stream(0, bytes.stream()).unwrap(),
        20 => drop(allocator.empty_cache()),
        21 => drop(allocator.trim(0, bytes.size(), Duration::from_nanos(bytes.next().into()))),
        22 => keep(&mut world.pools, allocator.create_pool(0, PoolOptions::new())),
        23 => {
            if let Some(pool) = world.pools.last() {
                keep(&mut world.scopes, pool.route(Route::ThisThread));
            }
        }
        24 => drop(world.scopes.pop()),
        25 => drop(world.pools.pop()),
        26 => {
            let options = TenantOptions::new("t").guaranteed_bytes(bytes.size() % (1 << 28));
            keep(&mut world.tenants, allocator.create_tenant(options));
            if let Some(tenant) = world.tenants.last() {
                world.blocks.extend(tenant.allocate(bytes.size(), 0, 0).ok());
            }
        }
        27 => drop(world.tenants.pop()),
        28 => {
            let calls = SimCalls::ALLOCATE | SimCalls::CREATE;
            sim.fail(SimFailure::out_of_memory(calls).after((bytes.next() % 4).into())).unwrap();
        }
        29 => match bytes.next() % 4 {
            0 => keep(&mut world.labels, Label::push("label")),
            1 => drop(world.labels.pop()),
            2 => keep(&mut world.observers, allocator.observe_trace(|_| {})),
            _ => drop(world.observers.pop()),
        },
        30 => {
            let base = world.blocks.front().map_or(0, Block::address);
            let at = base.wrapping_add(bytes.size() & !511);
            let request = Request::new(bytes.size()).stream(bytes.stream()).at(at);
            world.blocks.extend(allocator.allocate_with(&request).ok());
        }
        _ => {
            let _ = allocator.record_history(&HistoryOptions::recording(bytes.next().into()));
            let _ = allocator.report(&ReportOptions::device(0).request(bytes.size(), 0));
            let _ = allocator.snapshot().map(|snapshot| snapshot.to_data());
            allocator.set_memory_limit(0, Some(1 << 30).filter(|_| bytes.next() % 2 == 0)).unwrap();
        }
    }
}

fn finish(allocator: Allocator, world: World) {
    let leaked: Vec<u64> = world.leaked.iter().copied().filter(|address| *address != 0).collect();
    drop(world);
    allocator.check().expect("all accounts are right");
    let live = allocator.stats(0).unwrap().allocation.all.current;
    assert_eq!(live as usize, leaked.len(), "what was not leaked is free");
    let (allocator, _) = match allocator.close() {
        Ok(()) => return assert!(leaked.is_empty()),
        Err(left) => left,
    };
    allocator.close_all().expect("leaked blocks are freed too");
}
