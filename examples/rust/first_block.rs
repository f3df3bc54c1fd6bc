// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first block: make an allocator, get a mebibyte, give it back.

fn main() -> cachalot::Result<()> {
    let allocator = cachalot::Allocator::new()?;
    let block = allocator.allocate(1 << 20, 0, 0)?;
    println!("1 MiB at {:#x} on device 0", block.address());
    Ok(())
}
