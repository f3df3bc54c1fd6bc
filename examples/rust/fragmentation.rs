// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why "out of memory" although there is free memory: ten blocks are allocated, every second one is
//! freed, a big one is asked for. First under the default options, under which it does not fit; then
//! under those that the message advises. Runs on a simulated device of 80 MiB.

use cachalot::{Allocator, Block, BlockState, OutOfMemory, Sim, SimOptions};

const MIB: u64 = 1 << 20;

fn main() -> cachalot::Result<()> {
    for options in ["", "expandable_segments:True"] {
        println!("options: {options:?}\n");
        run(options)?;
    }
    Ok(())
}

fn run(options: &str) -> cachalot::Result<()> {
    let device = Sim::new(SimOptions::new().capacity(80 * MIB))?;
    let allocator = Allocator::builder()
        .driver(&device)
        .config(options)
        .build()?;
    let _live = allocate_ten_and_free_every_second(&allocator)?;
    let big = allocator.allocate(30 * MIB, 0, 0);
    match &big {
        Ok(_) => println!("30 MiB fit."),
        Err(error) => println!("{error}"),
    }
    println!("\n{}", allocator.memory_summary(0, true)?);
    match big.as_ref().err().and_then(|error| error.out_of_memory()) {
        Some(failed) => explain(&allocator, failed),
        None => big.map(|_| ()),
    }
}

fn allocate_ten_and_free_every_second(allocator: &Allocator) -> cachalot::Result<Vec<Block>> {
    let blocks = (0..10)
        .map(|_| allocator.allocate(5 * MIB, 0, 0))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(blocks.into_iter().step_by(2).collect())
}

fn explain(allocator: &Allocator, failed: &OutOfMemory) -> cachalot::Result<()> {
    let snapshot = allocator.snapshot()?;
    let pieces = snapshot
        .blocks()
        .filter(|block| block.state == BlockState::Inactive)
        .map(|block| block.size)
        .collect::<Vec<_>>();
    println!(
        "{} MiB do not fit although {} MiB are cached and free.",
        failed.requested / MIB,
        (failed.reserved - failed.allocated) / MIB
    );
    println!(
        "They are {} pieces, the largest of {} MiB, so none is big enough.",
        pieces.len(),
        pieces.iter().max().unwrap_or(&0) / MIB
    );
    println!(
        "The device has {} MiB left: no room for a new segment of {} MiB.",
        failed.device_free / MIB,
        failed.segment_size / MIB
    );
    println!(
        "{} MiB cannot go back to the device: live blocks lie in the same segments.",
        allocator.stats(0)?.inactive_split_bytes.all.current as u64 / MIB
    );
    Ok(())
}
