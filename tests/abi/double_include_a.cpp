// SPDX-License-Identifier: MIT OR Apache-2.0
// Each header twice, in an order that is not theirs; with double_include_b.cpp in one program.
// clang-format off
#include "cachalot/tenant.h"
#include "cachalot/trim.h"
#include "cachalot/trace.h"
#include "cachalot/report.h"
#include "cachalot/metrics.h"
#include "cachalot/cuda.h"
#include "cachalot/text.h"
#include "cachalot/pool.h"
#include "cachalot/snapshot.h"
#include "cachalot/history.h"
#include "cachalot/stats.h"
#include "cachalot/allocator.h"
#include "cachalot/sim.h"
#include "cachalot/driver.h"
#include "cachalot/status.h"
#include "cachalot/version.h"
#include "cachalot/export.h"
#include "cachalot/cachalot.h"
// clang-format on

#include "cachalot/allocator.h"
#include "cachalot/cachalot.h"
#include "cachalot/cuda.h"
#include "cachalot/driver.h"
#include "cachalot/export.h"
#include "cachalot/history.h"
#include "cachalot/metrics.h"
#include "cachalot/pool.h"
#include "cachalot/report.h"
#include "cachalot/sim.h"
#include "cachalot/snapshot.h"
#include "cachalot/stats.h"
#include "cachalot/status.h"
#include "cachalot/tenant.h"
#include "cachalot/text.h"
#include "cachalot/trace.h"
#include "cachalot/trim.h"
#include "cachalot/version.h"

const char* version_elsewhere();

int main() { return cachalot_version() == version_elsewhere() ? 0 : 1; }
