// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an allocation and its free cost together on a hit, through the safe crate and by the C calls,
//! in one run. `cargo bench -p cachalot-bench`

use std::hint::black_box;
use std::ptr;

use cachalot::{Allocator, Driver, sys};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn pairs(criterion: &mut Criterion) {
    let driver = Driver::open("sim:8GiB").expect("sim opens");
    let allocator = Allocator::builder().driver(driver).config("").build().expect("it is made");
    let mut group = criterion.benchmark_group("pair");
    for size in [4096u64, 4 << 20] {
        // A neighbour keeps the segment, as in a program.
        let _neighbour = allocator.allocate(size, 0, 0).expect("there is room");
        group.bench_with_input(BenchmarkId::new("C calls", size), &size, |bencher, &size| {
            let raw = allocator.as_raw();
            bencher.iter(|| {
                let mut address = 0;
                // SAFETY: the allocator is live, and the address is that of a local.
                unsafe {
                    sys::cachalot_allocate(
                        raw,
                        black_box(size),
                        0,
                        0,
                        &mut address,
                        ptr::null_mut(),
                    );
                    sys::cachalot_free(raw, black_box(address), ptr::null_mut());
                }
            });
        });
        group.bench_with_input(BenchmarkId::new("BorrowedBlock", size), &size, |bencher, &size| {
            bencher.iter(|| {
                drop(black_box(allocator.allocate_borrowed(black_box(size), 0, 0).expect("a hit")))
            });
        });
        group.bench_with_input(BenchmarkId::new("Block", size), &size, |bencher, &size| {
            bencher.iter(|| {
                drop(black_box(allocator.allocate(black_box(size), 0, 0).expect("a hit")))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pairs);
criterion_main!(benches);
