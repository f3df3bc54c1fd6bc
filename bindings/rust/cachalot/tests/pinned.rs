// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pinned host memory.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot::{
    Address, Allocator, Driver, Error, Observer, PinnedBlock, PoolFlags, PoolId, PoolOptions,
    PoolSource, Route, Sim, SimCalls, SimFailure, SimLog, SimOptions, Stream, TenantOptions,
};

const MIB: u64 = 1 << 20;
const STREAM: u64 = 0x10;

fn sim() -> Sim {
    Sim::new(SimOptions::new().capacity(1 << 30).device_count(2)).unwrap()
}

fn over(driver: &Driver) -> Allocator {
    Allocator::builder().driver(driver).config("").build().unwrap()
}

fn cached_as_a_devices(driver: &Driver) -> Allocator {
    Allocator::builder().driver(driver).config("").pinned_config("").build().unwrap()
}

/// One of each way to cache, over each driver that has memory here.
fn all() -> Vec<Allocator> {
    let (host, sim) = (Driver::host(1 << 30, 2).unwrap(), sim());
    vec![over(&host), over(&sim), cached_as_a_devices(&host), cached_as_a_devices(&sim)]
}

#[test]
fn a_block_is_a_slice_of_zeros_that_can_be_written() {
    for allocator in all() {
        for size in [1, 511, 4097, 3 * MIB] {
            let mut block = allocator.allocate_pinned(size).unwrap();
            assert_eq!((block.len() as u64, block.address() % 512), (size, 0));
            assert!(block.block_size().unwrap() >= size);
            assert!(block.iter().all(|&byte| byte == 0));
            block.fill(7);
            *block.last_mut().unwrap() = 9;
            let moved = block;
            assert_eq!(moved.as_slice().iter().filter(|&&byte| byte == 9).count(), 1);
            drop(moved);
            // The same memory again, with zeros again.
            assert!(allocator.allocate_pinned(size).unwrap().iter().all(|&byte| byte == 0));
        }
        allocator.check().unwrap();
        assert_eq!(allocator.pinned_stats().unwrap().active_requests.current, 0);
        allocator.close().unwrap();
    }
}

#[test]
fn bytes_that_nobody_has_written_have_a_type_of_their_own() {
    for allocator in all() {
        let mut block: PinnedBlock<MaybeUninit<u8>> =
            allocator.allocate_pinned_uninit(1000).unwrap();
        for (number, byte) in block.as_mut_slice().iter_mut().enumerate() {
            byte.write(number as u8);
        }
        let address = block.address();
        // SAFETY: all bytes were written.
        let block = unsafe { block.assume_init() };
        assert_eq!((block.address(), block[255], block[256]), (address, 255, 0));
        assert_eq!(*allocator.allocate_pinned_copy(&block).unwrap(), *block);
        assert!(allocator.allocate_pinned_uninit(1000).unwrap().zero().iter().all(|&b| b == 0));
    }
}

#[test]
fn a_request_of_no_bytes_gives_an_empty_block() {
    for allocator in all() {
        let mut block = allocator.allocate_pinned(0).unwrap();
        assert_eq!((block.address(), block.len()), (0, 0));
        assert_eq!(block.as_mut_slice(), &mut []);
        assert!(matches!(block.block_size(), Err(Error::InvalidArgument(_))));
        assert!(matches!(block.record_stream(0, STREAM), Err(Error::InvalidArgument(_))));
        block.free().unwrap();
        assert_eq!(allocator.pinned_stats().unwrap().allocations.allocated, 0);
        // SAFETY: an empty slice is no block.
        drop(unsafe { allocator.adopt_pinned_raw(allocator.allocate_pinned(0).unwrap().leak()) });
    }
}

#[test]
fn a_size_that_no_memory_has_is_an_error() {
    for allocator in all() {
        for size in [u64::MAX, 1 << 63, (1 << 63) - 1] {
            assert!(allocator.allocate_pinned_uninit(size).is_err());
        }
        assert_eq!(allocator.pinned_stats().unwrap().allocations.current, 0);
    }
}

#[test]
fn a_block_keeps_its_allocator_and_goes_to_any_thread() {
    let mut block = over(&Driver::host(0, 1).unwrap()).allocate_pinned(4096).unwrap();
    let block = std::thread::spawn(move || {
        block[5] = 1;
        block
    });
    let block = block.join().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(block[5], 1));
        scope.spawn(|| assert_eq!(block.allocator().driver().name(), "host"));
    });
    let allocator = block.allocator().clone();
    let (allocator, error) = allocator.close().unwrap_err();
    assert!(matches!(error, Error::InvalidState(_)));
    drop(block);
    allocator.close().unwrap();
}

#[test]
fn a_block_that_a_stream_uses_waits_for_it_after_its_free() {
    for config in [None, Some("")] {
        let sim = sim();
        let builder = Allocator::builder().driver(&sim).config("");
        let builder = match config {
            Some(config) => builder.pinned_config(config),
            None => builder,
        };
        let allocator = builder.build().unwrap();
        let block = allocator.allocate_pinned_uninit(2 * MIB).unwrap();
        let address = block.address();
        sim.queue_work(1, STREAM).unwrap();
        block.record_stream(1, STREAM).unwrap();
        assert!(matches!(block.record_stream(2, STREAM), Err(Error::InvalidArgument(_))));
        block.free().unwrap();
        let other = allocator.allocate_pinned_uninit(2 * MIB).unwrap();
        assert_ne!(other.address(), address);
        sim.finish_stream(1, STREAM).unwrap();
        assert_eq!(allocator.allocate_pinned_uninit(2 * MIB).unwrap().address(), address);
    }
}

#[test]
fn the_drivers_calls_are_counted_and_can_fail() {
    let sim = sim();
    let allocator = over(&sim);
    sim.log_calls(SimLog::CALLS).unwrap();
    drop(allocator.allocate_pinned_uninit(3000).unwrap());
    let stats = allocator.pinned_stats().unwrap();
    assert_eq!((stats.allocations.current, stats.allocated_bytes.current), (1, 4096));
    assert_eq!((stats.active_requests.current, stats.active_requests.allocated), (0, 1));
    assert_eq!((stats.allocate_times.count, stats.free_times.count), (1, 0));
    allocator.empty_pinned_cache().unwrap();
    assert_eq!(sim.read_calls().unwrap(), "host_alloc 4096\nhost_free\n");
    let stats = allocator.pinned_stats().unwrap();
    assert_eq!((stats.allocations.current, stats.allocations.peak), (0, 1));
    assert_eq!(stats.free_times.count, 1);
    allocator.reset_pinned_peak_stats().unwrap();
    allocator.reset_pinned_accumulated_stats().unwrap();
    let stats = allocator.pinned_stats().unwrap();
    assert_eq!((stats.allocations.peak, stats.allocations.allocated), (0, 0));
    assert_eq!((stats.allocate_times.count, stats.free_times.max), (0, 0));

    sim.fail(SimFailure::out_of_memory(SimCalls::HOST_ALLOCATE)).unwrap();
    let error = allocator.allocate_pinned(1).unwrap_err();
    assert_eq!(error.driver_code(), Some(SimFailure::OUT_OF_MEMORY), "{error}");
    drop(allocator.allocate_pinned(1).unwrap());
    sim.fail(SimFailure::new(SimCalls::HOST_FREE, 700)).unwrap();
    assert_eq!(allocator.empty_pinned_cache().unwrap_err().driver_code(), Some(700));
}

#[test]
fn pinned_memory_is_not_device_memory() {
    for allocator in all() {
        let block = allocator.allocate_pinned(4096).unwrap();
        assert!(matches!(allocator.free(block.address()), Err(Error::InvalidArgument(_))));
        assert!(matches!(allocator.adopt(block.address()), Err(Error::InvalidArgument(_))));
        assert_eq!(allocator.stats(0).unwrap().allocation.all.current, 0);
        assert_eq!(block[4095], 0);
    }
}

#[test]
fn a_leaked_block_is_taken_back_by_its_slice() {
    for allocator in all() {
        let mut block = allocator.allocate_pinned(4096).unwrap();
        block[1] = 5;
        let leaked = block.leak();
        let (allocator, error) = allocator.close().unwrap_err();
        assert!(error.to_string().contains("1 block is still live"), "{error}");
        // SAFETY: it was leaked just before, by this allocator.
        let block = unsafe { allocator.adopt_pinned_raw(leaked) };
        assert_eq!(block[1], 5);
        drop(block);
        let _ = allocator.allocate_pinned(4096).unwrap().leak();
        allocator.close_all().unwrap();
    }
}

#[test]
fn a_block_that_is_dropped_under_a_lock_is_freed_later() {
    let allocator = over(&sim());
    let kept = Arc::new(Mutex::new(Some(allocator.allocate_pinned(4096).unwrap())));
    let (shared, weak) = (kept.clone(), allocator.downgrade());
    let refused = Arc::new(AtomicU64::new(0));
    let count = refused.clone();
    let observer: Observer = allocator
        .observe_trace(move |_| {
            let Some(block) = shared.lock().unwrap().take() else { return };
            let allocator = weak.upgrade().unwrap();
            let results = [
                allocator.allocate_pinned(1).map(drop),
                allocator.pinned_stats().map(drop),
                block.record_stream(0, STREAM),
                allocator
                    .route_pinned(0, PoolId::of_graph(1), Route::predicate(|_| true))
                    .map(drop),
            ];
            for result in results {
                assert!(matches!(result, Err(Error::InvalidState(_))));
                count.fetch_add(1, Ordering::Relaxed);
            }
            drop(block);
        })
        .unwrap();
    let block = allocator.allocate(512, 0, 0).unwrap();
    assert_eq!(refused.load(Ordering::Relaxed), 4);
    assert!(kept.lock().unwrap().is_none());
    assert_eq!(allocator.pinned_stats().unwrap().active_requests.current, 0);
    drop((observer, block));
}

#[test]
fn a_graph_keeps_its_pool_until_it_is_gone() {
    let sim = sim();
    let allocator = over(&sim);
    let id = allocator.new_pool_id(true).unwrap();
    sim.begin_capture(0, STREAM, 7).unwrap();
    let capture = allocator.route_pinned(0, id, Route::Capture(7)).unwrap();
    assert!(matches!(allocator.route_pinned(0, id, Route::All), Err(Error::InvalidState(_))));
    let outside = allocator.allocate_pinned_uninit(4096).unwrap();
    let inside = allocator.allocate_pinned_uninit_on_stream(4096, 0, STREAM).unwrap();
    let address = inside.address();
    drop((inside, outside));
    // The pool has a cache of its own.
    let again = allocator.allocate_pinned_uninit_on_stream(4096, 0, Stream(STREAM)).unwrap();
    assert_eq!(again.address(), address);
    let pool = capture.end().unwrap();
    assert!(matches!(pool.end(), Err(Error::InvalidState(_))));
    sim.end_capture(0, 7).unwrap();
    drop(again);
    allocator.empty_pinned_cache().unwrap();
    assert_eq!(allocator.pinned_stats().unwrap().allocations.current, 1, "the graph's");
    assert_eq!((pool.id(), pool.allocator()), (id, &allocator));
    let key = allocator.pinned_pool(pool.id());
    drop(pool);
    assert!(matches!(key.release(), Err(Error::InvalidState(_))));
    allocator.empty_pinned_cache().unwrap();
    assert_eq!(allocator.pinned_stats().unwrap().allocations.current, 0);
    assert!(matches!(key.release(), Err(Error::InvalidArgument(_))));
    assert!(matches!(key.begin(2, Route::All), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_routing_ends_with_its_guard() {
    let allocator = over(&Driver::host(0, 1).unwrap());
    let id = PoolId::of_user(1);
    let scope = allocator.route_pinned(0, id, Route::predicate(|_| true)).unwrap();
    drop(allocator.allocate_pinned(4096).unwrap());
    drop(scope);
    let key = allocator.pinned_pool(id);
    assert!(matches!(key.end(), Err(Error::InvalidState(_))));
    assert!(matches!(key.release(), Err(Error::InvalidState(_))));
    assert!(matches!(key.begin(0, Route::All), Err(Error::InvalidState(_))), "it was released");
}

#[test]
fn where_pinned_memory_is_cached_as_a_devices_it_has_an_allocator_of_its_own() {
    let allocator = cached_as_a_devices(&sim());
    let pinned = allocator.pinned_allocator().unwrap();
    assert_eq!(allocator.pinned_allocator().unwrap(), pinned);
    assert_ne!(pinned, allocator);
    assert!(pinned.pinned_allocator().is_none());
    assert_eq!((pinned.driver().name(), pinned.driver().device_count()), ("pinned", 1));
    let block = allocator.allocate_pinned(4096).unwrap();
    assert_eq!(pinned.memory_allocated(0), 4096);
    assert_eq!(allocator.memory_allocated(0), 0);
    assert_eq!(pinned.block_at(block.address()).unwrap().requested, 4096);
    assert!(matches!(pinned.free(block.address()), Err(Error::InvalidState(_))));
    pinned.set_memory_limit(0, Some(4 * MIB)).unwrap();
    let error = allocator.allocate_pinned(64 * MIB).unwrap_err();
    assert!(matches!(error, Error::OutOfHostMemory(_)), "{error}");
    assert!(error.to_string().contains("out of pinned memory"), "{error}");
    let routed = allocator.route_pinned(0, PoolId::of_graph(1), Route::All);
    assert!(matches!(routed, Err(Error::NotSupported(_))));
    let (pinned, error) = pinned.close_all().unwrap_err();
    assert!(matches!(error, Error::InvalidState(_)));
    pinned.check().unwrap();
    drop(block);
    assert!(pinned.trim(0, 0, Duration::ZERO).unwrap() > 0);
    assert_eq!(allocator.pinned_stats().unwrap().allocated_bytes.current, 0);
    let (allocator, error) = allocator.close().unwrap_err();
    assert!(error.to_string().contains("other owners"), "{error}");
    drop(pinned);
    allocator.close().unwrap();
}

#[test]
fn tenants_and_leaked_blocks_of_pinned_memory_outlive_the_handle() {
    let allocator = cached_as_a_devices(&sim());
    let pinned = || allocator.pinned_allocator().unwrap();
    let tenant = pinned().create_tenant(TenantOptions::new("a model")).unwrap();
    let block = {
        let _scope = tenant.enter().unwrap();
        allocator.allocate_pinned(4096).unwrap()
    };
    assert_eq!(tenant.stats(0).unwrap().allocated_bytes.current, 4096);
    drop(tenant); // The block is still its.
    let leaked = pinned().allocate(512, 0, 0).unwrap().leak();
    drop(block);
    pinned().free(leaked).unwrap();
    allocator.close().unwrap();
}

#[test]
fn without_an_option_string_there_is_no_such_allocator() {
    let sim = sim();
    assert!(over(&sim).pinned_allocator().is_none());
    let build = |config: &str| Allocator::builder().driver(&sim).pinned_config(config).build();
    assert!(matches!(build("nonsense:1").unwrap_err(), Error::InvalidArgument(_)));
    assert!(matches!(build("a\0b").unwrap_err(), Error::InvalidArgument(_)));
    assert!(build("expandable_segments:True").is_err());
    assert!(build("backend:cudaMallocAsync").is_err());
}

/// Numbers that are no memory, as the interface lets a source give them.
struct Numbers;

impl PoolSource for Numbers {
    fn allocate(&self, _size: u64, _device: i32, _stream: Stream) -> Option<Address> {
        Some(0x4000_0000)
    }

    fn free(&self, _address: Address, _size: u64, _device: i32, _stream: Stream) {}
}

#[test]
fn a_pool_of_pinned_memory_has_no_source() {
    let allocator = cached_as_a_devices(&sim());
    let pinned = allocator.pinned_allocator().unwrap();
    let options = PoolOptions::new().flags(PoolFlags::NONE).source(Numbers);
    assert!(matches!(pinned.create_pool(0, options), Err(Error::NotSupported(_))));
    assert_eq!(allocator.allocate_pinned(4096).unwrap()[0], 0);
}
