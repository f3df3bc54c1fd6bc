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

pub const CHOSEN_2_11: [&str; 0] = [];
pub const CHOSEN_2_15: [&str; 0] = [];
