// SPDX-License-Identifier: MIT OR Apache-2.0
// Plain values on their way over the border: checks of what callers give, and the core's values as
// the structs of the C interface. What does not fit throws Error(kInvalidArgument).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "alloc/config/pool_id.h"
#include "alloc/config/rules.h"
#include "alloc/config/serving_options.h"
#include "alloc/config/settings.h"
#include "alloc/stats/stats.h"
#include "alloc/trace/history.h"
#include "base/error.h"
#include "base/text.h"
#include "cachalot/allocator.h"
#include "cachalot/history.h"
#include "cachalot/policy.h"
#include "cachalot/stats.h"

namespace cachalot::capi {

// A number between first and last.
int32_t read_choice(int32_t value, int32_t first, int32_t last, const char* name);

// 0 or 1.
inline bool read_flag(int32_t value, const char* name) {
  return read_choice(value, 0, 1, name) != 0;
}

// Bits of `known`.
uint32_t read_bits(uint32_t value, uint32_t known, const char* name);

// CACHALOT_RELEASE_*; the default is the environment's.
Release read_release(int32_t release);

// The fields of a policy but for its struct_size. Nothing: the policy is CACHALOT_POLICY_DEFAULT.
std::optional<ServingOptions> read_policy(const cachalot_policy& in);

// Those fields of options that have them.
template <class Options>
std::optional<ServingOptions> read_policy_of(const Options& in) {
  return read_policy({.struct_size = sizeof(cachalot_policy),
                      .policy = in.policy,
                      .thrift = in.thrift,
                      .borrow = in.borrow,
                      .streams = in.streams,
                      .page_bytes = in.page_bytes});
}

cachalot_policy write_policy(const ServingOptions& options);

PoolId read_pool_id(cachalot_pool_id id);
// (0,0): all pools.
PoolId read_pool_id_or_all(cachalot_pool_id id);

inline cachalot_pool_id write_pool_id(PoolId id) { return {id.first, id.second}; }

// What the numbers say; all that they do not say is kept as `settings` has it.
Settings read_settings(const cachalot_settings& in, Settings settings);

cachalot_settings write_settings(const Settings& settings);

// Its texts are borrowed from the entry.
cachalot_trace_entry write_trace_entry(const TraceEntry& entry);

cachalot_stat write_stat(const Stat& stat);

// The row of an index that a caller gave.
template <class Rows>
auto& row_at(Rows& rows, size_t index, const char* name) {
  require_row(index, rows.size(), name);
  return rows[index];
}

// A caller's data that has become ours: `destroy` is called when the last holder lets go, and at
// once if there is no memory to hold it. To be taken before anything that can throw.
std::shared_ptr<void> own(void* user_data, void (*destroy)(void* user_data));

}  // namespace cachalot::capi
