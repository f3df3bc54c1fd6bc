// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fuzz target `calls` as a plain test: seeds that are fixed, and one more that is named.

#[path = "../../fuzz/calls.rs"]
mod calls;

/// xorshift: the same bytes everywhere.
fn bytes_of(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let length = 64 + seed % 900;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

#[test]
fn random_calls_leave_the_accounts_right() {
    let seeds = match std::env::var("CACHALOT_FUZZ_SEED") {
        Ok(seed) => {
            let seed: u64 = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 0..400,
    };
    for seed in seeds {
        println!("CACHALOT_FUZZ_SEED={seed}");
        calls::run(&bytes_of(seed));
    }
    calls::run(&[]);
}
