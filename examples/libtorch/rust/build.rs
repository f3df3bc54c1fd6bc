// SPDX-License-Identifier: MIT OR Apache-2.0
//! Links libcachalot_libtorch.so and libtorch's CUDA library, of which no symbol is named, and lets programs find them
//! where they are.

use std::path::Path;

fn folder(variable: &str, file: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={variable}");
    let folder = std::env::var(variable).unwrap_or_default();
    if Path::new(&folder).is_absolute() && Path::new(&folder).join(file).exists() {
        return Some(folder);
    }
    println!(
        "cargo::error={variable}='{folder}' has to be the absolute path of the folder of {file}"
    );
    None
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(cachalot) = folder("CACHALOT_LIB_DIR", "libcachalot_libtorch.so") else { return };
    let Some(libtorch) = folder("LIBTORCH", "lib/libtorch_cuda.so") else { return };
    println!("cargo::rustc-link-search=native={cachalot}");
    println!("cargo::rustc-link-lib=dylib=cachalot_libtorch");
    println!(
        "cargo::rustc-link-arg=-Wl,--no-as-needed,{libtorch}/lib/libtorch_cuda.so,--as-needed"
    );
    println!("cargo::rustc-link-arg=-Wl,-rpath,{cachalot}:{libtorch}/lib");
}
