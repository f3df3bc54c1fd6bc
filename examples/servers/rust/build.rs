// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links libcachalot_onnxruntime.so, and lets the program find it and libcachalot.so where they were
//! built.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CACHALOT_LIB_DIR");
    let folder = std::env::var("CACHALOT_LIB_DIR").unwrap_or_default();
    if !Path::new(&folder).is_absolute()
        || !Path::new(&folder).join("libcachalot_onnxruntime.so").exists()
    {
        println!(
            "cargo::error=CACHALOT_LIB_DIR='{folder}' has to be the absolute path of the folder of \
             libcachalot_onnxruntime.so"
        );
        return;
    }
    println!("cargo::rustc-link-search=native={folder}");
    println!("cargo::rustc-link-lib=dylib=cachalot_onnxruntime");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
}
