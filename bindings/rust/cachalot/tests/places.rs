// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every function of the header has its place in the safe crate.

use std::path::Path;

#[test]
fn every_function_is_used() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cachalot-sys/src/bindings.rs");
    let Ok(bindings) = std::fs::read_to_string(bindings) else {
        println!("skipped: the sources are not here");
        return;
    };
    let text: String = sources
        .read_dir()
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let functions: Vec<&str> = bindings
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn "))
        .filter_map(|line| line.split('(').next())
        .collect();
    assert!(functions.len() > 150, "the bindings have functions");
    let has_place = |name: &str| {
        let name = format!("sys::{name}");
        text.match_indices(&name).any(|(start, _)| {
            let behind = text[start + name.len()..].chars().next().unwrap_or(' ');
            !(behind.is_alphanumeric() || behind == '_')
        })
    };
    let missing: Vec<&&str> = functions.iter().filter(|name| !has_place(name)).collect();
    assert!(missing.is_empty(), "without a place: {missing:?}");
}
