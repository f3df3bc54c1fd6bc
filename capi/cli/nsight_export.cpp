// SPDX-License-Identifier: MIT OR Apache-2.0
#include "nsight_export.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "failure.h"
#include "numbers.h"
#include "recorded_history.h"
#include "trace_text.h"

namespace cachalot::cli {
namespace {

constexpr const char* kEvents = "CUDA_GPU_MEMORY_USAGE_EVENTS";
constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
// A row has a hundred bytes and takes a hundred steps of SQLite's machine.
constexpr uint64_t kStepsPerByte = 64;
constexpr uint64_t kLeastSteps = uint64_t{1} << 22;
constexpr int kStepsBetweenLooks = 1 << 14;
constexpr int64_t kMostSqliteMemory = int64_t{256} << 20;
constexpr int kMostValueBytes = 1 << 20;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// "file:PATH?immutable=1": no other file beside it is looked at, and nothing is locked.
std::string uri_of(const std::string& path) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    const auto code = static_cast<unsigned char>(c);
    uri += '%';
    uri += kDigits[code >> 4];
    uri += kDigits[code & 15];
  }
  return uri + "?immutable=1";
}

// It may quote the file.
std::string printable(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

// The file, of which nothing is trusted: it is only read, and within a number of steps.
class Database {
 public:
  explicit Database(const std::string& path) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(uri_of(path).c_str(), &opened,
                                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    database_.reset(opened);
    check(code);
    sqlite3_hard_heap_limit64(kMostSqliteMemory);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kMostValueBytes);
    steps_left_ = std::max<uint64_t>(kLeastSteps, std::filesystem::file_size(path) * kStepsPerByte);
    sqlite3_progress_handler(opened, kStepsBetweenLooks, take_steps, this);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Calls row(statement) for each.
  template <class Row>
  void query(const std::string& text, Row row) {
    sqlite3_stmt* prepared = nullptr;
    check(sqlite3_prepare_v2(database_.get(), text.c_str(), -1, &prepared, nullptr));
    const std::unique_ptr<sqlite3_stmt, EndStatement> statement(prepared);
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(prepared)) == SQLITE_ROW) row(prepared);
    if (code != SQLITE_DONE) check(code);
  }

  // Names of its columns; empty: there is no such table.
  std::set<std::string> columns_of(const std::string& table) {
    std::set<std::string> columns;
    query("SELECT name FROM pragma_table_info('" + table + "')", [&](sqlite3_stmt* row) {
      const auto* const name = sqlite3_column_text(row, 0);
      if (name != nullptr) columns.insert(reinterpret_cast<const char*>(name));
    });
    return columns;
  }

 private:
  static int take_steps(void* self) {
    auto& database = *static_cast<Database*>(self);
    if (database.steps_left_ < kStepsBetweenLooks) return 1;
    database.steps_left_ -= kStepsBetweenLooks;
    return 0;
  }

  void check(int code) const {
    if (code == SQLITE_OK) return;
    if (code == SQLITE_INTERRUPT)
      throw Failure("the SQLite file asks for more work than its size allows");
    const char* const what = database_ ? sqlite3_errmsg(database_.get()) : sqlite3_errstr(code);
    throw Failure("SQLite cannot read it: " + printable(what));
  }

  std::unique_ptr<sqlite3, CloseDatabase> database_;
  uint64_t steps_left_ = 0;
};

// One row of the table of memory events.
struct MemoryRow {
  int64_t start_ns = 0;
  int64_t global_process = 0;
  int64_t device = 0;
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t kind = 0;
  int64_t operation = 0;
  int64_t call = 0;  // its number; 0: not known
  int64_t stream = 0;
  int64_t pool = 0;  // the address of its memory pool; 0: none
  bool has_stream = false;

  // Nsight Systems puts the process beside the machine and the thread.
  int64_t process() const { return global_process >> 24 & 0xffffff; }
};

struct DriverCall {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t thread = 0;
};

// What a kind of memory is in a trace.
struct MemoryKind {
  bool is_block = false;  // device memory; else memory outside of any cache
  int32_t entry = 0;      // docs/trace-format.md
};

// Others are memory outside of any cache.
const std::map<std::string, MemoryKind> kKindNames{{"DEVICE", {.is_block = true}},
                                                   {"PINNED", {.entry = 'l'}},
                                                   {"ARRAY", {.entry = 'y'}},
                                                   {"MANAGED", {.entry = 'm'}},
                                                   {"MANAGED_STATIC", {.entry = 'm'}}};

class NsightReader {
 public:
  NsightReader(const std::string& path, int64_t process) : database_(path), process_(process) {}

  std::string read() {
    read_rows();
    choose_process();
    read_kinds();
    read_calls();
    read_start();
    for (const MemoryRow& row : rows_) add(row);
    RecordedRun run;
    run.head.source = "a report of Nsight Systems";
    run.head.device_total = device_total();
    run.head.process = process_;
    run.devices = std::move(devices_);
    return trace_of(std::move(run));
  }

 private:
  void read_rows() {
    const std::set<std::string> columns = database_.columns_of(kEvents);
    if (columns.empty())
      throw Failure(
          "the report has no memory events: `nsys profile --cuda-memory-usage=true` records them");
    std::string text = "SELECT ";
    for (const char* name :
         {"start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType",
          "correlationId", "streamId", "localMemoryPoolAddress", "importedMemoryPoolAddress"})
      text += (text.size() > 7 ? ", " : "") + std::string(columns.contains(name) ? name : "NULL");
    database_.query(text + " FROM " + kEvents,
                    [&](sqlite3_stmt* row) { rows_.push_back(row_of(row)); });
    std::stable_sort(rows_.begin(), rows_.end(), [](const MemoryRow& a, const MemoryRow& b) {
      return a.start_ns < b.start_ns;
    });
  }

  static MemoryRow row_of(sqlite3_stmt* row) {
    const auto number = [row](int column) { return sqlite3_column_int64(row, column); };
    MemoryRow read{.start_ns = number(0),
                   .global_process = number(1),
                   .device = number(2),
                   .address = number(3),
                   .bytes = number(4),
                   .kind = number(5),
                   .operation = number(6),
                   .call = number(7),
                   .stream = number(8),
                   .pool = number(9) != 0 ? number(9) : number(10),
                   .has_stream = sqlite3_column_type(row, 8) != SQLITE_NULL};
    if (read.device < 0 || read.device >= static_cast<int64_t>(kMostDevices))
      throw Failure("the report names a device with the number " + grouped(read.device));
    if (read.bytes < 0)
      throw Failure("the report names a block of " + grouped(read.bytes) + " bytes");
    if (read.start_ns < 0) throw Failure("the report names a time before its begin");
    return read;
  }

  void choose_process() {
    std::set<int64_t> processes;
    for (const MemoryRow& row : rows_) processes.insert(row.process());
    if (process_ == 0 && processes.size() > 1) throw Failure(several(processes));
    if (process_ == 0 && !processes.empty()) process_ = *processes.begin();
    std::erase_if(rows_, [&](const MemoryRow& row) { return row.process() != process_; });
    if (rows_.empty() && !processes.empty())
      throw Failure("the report has no memory events of process " + grouped(process_));
  }

  static std::string several(const std::set<int64_t>& processes) {
    constexpr size_t kMostNamed = 8;
    std::string names;
    size_t named = 0;
    for (const int64_t process : processes)
      if (named++ < kMostNamed) names += (names.empty() ? "" : ", ") + std::to_string(process);
    return "the report has " + grouped(uint64_t{processes.size()}) +
           " processes: `cachalot convert --process` chooses one of " + names +
           (named > kMostNamed ? ", ..." : "");
  }

  // The numbers of kinds have names in a table of the export.
  void read_kinds() {
    kinds_ = {{1, {.entry = 'l'}},
              {2, {.is_block = true}},
              {3, {.entry = 'y'}},
              {4, {.entry = 'm'}},
              {6, {.entry = 'm'}}};
    if (database_.columns_of("ENUM_CUDA_MEM_KIND").empty()) return;
    kinds_.clear();
    database_.query("SELECT id, name FROM ENUM_CUDA_MEM_KIND", [&](sqlite3_stmt* row) {
      const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(row, 1));
      std::string name = text != nullptr ? text : "";
      const std::string prefix = "_KIND_";
      const size_t at = name.rfind(prefix);
      if (at != std::string::npos) name.erase(0, at + prefix.size());
      const auto known = kKindNames.find(name);
      if (known != kKindNames.end()) kinds_[sqlite3_column_int64(row, 0)] = known->second;
    });
  }

  // Those that the events are of.
  void read_calls() {
    if (database_.columns_of(kCalls).empty()) return;
    for (const MemoryRow& row : rows_)
      if (row.call != 0) calls_.try_emplace(row.call);
    database_.query("SELECT correlationId, start, end, globalTid FROM " + std::string(kCalls),
                    [&](sqlite3_stmt* row) { read_call(row); });
  }

  void read_call(sqlite3_stmt* row) {
    const auto found = calls_.find(sqlite3_column_int64(row, 0));
    const int64_t thread = sqlite3_column_int64(row, 3);
    if (found == calls_.end() || (thread >> 24 & 0xffffff) != process_) return;
    found->second = {.begin_ns = sqlite3_column_int64(row, 1),
                     .end_ns = sqlite3_column_int64(row, 2),
                     .thread = static_cast<uint64_t>(thread & 0xffffff)};
  }

  // Times are from the begin of the session on, and it may say when that was.
  void read_start() {
    if (!database_.columns_of("TARGET_INFO_SESSION_START_TIME").contains("utcEpochNs")) return;
    database_.query(
        "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [&](sqlite3_stmt* row) {
          start_ns_ = std::clamp<int64_t>(sqlite3_column_int64(row, 0), 0, INT64_MAX / 2);
        });
  }

  // Of the first device; 0: not known.
  uint64_t device_total() {
    const std::set<std::string> columns = database_.columns_of("TARGET_INFO_GPU");
    if (!columns.contains("totalMemory")) return 0;
    const std::string id = columns.contains("cuDevice") ? "cuDevice" : "id";
    std::map<int64_t, int64_t> totals;
    database_.query("SELECT " + id + ", totalMemory FROM TARGET_INFO_GPU", [&](sqlite3_stmt* row) {
      totals[sqlite3_column_int64(row, 0)] = sqlite3_column_int64(row, 1);
    });
    return totals.empty() ? 0 : static_cast<uint64_t>(std::max<int64_t>(0, totals.begin()->second));
  }

  void add(const MemoryRow& row) {
    const auto known = kinds_.find(row.kind);
    const MemoryKind kind = known != kinds_.end() ? known->second : MemoryKind{};
    cachalot_trace_event event = blank_event(CACHALOT_ACTION_ALLOC);
    event.device = static_cast<int32_t>(row.device);
    event.address = static_cast<uint64_t>(row.address);
    event.size = static_cast<uint64_t>(row.bytes);
    event.time_us = (start_ns_ + std::min(row.start_ns, INT64_MAX / 2)) / 1000;
    event.entry = kind.entry;
    if (kind.is_block) {
      event.entry = row.pool != 0 ? int32_t{'t'} : int32_t{'s'};
      if (row.has_stream && row.pool != 0) event.stream = static_cast<uint64_t>(row.stream);
      event.freed_on = event.stream;
    }
    const auto call = calls_.find(row.call);
    const DriverCall made_by = call != calls_.end() ? call->second : DriverCall{};
    event.thread = made_by.thread;
    const int64_t cost = made_by.end_ns > made_by.begin_ns && made_by.begin_ns >= 0
                             ? made_by.end_ns - made_by.begin_ns
                             : -1;
    if (row.operation == 0)
      obtain(event, kind, cost);
    else
      give_back(event, kind, cost);
  }

  void obtain(cachalot_trace_event event, const MemoryKind& kind, int64_t cost) {
    event.cost_ns = cost;
    put(kind.is_block ? CACHALOT_ACTION_ALLOC : CACHALOT_ACTION_OTHER_ALLOC, event);
  }

  void give_back(cachalot_trace_event event, const MemoryKind& kind, int64_t cost) {
    if (kind.is_block) {
      put(CACHALOT_ACTION_FREE_REQUESTED, event);
      put(CACHALOT_ACTION_FREE_COMPLETED, event);
    } else {
      put(CACHALOT_ACTION_OTHER_FREE, event);
    }
    if (cost < 0) return;
    event.cost_ns = cost;
    event.size = 0;
    put(CACHALOT_ACTION_CALL_END, event);
  }

  void put(cachalot_action action, cachalot_trace_event event) {
    event.action = action;
    const auto device = static_cast<size_t>(event.device);
    if (device >= devices_.size()) devices_.resize(device + 1);
    devices_[device].events.push_back({.event = event, .has_pool = true});
  }

  Database database_;
  int64_t process_;
  int64_t start_ns_ = 0;
  std::vector<MemoryRow> rows_;
  std::map<int64_t, MemoryKind> kinds_;
  std::unordered_map<int64_t, DriverCall> calls_;
  std::vector<RecordedDevice> devices_;
};

}  // namespace

std::string trace_of_nsight_export(const std::string& path, int64_t process) {
  return NsightReader(path, process).read();
}

}  // namespace cachalot::cli
