// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics as gauges and counters of the crate `metrics`.
//!
//! They are read from the page for Prometheus, so that names, labels and descriptions are its own.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, Recorder, Unit, with_recorder};

use crate::allocator::Allocator;
use crate::callback;
use crate::error::{Error, Result};

const METADATA: Metadata<'static> = Metadata::new("cachalot", Level::INFO, None);

/// Gives the statistics of all devices to the recorder of the crate `metrics`, and so to whatever
/// exporter a program has installed: the metrics of [`Allocator::metrics`], with the same names,
/// labels and descriptions, as gauges and counters. Those of a device also have its `uuid`, where the
/// driver tells it.
///
/// ```
/// use std::time::Duration;
///
/// use cachalot::{Allocator, Driver, MetricsReporter};
///
/// let allocator = Allocator::builder().driver(Driver::open("sim:1GiB")?).build()?;
/// let reporter = MetricsReporter::new(&allocator)
///     .label("pod", std::env::var("POD_NAME").unwrap_or_default());
/// let _reports = reporter.every(Duration::from_secs(15))?; // ends when it is dropped
/// # Ok::<(), cachalot::Error>(())
/// ```
///
/// Keeps the allocator alive. The labels of several allocators have to differ, since a gauge has the
/// value that was given last.
///
/// The crate `metrics` has no way to end a series. The gauge of something that has ended (a pool, a
/// tenant, a label, a limit) is 0 from then on. An exporter with an idle timeout drops it, such as
/// `metrics-exporter-prometheus` with `PrometheusBuilder::idle_timeout`: each report touches all that
/// there is.
pub struct MetricsReporter {
    allocator: Allocator,
    labels: Vec<Label>,
    counters: HashMap<Key, u64>,
    gauges: HashSet<Key>,
}

impl MetricsReporter {
    /// Reports on this allocator. Nothing is reported yet.
    pub fn new(allocator: &Allocator) -> Self {
        Self {
            allocator: allocator.clone(),
            labels: Vec::new(),
            counters: HashMap::new(),
            gauges: HashSet::new(),
        }
    }

    /// A label of every metric, such as the pod's name.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push(Label::new(name.into(), value.into()));
        self
    }

    /// Gives the numbers of this moment to the recorder.
    ///
    /// A counter grows by what its sum has grown since the last report, so that it never falls:
    /// [`Allocator::reset_accumulated_stats`] lets it go on where it is.
    ///
    /// # Errors
    /// As [`Allocator::metrics`].
    pub fn report(&mut self) -> Result<()> {
        let page = self.allocator.metrics()?;
        with_recorder(|recorder| self.record(&page, recorder));
        Ok(())
    }

    /// Reports now, and then on a thread of its own after each interval. A later report that fails is
    /// left out.
    ///
    /// # Errors
    /// As [`MetricsReporter::report`]; `Io` if there cannot be one thread more.
    pub fn every(mut self, interval: Duration) -> Result<MetricsThread> {
        self.report()?;
        let (sender, receiver) = mpsc::channel::<()>();
        let run = move || {
            while receiver.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let _ = self.report();
            }
        };
        let thread = thread::Builder::new().name("cachalot-metrics".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Io(error.to_string().into_boxed_str()))?;
        Ok(MetricsThread { sender: Some(sender), thread: Some(thread) })
    }

    fn record(&mut self, page: &str, recorder: &dyn Recorder) {
        let mut gauges = HashSet::new();
        let mut counters = HashMap::new();
        let mut uuids = HashMap::new();
        let (mut help, mut kind) = ("", "");
        for line in page.lines() {
            if let Some(described) = line.strip_prefix("# HELP ") {
                help = described.split_once(' ').map_or("", |(_, help)| help);
            } else if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, its_kind) = typed.split_once(' ').unwrap_or((typed, ""));
                kind = its_kind;
                describe(recorder, name, kind, help);
            } else if let Some((name, labels, value)) = series(line) {
                let key = Key::from_parts(name.to_owned(), self.labelled(name, labels, &mut uuids));
                // Registered each time, since an exporter may have dropped it.
                match (kind, value.parse::<u64>(), value.parse::<f64>()) {
                    ("counter", Ok(sum), _) => {
                        let before = self.counters.get(&key).copied().unwrap_or(0);
                        let grown = sum.checked_sub(before).unwrap_or(sum);
                        recorder.register_counter(&key, &METADATA).increment(grown);
                        counters.insert(key, sum);
                    }
                    ("gauge", _, Ok(value)) => {
                        recorder.register_gauge(&key, &METADATA).set(value);
                        gauges.insert(key);
                    }
                    _ => {}
                }
            }
        }
        for ended in self.gauges.difference(&gauges) {
            recorder.register_gauge(ended, &METADATA).set(0.0);
        }
        (self.gauges, self.counters) = (gauges, counters);
    }

    /// The labels of a series, with those that are added. `uuids` has those of the devices, of which the
    /// page tells before it comes to their numbers.
    fn labelled(
        &self,
        name: &str,
        mut labels: Vec<Label>,
        uuids: &mut HashMap<String, String>,
    ) -> Vec<Label> {
        let device = find(&labels, "device").unwrap_or_default();
        if let Some(uuid) = uuids.get(device).cloned() {
            labels.push(Label::new("uuid", uuid));
        } else if name == "cachalot_device_info" {
            let uuid = find(&labels, "uuid").unwrap_or_default();
            uuids.insert(device.to_owned(), uuid.to_owned());
        }
        labels.extend_from_slice(&self.labels);
        labels
    }
}

impl fmt::Debug for MetricsReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsReporter").field("labels", &self.labels).finish_non_exhaustive()
    }
}

/// A thread that reports ([`MetricsReporter::every`]); ends when this is dropped.
#[must_use = "the reports end when this is dropped"]
#[derive(Debug)]
pub struct MetricsThread {
    sender: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for MetricsThread {
    fn drop(&mut self) {
        self.sender = None;
        let thread = self.thread.take();
        // Within a callback under a lock the report may wait for that lock.
        callback::now_or_later(move || {
            let _ = thread.map(JoinHandle::join);
        });
    }
}

fn describe(recorder: &dyn Recorder, name: &str, kind: &str, help: &str) {
    let is_bytes = name.trim_end_matches("_total").ends_with("_bytes");
    let unit = is_bytes.then_some(Unit::Bytes);
    let (name, help) = (name.to_owned().into(), help.to_owned().into());
    match kind {
        "counter" => recorder.describe_counter(name, unit, help),
        "gauge" => recorder.describe_gauge(name, unit, help),
        _ => {}
    }
}

/// `name{label="value",...} value`
fn series(line: &str) -> Option<(&str, Vec<Label>, &str)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    Some((name, labels_of(labels.strip_suffix('}')?)?, value))
}

fn find<'a>(labels: &'a [Label], name: &str) -> Option<&'a str> {
    labels.iter().find(|label| label.key() == name).map(Label::value)
}

/// `a="b",c="d"`
fn labels_of(mut text: &str) -> Option<Vec<Label>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.push(Label::new(name.to_owned(), value));
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

/// A value up to its quotation mark without the escapes, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (end, '"') => return Some((value, &text[end + 1..])),
            (_, '\\') => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, letter) => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    use super::*;

    #[test]
    fn the_metrics_of_a_device_have_its_uuid() {
        let page = "# TYPE cachalot_device_info gauge\n\
             cachalot_device_info{device=\"1\",uuid=\"GPU-1\",gpu_uuid=\"GPU-1\",pci_bus_id=\"\"} 1\n\
             # TYPE cachalot_pinned_bytes gauge\n\
             cachalot_pinned_bytes{device=\"0\"} 5\n\
             cachalot_pinned_bytes{device=\"1\"} 7\n";
        let driver = crate::Driver::open("sim:1GiB").unwrap();
        let allocator = Allocator::builder().driver(driver).build().unwrap();
        let recorder = DebuggingRecorder::new();
        MetricsReporter::new(&allocator).record(page, &recorder);
        let rows = recorder.snapshotter().snapshot().into_vec().into_iter();
        let pinned = rows.filter(|(key, ..)| key.key().name() == "cachalot_pinned_bytes");
        let seen: Vec<_> = pinned
            .map(|(key, _, _, value)| {
                let labels: Vec<_> = key.key().labels().cloned().collect();
                (find(&labels, "uuid").map(str::to_owned), value)
            })
            .collect();
        let gauge = |value: f64| DebugValue::Gauge(value.into());
        assert_eq!(seen, [(None, gauge(5.0)), (Some("GPU-1".to_owned()), gauge(7.0))]);
    }

    #[test]
    fn what_is_quoted_comes_without_the_escapes() {
        let (name, labels, value) = series(r#"a{b="c\\d\"e\nf",g=""} 7"#).unwrap();
        assert_eq!((name, find(&labels, "g"), value), ("a", Some(""), "7"));
        assert_eq!(find(&labels, "b"), Some("c\\d\"e\nf"));
        assert!(series("a{b=\"c} 7").is_none());
    }
}
