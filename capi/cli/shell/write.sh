#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Writes the man page and the completions that are installed, by the program itself, so that no option is missing. They
# are in git, since a build for another machine cannot run it. The test cli.shell compares them.
#
#   capi/cli/shell/write.sh PROGRAM [FOLDER]    PROGRAM: build/release/cachalot
set -eu
folder=${2-$(dirname "$0")}
"$1" manual >"$folder/cachalot.1"
"$1" completion bash >"$folder/cachalot.bash"
"$1" completion zsh >"$folder/_cachalot"
"$1" completion fish >"$folder/cachalot.fish"
