// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the library, or builds it; src/lib.rs says in which order.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

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
    } else if env::var_os("CARGO_FEATURE_BUNDLED").is_some() {
        build();
    } else if let Some(libraries) = PREBUILT {
        link_prebuilt(Path::new(libraries));
    } else if !find_with_pkg_config() {
        build();
    }
}

/// The folder of the crate `cachalot-prebuilt`.
#[cfg(feature = "prebuilt")]
const PREBUILT: Option<&str> = Some(cachalot_prebuilt::FOLDER);
#[cfg(not(feature = "prebuilt"))]
const PREBUILT: Option<&str> = None;

fn link_prebuilt(libraries: &Path) {
    let target = env::var("TARGET").unwrap();
    let folder = libraries.join(&target);
    println!("cargo::rerun-if-changed={}", libraries.display());
    if !folder.join(file_name(Linkage::Static)).is_file() {
        println!(
            "cargo::error=the feature `prebuilt` has no library for the target {target}, only for: {}; build \
             without it, or name the folder of a library with CACHALOT_LIB_DIR",
            names_in(libraries)
        );
        return;
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=cachalot");
    for library in ["pthread", "dl", "m"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    println!("cargo::metadata=lib_dir={}", folder.display());
}

/// "none" in a clone of the repository where nobody has put a library.
fn names_in(folder: &Path) -> String {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// How a library that is found is linked.
fn chosen_linkage() -> Linkage {
    if env::var_os("CARGO_FEATURE_STATIC").is_some() { Linkage::Static } else { Linkage::Shared }
}

fn file_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Static => "libcachalot.a",
        Linkage::Shared => "libcachalot.so",
    }
}

fn link_found(folder: &Path, found_by: &str) {
    let linkage = chosen_linkage();
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
    let linkage = chosen_linkage();
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
    let source = amalgamation().join("cachalot.cpp");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").flag("-pthread").file(source);
    build.opt_level(3).debug(false).warnings(false); // the library, whatever is being developed on it
    for flag in HARDENING.iter().chain(branch_protection()) {
        build.flag_if_supported(flag);
    }
    build.compile("cachalot");
    println!("cargo::metadata=lib_dir={}", out_dir().display());
}

/// Those of capi/cmake/hardening.txt.
const HARDENING: &[&str] = &[
    "-fstack-protector-strong",
    "-fstack-clash-protection",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
];

fn branch_protection() -> Option<&'static &'static str> {
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => Some(&"-fcf-protection"),
        Ok("aarch64") => Some(&"-mbranch-protection=standard"),
        _ => None,
    }
}

/// The folder with cachalot.cpp: made from the repository that this crate lies in, or a part of a
/// published crate.
fn amalgamation() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let root = here.join("../../..");
    let script = root.join("capi/amalgamation/amalgamate.py");
    if !script.is_file() {
        println!("cargo::rerun-if-changed=amalgamation");
        return here.join("amalgamation");
    }
    for source in ["core", "capi/src", "capi/include", "capi/amalgamation", "VERSION"] {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let made = out_dir().join("amalgamation");
    let status = Command::new(&script).arg(&made).status();
    if !status.as_ref().is_ok_and(ExitStatus::success) {
        panic!("{} did not make the library's source with Python 3: {status:?}", script.display());
    }
    made
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
