// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools that sleep.

use cachalot::{
    Allocator, Block, Driver, Error, Label, Pool, PoolId, PoolOptions, PoolState, ReportOptions,
    Route, SleepContents, SleepStats, TenantOptions,
};

const MIB: u64 = 1 << 20;

fn over(driver: &str) -> Allocator {
    let builder = Allocator::builder().driver(Driver::open(driver).unwrap());
    builder.config("expandable_segments:True").track_labels(true).build().unwrap()
}

fn pool_of(allocator: &Allocator) -> Pool {
    allocator.create_pool(0, PoolOptions::new()).unwrap()
}

fn block_of(pool: &Pool, size: u64) -> Block {
    let _scope = pool.route(Route::ThisThread).unwrap();
    pool.allocator().allocate(size, 0, 0).unwrap()
}

/// Nobody uses the memory of a pool of these tests while it sleeps.
fn sleep(pool: &Pool, contents: SleepContents) -> cachalot::Result<u64> {
    // SAFETY: as above.
    unsafe { pool.sleep(contents, 0) }
}

fn is_state<T: std::fmt::Debug>(result: cachalot::Result<T>) {
    assert!(matches!(result, Err(Error::InvalidState(_))), "{result:?}");
}

/// The bytes of a block of the driver `host`, whose pool is awake.
fn bytes_of(block: &mut Block) -> &mut [u8] {
    let info = block.info().unwrap();
    let first = std::ptr::with_exposed_provenance_mut(info.address as usize);
    // SAFETY: the block has so many bytes, which its driver has cleared.
    unsafe { std::slice::from_raw_parts_mut(first, info.requested as usize) }
}

#[test]
fn a_pool_that_sleeps_gives_its_memory_back_and_gets_it_again() {
    let allocator = over("sim:1GiB");
    let pool = pool_of(&allocator);
    let block = block_of(&pool, 30 * MIB);
    assert_eq!(sleep(&pool, SleepContents::Keep).unwrap(), 40 * MIB);
    assert_eq!(allocator.memory_reserved(0), 0);
    let stats = pool.sleep_stats().unwrap();
    assert_eq!((stats.state, stats.pools, stats.blocks), (PoolState::Asleep, 1, 1));
    assert_eq!((stats.allocated_bytes, stats.asleep_bytes), (30 * MIB, 40 * MIB));
    assert!(stats.kept_bytes >= 30 * MIB);
    let of_device = allocator.sleep_stats(0).unwrap();
    assert_eq!((of_device.state, of_device.asleep_bytes), (PoolState::Awake, 40 * MIB));
    assert_eq!((of_device.num_sleeps, of_device.num_wakes), (1, 0));
    let report = allocator.report(&ReportOptions::device(0)).unwrap();
    assert_eq!(report.numbers().asleep, 40 * MIB);
    pool.wake(0).unwrap();
    assert_eq!(allocator.memory_reserved(0), 40 * MIB);
    assert_eq!(block.info().unwrap().requested, 30 * MIB);
    assert_eq!(pool.sleep_stats().unwrap(), SleepStats::default());
    assert_eq!(allocator.sleep_stats(0).unwrap().num_wakes, 1);
}

#[test]
fn contents_are_kept_or_discarded() {
    let allocator = over("host:1GiB");
    let pool = pool_of(&allocator);
    let mut block = block_of(&pool, 30 * MIB);
    bytes_of(&mut block).fill(17);
    for (contents, expected) in
        [(SleepContents::Keep, 17), (SleepContents::KeepAll, 17), (SleepContents::Discard, 0)]
    {
        sleep(&pool, contents).unwrap();
        pool.wake(0).unwrap();
        assert!(bytes_of(&mut block).iter().all(|byte| *byte == expected), "{contents:?}");
    }
}

#[test]
fn contents_are_kept_by_label() {
    let allocator = over("host:1GiB");
    let pool = pool_of(&allocator);
    let [mut weights, mut cache] = ["weights", "cache"].map(|label| {
        let mut block = Label::with(label, || block_of(&pool, 40 * MIB)).unwrap();
        bytes_of(&mut block).fill(17);
        block
    });
    let set = |label, contents| {
        // SAFETY: the blocks have bytes, of any value.
        unsafe { pool.set_sleep_contents(label, contents) }
    };
    set("cache", SleepContents::Discard).unwrap();
    sleep(&pool, SleepContents::Keep).unwrap();
    pool.wake(0).unwrap();
    assert!(bytes_of(&mut weights).iter().all(|byte| *byte == 17));
    assert!(bytes_of(&mut cache).iter().all(|byte| *byte == 0));
    for refused in [set("cache", SleepContents::KeepAll), set("a\0b", SleepContents::Keep)] {
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
}

#[test]
fn while_a_pool_sleeps_its_blocks_can_only_be_dropped() {
    let allocator = over("sim:1GiB");
    let pool = pool_of(&allocator);
    let block = block_of(&pool, 30 * MIB);
    let leaked = block_of(&pool, MIB).leak();
    is_state(pool.wake(0));
    sleep(&pool, SleepContents::Discard).unwrap();
    is_state(sleep(&pool, SleepContents::Discard));
    is_state(block.info());
    is_state(block.record_stream(5));
    is_state(block.pin());
    is_state(pool.route(Route::None).map(drop));
    is_state(allocator.adopt(block.address()));
    assert_eq!(pool.use_count().unwrap(), 1);
    drop(block);
    drop(allocator.adopt(leaked).unwrap());
    assert_eq!(pool.sleep_stats().unwrap().blocks, 0);
    pool.wake(0).unwrap();
    allocator.check().unwrap();
}

#[test]
fn what_cannot_sleep_is_refused() {
    let allocator = over("sim:1GiB");
    let pool = pool_of(&allocator);
    let block = block_of(&pool, MIB);
    let scope = pool.route(Route::None).unwrap();
    is_state(sleep(&pool, SleepContents::Discard));
    drop(scope);
    let pin = block.pin().unwrap();
    is_state(sleep(&pool, SleepContents::Discard));
    drop(pin);
    let unknown = allocator.pool(0, PoolId { first: 0, second: 99 });
    is_state(unknown.sleep_stats());
    is_state(unknown.wake(0));
    assert!(matches!(allocator.sleep_stats(9), Err(Error::InvalidArgument(_))));
    let builder = Allocator::builder().driver(Driver::open("sim:1GiB").unwrap());
    let plain = pool_of(&builder.config("").build().unwrap());
    let _plain = block_of(&plain, MIB);
    assert!(matches!(sleep(&plain, SleepContents::Discard), Err(Error::NotSupported(_))));
    // SAFETY: the pool does not sleep.
    is_state(unsafe { plain.set_sleep_contents("cache", SleepContents::Keep) });
}

#[test]
fn a_pool_that_finds_no_memory_sleeps_on() {
    let allocator = over("sim:64MiB");
    let pool = pool_of(&allocator);
    let block = block_of(&pool, 30 * MIB);
    sleep(&pool, SleepContents::Keep).unwrap();
    let other = allocator.allocate(60 * MIB, 0, 0).unwrap();
    let Err(Error::OutOfMemory(numbers)) = pool.wake(0) else { panic!("there is memory") };
    assert_eq!(numbers.requested, 40 * MIB);
    assert_eq!(pool.sleep_stats().unwrap().state, PoolState::Asleep);
    drop(other);
    pool.wake(0).unwrap();
    assert_eq!(block.info().unwrap().requested, 30 * MIB);
}

#[test]
fn a_pool_of_a_tenant_falls_asleep_for_another() {
    let allocator = over("sim:64MiB");
    let tenant = |name, priority| {
        allocator.create_tenant(TenantOptions::new(name).priority(priority)).unwrap()
    };
    let (idle, busy) = (tenant("idle", 0), tenant("busy", 1));
    let pool = pool_of(&allocator);
    let block = {
        let _scope = pool.route(Route::ThisThread).unwrap();
        idle.allocate(30 * MIB, 0, 0).unwrap()
    };
    // SAFETY: nobody uses the memory in this test.
    let set = |pool: &Pool| unsafe { idle.set_sleep(pool, SleepContents::Keep, 0) };
    set(&pool).unwrap();
    let foreign = set(&pool_of(&over("sim:64MiB")));
    assert!(matches!(foreign, Err(Error::InvalidArgument(_))), "{foreign:?}");
    drop(busy.allocate(60 * MIB, 0, 0).unwrap());
    assert_eq!(pool.sleep_stats().unwrap().state, PoolState::Asleep);
    let stats = idle.stats(0).unwrap();
    assert_eq!((stats.allocated_bytes.current, stats.asleep_bytes), (0, 30 * MIB));
    pool.wake(0).unwrap();
    idle.never_sleep(&pool).unwrap();
    assert!(matches!(busy.allocate(60 * MIB, 0, 0), Err(Error::OutOfMemory(_))));
    assert_eq!(pool.sleep_stats().unwrap().state, PoolState::Awake);
    drop(block);
}

#[cfg(feature = "serde")]
#[test]
fn statistics_come_back_from_json() {
    let pool = pool_of(&over("sim:64MiB"));
    let _block = block_of(&pool, MIB);
    sleep(&pool, SleepContents::Keep).unwrap();
    let stats = pool.sleep_stats().unwrap();
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<SleepStats>(&text).unwrap(), stats);
}
