// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which files are replayed.

use std::path::{Path, PathBuf};

/// All that are not packed with xz.
pub fn all(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = [folder.to_owned(), folder.join("cases")]
        .iter()
        .flat_map(|folder| folder.read_dir().expect("the folder is there"))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    files.sort();
    files
}

/// Some of release 2.11 and why: one a profile, the options all different where that can be, the five
/// cases that reach the most of the interface, two files each of pinned memory and of checkpoints, and five
/// of memory between processes.
pub const CHOSEN_2_11: [(&str, &str); 29] = [
    ("09-everything-195", "the profile everything"),
    ("11-large-223", "the profile large"),
    ("03-streams-67", "the profile streams"),
    ("12-limit_record-250", "the profile limit_record"),
    ("10-record-208", "the profile record"),
    ("08-settings-174", "the profile settings"),
    ("13-limit-269", "the profile limit"),
    ("16-small-322", "the profile small"),
    ("17-mixed-341", "the profile mixed"),
    ("05-training-105", "the profile training"),
    ("06-edge-124", "the profile edge"),
    ("20-serving-406", "the profile serving"),
    ("07-oom-151", "the profile oom"),
    ("18-fail-372", "the profile fail"),
    ("09-pools-193", "the profile pools"),
    ("cases/contexts", "contexts of entries, segments and blocks"),
    ("cases/callback", "a closure that frees memory while a request waits"),
    ("cases/fallback-pools", "private pools that help out"),
    ("cases/e08-capture-reuse", "blocks freed during a capture"),
    ("cases/e16-async-backend", "the driver's own pool"),
    ("pinned-07-reserve-203", "pinned memory, the profile reserve"),
    ("pinned-15-captures-207", "pinned memory, the profile captures"),
    ("checkpoints-06-streams-107", "checkpoints, the profile streams"),
    ("checkpoints-17-options-116", "checkpoints, the profile options"),
    ("sharing-06-refused-137", "memory between processes, the profile refused"),
    ("sharing-11-peers-141", "memory between processes, the profile peers"),
    ("cases/sharing-pages", "pages by descriptors"),
    ("cases/sharing-fabric", "pages by fabric handles"),
    ("cases/sharing-forged", "bytes that open nothing"),
];

/// The same of release 2.15; its cases are of what is new in it.
pub const CHOSEN_2_15: [(&str, &str); 29] = [
    ("13-everything-20275", "the profile everything"),
    ("17-large-20343", "the profile large"),
    ("09-streams-20187", "the profile streams"),
    ("14-limit_record-20290", "the profile limit_record"),
    ("16-record-20328", "the profile record"),
    ("10-settings-20214", "the profile settings"),
    ("11-limit-20229", "the profile limit"),
    ("26-small-20522", "the profile small"),
    ("15-mixed-20301", "the profile mixed"),
    ("19-training-20385", "the profile training"),
    ("20-edge-20404", "the profile edge"),
    ("18-serving-20366", "the profile serving"),
    ("21-oom-20431", "the profile oom"),
    ("24-fail-20492", "the profile fail"),
    ("23-pools-20473", "the profile pools"),
    ("cases/r50-at-an-address", "requests for an address"),
    ("cases/r65-reserve", "reserve classes and their address space"),
    ("cases/r31-rejection", "rejections and who observes them"),
    ("cases/e08-capture-reuse", "blocks freed during a capture"),
    ("cases/r70-async", "the driver's own pool"),
    ("pinned-07-reserve-203", "pinned memory, the profile reserve"),
    ("pinned-15-captures-207", "pinned memory, the profile captures"),
    ("checkpoints-06-streams-107", "checkpoints, the profile streams"),
    ("checkpoints-17-options-116", "checkpoints, the profile options"),
    ("sharing-06-refused-137", "memory between processes, the profile refused"),
    ("sharing-11-peers-141", "memory between processes, the profile peers"),
    ("cases/sharing-pages", "pages by descriptors"),
    ("cases/r60-fabric", "pages by fabric handles"),
    ("cases/r61-forged", "bytes that open nothing"),
];

/// What cannot be replayed here: a process's environment is not the test's to change.
pub const LEFT_OUT: [&str; 3] = ["e04-two-variables", "e28-caching-off", "sharing-without-handles"];
