// SPDX-License-Identifier: MIT OR Apache-2.0
#![no_main]

#[path = "../calls.rs"]
mod calls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| calls::run(bytes));
