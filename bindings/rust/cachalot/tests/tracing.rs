// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feature `tracing`.
#![cfg(feature = "tracing")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use cachalot::{Allocator, AllocatorBuilder, DebugOptions, Driver};
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what a subscriber writes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The lines of events while `function` has an allocator that is traced.
fn events(
    driver: &str,
    builder: AllocatorBuilder,
    function: impl FnOnce(Allocator),
) -> Vec<String> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .without_time()
        .with_max_level(tracing::Level::TRACE)
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let driver = Driver::open(driver).unwrap();
        function(builder.driver(driver).tracing("main").build().unwrap());
    });
    let bytes = lines.0.lock().unwrap();
    String::from_utf8_lossy(&bytes).lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn an_out_of_memory_error_is_an_event_with_its_numbers() {
    let lines = events("sim:1GiB", Allocator::builder().config(""), |allocator| {
        let _block = allocator.allocate(100 << 20, 0, 0).unwrap();
        assert!(allocator.allocate(2 << 30, 0, 0x10).is_err());
        allocator.set_memory_limit(0, Some(200 << 20)).unwrap();
        assert!(allocator.allocate(128 << 20, 0, 0).is_err());
    });
    assert_eq!(
        lines[0],
        "WARN cachalot: out of memory allocator=\"main\" driver=\"sim\" device=0 stream=16 \
         requested=2147483648 segment_size=2147483648 device_free=968884224 device_total=1073741824 \
         allocated=104857600 reserved=104857600 private_pools_free=0 largest_free_block=0"
    );
    assert!(lines[1].contains(" limit=209715200 "), "{}", lines[1]);
    assert_eq!(lines.len(), 2);
}

#[test]
fn remarks_keep_their_kind() {
    let both = "max_split_size_mb:64,expandable_segments:True";
    let lines = events("sim:1GiB", Allocator::builder().config(both), |_| ());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN cachalot: max_split_size_mb:64"), "{}", lines[0]);
    assert!(
        lines[0].ends_with("allocator=\"main\" driver=\"sim\" kind=\"advice\""),
        "{}",
        lines[0]
    );
}

#[test]
fn damage_is_an_error() {
    let builder = Allocator::builder().config("").debug(DebugOptions::RED_ZONES);
    let lines = events("host:64MiB", builder, |allocator| {
        let block = allocator.allocate(1000, 0, 0).unwrap();
        // SAFETY: the host driver's memory, behind the bytes of a block of this test.
        unsafe { (block.address() as *mut u8).add(1000).write(7) };
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("ERROR cachalot: the block at 0x"), "{}", lines[0]);
    assert!(lines[0].ends_with("kind=\"damage\""), "{}", lines[0]);
}

#[test]
fn a_backend_without_observers_is_traced_too() {
    let builder = Allocator::builder().config("backend:cudaMallocAsync");
    assert_eq!(events("sim:1GiB", builder, |_| ()), Vec::<String>::new());
}
