// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tch` on cachalot, on a GPU or over the runtime of tests/torch. One test, since what is installed once stays.

use std::time::Duration;

use cachalot::Allocator;
use tch::{Device, Kind, TchError, Tensor};

const MIB: i64 = 1 << 20;

fn bytes(size: i64) -> Result<Tensor, TchError> {
    Tensor::f_empty([size], (Kind::Uint8, Device::Cuda(0)))
}

fn out_of_memory(size: i64) -> String {
    match bytes(size) {
        Err(TchError::Torch(text)) => text,
        other => panic!("no error of libtorch's: {other:?}"),
    }
}

#[test]
fn tensors_of_tch_lie_in_cachalots_memory() {
    let release = cachalot_libtorch::release().unwrap().expect("tch 0.24 is for 2.11");
    let allocator = Allocator::builder().release(release).build().unwrap();
    cachalot_libtorch::install(&allocator).unwrap();
    assert_eq!(
        cachalot_libtorch::install(&allocator),
        Err("cachalot is libtorch's allocator already.".into())
    );

    let numbers = Tensor::from_slice(&(0..MIB).collect::<Vec<i64>>());
    let there = numbers.to_device(Device::Cuda(0));
    assert_eq!(allocator.memory_allocated(0), 8 << 20);
    assert_eq!(there.to_device(Device::Cpu), numbers);
    drop(there);
    assert_eq!(allocator.memory_allocated(0), 0);
    assert_eq!(allocator.trim(0, 0, Duration::ZERO).unwrap(), 20 << 20);

    // Tensors go to other threads, and are freed there.
    let held: Vec<Tensor> = (1..=8).map(|count| bytes(count * MIB).unwrap()).collect();
    assert_eq!(allocator.memory_allocated(0), 36 << 20);
    std::thread::spawn(move || drop(held)).join().unwrap();
    assert_eq!(allocator.memory_allocated(0), 0);

    let expected =
        "CUDA out of memory. Tried to allocate 1048576.00 GiB. GPU 0 has a total capacity of ";
    for _ in 0..3 {
        let text = out_of_memory(1 << 50);
        assert!(text.starts_with(expected), "{text}");
        drop(bytes(MIB).unwrap());
    }
    allocator.set_memory_fraction(0, 0.001).unwrap();
    assert!(
        out_of_memory(200 * MIB).starts_with("CUDA out of memory. Tried to allocate 200.00 MiB.")
    );
    assert_eq!(allocator.stats(0).unwrap().num_ooms, 4);
}
