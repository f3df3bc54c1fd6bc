// SPDX-License-Identifier: MIT OR Apache-2.0
// The release of PyTorch that the oracle is built for, known from its headers.
#pragma once
#include <torch/headeronly/version.h>

// Whether that release is 2.MINOR or later.
#define SINCE(minor) (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 200 + (minor))
