// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the servers tell measure.py.
use std::io::BufRead;

/// Lets somebody look at the device's memory.
pub fn phase(name: &str) {
    println!("phase {name}");
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

/// times: of the tokens, in seconds. sum: of the tokens.
pub fn result(mut times: Vec<f64>, sum: u64) {
    times.sort_by(f64::total_cmp);
    let percentile = |part: f64| times[((times.len() - 1) as f64 * part) as usize] * 1e3;
    println!(
        "tokens {} p50 {:.3} p99 {:.3} result {sum}",
        times.len(),
        percentile(0.5),
        percentile(0.99)
    );
}
