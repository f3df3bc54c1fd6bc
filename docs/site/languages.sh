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

# Both artifacts, over the libraries that the one for Micrometer needs.
build_java() {
  java=bindings/java
  mvn -B -q -f "$java/parent/pom.xml" -pl ../micrometer -am \
    org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies -DincludeScope=compile \
    -DexcludeArtifactIds=cachalot -DoutputDirectory="$made/jars"
  javadoc -d "$made/java" -quiet -notimestamp -Xdoclint:all -Werror -encoding UTF-8 --module-path "$made/jars" \
    --module-source-path "io.cachalot=$java/src/main/java" \
    --module-source-path "io.cachalot.micrometer=$java/micrometer/src/main/java:$site/micrometer" \
    --module io.cachalot,io.cachalot.micrometer
}

# Pages in Markdown, which are those of the site.
build_go() {
  export CACHALOT_MADE_PAGES="$made/pages"
  mkdir -p "$CACHALOT_MADE_PAGES/api/go"
  go run "$site/go_page.go" bindings/go cachalot.io/go >"$CACHALOT_MADE_PAGES/api/go.md"
  go run "$site/go_page.go" bindings/go/metrics cachalot.io/go/metrics >"$CACHALOT_MADE_PAGES/api/go/metrics.md"
}

need default-jdk-headless maven
build_rust
build_java
build_go
