// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports as a table and as JSON.
#include <algorithm>
#include <cinttypes>

#include "alloc/backend/report.h"
#include "base/text.h"
#include "base/utf8.h"

namespace cachalot {
namespace {

// Rows of the table; JSON has them all.
constexpr size_t kHoldersShown = 12;
constexpr size_t kFirstColumn = 34;  // characters
constexpr size_t kLongestLabel = kFirstColumn - 2;

// ---- Words

struct ReasonWords {
  const char* name;
  const char* text;
};

// By the number of the reason. `name` is part of the C interface and of the JSON, `text` is for
// people.
constexpr ReasonWords kReasons[kReasonCount] = {
    {"usable", "nothing: it is free"},
    {"pending_events", "work on other streams is left"},
    {"pending_capture", "freed during a capture"},
    {"other_pool", "another pool"},
    {"other_class", "other class (small, large)"},
    {"other_stream", "another stream"},
    {"expandable", "of an expandable segment"},
    {"too_small", "too small"},
    {"not_split", "too large, and not split for it"},
};

struct OutcomeWords {
  const char* name;
  const char* text;
};

// By the number of the outcome, likewise.
constexpr OutcomeWords kOutcomes[kOutcomeCount] = {
    {"no_request", ""},
    {"from_cache", "a cached block serves it"},
    {"from_device", "the device has enough for it"},
    {"after_release", "it can be served once cached memory is released"},
    {"fails", "it fails"},
};

// ---- The table

// Columns count characters, not bytes: labels are UTF-8.
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t character_count(const std::string& text) {
  return text.size() -
         static_cast<size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

// A longer text stays whole and moves the columns behind it.
std::string padded(std::string text, size_t width) {
  const size_t length = character_count(text);
  return text.append(width - std::min(width, length), ' ');
}

// Escaped as in JSON, so that a label with a line break stays on one line; cut to the column, but never
// within a character.
std::string shown_label(const std::string& label) {
  if (label.empty()) return "(no label)";
  std::string text = json_escaped(label);
  if (character_count(text) <= kLongestLabel) return text;
  while (character_count(text) > kLongestLabel - 3) {
    while (is_continuation(text.back())) text.pop_back();
    text.pop_back();
  }
  return text + "...";
}

std::string shown_pool(PoolId pool) {
  if (pool.is_default()) return "default";
  return format("(%" PRIu64 ", %" PRIu64 ")", pool.first, pool.second);
}

std::string shown_holder(const HolderRow& row) {
  const std::string tenant = row.tenant == 0 ? "" : format("tenant %" PRIu32 ": ", row.tenant);
  return padded(tenant + shown_label(row.label), kFirstColumn) +
         format(" %-18s %-10s %8" PRIu64 " %12s %12s\n", hex_address(row.stream).c_str(),
                shown_pool(row.pool).c_str(), row.blocks, format_size(row.bytes).c_str(),
                format_size(row.requested).c_str());
}

// A server can have thousands of rows; the rest becomes one, so that the table's sums are complete.
std::string shown_remainder(const std::vector<HolderRow>& rows) {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  for (size_t i = kHoldersShown; i < rows.size(); i++) {
    blocks += rows[i].blocks;
    bytes += rows[i].bytes;
  }
  return padded(format("... and %zu more rows", rows.size() - kHoldersShown), kFirstColumn) +
         format(" %-18s %-10s %8" PRIu64 " %12s\n", "", "", blocks, format_size(bytes).c_str());
}

// One line, so that it can be found in a log: the decision stands behind the numbers that led to
// it.
std::string shown_request(const Report& report) {
  if (report.outcome == Outcome::kNoRequest) return "";
  return "  request of " + format_size(report.requested) + " on stream " +
         hex_address(report.stream) + ", " + (report.is_small ? "small" : "large") + " blocks of " +
         (report.pool.is_default() ? "the default pool" : "pool " + shown_pool(report.pool)) +
         ": " + kOutcomes[static_cast<size_t>(report.outcome)].text + " (block of " +
         format_size(report.size) + ", segment of " + format_size(report.segment_size) + ")\n";
}

// The figures that add up: reserved is live, pending and cached memory together.
std::string shown_totals(const Report& report) {
  std::string text =
      format("cachalot: device %d has %s, of which %s is free", report.device,
             format_size(report.device_total).c_str(), format_size(report.device_free).c_str());
  if (report.limit != 0) text += "; the limit is " + format_size(report.limit);
  text += "\n" + shown_request(report);
  text += "  reserved " + format_size(report.reserved) + ": live " + format_size(report.allocated) +
          ", pending " + format_size(report.pending) + ", cached " + format_size(report.cached) +
          "\n";
  if (report.asleep != 0)
    text += "  pools that sleep need " + format_size(report.asleep) + " to wake\n";
  return text + "  largest free block " + format_size(report.largest_free_block) +
         "; a trim could give back " + format_size(report.releasable) + "\n";
}

std::string shown_reason(const CachedRow& row) {
  return padded(kReasons[static_cast<size_t>(row.reason)].text, kFirstColumn) +
         format(" %8" PRIu64 " %12s %12s %12s\n", row.blocks, format_size(row.bytes).c_str(),
                format_size(row.largest).c_str(), format_size(row.releasable).c_str());
}

// ---- JSON

// The default pool is null, so that no reader compares with a special pair of numbers.
std::string json_pool(PoolId pool) {
  if (pool.is_default()) return "null";
  return format("[%" PRIu64 ",%" PRIu64 "]", pool.first, pool.second);
}

std::string json_number(const char* key, uint64_t value) {
  return format("\"%s\":%" PRIu64, key, value);
}

std::string json_string(const char* key, const std::string& text) {
  return format("\"%s\":\"", key) + json_escaped(text) + "\"";
}

// null stands for a report without a request, as it does for every absent value.
std::string json_request(const Report& report) {
  if (report.outcome == Outcome::kNoRequest) return "null";
  return "{" + json_number("requested", report.requested) + "," + json_number("size", report.size) +
         "," + json_number("segment_size", report.segment_size) + "," +
         json_string("stream", hex_address(report.stream)) + ",\"pool\":" + json_pool(report.pool) +
         "," + json_string("class", report.is_small ? "small" : "large") + "," +
         json_string("outcome", outcome_name(static_cast<int32_t>(report.outcome))) + "}";
}

std::string json_holder(const HolderRow& row) {
  return "{" + json_string("label", row.label) + "," + json_number("tenant", row.tenant) + "," +
         json_string("stream", hex_address(row.stream)) + ",\"pool\":" + json_pool(row.pool) + "," +
         json_number("blocks", row.blocks) + "," + json_number("bytes", row.bytes) + "," +
         json_number("requested", row.requested) + "}";
}

std::string json_reason(const CachedRow& row) {
  return "{" + json_string("reason", reason_name(static_cast<int32_t>(row.reason))) + "," +
         json_number("blocks", row.blocks) + "," + json_number("bytes", row.bytes) + "," +
         json_number("largest", row.largest) + "," + json_number("releasable", row.releasable) +
         "}";
}

template <class Rows, class Write>
std::string json_rows(const char* key, const Rows& rows, Write write) {
  std::string text = format("\"%s\":[", key);
  for (const auto& row : rows) {
    if (text.back() == '}') text += ',';  // each row ends so
    text += write(row);
  }
  return text + "]";
}

}  // namespace

const char* reason_name(int32_t reason) {
  return reason >= 0 && reason < kReasonCount ? kReasons[reason].name : nullptr;
}

const char* outcome_name(int32_t outcome) {
  return outcome >= 0 && outcome < kOutcomeCount ? kOutcomes[outcome].name : nullptr;
}

// Totals first, then the holders with the most bytes, then what is cached by reason, then advice.
std::string report_text(const Report& report) {
  std::string text = shown_totals(report);
  if (!report.holders.empty()) {
    text +=
        "\n" + padded("held by", kFirstColumn) +
        format(" %-18s %-10s %8s %12s %12s\n", "stream", "pool", "blocks", "bytes", "requested");
    const size_t shown = std::min(report.holders.size(), kHoldersShown);
    for (size_t i = 0; i < shown; i++) text += shown_holder(report.holders[i]);
    if (shown < report.holders.size()) text += shown_remainder(report.holders);
  }
  if (!report.reasons.empty()) {
    text += "\n" + padded("not live; what is in the way", kFirstColumn) +
            format(" %8s %12s %12s %12s\n", "blocks", "bytes", "largest", "trim gives");
    for (const CachedRow& row : report.reasons) text += shown_reason(row);
  }
  if (!report.advice.empty()) text += "\n" + report.advice + "\n";
  return text;
}

// The keys are listed in docs/serving.md; `version` changes when a reader of the old keys would be
// misled.
std::string report_json(const Report& report) {
  const std::string limit = report.limit == 0 ? "null" : format("%" PRIu64, report.limit);
  const std::string advice =
      report.advice.empty() ? "null" : "\"" + json_escaped(report.advice) + "\"";
  return format("{\"version\":1,\"device\":%d,\"request\":", report.device) + json_request(report) +
         "," + json_number("device_total", report.device_total) + "," +
         json_number("device_free", report.device_free) + ",\"limit\":" + limit + "," +
         json_number("reserved", report.reserved) + "," +
         json_number("allocated", report.allocated) + "," + json_number("pending", report.pending) +
         "," + json_number("cached", report.cached) + "," +
         json_number("largest_free_block", report.largest_free_block) + "," +
         json_number("releasable", report.releasable) + "," + json_number("asleep", report.asleep) +
         "," + json_rows("holders", report.holders, json_holder) + "," +
         json_rows("reasons", report.reasons, json_reason) + ",\"advice\":" + advice + "}";
}

}  // namespace cachalot
