// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies through blocks of cudarc, which come and go in the order of a stream. Prints its time and a sum, for
//! any_program.py.
use cudarc::driver::CudaContext;
use std::time::Instant;

fn main() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let host: Vec<u32> = (0..1 << 18).collect();
    let mut sum = 0u64;
    let mut begin = Instant::now();
    for i in 0..3200 {
        if i == 200 {
            begin = Instant::now();
        }
        let count = (1 << (8 + i * 5 % 10)) + i;
        let first = stream.clone_htod(&host[..count]).unwrap();
        let mut second = stream.alloc_zeros::<u32>(count).unwrap();
        stream.memcpy_dtod(&first, &mut second).unwrap();
        if i % 50 == 0 {
            sum += stream
                .clone_dtoh(&second)
                .unwrap()
                .iter()
                .map(|value| u64::from(*value))
                .sum::<u64>();
        }
    }
    stream.synchronize().unwrap();
    println!("time {:.6} result {sum}", begin.elapsed().as_secs_f64());
}
