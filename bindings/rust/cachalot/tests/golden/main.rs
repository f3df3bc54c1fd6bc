// SPDX-License-Identifier: MIT OR Apache-2.0
//! What PyTorch's own allocator did, line for line: recorded scripts are replayed through the safe
//! crate over the `sim` driver, which hands out the recorded addresses, and every T, D, R, E, = and #
//! line must be equal. tests/oracle/FORMAT.md describes the files.
//!
//! A defect of PyTorch that the library mends ends the comparison of its file, as in
//! `cachalot_verify`.
//!
//! `CACHALOT_GOLDEN_DIR` names another place of tests/golden, so that the built program can be carried
//! to another machine.

mod compare;
mod expected;
mod files;
mod operations;
mod report;
mod script;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use cachalot::Release;

use script::Verdict;

fn golden_folder() -> PathBuf {
    match std::env::var_os("CACHALOT_GOLDEN_DIR") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/golden"),
    }
}

fn replay_file(path: &Path, release: Release) -> Verdict {
    let text = expected::read(path);
    let file = expected::parse(&text);
    script::replay(&file, release)
}

/// Replays files on two threads, since each is a world of its own; the failures, in words.
fn replay_all(files: &[PathBuf], release: Release) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    let compared = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    match replay_file(path, release) {
                        Verdict::Equal { lines } => {
                            assert!(lines > 0, "{name} has no line to compare");
                            compared.fetch_add(lines, Ordering::Relaxed);
                        }
                        Verdict::Different(text) => {
                            failures.lock().unwrap().push(format!("{name}: {text}"));
                        }
                        Verdict::NotComparable(why) => {
                            failures.lock().unwrap().push(format!("{name}: not comparable: {why}"));
                        }
                    }
                }
            });
        }
    });
    println!("{release}: {} files, {} lines", files.len(), compared.into_inner());
    failures.into_inner().unwrap()
}

fn replay_chosen(release: Release, chosen: &[(&str, &str)]) {
    assert_eq!(chosen.len(), 20);
    let folder = golden_folder().join(release.to_string());
    let files: Vec<PathBuf> =
        chosen.iter().map(|(name, _)| folder.join(format!("{name}.txt.gz"))).collect();
    let failures = replay_all(&files, release);
    assert!(failures.is_empty(), "{} files differ:\n{}", failures.len(), failures.join("\n"));
}

/// All but those that cannot be replayed here, which must be just the ones that are listed.
fn replay_rest(release: Release, left_out: &[(&str, &str)]) {
    let files = files::all(&golden_folder().join(release.to_string()));
    let failures = replay_all(&files, release);
    let names: Vec<&str> =
        failures.iter().map(|text| text.split(".txt.gz").next().unwrap()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let listed: Vec<&str> = left_out.iter().map(|(name, _)| *name).collect();
    assert_eq!(sorted, listed, "\n{}", failures.join("\n"));
}

#[test]
fn twenty_files_of_2_11() {
    replay_chosen(Release::V2_11, &files::CHOSEN_2_11);
}

#[test]
fn twenty_files_of_2_15() {
    replay_chosen(Release::V2_15, &files::CHOSEN_2_15);
}

#[test]
fn all_files_of_2_11_but_those_that_are_listed() {
    replay_rest(Release::V2_11, &files::LEFT_OUT_2_11);
}

#[test]
fn all_files_of_2_15_but_those_that_are_listed() {
    replay_rest(Release::V2_15, &files::LEFT_OUT_2_15);
}

/// A comparison that finds nothing proves nothing: each kind of line, changed, is found.
#[test]
fn a_changed_line_is_found() {
    let path = golden_folder().join("2.11/06-serving-126.txt.gz");
    let text = expected::read(&path);
    for start in [" T alloc ", " D malloc ", " R ", " = allocated_bytes.all ", " # blk "] {
        let place = text.find(&format!("\n{start}")).expect("each kind occurs") + 1;
        let end = place + text[place..].find('\n').unwrap();
        // The last digit of an address would also be what the device is told to give.
        let changed = if start == " D malloc " {
            let size = text[place..end].split(' ').nth(3).unwrap();
            text[place..end].replacen(size, "512", 1)
        } else {
            format!("{}0", &text[place..end])
        };
        let text = format!("{}{changed}{}", &text[..place], &text[end..]);
        let verdict = script::replay(&expected::parse(&text), Release::V2_11);
        assert!(matches!(verdict, Verdict::Different(_)), "{start} was not looked at");
    }
}
