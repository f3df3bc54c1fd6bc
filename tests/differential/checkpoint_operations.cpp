// SPDX-License-Identifier: MIT OR Apache-2.0
#include "checkpoint_operations.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cachalot::differential {
namespace {

using Addresses = std::vector<cachalot_address>;
using Rows = std::vector<cachalot_checkpoint_row>;

// The addresses behind lines that begin so, up to the first that begins as the other text.
Addresses expected_addresses(const Script& script, std::string_view begin, std::string_view until) {
  Addresses addresses;
  for (std::string_view line : script.expected()) {
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    if (!until.empty() && line.substr(0, until.size()) == until) break;
    if (line.substr(0, begin.size()) != begin) continue;
    const std::string_view rest = line.substr(begin.size());
    addresses.push_back(parse_hex(rest.substr(0, rest.find(' '))));
  }
  return addresses;
}

// The reference's restore begins with the frees of all blocks of the pool.
Addresses free_as_expected(Script& script) {
  Addresses freed;
  for (const cachalot_address address :
       expected_addresses(script, "T free_requested ", "T alloc ")) {
    const auto found = std::find_if(script.live.begin(), script.live.end(),
                                    [&](const auto& block) { return block.second == address; });
    if (found == script.live.end()) continue;
    script.free_live(found->first);
    freed.push_back(address);
  }
  return freed;
}

Rows rows_of(const cachalot_checkpoint* checkpoint) {
  Rows rows(cachalot_checkpoint_row_count(checkpoint));
  for (size_t i = 0; i < rows.size(); i++) {
    rows[i].struct_size = sizeof rows[i];
    cachalot_checkpoint_row_at(checkpoint, i, &rows[i]);
  }
  return rows;
}

// Those of its hand-outs, and behind them the one that it did not find.
Addresses expected_order(const Script& script) {
  Addresses order = expected_addresses(script, "T alloc ", "");
  const Addresses missing = expected_addresses(script, "E error  could not find ", "");
  order.insert(order.end(), missing.begin(), missing.end());
  return order;
}

// Segments of which nothing is expected come last.
CheckpointHandle in_expected_order(Script& script, const cachalot_checkpoint* checkpoint) {
  Rows rows = rows_of(checkpoint);
  const Addresses order = expected_order(script);
  std::map<size_t, ptrdiff_t> places;  // by segment: of its first block, which leads its rows
  for (const cachalot_checkpoint_row& row : rows) {
    places.try_emplace(row.segment,
                       std::find(order.begin(), order.end(), row.address) - order.begin());
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return std::pair(places.at(a.segment), a.segment) < std::pair(places.at(b.segment), b.segment);
  });
  cachalot_pool_id pool = {};
  script.worked(cachalot_checkpoint_pool(checkpoint, &pool));
  cachalot_checkpoint* ordered = nullptr;
  script.worked(cachalot_checkpoint_create(pool, &ordered, script.error()));
  for (const cachalot_checkpoint_row& row : rows)
    script.worked(cachalot_checkpoint_add(ordered, &row, script.error()));
  return CheckpointHandle(ordered);
}

void forget(Script& script, cachalot_address address) {
  std::erase_if(script.live, [&](const auto& block) { return block.second == address; });
}

}  // namespace

void take_checkpoint(Script& script, Arguments& arguments) {
  const std::string name(arguments.word());
  const cachalot_pool_id pool = arguments.pool();
  arguments.end();
  cachalot_checkpoint* taken = nullptr;
  if (script.worked(
          cachalot_checkpoint_take(script.allocator(), kDevice, pool, &taken, script.error())))
    script.checkpoints.insert_or_assign(name, CheckpointHandle(taken));
}

void restore_checkpoint(Script& script, Arguments& arguments) {
  const std::string name(arguments.word());
  int64_t id = arguments.number();
  arguments.end();
  const auto found = script.checkpoints.find(name);
  // One that could not be taken; the oracle's own error.
  if (found == script.checkpoints.end()) return script.exempt_operation();
  Addresses freed = free_as_expected(script);
  const CheckpointHandle ordered = in_expected_order(script, found->second.get());
  cachalot_checkpoint_changes* changes = nullptr;
  if (!script.worked(cachalot_checkpoint_apply(script.allocator(), kDevice, ordered.get(), &changes,
                                               script.error())))
    return;
  for (size_t i = 0; i < cachalot_checkpoint_freed_count(changes); i++)
    cachalot_checkpoint_freed_at(changes, i, &freed.emplace_back());
  for (const cachalot_address address : freed) {
    script.transcript().add("X freed " + hex(address));
    forget(script, address);
  }
  for (size_t i = 0; i < cachalot_checkpoint_created_count(changes); i++, id++) {
    cachalot_address address = 0;
    cachalot_checkpoint_created_at(changes, i, &address);
    script.transcript().add("X created " + hex(address));
    script.live[id] = script.last[id] = address;
  }
  cachalot_checkpoint_changes_destroy(changes);
}

}  // namespace cachalot::differential
