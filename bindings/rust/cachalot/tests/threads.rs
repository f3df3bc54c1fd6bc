// SPDX-License-Identifier: MIT OR Apache-2.0
//! One allocator, many threads.

use std::sync::mpsc;

use cachalot::{Allocator, Block, Driver, Label, TenantOptions};

fn allocator() -> Allocator {
    let driver = Driver::open("sim:4GiB").unwrap();
    Allocator::builder().driver(driver).config("").track_labels(true).build().unwrap()
}

fn is_shared<T: Send + Sync + Clone>() {}
fn is_sent<T: Send>() {}

#[test]
fn handles_go_anywhere() {
    is_shared::<Allocator>();
    is_shared::<Driver>();
    is_shared::<cachalot::Sim>();
    is_shared::<cachalot::Snapshot>();
    is_shared::<cachalot::Report>();
    is_shared::<cachalot::Trace>();
    is_shared::<cachalot::Tenant>();
    is_shared::<cachalot::PoolKey>();
    is_sent::<Block>();
    is_sent::<cachalot::Error>();
    is_sent::<cachalot::Observer>();
    is_sent::<cachalot::Replay>();
}

#[test]
fn blocks_are_freed_by_threads_that_did_not_make_them() {
    let allocator = allocator();
    let (sender, receiver) = mpsc::channel::<Block>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (index, block) in receiver.into_iter().enumerate() {
                if index % 2 == 0 {
                    block.free().unwrap();
                }
            }
        });
        for thread in 0..3u64 {
            let (allocator, sender) = (&allocator, sender.clone());
            scope.spawn(move || {
                let _label = Label::push(["a", "b", "c"][thread as usize]).unwrap();
                for index in 0..2000u64 {
                    let size = 1 + (index * 7919) % (1 << 20);
                    sender.send(allocator.allocate(size, 0, thread).unwrap()).unwrap();
                    drop(allocator.allocate_borrowed(size, 0, thread).unwrap());
                }
            });
        }
        drop(sender);
    });
    let stats = allocator.stats(0).unwrap();
    assert_eq!(stats.allocation.all.allocated, 12_000);
    assert_eq!(stats.allocation.all.current, 0);
    let mut labels: Vec<_> =
        allocator.label_stats(0).unwrap().into_iter().map(|row| row.label).collect();
    labels.sort();
    assert_eq!(labels, ["a", "b", "c"]);
    allocator.check().unwrap();
}

#[test]
fn a_closure_may_free_while_other_threads_allocate() {
    let allocator = allocator();
    allocator.set_memory_limit(0, Some(256 << 20)).unwrap();
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::<Block>::new()));
    let given = kept.clone();
    let tenant = allocator
        .create_tenant(TenantOptions::new("cache").on_pressure(move |_| {
            let taken = std::mem::take(&mut *given.lock().unwrap());
            taken.len() as u64 * (8 << 20)
        }))
        .unwrap();
    std::thread::scope(|scope| {
        for stream in 0..4u64 {
            let (tenant, kept) = (&tenant, &kept);
            scope.spawn(move || {
                let mut served = 0;
                for _ in 0..200 {
                    if let Ok(block) = tenant.allocate(8 << 20, 0, stream) {
                        served += 1;
                        kept.lock().unwrap().push(block);
                    }
                }
                assert!(served > 0);
            });
        }
    });
    kept.lock().unwrap().clear();
    assert!(tenant.stats(0).unwrap().num_pressure_calls > 0);
    assert_eq!(allocator.memory_allocated(0), 0);
    allocator.check().unwrap();
}
