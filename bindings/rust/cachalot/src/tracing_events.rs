// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks and out-of-memory errors as events of the crate `tracing`.

use std::sync::Arc;

use tracing::{Level, event};

use crate::allocator::Allocator;
use crate::builder::LogLevel;
use crate::driver::Driver;
use crate::error::{Error, OutOfMemory, Result};

/// The allocator that events are of.
#[derive(Clone)]
pub(crate) struct Source {
    allocator: Arc<str>,
    driver: &'static str,
}

impl Source {
    pub(crate) fn new(name: String, driver: &Driver) -> Self {
        Self { allocator: name.into(), driver: driver.name() }
    }

    pub(crate) fn remark(&self, level: LogLevel, message: &str) {
        // The level of an event is a constant of the place where it is made.
        macro_rules! remark {
            ($level:ident, $kind:expr) => {
                event!(
                    target: "cachalot",
                    Level::$level,
                    allocator = &*self.allocator,
                    driver = self.driver,
                    kind = $kind,
                    "{message}"
                )
            };
        }
        match level {
            LogLevel::Warning => remark!(WARN, "warning"),
            LogLevel::Advice => remark!(WARN, "advice"),
            LogLevel::LeftBehind => remark!(WARN, "left_behind"),
            LogLevel::Difference => remark!(INFO, "difference"),
            LogLevel::Damage => remark!(ERROR, "damage"),
            LogLevel::Other(number) => remark!(WARN, number),
        }
    }

    /// Has each out-of-memory error of the allocator as an event from now on.
    pub(crate) fn follow(self, allocator: &Allocator) -> Result<()> {
        match allocator.observe_out_of_memory(move |numbers| self.out_of_memory(numbers)) {
            Ok(observer) => observer.keep(),
            Err(Error::NotSupported(_)) => {} // the driver's own pool has no observers
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn out_of_memory(&self, numbers: &OutOfMemory) {
        event!(
            target: "cachalot",
            Level::WARN,
            allocator = &*self.allocator,
            driver = self.driver,
            device = numbers.device,
            stream = numbers.stream.0,
            requested = numbers.requested,
            segment_size = numbers.segment_size,
            device_free = numbers.device_free,
            device_total = numbers.device_total,
            limit = numbers.limit,
            allocated = numbers.allocated,
            reserved = numbers.reserved,
            private_pools_free = numbers.private_pools_free,
            largest_free_block = numbers.largest_free_block,
            "out of memory"
        );
    }
}
