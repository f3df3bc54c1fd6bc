// SPDX-License-Identifier: MIT OR Apache-2.0
//! The serving policy, pins and the end of streams.

use std::sync::Mutex;

use cachalot::{
    Allocator, Borrow, Error, HistoryOptions, Policy, PolicyStats, PoolFlags, PoolOptions,
    ReplayOptions, Route, Serving, Sim, SimCalls, SimFailure, SimLog, SimOptions, Trace,
};

const MIB: u64 = 1 << 20;
const FIRST: u64 = 0x10;
const SECOND: u64 = 0x20;

fn sim() -> Sim {
    Sim::new(SimOptions::new().capacity(1 << 30)).unwrap()
}

fn allocator(policy: impl Into<Policy>) -> Allocator {
    Allocator::builder().driver(sim()).config("").policy(policy).build().unwrap()
}

fn serving() -> Allocator {
    allocator(Serving::new())
}

#[test]
fn a_policy_is_read_and_written_as_text() {
    let most_options = Serving::new().thrift(true).page_bytes(8 * MIB).borrow(Borrow::AtLimit);
    for (text, policy) in [
        ("pytorch", Policy::PYTORCH),
        ("pytorch,page=2MiB", Policy::PyTorch { page_bytes: Some(2 * MIB) }),
        ("serving", Serving::new().into()),
        ("serving,streams=announced", Serving::new().announced_streams(true).into()),
        ("serving,thrift,page=8MiB,borrow=at_limit", most_options.into()),
        (
            "serving,thrift,page=8MiB,borrow=at_limit,streams=announced",
            most_options.announced_streams(true).into(),
        ),
        ("serving,page=64KiB", Serving::new().page_bytes(65536).into()),
        (
            "serving,page=1GiB,borrow=never",
            Serving::new().page_bytes(1 << 30).borrow(Borrow::Never).into(),
        ),
    ] {
        assert_eq!(text.parse::<Policy>().unwrap(), policy);
        assert_eq!(policy.to_string(), text);
    }
    let error = "serving,thrifty".parse::<Policy>().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
    assert!(
        error.to_string().starts_with("policy \"serving,thrifty\": expected pytorch"),
        "{error}"
    );
    assert!(matches!("serving\0".parse::<Policy>(), Err(Error::InvalidArgument(_))));
}

#[test]
fn the_policy_in_force_is_the_one_that_was_asked_for() {
    assert_eq!(allocator(Policy::PYTORCH).policy().unwrap(), Policy::PYTORCH);
    let page_bytes = Some(2 * MIB);
    let Policy::Serving(found) = serving().policy().unwrap() else { panic!("not serving") };
    assert_eq!((found.thrift, found.borrow, found.page_bytes), (false, Borrow::First, page_bytes));
    assert!(!found.announced_streams);
    let asked = Serving::new().thrift(true).borrow(Borrow::Never).page_bytes(4 * MIB);
    assert_eq!(allocator(asked).policy().unwrap(), asked.into());
    let asked = asked.announced_streams(true);
    assert_eq!(allocator(asked).policy().unwrap(), asked.into());
}

#[test]
fn pytorchs_decisions_may_have_pages_of_another_size() {
    let pages = Policy::PyTorch { page_bytes: Some(2 * MIB) };
    let builder = Allocator::builder().driver(sim()).config("expandable_segments:True");
    let allocator = builder.policy(pages).build().unwrap();
    assert_eq!(allocator.policy().unwrap(), pages);
    let _block = allocator.allocate(5 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.memory_reserved(0), 6 * MIB);
    assert_eq!(Policy::default(), Policy::PYTORCH);
}

#[test]
fn a_policy_that_cannot_be_is_refused() {
    let build =
        |policy: Policy| Allocator::builder().driver(sim()).config("").policy(policy).build();
    let error = build(Serving::new().page_bytes(3 * MIB).into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a page of 3145728 bytes: a page is a power of two, at most 1 GiB"
    );
    for policy in [Policy::Other(77), Serving::new().borrow(Borrow::Other(77)).into()] {
        assert!(matches!(build(policy).unwrap_err(), Error::InvalidArgument(_)));
    }
}

#[test]
fn a_block_of_another_stream_is_borrowed_and_waited_for() {
    let allocator = serving();
    let block = allocator.allocate(4 * MIB, 0, FIRST).unwrap();
    let address = block.address();
    drop(block);
    let borrowed = allocator.allocate(4 * MIB, 0, SECOND).unwrap();
    assert_eq!(borrowed.address(), address);
    let stats = allocator.policy_stats(0).unwrap();
    assert_eq!((stats.blocks_borrowed, stats.stream_waits, stats.host_waits), (1, 1, 0));
    assert_eq!((stats.pages_created, stats.pages_moved, stats.pages_released), (2, 0, 0));
    drop(borrowed);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.policy_stats(0).unwrap().pages_released, 2);
    assert!(matches!(allocator.policy_stats(9), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_borrower_waits_for_the_lender_alone_where_ends_of_streams_are_announced() {
    for (announced, call) in [(false, "event_record_all\n"), (true, "event_record 10\n")] {
        let sim = sim();
        let policy = Serving::new().announced_streams(announced);
        let allocator =
            Allocator::builder().driver(&sim).config("").policy(policy).build().unwrap();
        drop(allocator.allocate(4 * MIB, 0, FIRST).unwrap());
        sim.log_calls(SimLog::CALLS).unwrap();
        drop(allocator.allocate(4 * MIB, 0, SECOND).unwrap());
        let found = sim.read_calls().unwrap();
        assert!(found.contains(call), "{found}");
        assert_eq!(allocator.policy_stats(0).unwrap().stream_waits, 1);
    }
}

#[test]
fn a_stream_that_never_borrows_gets_the_idle_pages_of_another() {
    let allocator = allocator(Serving::new().borrow(Borrow::Never));
    drop(allocator.allocate(4 * MIB, 0, FIRST).unwrap());
    drop(allocator.allocate(4 * MIB, 0, SECOND).unwrap());
    let stats = allocator.policy_stats(0).unwrap();
    assert_eq!((stats.blocks_borrowed, stats.stream_waits), (0, 0));
    assert_eq!((stats.pages_created, stats.pages_moved, stats.host_waits), (2, 2, 0));
}

#[test]
fn nothing_waits_for_a_stream_that_has_ended() {
    let allocator = serving();
    drop(allocator.allocate(4 * MIB, 0, FIRST).unwrap());
    allocator.stream_ended(0, FIRST).unwrap();
    drop(allocator.allocate(4 * MIB, 0, SECOND).unwrap());
    let stats = allocator.policy_stats(0).unwrap();
    assert_eq!((stats.blocks_borrowed, stats.stream_waits), (1, 0));
    assert!(matches!(allocator.stream_ended(9, FIRST), Err(Error::InvalidArgument(_))));
    let capture = allocator.capture(0).unwrap();
    let error = allocator.stream_ended(0, SECOND).unwrap_err();
    assert!(matches!(error, Error::InvalidState(_)));
    assert_eq!(
        error.to_string(),
        "the end of a stream cannot be told while a capture may be under way"
    );
    drop(capture);
    allocator.stream_ended(0, SECOND).unwrap();
}

#[test]
fn a_stream_whose_work_has_failed_has_not_ended() {
    let sim = sim();
    let allocator =
        Allocator::builder().driver(&sim).config("").policy(Serving::new()).build().unwrap();
    drop(allocator.allocate(4 * MIB, 0, FIRST).unwrap());
    sim.fail(SimFailure::new(SimCalls::SYNCHRONIZE, 700).count(2)).unwrap();
    assert!(matches!(allocator.stream_ended(0, FIRST), Err(Error::Driver(_))));
    drop(allocator.allocate(4 * MIB, 0, SECOND).unwrap());
    assert_eq!(allocator.policy_stats(0).unwrap().stream_waits, 1);
}

#[test]
fn pinned_pages_outlive_their_block_and_an_emptied_cache() {
    let allocator = serving();
    let block = allocator.allocate(8 * MIB, 0, FIRST).unwrap();
    let address = block.address();
    let whole = block.pin().unwrap();
    let part = block.pin_range(3 * MIB, MIB).unwrap();
    assert_eq!((part.address(), part.size()), (address + 3 * MIB, MIB));
    assert_eq!((whole.address(), whole.size()), (address, 8 * MIB));
    drop(block);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 8 * MIB);
    drop(whole);
    assert_eq!(allocator.policy_stats(0).unwrap().pinned_bytes, 2 * MIB);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 2 * MIB);
    let moved = std::thread::spawn(move || part.unpin());
    moved.join().unwrap().unwrap();
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 0);
}

#[test]
fn a_pinned_segment_stays_with_pytorchs_decisions_too() {
    let allocator = allocator(Policy::PYTORCH);
    let block = allocator.allocate(12 * MIB, 0, 0).unwrap();
    let pin = block.pin().unwrap();
    drop(block);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 12 * MIB);
    let expected = PolicyStats::default();
    let found = allocator.policy_stats(0).unwrap();
    assert_eq!((found.pages_created, found.pinned_bytes), (expected.pages_created, 12 * MIB));
    drop(pin);
    assert_eq!(allocator.policy_stats(0).unwrap(), expected);
}

#[test]
fn a_pin_keeps_its_allocator() {
    let sim = sim();
    sim.log_calls(SimLog::CALLS).unwrap();
    let allocator = Allocator::builder().driver(&sim).config("").build().unwrap();
    let pin = allocator.allocate(12 * MIB, 0, 0).unwrap().pin().unwrap();
    let (allocator, error) = allocator.close().unwrap_err();
    assert_eq!(error.to_string(), "1 other owners of this allocator are left");
    assert_eq!(pin.allocator(), &allocator);
    drop(allocator);
    assert!(!sim.read_calls().unwrap().contains("free "));
    pin.unpin().unwrap();
    assert!(sim.read_calls().unwrap().contains("free "), "the allocator ended with its pin");
}

#[test]
fn a_pin_that_is_dropped_under_a_lock_ends_when_the_call_returns() {
    let allocator = allocator(Policy::PYTORCH);
    let block = allocator.allocate(12 * MIB, 0, 0).unwrap();
    let kept = Mutex::new(Some(block.pin().unwrap()));
    allocator.record_history(&HistoryOptions::recording(10)).unwrap();
    let observer = allocator.observe_trace(move |_| drop(kept.lock().unwrap().take())).unwrap();
    drop(block);
    drop(observer);
    assert_eq!(allocator.policy_stats(0).unwrap().pinned_bytes, 0);
}

#[test]
fn what_is_no_part_of_a_live_block_cannot_be_pinned() {
    let allocator = serving();
    let block = allocator.allocate(4 * MIB, 0, FIRST).unwrap();
    let address = block.address();
    let refused = |address, size| {
        let error = allocator.pin(address, size).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)));
        error.to_string()
    };
    assert_eq!(refused(address, 0), "0 bytes cannot be pinned");
    let outside =
        format!("{} bytes at {address:#x} do not lie in one live block of the cache", 5 * MIB);
    assert_eq!(refused(address, 5 * MIB), outside);
    for (offset, size) in [(MIB, 4 * MIB), (4 * MIB + 1, 0), (u64::MAX, 2)] {
        assert!(matches!(block.pin_range(offset, size), Err(Error::InvalidArgument(_))));
    }
    drop(block);
    refused(address, 1);
    let empty = allocator.allocate(0, 0, FIRST).unwrap();
    assert!(matches!(empty.pin(), Err(Error::InvalidArgument(_))));
    let driver_keeps_it =
        Allocator::builder().driver(sim()).config("backend:cudaMallocAsync").build().unwrap();
    let block = driver_keeps_it.allocate(MIB, 0, 0).unwrap();
    assert!(matches!(block.pin(), Err(Error::NotSupported(_))));
}

#[test]
fn a_pinned_pool_keeps_its_memory_once_it_was_released() {
    let allocator = serving();
    let options = PoolOptions::new().flags(PoolFlags::PINNED | PoolFlags::NO_SPLIT);
    let pool = allocator.create_pool(0, options).unwrap();
    let key = allocator.pool(0, pool.id());
    {
        let _scope = pool.route(Route::ThisThread).unwrap();
        drop(allocator.allocate(4 * MIB, 0, FIRST).unwrap());
    }
    drop(pool);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 4 * MIB);
    key.set_pinned(false).unwrap();
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(0), 0);
    assert!(matches!(key.set_pinned(true), Err(Error::InvalidState(_))));
}

#[test]
fn a_whole_block_is_an_allocation_of_the_driver() {
    let allocator = allocator(Policy::PYTORCH);
    let pool = allocator.create_pool(0, PoolOptions::new().flags(PoolFlags::WHOLE_BLOCKS)).unwrap();
    pool.set_whole_blocks().unwrap();
    let scope = pool.route(Route::ThisThread).unwrap();
    let blocks = [(); 2].map(|()| allocator.allocate(5000, 0, 0).unwrap());
    for block in &blocks {
        assert_eq!(allocator.base_allocation(block.address()).unwrap(), (block.address(), 5120));
    }
    drop(scope);
    let usual = allocator.create_pool(0, PoolOptions::new()).unwrap();
    let scope = usual.route(Route::ThisThread).unwrap();
    drop(allocator.allocate(MIB, 0, 0).unwrap());
    drop(scope);
    assert!(matches!(usual.set_whole_blocks(), Err(Error::InvalidState(_))));
}

#[test]
fn a_replay_makes_the_decisions_of_its_policy() {
    let recorded = allocator(Policy::PYTORCH);
    recorded.record_history(&HistoryOptions::recording(10)).unwrap();
    drop(recorded.allocate(5 * MIB, 0, 0).unwrap());
    let mut file = Vec::new();
    recorded.snapshot().unwrap().write_trace(&mut file, None, "one block").unwrap();
    let trace = Trace::read(&file[..]).unwrap();
    let reserved = |options: ReplayOptions<'_>| {
        trace.replay(options.capacity(1 << 30)).unwrap().result().peak_reserved
    };
    assert_eq!(reserved(ReplayOptions::new()), 20 * MIB);
    assert_eq!(reserved(ReplayOptions::new().policy(Policy::PYTORCH)), 20 * MIB);
    assert_eq!(reserved(ReplayOptions::new().policy(Serving::new())), 6 * MIB);
    let pages = Serving::new().page_bytes(8 * MIB);
    let replay = trace.replay(ReplayOptions::new().policy(pages)).unwrap();
    assert_eq!(replay.result().peak_reserved, 8 * MIB);
    assert_eq!(replay.allocator().policy().unwrap(), pages.into());
    let expecting = ReplayOptions::new().policy(pages).expect(true);
    assert!(matches!(trace.replay(expecting), Err(Error::InvalidArgument(_))));
}
