#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# PyTorch on cachalot without a GPU: extension_test.py on PyTorch's own allocator, on cachalot with plain segments and
# with expandable ones, the tests of ../gpu/torch_features.py that need no kernel, and programs without Python
# (libtorch.sh).
# Usage: [CACHALOT_LIB_DIR=build/release] ./run.sh FOLDER
#   FOLDER  where build.sh has made a PyTorch
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=$(cd "${1:?usage: run.sh FOLDER}" && pwd)
export CACHALOT_LIB_DIR=${CACHALOT_LIB_DIR:-$root/build/release} CACHALOT_DRIVER=host-shared
export CUDA_HOME=$folder/nvidia/cu13 TORCH_EXTENSIONS_DIR=$folder/extensions
export PYTHONPATH=$folder/site PATH=$folder/site/bin:$PATH

# Those whose kernels would have to run are left out.
features=(a_memory_fraction_limits_and_is_told the_statistics_are_there history_and_snapshots_have_pytorchs_form
  usage_files_are_those_of_pytorch usage_files_are_those_of_pytorch_with_stacks_too
  an_option_that_does_not_exist_is_an_error_when_cuda_begins)

# check WHAT [NAME=VALUE]... PROGRAM [ARGUMENT]...
check() {
  echo "== $1"
  shift
  env PYTHONWARNINGS=ignore "$@"
}

check "PyTorch's own allocator" NATIVE_ALLOCATOR=1 "$here/extension_test.py"
check "plain segments" CACHALOT_ALLOC_CONF=expandable_segments:False "$here/extension_test.py"
check "expandable segments" CACHALOT_ALLOC_CONF=expandable_segments:True "$here/extension_test.py"
check "features" "$root/tests/gpu/torch_features.py" "${features[@]/#/Features.test_}"

libtorch=("$CACHALOT_LIB_DIR" "$folder/site/torch" "$folder/libtorch")
"$here/libtorch.sh" build "${libtorch[@]}"
check "libtorch without Python" CACHALOT_DRIVER=host:1GiB "$here/libtorch.sh" run "${libtorch[@]}"
