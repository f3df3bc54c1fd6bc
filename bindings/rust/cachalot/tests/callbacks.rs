// SPDX-License-Identifier: MIT OR Apache-2.0
//! What closures may do, and what becomes of their panics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cachalot::{
    Action, Address, Allocator, Block, Error, HistoryOptions, PoolOptions, PoolSource,
    ReportOptions, Route, Sim, SimOptions, Stream,
};

fn allocator() -> Allocator {
    let sim = Sim::new(SimOptions::new().capacity(1 << 30)).unwrap();
    Allocator::builder().driver(&sim).config("").build().unwrap()
}

#[test]
fn a_trace_observer_may_drop_a_block_and_may_not_call() {
    let allocator = allocator();
    let block = Mutex::new(Some(allocator.allocate(512, 0, 0).unwrap()));
    let weak = allocator.downgrade();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let seen = answers.clone();
    let observer = allocator
        .observe_trace(move |entry| {
            let allocator = weak.upgrade().unwrap();
            if entry.action == Action::Alloc {
                drop(block.lock().unwrap().take());
                let refused = allocator.allocate(512, 0, 0).unwrap_err();
                assert_eq!(allocator.memory_allocated(0), 0);
                seen.lock().unwrap().push(refused.to_string());
                drop(allocator.empty_cache_on_drop());
            }
        })
        .unwrap();
    let other = allocator.allocate(1 << 20, 0, 0).unwrap();
    let expected = "an allocator was called from within a callback that runs under its lock";
    assert_eq!(*answers.lock().unwrap(), [expected]);
    assert_eq!(allocator.memory_allocated(0), 1 << 20, "the dropped block was freed");
    drop(other);
    observer.detach().unwrap();
    drop(allocator.allocate(512, 0, 0).unwrap());
    assert_eq!(answers.lock().unwrap().len(), 1);
}

#[test]
fn an_observer_that_owns_a_block_frees_it_when_it_is_detached() {
    let allocator = allocator();
    let block = allocator.allocate(512, 0, 0).unwrap();
    let observer = allocator.observe_trace(move |_| assert_ne!(block.address(), 0)).unwrap();
    drop(allocator.allocate(512, 0, 0).unwrap());
    drop(observer);
    assert_eq!(allocator.memory_allocated(0), 0);
}

#[test]
fn an_out_of_memory_observer_may_call_anything() {
    let allocator = allocator();
    let weak = allocator.downgrade();
    let kept = Mutex::new(vec![allocator.allocate(512 << 20, 0, 0).unwrap()]);
    let text = Arc::new(Mutex::new(String::new()));
    let written = text.clone();
    allocator
        .observe_out_of_memory(move |failed| {
            let allocator = weak.upgrade().unwrap();
            let report = allocator.report(&ReportOptions::from(failed)).unwrap();
            *written.lock().unwrap() = report.to_string();
            kept.lock().unwrap().clear();
        })
        .unwrap()
        .keep();
    let error = allocator.allocate(800 << 20, 0, 0).unwrap_err();
    let numbers = error.out_of_memory().unwrap();
    assert_eq!((numbers.requested, numbers.device_total), (800 << 20, 1 << 30));
    assert_eq!(numbers.allocated, 512 << 20);
    assert!(text.lock().unwrap().contains("request of 800.00 MiB"));
    assert!(std::error::Error::source(&error).is_some());
    drop(allocator.allocate(800 << 20, 0, 0).unwrap());
}

#[test]
fn a_free_memory_closure_makes_room() {
    let allocator = allocator();
    let kept = Arc::new(Mutex::new(vec![allocator.allocate(600 << 20, 0, 0).unwrap()]));
    let given = kept.clone();
    let _asked = allocator
        .on_free_memory(move |device, size| {
            assert_eq!((device, size), (0, 600 << 20));
            let blocks = std::mem::take(&mut *given.lock().unwrap());
            !blocks.is_empty()
        })
        .unwrap();
    drop(allocator.allocate(600 << 20, 0, 0).unwrap());
    assert!(kept.lock().unwrap().is_empty());
}

#[test]
fn panics_stop_at_the_boundary() {
    std::panic::set_hook(Box::new(|_| {}));
    let allocator = allocator();
    let _trace = allocator.observe_trace(|_| std::panic::panic_any("expected")).unwrap();
    let _memory = allocator.observe_out_of_memory(|_| std::panic::panic_any(1)).unwrap();
    let _free = allocator.on_free_memory(|_, _| std::panic::panic_any(2)).unwrap();
    drop(allocator.allocate(512, 0, 0).unwrap());
    assert!(matches!(allocator.allocate(1 << 40, 0, 0), Err(Error::OutOfMemory(_))));
    let key = allocator.create_pool(0, PoolOptions::new()).unwrap();
    let _scope = key.route(Route::predicate(|_| std::panic::panic_any(3))).unwrap();
    drop(allocator.allocate(512, 0, 0).unwrap());
    let _ = std::panic::take_hook();
    allocator.check().unwrap();
}

struct Source(Arc<AtomicU64>, Mutex<Option<Block>>);

impl PoolSource for Source {
    fn allocate(&self, size: u64, _device: i32, _stream: Stream) -> Option<Address> {
        drop(self.1.lock().unwrap().take());
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        (size < 1 << 30).then_some(0x10_0000_0000 * (count + 1))
    }

    fn free(&self, _address: Address, _size: u64, _device: i32, _stream: Stream) {
        self.0.fetch_add(100, Ordering::Relaxed);
    }
}

struct Liar(Address, Arc<AtomicU64>);

impl PoolSource for Liar {
    fn allocate(&self, _size: u64, _device: i32, _stream: Stream) -> Option<Address> {
        Some(self.0)
    }

    fn free(&self, address: Address, _size: u64, _device: i32, _stream: Stream) {
        self.1.store(address, Ordering::Relaxed);
    }
}

#[test]
fn a_source_of_what_no_memory_can_be_is_refused() {
    let impossible = [u64::MAX, u64::MAX - 511, (1 << 63) - 512, 1 << 63, 0x50_0000_0100];
    for address in impossible.into_iter().chain([0_u64.wrapping_sub(2 << 20)]) {
        let allocator = allocator();
        let given_back = Arc::new(AtomicU64::new(0));
        let source = Liar(address, given_back.clone());
        let pool = allocator.create_pool(0, PoolOptions::new().source(source)).unwrap();
        let _scope = pool.route(Route::ThisThread).unwrap();
        let refused = allocator.allocate(1, 0, 0).unwrap_err();
        assert!(matches!(refused, Error::InvalidState(_)), "{refused}");
        let text = format!("the pool's source gave 2097152 bytes at {address:#x}: ");
        assert!(refused.to_string().contains(&text), "{refused}");
        assert_eq!(given_back.load(Ordering::Relaxed), address);
        allocator.check().unwrap();
    }
    let sim = Sim::new(SimOptions::new()).unwrap();
    let refused = sim.give_addresses(0, &[u64::MAX - 511]);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
}

#[test]
fn a_pool_gets_its_segments_from_its_source() {
    let allocator = allocator();
    let calls = Arc::new(AtomicU64::new(0));
    let other = allocator.allocate(512, 0, 0).unwrap();
    let source = Source(calls.clone(), Mutex::new(Some(other)));
    let pool = allocator.create_pool(0, PoolOptions::new().source(source)).unwrap();
    let block = {
        let _scope = pool.route(Route::ThisThread).unwrap();
        allocator.allocate(512, 0, 0).unwrap()
    };
    assert_eq!(block.address(), 0x10_0000_0000);
    assert!(block.info().unwrap().from_source);
    assert!(!allocator.allocate(512, 0, 0).unwrap().info().unwrap().from_source);
    assert_eq!(allocator.memory_allocated(0), 512, "the source's own block was freed");
    assert!(pool.has_live(&[block.address()]).unwrap());
    let another = allocator.join_pool(0, pool.id(), PoolOptions::new()).unwrap();
    let second = Source(calls.clone(), Mutex::default());
    let refused = allocator.join_pool(0, pool.id(), PoolOptions::new().source(second));
    assert!(matches!(refused, Err(Error::InvalidState(_))));
    assert_eq!(pool.use_count().unwrap(), 2, "what is refused takes no use of others");
    drop(another);
    assert_eq!(pool.use_count().unwrap(), 1);
    drop(block);
    let key = pool.into_key();
    key.release().unwrap();
    allocator.empty_cache().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 101);
}

#[test]
fn contexts_come_from_a_closure() {
    let sim = Sim::new(SimOptions::new()).unwrap();
    let allocator = Allocator::builder()
        .driver(&sim)
        .config("")
        .contexts(|| 7, |context| format!("frame {context}\nmain"))
        .build()
        .unwrap();
    let options = HistoryOptions::recording(100).context(cachalot::ContextLevel::All);
    allocator.record_history(&options).unwrap();
    let block = allocator.allocate(512, 0, 0).unwrap();
    allocator.annotate(block.address(), "weights").unwrap();
    assert_eq!(allocator.context_of(block.address()).unwrap(), 7);
    assert_eq!(allocator.context_text(7).unwrap(), "frame 7\nmain");
    let history = allocator.history(0).unwrap();
    assert_eq!(history.len(), 3);
    let actions: Vec<Action> = history.map(|entry| entry.action).collect();
    assert_eq!(actions, [Action::SegmentAlloc, Action::Alloc, Action::Annotate]);
}
