// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the library, or builds it; src/lib.rs says in which order.

use std::env;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq)]
enum Linkage {
    Static,
    Shared,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CACHALOT_LIB_DIR");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    if env::var_os("DOCS_RS").is_some() {
        return; // Documentation needs no library.
    }
    if let Some(folder) = env::var_os("CACHALOT_LIB_DIR").filter(|folder| !folder.is_empty()) {
        link_found(Path::new(&folder), "CACHALOT_LIB_DIR");
    } else if env::var_os("CARGO_FEATURE_BUNDLED").is_some() || !find_with_pkg_config() {
        build();
    }
}

/// What the features ask for.
fn chosen_linkage() -> Option<Linkage> {
    if env::var_os("CARGO_FEATURE_STATIC").is_some() {
        return Some(Linkage::Static);
    }
    env::var_os("CARGO_FEATURE_SHARED").map(|_| Linkage::Shared)
}

fn file_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Static => "libcachalot.a",
        Linkage::Shared => "libcachalot.so",
    }
}

fn link_found(folder: &Path, found_by: &str) {
    let linkage = chosen_linkage().unwrap_or(Linkage::Shared);
    let file = folder.join(file_name(linkage));
    println!("cargo::rerun-if-changed={}", file.display());
    if !file.is_file() {
        panic!("{found_by} names {}, where there is no {}", folder.display(), file_name(linkage));
    }
    if linkage == Linkage::Shared {
        // Cargo tells programs that it runs of libraries in its own folders, so one that lies where
        // the loader does not look is found by `cargo run` and `cargo test` all the same.
        link(&offer_in_out_dir(folder), linkage);
    } else {
        link(folder, linkage);
    }
    println!("cargo::metadata=lib_dir={}", folder.display());
}

/// A folder of Cargo's with links to the shared library and to its names by version.
fn offer_in_out_dir(folder: &Path) -> PathBuf {
    let offered = out_dir().join("shared");
    let _ = std::fs::remove_dir_all(&offered);
    std::fs::create_dir_all(&offered).expect("OUT_DIR can be written");
    let folder = folder.canonicalize().expect("the folder exists");
    for entry in folder.read_dir().expect("the folder can be read").flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("libcachalot.so") {
            std::os::unix::fs::symlink(entry.path(), offered.join(name))
                .expect("OUT_DIR can be written");
        }
    }
    offered
}

fn find_with_pkg_config() -> bool {
    // Before version 1 a minor version may break the binary interface.
    let major: u32 = env!("CARGO_PKG_VERSION_MAJOR").parse().unwrap();
    let minor: u32 = env!("CARGO_PKG_VERSION_MINOR").parse().unwrap();
    let found = pkg_config::Config::new()
        .range_version(
            format!("{major}.{minor}").as_str()..format!("{major}.{}", minor + 1).as_str(),
        )
        .cargo_metadata(false)
        .env_metadata(true)
        .probe("cachalot");
    let Ok(library) = found else { return false };
    let linkage = chosen_linkage().unwrap_or(Linkage::Shared);
    let folder = library.link_paths.iter().find(|folder| folder.join(file_name(linkage)).is_file());
    if let Some(folder) = folder {
        link_found(folder, "pkg-config");
    } else if linkage == Linkage::Shared {
        println!("cargo::rustc-link-lib=dylib=cachalot"); // In a folder of the system.
    } else {
        return false;
    }
    true
}

fn build() {
    let linkage = chosen_linkage().unwrap_or(Linkage::Static);
    let source = source_folder();
    println!("cargo::rerun-if-changed={}", source.join("core").display());
    println!("cargo::rerun-if-changed={}", source.join("capi").display());
    let target = if linkage == Linkage::Static { "cachalot_static" } else { "cachalot" };
    let built = cmake::Config::new(&source)
        .profile("Release")
        .define("CMAKE_UNITY_BUILD", "ON")
        .define("CACHALOT_BUILD_TOOLS", "OFF")
        .define("CACHALOT_BUILD_TESTS", "OFF")
        .define("CACHALOT_BUILD_EXAMPLES", "OFF")
        .define("CACHALOT_INSTALL", "OFF")
        .build_target(target)
        .build();
    let folder = built.join("build");
    link(&folder, linkage);
    println!("cargo::metadata=lib_dir={}", folder.display());
}

/// The repository that this crate lies in, or the copy that a published crate carries.
fn source_folder() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let candidates = [here.join("../../.."), here.join("source")];
    for candidate in &candidates {
        if candidate.join("capi/include/cachalot/cachalot.h").is_file() {
            return candidate.canonicalize().unwrap();
        }
    }
    panic!(
        "neither an installed cachalot was found (CACHALOT_LIB_DIR, pkg-config) nor its sources"
    );
}

fn link(folder: &Path, linkage: Linkage) {
    println!("cargo::rustc-link-search=native={}", folder.display());
    match linkage {
        Linkage::Static => {
            println!("cargo::rustc-link-lib=static=cachalot");
            println!("cargo::rustc-link-lib=dylib=stdc++");
        }
        Linkage::Shared => println!("cargo::rustc-link-lib=dylib=cachalot"),
    }
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").unwrap())
}
