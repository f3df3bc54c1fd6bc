// SPDX-License-Identifier: MIT OR Apache-2.0
//! A frontend and a worker of another language: the frontend fills a block, the worker computes on it in
//! place, and the frontend reads the result. Only the ticket, a short text, goes from one to the other.
//!
//! ```sh
//! cargo run --bin frontend -- python3 ../sharing/worker.py
//! cargo run --bin frontend -- build/sharing_worker
//! ```

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::ptr;

use cachalot::{Allocator, Driver};

const COUNT: usize = 1 << 20;

fn run(worker: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    // Memory of the host that others can be given, so that the example runs anywhere. A frontend of the
    // GPU takes "cuda", and fills the block by a kernel.
    let driver = Driver::open("host-shared")?;
    let allocator = Allocator::builder().driver(driver).build()?;
    let shared = allocator.allocate(4 * COUNT as u64, 0, 0)?.into_shared()?;
    // SAFETY: the block is memory of the host with room for these numbers, and nobody else has it yet.
    let numbers = unsafe {
        let begin: *mut f32 = ptr::with_exposed_provenance_mut(usize::try_from(shared.address())?);
        for i in 0..COUNT {
            begin.add(i).write((i % 1000) as f32);
        }
        begin
    };

    let [program, arguments @ ..] = worker else {
        return Err("usage: frontend WORKER...".into());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    writeln!(
        child.stdin.take().ok_or("no input")?,
        "{}",
        shared.ticket()?
    )?;
    let mut answer = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut answer)?;
    let status = child.wait()?;
    // Whatever became of the worker, nobody has the block any more.
    println!("the worker: {} ({status})", answer.trim_end());
    // SAFETY: the worker has ended, so nobody writes the numbers.
    let last = unsafe { numbers.add(999).read() };
    println!("the frontend: number 999 is {last} now");
    Ok(())
}

fn main() {
    let worker: Vec<String> = env::args().skip(1).collect();
    if let Err(error) = run(&worker) {
        eprintln!("frontend: {error}");
        std::process::exit(1);
    }
}
