#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes the pages by which Go's tools find the modules: what https://cachalot.io has to answer for them.
#
#   bindings/go/pages.sh REPOSITORY SITE
#
# REPOSITORY is the address that git clones; SITE is the folder of the web site's files, which gets go/index.html and
# go/metrics/index.html. The fourth word of go-import, a folder of the repository, is known to Go 1.25 and later, and
# to proxy.golang.org, which older ones ask.
set -eu
repository=$1
mkdir -p "$2"
site=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
for folder in bindings/go bindings/go/metrics; do
  path=$(sed -n 's/^module //p' "$folder/go.mod")
  page=$site/${path#*/}
  mkdir -p "$page"
  cat >"$page/index.html" <<END
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$path</title>
<meta name="go-import" content="$path git $repository $folder">
<meta http-equiv="refresh" content="0; url=https://pkg.go.dev/$path">
</head>
<body><a href="https://pkg.go.dev/$path">$path</a></body>
</html>
END
done
