// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two streams: a block that another stream still reads is not handed out again before that is done.
//! Runs on a simulated device, where work is done when the program says so.

use cachalot::{Allocator, Sim, SimOptions, Stream};

const COMPUTE: Stream = Stream(0x10);
const COPY: Stream = Stream(0x20);

fn main() -> cachalot::Result<()> {
    let device = Sim::new(SimOptions::new().capacity(1 << 30))?;
    let allocator = Allocator::builder().driver(&device).config("").build()?;

    // Blocks of one stream follow each other without waiting: its work is in order anyway.
    let first = allocator.allocate(8 << 20, 0, COMPUTE)?.address();
    let second = allocator.allocate(8 << 20, 0, COMPUTE)?.address();
    println!(
        "the same memory at once for the same stream: {}",
        first == second
    );

    // A copy on another stream reads the block; it is freed before the copy is done.
    let block = allocator.allocate(8 << 20, 0, COMPUTE)?;
    let address = block.address();
    device.queue_work(0, COPY)?;
    block.record_stream(COPY)?;
    drop(block);
    let meanwhile = allocator.allocate(8 << 20, 0, COMPUTE)?;
    println!(
        "the same memory while the copy runs: {}",
        meanwhile.address() == address
    );

    device.finish_stream(0, COPY)?;
    let afterwards = allocator.allocate(8 << 20, 0, COMPUTE)?;
    println!(
        "the same memory after the copy: {}",
        afterwards.address() == address
    );
    Ok(())
}
