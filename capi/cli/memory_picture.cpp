// SPDX-License-Identifier: MIT OR Apache-2.0
#include "memory_picture.h"

#include <algorithm>
#include <map>
#include <string>

#include "contexts.h"
#include "key_reports.h"
#include "numbers.h"
#include "recording.h"
#include "run_facts.h"
#include "table.h"
#include "text_chart.h"

namespace cachalot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kChartColumns = 64;
constexpr size_t kChartLines = 6;
constexpr size_t kShownHolders = 6;
constexpr size_t kMostName = 60;

// Live blocks of one owner and context.
struct Holder {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t requested = 0;
};

Json holders_at(const cachalot_trace* trace, const Timeline& timeline, uint64_t event) {
  std::map<std::pair<Owner, uint64_t>, Holder> holders;
  for (const TimelineBlock& block : timeline.blocks) {
    if (!block.is_active_at(event)) continue;
    const BlockKind& kind = timeline.kind_of(block);
    Holder& holder = holders[{kind.owner, kind.context}];
    holder.blocks++;
    holder.bytes += kind.size;
    holder.requested += kind.requested;
  }
  std::vector<uint64_t> contexts;
  for (const auto& [key, holder] : holders)
    if (key.second != 0) contexts.push_back(key.second);
  const auto frames = context_texts(trace, contexts).frames;
  Json rows = Json::array();
  for (const auto& [key, holder] : holders) {
    const auto& [owner, context] = key;
    const auto found = frames.find(context);
    rows.push_back({{"device", owner.device},
                    {"stream", stream_text(owner.stream)},
                    {"pool", pool_text(owner.pool)},
                    {"owner", owner_text(owner, timeline)},
                    {"context", found == frames.end() ? Json::array() : Json(found->second)},
                    {"blocks", holder.blocks},
                    {"bytes", holder.bytes},
                    {"requested", holder.requested}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a["requested"].get<uint64_t>() > b["requested"].get<uint64_t>();
  });
  return rows;
}

// Bytes behind each event, of which the most in each column is shown.
std::vector<uint64_t> columns_of(const std::vector<int64_t>& changes) {
  std::vector<uint64_t> columns(std::min(kChartColumns, changes.size()));
  int64_t bytes = 0;
  for (size_t i = 0; i < changes.size(); i++) {
    bytes += changes[i];
    uint64_t& column = columns[i * columns.size() / changes.size()];
    column = std::max(column, static_cast<uint64_t>(bytes));
  }
  return columns;
}

ChartColumns chart_of(const Timeline& timeline) {
  std::vector<int64_t> requested(timeline.event_count);
  std::vector<int64_t> reserved(timeline.event_count);
  const auto add = [](std::vector<int64_t>* changes, uint64_t begin, uint64_t end, uint64_t bytes) {
    (*changes)[begin] += static_cast<int64_t>(bytes);
    if (end != kNever) (*changes)[end] -= static_cast<int64_t>(bytes);
  };
  for (const TimelineBlock& block : timeline.blocks)
    add(&requested, block.begin, block.completed, timeline.kind_of(block).requested);
  for (const TimelineRange& range : timeline.ranges)
    add(&reserved, range.begin, range.end, range.size);
  return {columns_of(requested), columns_of(reserved)};
}

// Not in the middle of a character of UTF-8.
std::string shortened(const std::string& text) {
  if (text.size() <= kMostName) return text;
  size_t end = kMostName - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) end--;
  return text.substr(0, end) + "...";
}

std::string name_of(const Json& holder) {
  const Json& context = holder["context"];
  const auto owner = holder["owner"].get<std::string>();
  return context.empty() ? owner : shortened(context[0].get<std::string>()) + ", " + owner;
}

std::string bytes_of(const Json& json, const char* key) {
  return mebibytes(json[key].get<uint64_t>());
}
std::string number_of(const Json& json, const char* key) {
  return grouped(json[key].get<uint64_t>());
}

void print_chart(const Json& picture, std::FILE* out) {
  const ChartColumns columns{picture["chart"]["requested"], picture["chart"]["reserved"]};
  std::fprintf(out, "\n");
  for (const std::string& line : text_chart(columns, kChartLines))
    std::fprintf(out, "  %s\n", line.c_str());
  std::fprintf(out, "    requested █, reserved ░, over %s events\n\n",
               number_of(picture, "events").c_str());
}

void print_totals(const Json& picture, std::FILE* out) {
  const Json& figures = picture["figures"];
  const auto share = [&](const char* key) {
    return percent(figures[key].get<uint64_t>(), figures["peak_reserved"].get<uint64_t>());
  };
  Table table("lrrl");
  for (const auto& [key, name, what] :
       {std::tuple{"peak_requested", "peak requested", "what the program asked for"},
        std::tuple{"peak_allocated", "peak allocated", "the blocks that it got"},
        std::tuple{"peak_reserved", "peak reserved", "obtained from the driver"}})
    table.add({name, bytes_of(figures, key), share(key), what});
  table.print(out);
  std::fprintf(
      out,
      "\n  %s requests, %s of them failed; the driver was asked %s times for memory, got it back "
      "%s times\n",
      number_of(figures, "allocations").c_str(), number_of(figures, "out_of_memory").c_str(),
      number_of(figures, "driver_allocations").c_str(), number_of(figures, "driver_frees").c_str());
}

void print_holders(const Json& picture, std::FILE* out) {
  const Json& rows = picture["holders"];
  if (rows.empty()) return;
  std::fprintf(out, "\n  At the peak of requested (event %s), by who holds it:\n",
               number_of(picture["peaks"]["requested"], "event").c_str());
  Table table("lrrr");
  table.add({"holder", "blocks", "requested", "in blocks of"});
  table.rule();
  for (size_t i = 0; i < std::min(rows.size(), kShownHolders); i++)
    table.add({name_of(rows[i]), number_of(rows[i], "blocks"), bytes_of(rows[i], "requested"),
               bytes_of(rows[i], "bytes")});
  if (rows.size() > kShownHolders)
    table.add({"and " + grouped(uint64_t{rows.size() - kShownHolders}) + " more"});
  table.print(out);
}

void print_reasons(const Json& picture, std::FILE* out) {
  const Json& fragmented = picture["fragmented"];
  if (fragmented.is_null()) return;
  const Json& report = fragmented["report"];
  std::fprintf(
      out,
      "\n  What was cached when a request of %s on stream %s (event %s) needed the driver, and "
      "why it could not serve:\n",
      bytes_of(report["request"], "requested").c_str(),
      report["request"]["stream"].get<std::string>().c_str(),
      number_of(fragmented, "event").c_str());
  Table table("lrrr");
  table.add({"why", "blocks", "bytes", "largest"});
  table.rule();
  for (const Json& row : report["reasons"])
    table.add({row["reason"].get<std::string>(), number_of(row, "blocks"), bytes_of(row, "bytes"),
               bytes_of(row, "largest")});
  table.print(out);
}

}  // namespace

Json memory_picture(const cachalot_trace* trace, const ReplayCall& call) {
  const Timeline timeline = timeline_of(trace, call);
  Json picture = run_facts(trace, call, timeline);
  picture["holders"] = holders_at(trace, timeline, timeline.requested.event);
  const KeyRequest fragmented = fragmented_request(timeline, events_of(trace));
  const std::string report = reports_of(trace, call, timeline, {fragmented}).front();
  picture["fragmented"] = fragmented.size == 0 || report.empty()
                              ? Json()
                              : Json{{"event", fragmented.event}, {"report", Json::parse(report)}};
  const ChartColumns chart = chart_of(timeline);
  picture["chart"] = {{"requested", chart.requested}, {"reserved", chart.reserved}};
  return picture;
}

void print_memory_picture(const Json& picture, std::FILE* out) {
  if (picture["events"] == 0) return;
  print_chart(picture, out);
  print_totals(picture, out);
  print_holders(picture, out);
  print_reasons(picture, out);
}

}  // namespace cachalot::cli
