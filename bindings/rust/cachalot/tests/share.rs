// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory between two allocators, which could as well be two processes.

use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use cachalot::{Allocator, Driver, Error, Sim, SimOptions};

const MIB: u64 = 1 << 20;

fn allocator(config: &str) -> Allocator {
    let driver = Driver::open("host-shared:256MiB").unwrap();
    Allocator::builder().driver(driver).config(config).build().unwrap()
}

fn bytes(address: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap())
}

fn soon(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_shared_block_is_the_same_memory() {
    for config in ["", "expandable_segments:True"] {
        let (here, there) = (allocator(config), allocator(config));
        let shared = here.allocate(30 * MIB, 0, 0).unwrap().into_shared().unwrap();
        let opened = there.open_block(0, &shared.ticket().unwrap()).unwrap();
        assert_eq!((opened.size(), shared.users()), (30 * MIB, 1));
        assert_ne!(opened.address(), shared.address());
        assert!(opened.has_sharer());
        // SAFETY: both are memory of the host, of so many bytes, and nobody else has it.
        unsafe {
            bytes(shared.address()).add(30 * MIB as usize - 1).write(7);
            assert_eq!(bytes(opened.address()).add(30 * MIB as usize - 1).read(), 7);
        }
        assert_eq!(format!("{opened:?}").split('(').next(), Some("OpenedBlock"));
        drop(opened);
        soon(|| shared.users() == 0);
    }
}

#[test]
fn a_shared_block_outlives_its_drop_until_it_is_closed() {
    let (here, there) = (allocator(""), allocator(""));
    let shared = here.allocate(MIB, 0, 0).unwrap().into_shared().unwrap();
    let ticket = shared.ticket().unwrap();
    let opened = there.open_block(0, &ticket).unwrap();
    drop(shared);
    assert_eq!(here.stats(0).unwrap().allocation.all.current, 1);
    assert!(matches!(there.open_block(0, &ticket), Err(Error::InvalidState(_))));
    drop(opened);
    soon(|| here.stats(0).unwrap().allocation.all.current == 0);
}

#[test]
fn a_shared_block_has_no_other_owner() {
    let here = allocator("");
    let shared = here.allocate(MIB, 0, 0).unwrap().into_shared().unwrap();
    assert!(matches!(here.adopt(shared.address()), Err(Error::InvalidState(_))));
    assert!(matches!(here.free(shared.address()), Err(Error::InvalidState(_))));
    assert_eq!(here.stats(0).unwrap().allocation.all.current, 1);
}

#[test]
fn what_is_no_ticket_is_refused() {
    let here = allocator("");
    for ticket in ["", "nonsense", "a\0b"] {
        assert!(matches!(here.open_block(0, ticket), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn pytorchs_bytes_open_the_memory_under_a_block() {
    for config in ["", "expandable_segments:True"] {
        let (here, there) = (allocator(config), allocator(config));
        let _first = here.allocate(5 * MIB, 0, 0).unwrap();
        let block = here.allocate(3 * MIB, 0, 0).unwrap();
        let handle = here.share(block.address()).unwrap();
        let opened = there.open_shared(0, &handle).unwrap();
        assert_eq!(opened.address(), opened.memory() + handle.offset);
        // SAFETY: both are memory of the host, of so many bytes, and nobody else has it.
        unsafe {
            bytes(block.address()).write(9);
            assert_eq!(bytes(opened.address()).read(), 9);
        }
    }
}

#[test]
fn memory_that_cannot_be_shared_says_so() {
    let sim = Sim::new(SimOptions::new()).unwrap();
    let here = Allocator::builder().driver(sim).config("backend:cudaMallocAsync").build().unwrap();
    let block = here.allocate(MIB, 0, 0).unwrap();
    assert!(matches!(here.share(block.address()), Err(Error::NotSupported(_))));
    assert!(matches!(block.into_shared(), Err(Error::NotSupported(_))));
}
