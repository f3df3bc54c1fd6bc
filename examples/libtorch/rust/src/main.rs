// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose memory it is that tensors of `tch` lie in, how it is given back, and what an out of memory says.

use std::error::Error;
use std::time::Duration;

use cachalot::Allocator;
use tch::{Device, Kind, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = Allocator::builder();
    if let Some(release) = cachalot_libtorch::release()? {
        builder = builder.release(release);
    }
    let allocator = builder.build()?;
    cachalot_libtorch::install(&allocator)?; // before the first tensor on the GPU

    let tensor = Tensor::f_empty([20 << 20], (Kind::Uint8, Device::Cuda(0)))?;
    println!(
        "tensor of {}: {} bytes of {}",
        tensor.numel(),
        allocator.memory_allocated(0),
        allocator.memory_reserved(0)
    );
    drop(tensor);
    let released = allocator.trim(0, 0, Duration::ZERO)?;
    println!("given back: {released} bytes");

    allocator.set_memory_fraction(0, 0.001)?;
    match Tensor::f_empty([1 << 30], (Kind::Uint8, Device::Cuda(0))) {
        Ok(_) => println!("there was memory"),
        Err(error) => println!("{}", error.to_string().lines().next().unwrap_or_default()),
    }
    Ok(())
}
