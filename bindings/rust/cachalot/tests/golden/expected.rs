// SPDX-License-Identifier: MIT OR Apache-2.0
//! A script's operations, each with the lines that PyTorch's allocator printed under it.

use std::io::Read;
use std::path::Path;

pub struct Operation<'a> {
    /// The whole line, and its first word.
    pub line: &'a str,
    pub word: &'a str,
    /// What was printed under it, without the blank that each line begins with.
    pub expected: Vec<&'a str>,
    /// In the file, counted from 1.
    pub number: usize,
}

pub fn read(path: &Path) -> String {
    let file =
        std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text
}

pub fn parse(text: &str) -> Vec<Operation<'_>> {
    let mut operations: Vec<Operation> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(expected) = line.strip_prefix(' ') {
            operations.last_mut().expect("an operation stands first").expected.push(expected);
        } else {
            let word = line.split([' ', '\t']).next().unwrap_or("");
            operations.push(Operation { line, word, expected: Vec::new(), number: index + 1 });
        }
    }
    operations
}
