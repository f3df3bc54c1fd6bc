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

mod checkpoints;
mod compare;
mod expected;
mod files;
mod operations;
mod pinned;
mod report;
mod script;
mod sharing;

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
    let folder = golden_folder().join(release.to_string());
    let files: Vec<PathBuf> =
        chosen.iter().map(|(name, _)| folder.join(format!("{name}.txt.gz"))).collect();
    let failures = replay_all(&files, release);
    assert!(failures.is_empty(), "{} files differ:\n{}", failures.len(), failures.join("\n"));
}

/// All but those that cannot be replayed here, which must be just the ones that are listed.
fn replay_rest(release: Release) {
    let files = files::all(&golden_folder().join(release.to_string()));
    let failures = replay_all(&files, release);
    let names: Vec<&str> =
        failures.iter().map(|text| text.split(".txt.gz").next().unwrap()).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, files::LEFT_OUT, "\n{}", failures.join("\n"));
}

#[test]
fn chosen_files_of_2_11() {
    replay_chosen(Release::V2_11, &files::CHOSEN_2_11);
}

#[test]
fn chosen_files_of_2_15() {
    replay_chosen(Release::V2_15, &files::CHOSEN_2_15);
}

#[test]
fn all_files_of_2_11_but_those_that_are_listed() {
    replay_rest(Release::V2_11);
}

#[test]
fn all_files_of_2_15_but_those_that_are_listed() {
    replay_rest(Release::V2_15);
}

/// A comparison that finds nothing proves nothing: the last line of each kind, changed, is found.
#[test]
fn a_changed_line_is_found() {
    let files: [(&str, &[&str]); 5] = [
        ("06-serving-126", &["T alloc ", "D malloc ", "R ", "= allocated_bytes.all ", "# blk "]),
        ("pinned-07-reserve-203", &["D host_alloc ", "R ", "# known", "= host_allocations "]),
        ("cases/checkpoint", &["X freed ", "X created ", "T alloc "]),
        ("cases/sharing-pages", &["# share ", "# imported ", "D export ", "D import "]),
        ("cases/sharing-forged", &["E error ", "# imported "]),
    ];
    for (name, starts) in files {
        let text = expected::read(&golden_folder().join(format!("2.11/{name}.txt.gz")));
        for start in starts {
            let changed = change_last(&text, start);
            let verdict = script::replay(&expected::parse(&changed), Release::V2_11);
            let is_found = matches!(verdict, Verdict::Different(_));
            assert!(is_found, "{name}: {start} was not looked at");
        }
    }
}

fn change_last(text: &str, start: &str) -> String {
    let place = text.rfind(&format!("\n {start}")).expect("each kind occurs") + 1;
    let end = place + text[place..].find('\n').unwrap();
    let line = &text[place..end];
    // The last descriptor becomes the first one of the file. The last digit of an address would also be
    // what the device is told to give.
    let changed = if start == sharing::SHARE_LINE {
        format!("{}85030000", &line[..line.len() - 8])
    } else if start.starts_with("D ") {
        line.replacen(line.split(' ').nth(3).unwrap(), "512", 1)
    } else {
        format!("{line}0")
    };
    format!("{}{changed}{}", &text[..place], &text[end..])
}
