// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rest of the interface: each part does what it says.

use std::io::{Cursor, Error as IoError, Read};
use std::time::Duration;

use cachalot::{
    Action, Allocator, Backend, BlockState, Config, DebugOptions, Driver, Error, HistoryOptions,
    Mend, Outcome, PoolId, PoolOptions, Release, ReplayOptions, ReportOptions, Request, Reserve,
    Route, Sim, SimCalls, SimFailure, SimOptions, Stream, TenantOptions, Texts, Trace, TraceEntry,
};

fn sim() -> Sim {
    Sim::new(SimOptions::new().capacity(1 << 30)).unwrap()
}

fn allocator() -> Allocator {
    Allocator::builder().driver(sim()).config("").build().unwrap()
}

#[test]
fn statuses_have_names_and_errors_know_their_status() {
    let rows: Vec<_> = cachalot::status_descriptions().collect();
    assert!(rows.len() >= 11);
    assert!(rows.windows(2).all(|pair| pair[0].status < pair[1].status));
    let error = Driver::open("nonsense").unwrap_err();
    assert_eq!(cachalot::status_name(error.status()), "INVALID_ARGUMENT");
    assert_eq!(cachalot::status_name(12345), "UNKNOWN");
    assert_eq!(cachalot::library_version().split('.').count(), 3);
}

#[test]
fn options_that_are_not_acceptable_are_errors() {
    let build = |config: &str| Allocator::builder().driver(sim()).config(config).build();
    let error = build("max_split_size_mb:1").unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    assert!(matches!(build("a\0b").unwrap_err(), Error::InvalidArgument(_)));
    assert!(matches!(Driver::host(0, -1).unwrap_err(), Error::InvalidArgument(_)));
}

#[test]
fn every_typed_option_is_one_that_the_library_takes() {
    let config = Config::new()
        .large_segment_size_mb(32)
        .max_split_size_mb(128)
        .max_non_split_rounding_mb(64)
        .roundup_bypass_threshold_mb(1000)
        .garbage_collection_threshold(0.8)
        .per_process_memory_fraction(0.5)
        .roundup_power2_divisions_by_size(&[(256, 1), (512, 2)], Some(8))
        .expandable_segments(true)
        .expandable_segments_reserve(Reserve::GiB(40))
        .expandable_segments_reserve_by_class(&[("a", Reserve::Fraction(0.5))])
        .throw_on_cudamalloc_oom(true)
        .release_lock_on_cudamalloc(true)
        .graph_capture_record_stream_reuse(true)
        .pinned_use_background_threads(true)
        .pinned_use_cuda_host_register(true)
        .pinned_free_catch_all(true)
        .pinned_num_register_threads(8)
        .pinned_reserve_segment_size_mb(16)
        .pinned_max_round_threshold_mb(4)
        .pinned_max_cached_size_mb(64)
        .backend(Backend::Native);
    let allocator = Allocator::builder()
        .driver(sim())
        .config(&config)
        .release(Release::V2_15)
        .mend(Mend::ALL)
        .build()
        .unwrap();
    assert_eq!(allocator.config().unwrap(), config.to_string());
    let mut settings = allocator.settings().unwrap();
    assert_eq!(settings.max_split_size, 128 << 20);
    assert_eq!(settings.pinned_num_register_threads, 8);
    assert_eq!(allocator.memory_fraction(0).unwrap(), 0.5);
    settings.max_split_size = 256 << 20;
    allocator.set_settings(&settings).unwrap();
    assert_eq!(allocator.settings().unwrap(), settings);
    allocator.configure(Config::new().roundup_power2_divisions(4)).unwrap();
    assert_eq!(allocator.settings().unwrap().roundup_power2_divisions[3], 4);
    one_setting_at_a_time(&allocator);
    assert_eq!(allocator.release(), Release::V2_15);
    assert_eq!(allocator.backend(), "native");
}

fn one_setting_at_a_time(allocator: &Allocator) {
    let mut expected = allocator.settings().unwrap();
    allocator.update_config("max_split_size_mb:128").unwrap();
    expected.max_split_size = 128 << 20;
    assert_eq!(allocator.settings().unwrap(), expected, "the divisions stay");
    macro_rules! set {
        ($($setter:ident, $field:ident, $value:expr;)*) => {
            $(allocator.$setter($value).unwrap();
            expected.$field = $value;
            assert_eq!(allocator.settings().unwrap(), expected);)*
        };
    }
    set! {
        set_max_split_size, max_split_size, 64 << 20;
        set_max_non_split_rounding_size, max_non_split_rounding_size, 48 << 20;
        set_large_segment_size, large_segment_size, 16 << 20;
        set_garbage_collection_threshold, garbage_collection_threshold, 0.5;
        set_per_process_memory_fraction, per_process_memory_fraction, 0.25;
        set_roundup_bypass_threshold, roundup_bypass_threshold, 200 << 20;
        set_expandable_segments, expandable_segments, false;
        set_release_lock_on_cudamalloc, release_lock_on_cudamalloc, true;
        set_graph_capture_record_stream_reuse, graph_capture_record_stream_reuse, true;
        set_throw_on_cudamalloc_oom, throw_on_cudamalloc_oom, true;
        set_pinned_use_background_threads, pinned_use_background_threads, true;
        set_pinned_use_cuda_host_register, pinned_use_cuda_host_register, true;
        set_pinned_free_catch_all, pinned_free_catch_all, true;
        set_pinned_num_register_threads, pinned_num_register_threads, 4;
        set_pinned_reserve_segment_size_mb, pinned_reserve_segment_size_mb, 512;
        set_pinned_max_round_threshold, pinned_max_round_threshold, 64 << 20;
        set_pinned_max_cached_size, pinned_max_cached_size, 128 << 20;
    }
    expected.roundup_power2_divisions[5] = 8;
    allocator.set_roundup_power2_divisions(&expected.roundup_power2_divisions).unwrap();
    let error = allocator.set_max_split_size(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CachingAllocator option max_split_size_mb too small, must be >= 16"
    );
    assert!(allocator.update_config("max_split_size_mb:32,nonsense:1").is_err());
    assert_eq!(allocator.settings().unwrap(), expected);
}

#[test]
fn messages_have_no_word_of_pytorch_where_texts_are_the_librarys_own() {
    let sim = Driver::open("sim:64MiB").unwrap();
    for (texts, is_pytorchs) in [(Texts::PyTorch, true), (Texts::Own, false)] {
        let allocator =
            Allocator::builder().driver(sim.clone()).config("").texts(texts).build().unwrap();
        let message = allocator.allocate(1 << 30, 0, 0).unwrap_err().to_string();
        assert_eq!(message.contains("PyTorch"), is_pytorchs, "{message}");
    }
}

#[test]
fn debugging_needs_memory_that_can_be_written() {
    let build = |driver: Driver| {
        Allocator::builder().driver(driver).config("").debug(DebugOptions::POISON).build()
    };
    assert!(matches!(build(sim().driver().clone()), Err(Error::NotSupported(_))));
    let allocator = build(Driver::host(64 << 20, 1).unwrap()).unwrap();
    drop(allocator.allocate(512, 0, 0).unwrap());
    allocator.check().unwrap();
}

#[test]
fn limits_totals_and_the_cache() {
    let allocator = allocator();
    assert_eq!(allocator.memory_limit(0).unwrap(), None);
    allocator.set_memory_limit(0, Some(64 << 20)).unwrap();
    assert_eq!(allocator.memory_limit(0).unwrap(), Some(64 << 20));
    let error = allocator.allocate(100 << 20, 0, 0).unwrap_err();
    assert_eq!(error.out_of_memory().unwrap().limit, Some(64 << 20));
    allocator.set_memory_fraction(0, 1.0).unwrap();
    let block = allocator.allocate(100 << 20, 0, 0).unwrap();
    let totals = allocator.device_totals(0).unwrap();
    assert_eq!((totals.total, totals.used, totals.reserved), (1 << 30, 100 << 20, 100 << 20));
    assert_eq!(allocator.base_allocation(block.address()).unwrap(), (block.address(), 100 << 20));
    drop(block);
    assert_eq!(allocator.largest_block(0, 1).unwrap(), 100 << 20);
    assert_eq!(allocator.max_memory_allocated(0), 100 << 20);
    allocator.reset_peak_stats(0).unwrap();
    assert_eq!(allocator.max_memory_allocated(0), 0);
    allocator.empty_device_cache(0).unwrap();
    assert_eq!((allocator.memory_reserved(0), allocator.memory_active(0)), (0, 0));
    drop(allocator.allocate(1000, 0, 0).unwrap());
    allocator.release_context(0).unwrap();
    assert_eq!(allocator.memory_reserved(0), 0);
    assert!(matches!(allocator.stats(7), Err(Error::InvalidArgument(_))));
    assert!(allocator.is_caching_enabled());
    allocator.set_caching_enabled(false).unwrap();
    assert!(allocator.allocate(512, 0, 0).unwrap().info().unwrap().uncached);
}

#[test]
fn statistics_by_name_and_as_tables() {
    let allocator = allocator();
    let _block = allocator.allocate(1000, 0, 0).unwrap();
    let stats = allocator.stats(0).unwrap();
    assert_eq!(stats.rows(Release::V2_11).count(), 122);
    assert_eq!(stats.rows(Release::V2_15).count(), 123);
    let row = stats.rows(Release::V2_15).find(|row| row.0 == "allocated_bytes.all.current");
    assert_eq!(row.unwrap().1, 1024);
    assert!(allocator.memory_summary(0, true).unwrap().contains("PyTorch CUDA memory summary"));
    let metrics = allocator.metrics().unwrap();
    assert!(metrics.contains("cachalot_allocated_bytes{device=\"0\",pool=\"small\"} 1024"));
    allocator.reset_accumulated_stats(0).unwrap();
    assert_eq!(allocator.stats(0).unwrap().allocation.all.allocated, 0);
}

#[test]
fn requests_at_an_address_and_for_a_stream() {
    let allocator = allocator();
    drop(allocator.allocate(1 << 20, 0, 0).unwrap());
    let first = allocator.allocate(512, 0, 0).unwrap();
    let at = first.address() + 4096;
    let request = Request::new(512).device(0).stream(0).current_stream(0).at(at);
    assert_eq!(allocator.allocate_with(&request).unwrap().address(), at);
    let elsewhere = allocator.allocate_with(&Request::new(512).at(512)).unwrap_err();
    assert!(matches!(elsewhere, Error::InvalidState(_)), "{elsewhere}");
    let empty = allocator.allocate(0, 0, 0).unwrap();
    assert_eq!(empty.address(), 0);
    empty.free().unwrap();
    assert_eq!(allocator.snapshot().unwrap().blocks().next().unwrap().state, BlockState::Allocated);
}

#[test]
fn an_error_of_the_driver_keeps_its_code() {
    let sim = sim();
    let allocator = Allocator::builder().driver(&sim).config("").build().unwrap();
    sim.fail(SimFailure::new(SimCalls::ALLOCATE, 700)).unwrap();
    let error = allocator.allocate(512, 0, 0).unwrap_err();
    assert_eq!(error.driver_code(), Some(700));
    assert!(std::error::Error::source(&error).is_some());
    sim.fail(SimFailure::out_of_memory(SimCalls::FREE).count(1)).unwrap();
}

#[test]
fn tenants_count_by_themselves() {
    let allocator = allocator();
    assert!(allocator.tenant_stats(0).unwrap().is_empty());
    let options = TenantOptions::new("chat").guaranteed_bytes(512 << 20).limit_bytes(600 << 20);
    let chat = allocator.create_tenant(options.priority(2)).unwrap();
    let batch = allocator.create_tenant(TenantOptions::new("batch")).unwrap();
    let inside = {
        let _outer = chat.enter().unwrap();
        let _inner = batch.enter().unwrap();
        allocator.allocate(1 << 20, 0, 0).unwrap()
    };
    assert_eq!(batch.stats(0).unwrap().allocated_bytes.current, 1 << 20);
    let error = batch.allocate(600 << 20, 0, 0).unwrap_err();
    assert!(error.to_string().starts_with("Tenant 'batch' is out of memory."), "{error}");
    let _guaranteed = chat.allocate(512 << 20, 0, 0).unwrap();
    chat.set_bytes(None, 0, None).unwrap();
    chat.set_priority(0).unwrap();
    assert_eq!(chat.stats(0).unwrap().limit_bytes, None);
    assert_eq!(allocator.tenant_stats(0).unwrap().len(), 3);
    let (batch, error) = batch.close().unwrap_err();
    assert!(matches!(error, Error::InvalidState(_)));
    drop(batch);
    drop(inside);
    let too_much = TenantOptions::new("more").guaranteed_bytes(2 << 30);
    assert!(matches!(allocator.create_tenant(too_much), Err(Error::InvalidArgument(_))));
    let third = allocator.create_tenant(TenantOptions::new("")).unwrap();
    assert_eq!(allocator.tenant_stats(0).unwrap().len(), 3, "the dropped one has ended");
    third.close().unwrap();
}

#[test]
fn trimming_gives_back_what_is_idle() {
    let allocator = allocator();
    drop(allocator.allocate(100 << 20, 0, 0).unwrap());
    let (idle, second) = (Duration::from_secs(30), Duration::from_secs(1));
    assert_eq!(allocator.trim_at(0, 0, idle, second).unwrap(), 0);
    assert_eq!(allocator.trim_at(0, 0, idle, second + idle).unwrap(), 100 << 20);
    drop(allocator.allocate(100 << 20, 0, 0).unwrap());
    assert_eq!(allocator.trim(0, 0, Duration::ZERO).unwrap(), 100 << 20);
    let error = allocator.trim(9, 0, Duration::ZERO).unwrap_err();
    assert_eq!(error.released_bytes, 0);
    assert!(matches!(Error::from(error), Error::InvalidArgument(_)));
}

#[test]
fn a_report_says_who_holds_what() {
    let allocator = allocator();
    let _block = allocator.allocate(600 << 20, 0, 0x10).unwrap();
    drop(allocator.allocate(300 << 20, 0, 0x20).unwrap());
    let options = ReportOptions::device(0).request(200 << 20, 0x10);
    let report = allocator.report(&options).unwrap();
    let data = report.to_data();
    assert_eq!(data.numbers.outcome, Outcome::AfterRelease);
    assert_eq!(data.numbers.outcome.name(), "after_release");
    assert_eq!(data.holders[0].bytes, 600 << 20);
    assert_eq!(data.reasons[0].reason.name(), "other_stream");
    assert!(report.json().unwrap().starts_with("{\"version\":"));
    assert!(report.text().unwrap().contains("another stream"));
}

#[test]
fn a_pool_is_put_back_to_a_checkpoint() {
    let allocator = Allocator::builder().driver(sim()).config("").build().unwrap();
    let pool = allocator.create_pool(0, PoolOptions::new()).unwrap();
    let _scope = pool.route(Route::All).unwrap();
    let kept = allocator.allocate(1000, 0, 0).unwrap().leak();
    let checkpoint = pool.checkpoint().unwrap();
    assert_eq!(checkpoint.pool, pool.id());
    assert_eq!(checkpoint.segments[0].len(), 2);
    let later = allocator.allocate(5000, 0, 0).unwrap().leak();
    // SAFETY: both blocks were given up, and nobody has another one of the pool.
    let changes = unsafe { allocator.apply_checkpoint(0, &checkpoint) }.unwrap();
    assert_eq!(changes.freed, [kept, later]);
    assert_eq!(changes.created, [kept]);
    assert!(pool.has_live(&[kept]).unwrap());
    let mut forged = checkpoint.clone();
    forged.segments[0][0].size = 7;
    // SAFETY: as above.
    let refused = unsafe { allocator.apply_checkpoint(0, &forged) };
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    allocator.free(kept).unwrap();
}

// A freed address may be another block's by then, and a created one has one owner at most.
#[test]
fn what_a_checkpoint_frees_cannot_be_adopted_and_what_it_creates_can_once() {
    let allocator = Allocator::builder().driver(sim()).config("").build().unwrap();
    let pool = allocator.create_pool(0, PoolOptions::new()).unwrap();
    let _scope = pool.route(Route::All).unwrap();
    let kept = allocator.allocate(1000, 0, 0).unwrap().leak();
    let dropped = allocator.allocate(2000, 0, 0).unwrap();
    let free_before = dropped.address();
    let checkpoint = pool.checkpoint().unwrap();
    let later = allocator.allocate(5000, 0, 0).unwrap().leak();
    drop(dropped);
    // SAFETY: all blocks were given up.
    let changes = unsafe { allocator.apply_checkpoint(0, &checkpoint) }.unwrap();
    assert_eq!(changes.created, [kept, free_before]);
    let owner = allocator.allocate(5000, 0, 0).unwrap();
    assert_eq!(owner.address(), later);
    assert!(matches!(allocator.adopt(later), Err(Error::InvalidState(_))));
    for address in changes.created {
        let block = allocator.adopt(address).unwrap();
        assert!(matches!(allocator.adopt(address), Err(Error::InvalidState(_))));
        drop(block);
    }
}

#[test]
fn pools_by_address_and_expandable_segments() {
    let driver = sim();
    let allocator =
        Allocator::builder().driver(driver).config("expandable_segments:True").build().unwrap();
    let id = allocator.new_pool_id(true).unwrap();
    assert_ne!(id.first, 0);
    assert!(matches!(allocator.pool(0, id).use_count(), Err(Error::InvalidState(_))));
    let pool = allocator.join_pool(0, id, PoolOptions::new()).unwrap();
    let again = allocator.join_pool(0, id, PoolOptions::new()).unwrap();
    assert_eq!(pool.use_count().unwrap(), 2);
    drop(again);
    assert_eq!(pool.use_count().unwrap(), 1);
    pool.set_no_split().unwrap();
    pool.set_use_on_oom(true).unwrap();
    allocator.set_reserve_class(0x10, "weights").unwrap();
    assert_eq!(allocator.reserve_class(0x10).unwrap(), "weights");
    allocator.set_default_reserve("weights", 0.5).unwrap();
    let reserve = allocator.reserve(0, "weights").unwrap();
    assert_eq!(reserve.reserve_bytes, Some(1 << 29));
    let _block = allocator.allocate(30 << 20, 0, 0x10).unwrap();
    assert_eq!(allocator.expandable_segments(0).unwrap()[0].mapped_size, 40 << 20);
    assert_eq!(allocator.expandable_totals().unwrap().count, 1);
    assert!(matches!(
        allocator.pool(0, PoolId::of_user(99)).release(),
        Err(Error::InvalidState(_))
    ));
}

#[test]
fn copies_are_queued_and_what_cannot_be_copied_is_refused() {
    let allocator = allocator();
    let block = allocator.allocate(512, 0, 0).unwrap();
    let place = (block.address(), 0);
    // SAFETY: the simulated device has no contents.
    unsafe {
        allocator.copy(place, place, 512, 0).unwrap();
        assert!(matches!(allocator.copy((0, 0), place, 512, 0), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn a_recorded_program_tells_of_its_calls() {
    let file = "# {\"format\": 2, \"command\": \"./server\", \"pid\": 4711, \"driver\": 13000}\n\
                a,200,512,a0,0,,5,ff,34000,s,12\nq,200,512,a0,0,,6,,,t,,b0,7,c0de\nx,0,0,0\n";
    let trace = Trace::read(file.as_bytes()).unwrap();
    let info = trace.info();
    assert_eq!((info.format, info.driver_version, info.process_id), (2, Some(13000), Some(4711)));
    assert_eq!(info.command, "./server");
    let events: Vec<_> = trace.events().collect();
    assert_eq!(
        (events[0].cost_ns, events[0].thread, events[0].entry),
        (Some(34000), Some(12), Some('s'))
    );
    assert_eq!(
        (events[1].cost_ns, events[1].thread, events[1].freed_on),
        (None, None, Stream(0xb0))
    );
    assert_eq!((events[1].wait_ns, events[1].driver_context), (Some(7), Some(0xc0de)));
    assert_eq!(events[2].action, Action::ContextEnd);
}

#[test]
fn a_recorded_program_tells_of_its_stacks() {
    let file = "# {\"format\": 2}\n# module 400000 500000 1000 /usr/bin/server\n\
                # stack ff 401234;7f001000\na,200,512,0,0,,,ff\n";
    let trace = Trace::read(file.as_bytes()).unwrap();
    let stack = trace.stack(0xff);
    assert_eq!((stack[0].address, stack[0].file_offset), (0x401234, 0x2234));
    assert_eq!(stack[0].path, "/usr/bin/server");
    assert_eq!((stack[1].address, stack[1].path.as_str()), (0x7f001000, ""));
    assert_eq!(stack.len(), 2);
    assert!(trace.stack(0xfe).is_empty());
}

#[test]
fn a_snapshot_is_written_for_memory_viz() {
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let allocator = allocator();
    allocator.record_history(&HistoryOptions::recording(1000)).unwrap();
    drop(allocator.allocate(512, 0, 0).unwrap());
    let snapshot = allocator.snapshot().unwrap();
    for explains in [Some(&allocator), None] {
        let mut file = Vec::new();
        snapshot.write_pickle(&mut file, explains).unwrap();
        assert!(file.starts_with(b"\x80\x04}(\x8c\x08segments") && file.ends_with(b"u."));
    }
    let error = snapshot.write_pickle(Broken, Some(&allocator)).unwrap_err();
    assert!(matches!(error, Error::Callback(_)), "{error:?}");
}

#[test]
fn a_replay_has_the_recorded_times() {
    let text = "# {\"format\": 2}\n# label 7 f\na,200,512,a0,0,,123,7\n";
    let trace = Trace::read(Cursor::new(text)).unwrap();
    let replay = trace.replay(ReplayOptions::new().history(true)).unwrap();
    let snapshot = replay.snapshot().unwrap();
    drop(replay);
    let entry = snapshot.entry(0, 1).unwrap();
    assert_eq!((entry.time_us, entry.context), (123, 7));
    let without = trace.replay(ReplayOptions::new()).unwrap();
    assert!(matches!(without.snapshot().unwrap_err(), Error::InvalidState(_)));
}

#[test]
fn a_replay_can_end_at_the_first_failure_and_tells_its_driver_calls() {
    let requests: Vec<_> = (1..5).map(|i| format!("a,{i}00000000,41943040,0\n")).collect();
    let text = format!("# {{\"warm_up\": 0}}\n{}", requests.concat());
    let trace = Trace::read(Cursor::new(text)).unwrap();
    let options = || ReplayOptions::new().capacity(100 << 20);
    assert_eq!(trace.replay(options()).unwrap().result().out_of_memory, 2);
    let replay = trace.replay(options().stop_at_out_of_memory(true)).unwrap();
    assert_eq!(replay.result().out_of_memory, 1);
    assert_eq!(replay.result().peak_device_bytes, 80 << 20);
    let calls = replay.calls();
    assert!(calls.iter().all(|call| call.function == "cuMemAlloc" && call.size == 40 << 20));
    let gaps: Vec<_> = calls.iter().map(|call| (call.gap_us, call.count)).collect();
    assert_eq!(gaps, [(0, 1), (8, 2), (1 << 16, 1)]);
}

/// Two requests of 40 MiB and the free of the first.
fn two_requests() -> Trace {
    let text = "# {\"warm_up\": 0}\na,100000000,41943040,0\na,200000000,41943040,0\n\
        q,100000000,41943040,0\nc,100000000,41943040,0\n";
    Trace::read(Cursor::new(text)).unwrap()
}

#[test]
fn a_replay_tells_what_each_event_did() {
    let trace = two_requests();
    let mut seen = Vec::new();
    let observer = |index, entry: &TraceEntry| seen.push((index, entry.action, entry.size >> 20));
    drop(trace.replay(ReplayOptions::new().observer(observer)).unwrap());
    let of_first = [(0, Action::SegmentAlloc, 40), (0, Action::Alloc, 40)];
    let of_others = [
        (1, Action::SegmentAlloc, 40),
        (1, Action::Alloc, 40),
        (2, Action::FreeRequested, 40),
        (2, Action::FreeCompleted, 40),
    ];
    assert_eq!(seen, [&of_first[..], &of_others].concat());
    seen.clear();
    let observer = |index, entry: &TraceEntry| seen.push((index, entry.action, entry.size >> 20));
    let replay = trace.replay(ReplayOptions::new().event_count(1).observer(observer)).unwrap();
    assert_eq!(replay.result().events, 1);
    assert_eq!(seen, of_first);
    let error = trace.replay(ReplayOptions::new().event_count(1).expect(true)).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
}

#[test]
fn a_panic_of_an_observer_ends_the_replay() {
    let trace = two_requests();
    let mut calls = 0;
    let mut is_refused = |options: ReplayOptions<'_>, is_script: bool| {
        let options = options.observer(|_, _| {
            calls += 1;
            panic!("expected")
        });
        let options = options.progress(|_, _| panic!("it goes on"));
        let result = if is_script {
            trace.write_script(options, std::io::sink())
        } else {
            trace.replay(options).map(drop)
        };
        matches!(result, Err(Error::Callback(_)))
    };
    assert!(is_refused(ReplayOptions::new(), false));
    assert!(is_refused(ReplayOptions::new(), true));
    // The library takes these for replays that have worked.
    let options = || ReplayOptions::new().capacity(20 << 20).stop_at_out_of_memory(true);
    assert!(is_refused(options(), false));
    assert!(is_refused(options(), true));
    assert_eq!(calls, 4);
}

#[test]
fn a_recorded_run_is_replayed() {
    let allocator = allocator();
    allocator.record_history(&HistoryOptions::recording(1000)).unwrap();
    for size in [512, 1 << 20, 30 << 20] {
        drop(allocator.allocate(size, 0, 0).unwrap());
    }
    let mut file = Vec::new();
    let stats = allocator.stats(0).unwrap();
    allocator.snapshot().unwrap().write_trace(&mut file, Some(&stats), "three blocks").unwrap();
    let trace = Trace::read(Cursor::new(&file)).unwrap();
    assert_eq!(trace.info().workload, "three blocks");
    assert_eq!(trace.events().len(), trace.info().event_count);
    assert_eq!(trace.stats().count(), trace.info().stat_count);
    let mut calls = 0;
    let replay = trace
        .replay(ReplayOptions::new().expect(true).capacity(1 << 30).progress(|_, _| {
            calls += 1;
            true
        }))
        .unwrap();
    assert_eq!((replay.result().allocations, replay.result().differing_events), (3, 0));
    assert_eq!(replay.result().first_difference, None);
    assert!(replay.allocator().stats(0).unwrap().allocation.all.allocated >= 3);
    assert_eq!(replay.allocator().driver().name(), "sim");
    let kept = replay.allocator().clone();
    drop(replay);
    let (kept, _) = kept.close().unwrap_err();
    drop(kept.allocate(512, 0, 0).unwrap());
    let stopped = trace.replay(ReplayOptions::new().progress(|_, _| false));
    assert!(calls == 0 || matches!(stopped, Err(Error::Callback(_))));
    let mut script = Vec::new();
    trace.write_script(ReplayOptions::new(), &mut script).unwrap();
    assert!(String::from_utf8(script).unwrap().contains("device "));
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _buffer: &mut [u8]) -> Result<usize, IoError> {
        Err(IoError::other("the cable is cut"))
    }
}

#[test]
fn a_reader_that_fails_is_the_source_of_the_error() {
    let error = Trace::read(Broken).unwrap_err();
    assert!(matches!(error, Error::Callback(_)));
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "the cable is cut");
    assert!(matches!(Trace::read(&b"nonsense"[..]).unwrap_err(), Error::Io(_)));
    assert!(matches!(Trace::open("/no/such/file").unwrap_err(), Error::Callback(_)));
}
