#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The binaries of a release on a GPU: the first block in C and C++, an unchanged PyTorch under `cachalot run` and
# `cachalot record`, and the wheel.
#
#   tests/gpu/portable.sh PACKAGES OUT
#     PACKAGES   with cachalot-VERSION-linux-ARCH.tar.gz and the wheel (tests/packages/run.sh: archives, pypi)
#     OUT        gets the metrics and the recording
#
# Needs an NVIDIA GPU, a C and a C++ compiler, and a Python with PyTorch.
set -eu
cd "$(dirname "$0")/../.."
. tests/readme_block.sh
packages=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf "$packages"/cachalot-*-linux-"$(uname -m)".tar.gz -C "$work" --strip-components=1
export CACHALOT_DRIVER=cuda
nvidia-smi --query-gpu=name,driver_version,uuid --format=csv,noheader

for language in c cpp; do readme_block README.md $language >"$work/first.$language"; done
cc -I"$work/include" "$work/first.c" -o "$work/first_c" "$work/lib/libcachalot.a" -pthread -ldl -lm
"$work/first_c"
c++ -std=c++20 -I"$work/include" "$work/first.cpp" -o "$work/first_cpp" -L"$work/lib" -lcachalot -Wl,-rpath,"$work/lib"
"$work/first_cpp"
"$work/bin/cachalot" --version

cat >"$work/steps.py" <<'END'
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(50):
    loss = model(torch.randn(256 + step, 1024, device="cuda", generator=torch.Generator("cuda").manual_seed(step))).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.6f}")
END
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
python3 "$work/steps.py"
"$work/bin/cachalot" run --metrics "$out/run.prom" -- python3 "$work/steps.py"
grep '^cachalot_device_info\|^cachalot_reserved_peak_bytes\|^cachalot_build_info' "$out/run.prom"
[ "$(grep -c '^cachalot_device_info.*uuid="GPU-' "$out/run.prom")" -eq 1 ]
"$work/bin/cachalot" record --output "$out/run-%p.cachalot" -- python3 "$work/steps.py"
for recording in "$out"/run-*.cachalot; do "$work/bin/cachalot" replay --brief "$recording" | head -n 16; done
unset PYTORCH_NO_CUDA_MEMORY_CACHING

python3 -m pip install -q --no-index --no-deps --target "$work/wheel" "$packages"/cachalot_cuda-*"$(uname -m)".whl
export PYTHONPATH="$work/wheel"
readme_block README.md python >"$work/first.py"
python3 "$work/first.py"
sed '1i import cachalot_cuda.torch; cachalot_cuda.torch.install()' "$work/steps.py" >"$work/on_cachalot.py"
python3 "$work/on_cachalot.py"
echo "The binaries work on this GPU"
