#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The references of Rust, Java and Go, by their own tools; a warning is an error. To be sourced by build.sh.

# As docs.rs makes it: without the library.
build_rust() {
  (
    cd bindings/rust
    DOCS_RS=1 RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps -p cachalot-sys -p cachalot \
      --features cachalot/serde,cachalot/allocator-api2,cachalot/metrics,cachalot/tracing \
      --target-dir "$PWD/../../build/site/rust"
  )
  cp -r build/site/rust/doc "$made/rust"
}

build_java() {
  javadoc -d "$made/java" -quiet -notimestamp -Xdoclint:all -Werror -encoding UTF-8 \
    --module-source-path io.cachalot=bindings/java/src/main/java --module io.cachalot
}

# A page in Markdown, which is one of the site.
build_go() {
  go run "$site/go_page.go" bindings/go cachalot.io/go >"$made/go.md"
  export CACHALOT_GO_PAGE="$made/go.md"
}

need default-jdk-headless
build_rust
build_java
build_go
