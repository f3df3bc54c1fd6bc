// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evict to fit: two models, one budget. Each fits by itself, both do not; loading one evicts the
//! other, by closures of tenants.
//!
//!   CACHALOT_DRIVER=sim:1GiB cargo run --bin two_models

use std::sync::{Arc, Mutex};

use cachalot::{Allocator, Block, Result, Tenant, TenantOptions};

const LAYERS: usize = 12;
const LAYER_SIZE: u64 = 64 << 20;

struct Model {
    name: &'static str,
    tenant: Tenant,
    weights: Arc<Mutex<Vec<Block>>>,
}

impl Model {
    fn open(allocator: &Allocator, name: &'static str) -> Result<Self> {
        let weights = Arc::new(Mutex::new(Vec::new()));
        let given = Arc::clone(&weights);
        // Is asked when the other model finds no memory. It has no guarantee, so it gives all.
        let options = TenantOptions::new(name).on_pressure(move |pressure| {
            if pressure.requester_name == name {
                return 0; // Not while it is loading.
            }
            let blocks: Vec<Block> = std::mem::take(&mut given.lock().unwrap());
            let freed = blocks.len() as u64 * LAYER_SIZE;
            println!(
                "{name} gives {} MiB for {}",
                freed >> 20,
                pressure.requester_name
            );
            freed
        });
        Ok(Self {
            name,
            tenant: allocator.create_tenant(options)?,
            weights,
        })
    }

    fn load(&self) -> Result<()> {
        while self.weights.lock().unwrap().len() < LAYERS {
            // Without the lock, since the request may ask closures.
            let block = self.tenant.allocate(LAYER_SIZE, 0, 0)?;
            self.weights.lock().unwrap().push(block);
        }
        println!("{} is loaded", self.name);
        Ok(())
    }
}

fn main() -> Result<()> {
    let allocator = Allocator::new()?;
    // Smaller than both models together, whatever the device is.
    allocator.set_memory_limit(0, Some(1 << 30))?;
    let (chat, search) = (
        Model::open(&allocator, "chat")?,
        Model::open(&allocator, "search")?,
    );
    for _ in 0..2 {
        chat.load()?;
        search.load()?;
    }
    Ok(())
}
