// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorders, and the files of out-of-memory errors.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use cachalot::{
    Action, Allocator, Error, Label, RecordedContexts, Recorder, RecorderOptions, Sim, SimOptions,
    Trace,
};

fn allocator() -> Allocator {
    let sim = Sim::new(SimOptions::new().capacity(1 << 30)).unwrap();
    Allocator::builder().driver(&sim).config("").build().unwrap()
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("cachalot-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A block with a label, beside one that is live already.
fn record(recorder: impl FnOnce(&Allocator) -> Recorder) {
    let allocator = allocator();
    let _live = allocator.allocate(1000, 0, 0).unwrap();
    let recorder = recorder(&allocator);
    {
        let _label = Label::push("model").unwrap();
        drop(allocator.allocate(3 << 20, 0, 0).unwrap());
    }
    recorder.flush().unwrap();
    let stats = recorder.stats().unwrap();
    assert!(stats.events >= 5 && stats.lost == 0 && stats.bytes > 0, "{stats:?}");
    recorder.stop().unwrap();
}

fn expect_recording(text: &[u8]) {
    let trace = Trace::read(text).unwrap();
    assert_eq!((trace.info().format, trace.info().workload.as_str()), (2, "test"));
    let events: Vec<_> = trace.events().collect();
    assert_eq!(events[0].action, Action::LiveAtBegin);
    let last = events.last().unwrap();
    assert_eq!((last.action, last.size), (Action::RecordingEnd, 0));
    let alloc = events.iter().find(|event| event.action == Action::Alloc).unwrap();
    assert_eq!(trace.context_text(alloc.context), "model");
    assert_eq!(trace.context_text(77), "");
}

#[test]
fn a_recorder_writes_to_a_file_or_a_writer() {
    let folder = folder("recorder");
    let path = folder.join("run").to_str().unwrap().to_owned();
    record(|allocator| {
        let options = RecorderOptions::to_file(&path).workload("test");
        let recorder = allocator.record(options).unwrap();
        assert_eq!(recorder.path().unwrap(), path);
        recorder
    });
    expect_recording(&std::fs::read(&path).unwrap());
    std::fs::remove_dir_all(folder).unwrap();

    let text = Shared::default();
    record(|allocator| {
        allocator.record(RecorderOptions::to_writer(text.clone()).workload("test")).unwrap()
    });
    expect_recording(&text.0.lock().unwrap());
    assert_eq!(Arc::strong_count(&text.0), 1, "the writer has ended with the recorder");
}

#[test]
fn a_dropped_recorder_stops_and_one_that_is_kept_ends_with_its_allocator() {
    let text = Shared::default();
    let allocator = allocator();
    let options = || RecorderOptions::to_writer(text.clone()).contexts(RecordedContexts::None);
    drop(allocator.record(options()).unwrap());
    assert_eq!(Arc::strong_count(&text.0), 1);
    allocator.record(options()).unwrap().keep();
    assert_eq!(Arc::strong_count(&text.0), 2);
    drop(allocator);
    assert_eq!(Arc::strong_count(&text.0), 1);
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_loses_events_and_no_request() {
    let allocator = allocator();
    let recorder = allocator.record(RecorderOptions::to_writer(Full)).unwrap();
    drop(allocator.allocate(1, 0, 0).unwrap());
    assert!(matches!(recorder.flush().unwrap_err(), Error::Io(_)));
    assert!(recorder.stats().unwrap().lost > 0);
    let neither = allocator.record(RecorderOptions::default()).unwrap_err();
    assert!(matches!(neither, Error::InvalidArgument(_)), "{neither}");
}

#[test]
fn an_out_of_memory_error_leaves_its_files() {
    let folder = folder("oom");
    let allocator = allocator();
    allocator.dump_out_of_memory(&folder, Some(100)).unwrap();
    assert!(matches!(allocator.allocate(1 << 40, 0, 0).unwrap_err(), Error::OutOfMemory(_)));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
    allocator.dump_no_out_of_memory().unwrap();
    allocator.allocate(1 << 40, 0, 0).unwrap_err();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(allocator.dump_out_of_memory(&folder, None).unwrap_err(), Error::Io(_)));
}
