// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who owns what, and in which order things may be dropped.

use std::sync::{Arc, Mutex};

use cachalot::{
    Allocator, Driver, Error, LogLevel, PoolOptions, Route, Sim, SimLog, SimOptions, Stream,
};

fn sim() -> Sim {
    Sim::new(SimOptions::new().capacity(1 << 30)).unwrap()
}

fn allocator(sim: &Sim) -> Allocator {
    Allocator::builder().driver(sim).config("").build().unwrap()
}

#[test]
fn a_block_goes_back_when_it_is_dropped() {
    let allocator = allocator(&sim());
    let block = allocator.allocate(1 << 20, 0, 0).unwrap();
    let address = block.address();
    assert_eq!(allocator.memory_allocated(0), 1 << 20);
    assert_eq!(block.info().unwrap().requested, 1 << 20);
    drop(block);
    assert_eq!(allocator.memory_allocated(0), 0);
    let again = allocator.allocate_borrowed(1 << 20, 0, 0).unwrap();
    assert_eq!(again.address(), address);
    let owned = again.into_owned();
    assert_eq!(owned.address(), address);
    owned.free().unwrap();
    assert_eq!(allocator.memory_allocated(0), 0);
}

#[test]
fn a_use_by_all_streams_is_waited_for_also_by_a_block_of_none() {
    let sim = sim();
    let allocator = allocator(&sim);
    let block = allocator.allocate(20 << 20, 0, Stream::ALL).unwrap();
    let address = block.address();
    block.record_stream(Stream::ALL).unwrap();
    for stream in [5, 6] {
        sim.queue_work(0, stream).unwrap();
    }
    drop(block);
    sim.finish_stream(0, 5).unwrap();
    let early = allocator.allocate(20 << 20, 0, Stream::ALL).unwrap();
    assert_ne!(early.address(), address, "stream 6 has not finished");
    sim.finish_stream(0, 6).unwrap();
    assert_eq!(allocator.allocate(20 << 20, 0, Stream::ALL).unwrap().address(), address);
    assert!(matches!(allocator.stream_ended(0, Stream::ALL), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_block_outlives_the_allocator_and_the_allocator_its_driver() {
    let sim = sim();
    sim.log_calls(SimLog::CALLS).unwrap();
    let watched = sim.clone();
    let allocator = allocator(&sim);
    drop(sim);
    let block = allocator.allocate(512, 0, 0).unwrap();
    drop(allocator);
    assert!(!watched.read_calls().unwrap().contains("free"));
    block.record_stream(0x10).unwrap();
    drop(block);
    assert!(watched.read_calls().unwrap().contains("free "), "the allocator ended with its block");
}

#[test]
fn a_driver_may_go_before_its_allocator() {
    let driver = Driver::open("sim:1GiB").unwrap();
    let allocator = Allocator::builder().driver(&driver).config("").build().unwrap();
    drop(driver);
    assert_eq!(allocator.driver().name(), "sim");
    assert_eq!(allocator.allocate(512, 0, 0).unwrap().allocator(), &allocator);
}

#[test]
fn scopes_guards_and_pools_outlive_the_allocators_own_handle() {
    let allocator = allocator(&sim());
    let pool = allocator.create_pool(0, PoolOptions::new()).unwrap();
    let scope = pool.route(Route::All).unwrap();
    let guard = allocator.empty_cache_on_drop();
    let capture = allocator.capture(0).unwrap();
    let block = allocator.allocate(512, 0, 0).unwrap();
    let observer = allocator.observe_trace(|_| {}).unwrap();
    drop(allocator);
    drop(pool);
    drop(block);
    drop(scope);
    drop(observer);
    drop(capture);
    drop(guard);
}

#[test]
fn a_leaked_block_is_adopted_once() {
    let allocator = allocator(&sim());
    let owned = allocator.allocate(512, 0, 0).unwrap();
    assert!(matches!(allocator.adopt(owned.address()), Err(Error::InvalidState(_))));
    assert!(matches!(allocator.free(owned.address()), Err(Error::InvalidState(_))));
    let address = owned.leak();
    assert_eq!(allocator.memory_allocated(0), 512);
    let back = allocator.adopt(address).unwrap();
    assert!(allocator.adopt(address).is_err());
    drop(back);
    let error = allocator.free(address).unwrap_err();
    assert_eq!(error.to_string(), format!("invalid device pointer: {address:#x}"));
    let other = allocator.allocate(512, 0, 0).unwrap().leak();
    allocator.free(other).unwrap();
    allocator.free(0).unwrap();
    assert_eq!(allocator.adopt(0).unwrap().address(), 0);
    assert_eq!(allocator.memory_allocated(0), 0);
}

#[test]
fn closing_tells_what_is_left() {
    let allocator = allocator(&sim());
    let block = allocator.allocate(512, 0, 0).unwrap();
    let (allocator, error) = allocator.close().unwrap_err();
    assert_eq!(error.to_string(), "1 other owners of this allocator are left");
    block.leak();
    let (allocator, error) = allocator.close().unwrap_err();
    assert_eq!(error.to_string(), "1 block is still live");
    allocator.close_all().unwrap();
}

#[test]
fn dropping_with_leaked_blocks_keeps_the_allocator_and_says_so() {
    let sim = sim();
    sim.log_calls(SimLog::CALLS).unwrap();
    let remarks = Arc::new(Mutex::new(Vec::new()));
    let seen = remarks.clone();
    let allocator = Allocator::builder()
        .driver(&sim)
        .config("")
        .log(move |level, message| seen.lock().unwrap().push((level, message.to_owned())))
        .build()
        .unwrap();
    allocator.allocate(512, 0, 0).unwrap().leak();
    drop(allocator);
    let expected = "an allocator was left behind: 1 block is still live".to_owned();
    assert_eq!(*remarks.lock().unwrap(), [(LogLevel::LeftBehind, expected)]);
    assert!(!sim.read_calls().unwrap().contains("free"));
}

#[test]
fn a_snapshot_and_a_report_outlive_everything() {
    let allocator = allocator(&sim());
    let block = allocator.allocate(512, 0, 0).unwrap();
    let snapshot = allocator.snapshot().unwrap();
    let report = allocator.report(&cachalot::ReportOptions::device(0)).unwrap();
    drop(block);
    drop(allocator);
    assert_eq!(snapshot.segments().count(), 1);
    assert_eq!(snapshot.to_data().segments[0].allocated_size, 512);
    assert_eq!(report.holders()[0].bytes, 512);
}
