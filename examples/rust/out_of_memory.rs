// SPDX-License-Identifier: MIT OR Apache-2.0
//! Out of memory although there is free memory, and what the report says of it. Runs on a simulated
//! device of 80 MiB.

use cachalot::{Allocator, Label, ReportOptions, Sim, SimOptions};

const MIB: u64 = 1 << 20;

fn main() -> cachalot::Result<()> {
    let device = Sim::new(SimOptions::new().capacity(80 * MIB))?;
    let allocator = Allocator::builder()
        .driver(&device)
        .config("")
        .track_labels(true)
        .build()?;
    let mut blocks = {
        let _label = Label::push("activations")?;
        (0..10)
            .map(|_| allocator.allocate(5 * MIB, 0, 0))
            .collect::<Result<Vec<_>, _>>()?
    };
    let mut index = 0;
    blocks.retain(|_| {
        index += 1;
        index % 2 == 1
    });

    let error = allocator
        .allocate(30 * MIB, 0, 0)
        .expect_err("it does not fit");
    println!("{error}\n");
    if let Some(failed) = error.out_of_memory() {
        let cached = failed.reserved - failed.allocated;
        println!(
            "{} MiB do not fit although {} are cached\n",
            failed.requested / MIB,
            cached / MIB
        );
        print!("{}", allocator.report(&ReportOptions::from(failed))?);
    }
    Ok(())
}
