// SPDX-License-Identifier: MIT OR Apache-2.0
//! The feature `metrics`.
#![cfg(feature = "metrics")]

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use cachalot::{Allocator, Driver, Label, MetricsReporter, TenantOptions};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use metrics_util::MetricKindMask;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

fn allocator() -> Allocator {
    let driver = Driver::open("sim:1GiB").unwrap();
    Allocator::builder().driver(driver).config("").track_labels(true).build().unwrap()
}

/// Reports to this recorder alone: tests run beside each other.
fn report(reporter: &mut MetricsReporter, recorder: &dyn metrics::Recorder) {
    metrics::with_local_recorder(recorder, || reporter.report().unwrap());
}

/// The series of a page with their values, in no order, and the lines that describe them.
fn lines(page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let in_order = |line: &str| {
        let Some((name, rest)) = line.split_once('{').filter(|_| !line.starts_with('#')) else {
            return line.to_owned();
        };
        let (labels, value) = rest.rsplit_once('}').unwrap();
        let labels: BTreeSet<_> = labels.split(',').collect();
        format!("{name}{{{labels:?}}}{value}")
    };
    page.lines()
        .filter(|line| !line.is_empty())
        .map(in_order)
        .partition(|line| !line.starts_with('#'))
}

#[test]
fn an_exporter_shows_the_librarys_own_page() {
    let allocator = allocator();
    let tenant = allocator.create_tenant(TenantOptions::new("chat \"2\"")).unwrap();
    let _block = tenant.allocate(5 << 20, 0, 0).unwrap();
    let _label = Label::push("a\\b").unwrap();
    let _labelled = allocator.allocate(1000, 0, 0).unwrap();
    let recorder = PrometheusBuilder::new().build_recorder();
    report(&mut MetricsReporter::new(&allocator), &recorder);
    let (exported, exported_words) = lines(&recorder.handle().render());
    let (page, words) = lines(&allocator.metrics().unwrap());
    assert!(page.len() > 60);
    assert_eq!(exported, page);
    // The page describes what has no series too.
    assert!(exported_words.len() > 60 && exported_words.is_subset(&words));
}

fn value(snapshotter: &Snapshotter, wanted: &str) -> Option<(DebugValue, Vec<String>)> {
    snapshotter.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
        let labels = key.key().labels();
        let labels: Vec<_> =
            labels.map(|label| format!("{}={}", label.key(), label.value())).collect();
        let small = labels.iter().any(|label| label == "pool=small");
        (key.key().name() == wanted && !small).then_some((value, labels))
    })
}

#[test]
fn counters_grow_by_what_happened_since_the_last_report() {
    let allocator = allocator();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut reporter = MetricsReporter::new(&allocator);
    // A snapshot takes what was added since the one before.
    let mut frees = || {
        report(&mut reporter, &recorder);
        value(&snapshotter, "cachalot_frees_total").unwrap().0
    };
    let free = || drop(allocator.allocate(5 << 20, 0, 0).unwrap());
    free();
    free();
    assert_eq!(frees(), DebugValue::Counter(2));
    assert_eq!(frees(), DebugValue::Counter(0));
    allocator.reset_accumulated_stats(0).unwrap();
    free();
    assert_eq!(frees(), DebugValue::Counter(1));
}

#[test]
fn labels_are_added_to_each_metric() {
    let allocator = allocator();
    let recorder = DebuggingRecorder::new();
    let mut reporter = MetricsReporter::new(&allocator).label("pod", "server-0");
    report(&mut reporter, &recorder);
    let snapshotter = recorder.snapshotter();
    let (_, labels) = value(&snapshotter, "cachalot_device_total_bytes").unwrap();
    assert_eq!(labels, ["device=0", "pod=server-0"]);
}

#[test]
fn what_has_ended_is_0_until_the_exporter_drops_it() {
    let allocator = allocator();
    let idle = Duration::from_millis(100);
    let recorder =
        PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(idle)).build_recorder();
    let mut reporter = MetricsReporter::new(&allocator);
    let shows = |recorder: &PrometheusRecorder, wanted: &str| {
        let page = recorder.handle().render();
        page.lines().find(|line| line.starts_with(wanted)).map(str::to_owned)
    };
    let limit = "cachalot_limit_bytes";
    allocator.set_memory_limit(0, Some(64 << 20)).unwrap();
    report(&mut reporter, &recorder);
    assert_eq!(shows(&recorder, limit).unwrap(), "cachalot_limit_bytes{device=\"0\"} 67108864");
    allocator.set_memory_limit(0, None).unwrap();
    report(&mut reporter, &recorder);
    assert_eq!(shows(&recorder, limit).unwrap(), "cachalot_limit_bytes{device=\"0\"} 0");
    for _ in 0..2 {
        thread::sleep(idle * 2);
        report(&mut reporter, &recorder);
    }
    assert_eq!(shows(&recorder, limit), None);
    assert!(shows(&recorder, "cachalot_frees_total").is_some());
    assert!(shows(&recorder, "cachalot_device_total_bytes").is_some());
}

#[test]
fn a_thread_reports_until_it_is_dropped() {
    let allocator = allocator();
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).unwrap();
    let reports = MetricsReporter::new(&allocator).every(Duration::from_millis(1)).unwrap();
    let block = allocator.allocate(5 << 20, 0, 0).unwrap();
    let shown = "cachalot_allocated_blocks{device=\"0\",pool=\"large\"} 1";
    while !handle.render().contains(shown) {
        thread::sleep(Duration::from_millis(1));
    }
    drop(reports);
    drop(block);
    thread::sleep(Duration::from_millis(20));
    assert!(handle.render().contains(shown));
}
