// SPDX-License-Identifier: MIT OR Apache-2.0
// Reports: who holds what, and what is in the way of a request (report.h).
#include <algorithm>
#include <cstring>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_stream kOther = 0x10;
constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);

// A report as the tests look at it.
class Report {
 public:
  explicit Report(SimAllocator& with, uint64_t size = 0, cachalot_stream stream = 0) {
    cachalot_report_options options = {};
    options.struct_size = sizeof options;
    options.size = size;
    options.stream = stream;
    with.ok(cachalot_report_create(with.get(), &options, &report_, with.error()));
  }
  explicit Report(cachalot_report* report) : report_(report) {}
  ~Report() { cachalot_report_destroy(report_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  cachalot_report_numbers numbers() const {
    cachalot_report_numbers numbers = {};
    numbers.struct_size = sizeof numbers;
    EXPECT_EQ(cachalot_report_get_numbers(report_, &numbers), CACHALOT_OK);
    return numbers;
  }

  std::string outcome() const { return cachalot_report_outcome_name(numbers().outcome); }

  // "REASON BLOCKS BYTES LARGEST RELEASABLE", "; " between them.
  std::string reasons() const {
    std::vector<std::string> rows;
    for (size_t i = 0; i < cachalot_report_reason_count(report_); i++) {
      cachalot_report_reason row = {};
      row.struct_size = sizeof row;
      EXPECT_EQ(cachalot_report_get_reason(report_, i, &row), CACHALOT_OK);
      rows.push_back(std::string(cachalot_report_reason_name(row.reason)) + " " +
                     std::to_string(row.blocks) + " " + size_text(row.bytes) + " " +
                     size_text(row.largest) + " " + size_text(row.releasable));
    }
    return joined(rows, "; ");
  }

  // "LABEL@STREAM POOL BLOCKS BYTES REQUESTED", "; " between them.
  std::string holders() const {
    std::vector<std::string> rows;
    for (size_t i = 0; i < cachalot_report_holder_count(report_); i++) {
      cachalot_report_holder row = {};
      row.struct_size = sizeof row;
      EXPECT_EQ(cachalot_report_get_holder(report_, i, &row), CACHALOT_OK);
      EXPECT_EQ(row.tenant, 0u);
      rows.push_back(std::string(row.label) + "@" + std::to_string(row.stream) + " " +
                     std::to_string(row.pool.second) + " " + std::to_string(row.blocks) + " " +
                     size_text(row.bytes) + " " + size_text(row.requested));
    }
    return joined(rows, "; ");
  }

  std::string text() const { return read(cachalot_report_text); }
  std::string json() const { return read(cachalot_report_json); }
  std::string advice() const { return cachalot_report_advice(report_); }

 private:
  template <class Function>
  std::string read(Function function) const {
    size_t length = 0;
    EXPECT_EQ(function(report_, nullptr, 0, &length, nullptr), CACHALOT_OK);
    std::string text(length + 1, '\0');
    EXPECT_EQ(function(report_, text.data(), text.size(), nullptr, nullptr), CACHALOT_OK);
    EXPECT_EQ(text.back(), '\0');
    text.pop_back();
    return text;
  }

  cachalot_report* report_ = nullptr;
};

// Counts labels.
class Labelled {
 public:
  Labelled() {
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = 1 * GiB;
    ok(cachalot_sim_create(&sim, &driver_, &error_));
    cachalot_allocator_options options = {};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.config = "";
    options.track_labels = 1;
    ok(cachalot_allocator_create(&options, &allocator_, &error_));
  }
  ~Labelled() {
    ok(cachalot_allocator_destroy_all(allocator_, &error_));
    cachalot_driver_destroy(driver_);
  }
  Labelled(const Labelled&) = delete;
  Labelled& operator=(const Labelled&) = delete;

  cachalot_address allocate(const char* label, uint64_t size, cachalot_stream stream = 0) {
    cachalot_address address = 0;
    if (label) ok(cachalot_label_push(label, &error_));
    ok(cachalot_allocate(allocator_, size, 0, stream, &address, &error_));
    if (label) ok(cachalot_label_pop(&error_));
    return address;
  }
  cachalot_report* report() {
    cachalot_report* report = nullptr;
    ok(cachalot_report_create(allocator_, nullptr, &report, &error_));
    return report;
  }
  cachalot_allocator* get() { return allocator_; }

 private:
  void ok(cachalot_status status) { EXPECT_EQ(status, CACHALOT_OK) << error_.message; }

  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
};

// ---- Totals

TEST(Report, OfNothingIsEmpty) {
  SimAllocator with;
  const Report report(with);
  EXPECT_EQ(report.outcome(), "no_request");
  EXPECT_EQ(report.holders() + report.reasons() + report.advice(), "");
  EXPECT_EQ(report.numbers().device_total, 80 * GiB);
  EXPECT_EQ(report.text(),
            "cachalot: device 0 has 80.00 GiB, of which 80.00 GiB is free\n"
            "  reserved 0 bytes: live 0 bytes, pending 0 bytes, cached 0 bytes\n"
            "  largest free block 0 bytes; a trim could give back 0 bytes\n");
}

TEST(Report, DividesWhatIsReservedIntoLivePendingAndCached) {
  SimAllocator with;
  with.set_limit(300 * MiB);
  with.allocate(12 * MiB);
  const cachalot_address pending = with.allocate(30 * MiB);
  with.record_stream(pending, kOther);
  with.queue_work(kOther);
  with.free(pending);
  with.allocate(2 * MiB);
  const cachalot_report_numbers numbers = Report(with, 500 * MiB).numbers();
  EXPECT_EQ(numbers.limit, 300 * MiB);
  EXPECT_EQ(numbers.reserved, 62 * MiB);
  EXPECT_EQ(numbers.allocated, 14 * MiB);
  EXPECT_EQ(numbers.pending, 30 * MiB);
  EXPECT_EQ(numbers.cached, 18 * MiB);
  EXPECT_EQ(numbers.largest_free_block, 18 * MiB);
  EXPECT_EQ(numbers.releasable, 0);
  EXPECT_EQ(numbers.device_free, 80 * GiB - 62 * MiB);
}

TEST(Report, ChangesNothing) {
  SimAllocator with;
  with.cache({40});
  const cachalot_address block = with.allocate(12 * MiB);
  with.record_stream(block, kOther);
  with.free(block);
  with.watch();
  with.take_calls();
  const cachalot_stats before = with.stats();
  const Report report(with, 20 * MiB);
  const cachalot_stats after = with.stats();
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
  EXPECT_EQ(with.take_trace() + with.take_calls(), "");
  EXPECT_EQ(report.reasons(), "usable 1 28M 28M 0; pending_events 1 12M 12M 0")
      << "its event is done, but nobody has looked";
}

TEST(Report, SaysWhatATrimThenGivesBack) {
  for (const char* config : {"", "expandable_segments:True"}) {
    SimAllocator with(config);
    const cachalot_address first = with.allocate(30 * MiB);
    with.cache({50, 70});
    with.cache_in_pool(kPool, {40});
    with.free(with.allocate(512, kOther));
    with.allocate(3 * MiB);
    const uint64_t releasable = Report(with).numbers().releasable;
    uint64_t released = 0;
    with.ok(cachalot_trim_at(with.get(), 0, 0, 0, 0, &released, with.error()));
    EXPECT_EQ(releasable, released);
    EXPECT_GT(released, 0);
    with.free(first);
  }
}

// ---- The request

TEST(Report, SaysWhatWouldBecomeOfARequest) {
  SimAllocator with({.capacity = 100 * MiB});
  EXPECT_EQ(Report(with, 60 * MiB).outcome(), "from_device");
  with.cache({60});
  EXPECT_EQ(Report(with, 60 * MiB).outcome(), "from_cache");
  EXPECT_EQ(Report(with, 60 * MiB, kOther).outcome(), "after_release");
  EXPECT_EQ(Report(with, 101 * MiB).outcome(), "fails");
  with.set_limit(90 * MiB);
  EXPECT_EQ(Report(with, 95 * MiB).outcome(), "fails");
  EXPECT_EQ(Report(with, 80 * MiB).outcome(), "after_release");
  with.set_limit(UINT64_MAX);
  const cachalot_address used = with.allocate(512);
  EXPECT_EQ(Report(with, 99 * MiB).outcome(), "fails");
  with.free(used);
}

TEST(Report, IsRightAboutWhatRequestsComeTo) {
  for (const char* config :
       {"", "expandable_segments:True", "max_split_size_mb:30", "throw_on_cudamalloc_oom:True"}) {
    for (const uint64_t size : {512 + 0 * MiB, 3 * MiB, 12 * MiB, 35 * MiB, 70 * MiB, 200 * MiB}) {
      SimAllocator with(SimSetup{.config = config, .capacity = 120 * MiB});
      with.cache({50, 24});
      with.allocate(9 * MiB, kOther);
      const std::string outcome = Report(with, size).outcome();
      const int64_t obtained = with.stats().num_device_alloc;
      const int64_t released = with.stats().num_device_free;
      const bool works = with.try_allocate(size).status == CACHALOT_OK;
      const bool has_obtained = with.stats().num_device_alloc != obtained;
      const bool has_released = with.stats().num_device_free != released;
      EXPECT_EQ(outcome, !works          ? "fails"
                         : !has_obtained ? "from_cache"
                         : has_released  ? "after_release"
                                         : "from_device")
          << config << " " << size_text(size);
    }
  }
}

TEST(Report, ShowsTheSizesThatTheRequestIsRoundedTo) {
  SimAllocator with;
  const cachalot_report_numbers small = Report(with, 1000).numbers();
  EXPECT_EQ(small.requested, 1000);
  EXPECT_EQ(small.size, 1024);
  EXPECT_EQ(small.segment_size, 2 * MiB);
  EXPECT_EQ(small.is_small, 1);
  const cachalot_report_numbers large = Report(with, 12 * MiB + 1, kOther).numbers();
  EXPECT_EQ(large.segment_size, 14 * MiB);
  EXPECT_EQ(large.is_small, 0);
  EXPECT_EQ(large.stream, kOther);
}

TEST(Report, TakesThePoolThatTheRequestIsRoutedTo) {
  SimAllocator with;
  with.cache_in_pool(kPool, {40});
  EXPECT_EQ(Report(with, 30 * MiB).reasons(), "other_pool 1 40M 40M 0");
  with.begin_pool(kPool);
  const Report report(with, 30 * MiB);
  EXPECT_EQ(report.numbers().pool.second, 1);
  EXPECT_EQ(report.reasons(), "usable 1 40M 40M 0");
  EXPECT_EQ(report.outcome(), "from_cache");
  with.leave_pool(kPool);
}

// ---- Reasons

TEST(Report, NamesTheFirstReasonThatApplies) {
  SimAllocator with("max_split_size_mb:100");
  with.cache({40, 150});
  with.cache({60}, kOther);
  with.free(with.allocate(512));
  with.cache_in_pool(kPool, {70});
  EXPECT_EQ(Report(with, 50 * MiB).reasons(),
            "not_split 1 150M 150M 150M; other_pool 1 70M 70M 0; other_stream 1 60M 60M 60M; "
            "too_small 1 40M 40M 40M; other_class 1 2M 2M 2M");
  EXPECT_EQ(Report(with, 512).reasons(),
            "other_class 3 250M 150M 250M; other_pool 1 70M 70M 0; usable 1 2M 2M 2M");
}

TEST(Report, TellsExpandableMemoryFromOther) {
  SimAllocator with("expandable_segments:True");
  with.cache({40});
  with.configure("expandable_segments:False");
  EXPECT_EQ(Report(with, 30 * MiB).reasons(), "expandable 1 40M 40M 40M");
}

TEST(Report, TellsWhatWaitsForACaptureFromWhatWaitsForEvents) {
  SimAllocator with;
  const cachalot_address events = with.allocate(12 * MiB);
  const cachalot_address capture = with.allocate(14 * MiB);
  for (const cachalot_address block : {events, capture}) with.record_stream(block, kOther);
  with.queue_work(kOther);
  with.free(events);
  with.begin_capture(SimAllocator::graph_pool(1), 0x20, 5);
  with.ok(cachalot_free_on_stream(with.get(), capture, 0x20, with.error()));
  EXPECT_EQ(Report(with, 12 * MiB).reasons(),
            "pending_capture 1 14M 14M 0; pending_events 1 12M 12M 0");
  with.end_capture(SimAllocator::graph_pool(1), 5);
}

TEST(Report, CountsAPoolThatServesWhenNothingElseDoes) {
  SimAllocator with({.capacity = 100 * MiB});
  with.cache_in_pool(kPool, {60}, CACHALOT_POOL_USE_ON_OOM);
  const Report report(with, 50 * MiB);
  EXPECT_EQ(report.reasons(), "usable 1 60M 60M 0");
  EXPECT_EQ(report.outcome(), "after_release");
  with.allocate(50 * MiB);
}

// ---- Holders

TEST(Report, GroupsLiveBlocksByStreamAndPool) {
  SimAllocator with;
  with.allocate(1000);
  with.allocate(12 * MiB);
  with.allocate(30 * MiB, kOther);
  with.create_pool(kPool);
  with.begin_pool(kPool);
  with.allocate(14 * MiB);
  with.end_pool(kPool);
  EXPECT_EQ(Report(with).holders(),
            "@16 0 1 30M 30M; @0 1 1 14M 14M; @0 0 2 12289K " + std::to_string(12 * MiB + 1000));
}

TEST(Report, GroupsLiveBlocksByLabelIfLabelsAreTracked) {
  Labelled with;
  with.allocate("kv-cache", 40 * MiB);
  with.allocate("weights", 60 * MiB);
  with.allocate("kv-cache", 50 * MiB);
  with.allocate(nullptr, 10 * MiB);
  EXPECT_EQ(Report(with.report()).holders(),
            "kv-cache@0 0 2 90M 90M; weights@0 0 1 60M 60M; @0 0 1 10M 10M");
}

// ---- A failure

struct Seen {
  SimAllocator* with;
  std::string reasons;
  std::string text;
};

TEST(Report, CanBeMadeByAnObserverOfTheFailure) {
  SimAllocator with({.capacity = 100 * MiB});
  with.cache({30});
  const cachalot_address used = with.allocate(40 * MiB, kOther);
  const cachalot_address piece = with.allocate(2 * MiB);
  Seen seen{&with, "", ""};
  const auto look = [](void* user_data, const cachalot_out_of_memory* numbers) {
    auto& s = *static_cast<Seen*>(user_data);
    const Report report(*s.with, numbers->requested, numbers->stream);
    EXPECT_EQ(report.outcome(), "fails");
    s.reasons = report.reasons();
    s.text = report.text();
  };
  with.ok(cachalot_observe_out_of_memory(with.get(), look, &seen, nullptr, nullptr, with.error()));
  const Outcome failed = with.try_allocate(50 * MiB);
  EXPECT_EQ(failed.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(seen.reasons, "too_small 1 28M 28M 0");
  EXPECT_EQ(seen.text,
            "cachalot: device 0 has 100.00 MiB, of which 30.00 MiB is free\n"
            "  request of 50.00 MiB on stream 0x0, large blocks of the default pool: it fails "
            "(block of 50.00 MiB, segment of 50.00 MiB)\n"
            "  reserved 70.00 MiB: live 42.00 MiB, pending 0 bytes, cached 28.00 MiB\n"
            "  largest free block 28.00 MiB; a trim could give back 0 bytes\n"
            "\n"
            "held by                            stream             pool         blocks        bytes"
            "    requested\n"
            "(no label)                         0x10               default           1    40.00 MiB"
            "    40.00 MiB\n"
            "(no label)                         0x0                default           1     2.00 MiB"
            "     2.00 MiB\n"
            "\n"
            "not live; what is in the way         blocks        bytes      largest   trim gives\n"
            "too small                                 1    28.00 MiB    28.00 MiB      0 bytes\n"
            "\n"
            "cachalot: the largest free block is 28.00 MiB.\n");
  EXPECT_EQ(failed.message(),
            failed.reference_text() + "\ncachalot: the largest free block is 28.00 MiB.")
      << "the advice is that of the error";
  with.free(used);
  with.free(piece);
}

// ---- Texts

TEST(Report, FitsOneScreenHoweverManyHoldersThereAre) {
  Labelled with;
  for (int i = 0; i < 200; i++) with.allocate(("label " + std::to_string(i)).c_str(), 512);
  const Report report(with.report());
  const std::string text = report.text();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 25);
  EXPECT_NE(text.find("... and 188 more rows"), std::string::npos) << text;
  const std::string json = report.json();
  EXPECT_NE(json.find("label 199"), std::string::npos) << "the JSON has all";
}

TEST(Report, ShowsOddLabelsOnOneLineOfTheirColumn) {
  Labelled with;
  with.allocate("two\nlines \x1b[31m", 512);
  const std::string wide = "\xC3\xA4\xC3\xB6\xC3\xBC ";  // three letters of two bytes each
  with.allocate((wide + wide + wide + wide + wide + wide + wide + wide + wide).c_str(), 1024);
  const std::string text = Report(with.report()).text();
  EXPECT_NE(text.find("\n" + wide + wide + wide + wide + wide + wide + wide + "\xC3\xA4...   0x0 "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\ntwo\\nlines \\u001b[31m              0x0 "), std::string::npos) << text;
}

TEST(Report, IsWrittenAsJson) {
  SimAllocator with({.capacity = 100 * MiB});
  with.set_limit(90 * MiB);
  with.allocate(1000, kOther);
  with.cache_in_pool(kPool, {12});
  const Report report(with, 40 * MiB);
  EXPECT_EQ(
      report.json(),
      "{\"version\":1,\"device\":0,\"request\":{\"requested\":41943040,\"size\":41943040,"
      "\"segment_size\":41943040,\"stream\":\"0x0\",\"pool\":null,\"class\":\"large\","
      "\"outcome\":\"from_device\"},\"device_total\":104857600,\"device_free\":90177536,"
      "\"limit\":94371840,\"reserved\":14680064,\"allocated\":1024,\"pending\":0,"
      "\"cached\":14679040,\"largest_free_block\":12582912,\"releasable\":0,"
      "\"asleep\":0,\"holders\":[{\"label\":\"\",\"tenant\":0,\"stream\":\"0x10\",\"pool\":null,"
      "\"blocks\":1,\"bytes\":1024,\"requested\":1000}],"
      "\"reasons\":[{\"reason\":\"other_pool\",\"blocks\":1,\"bytes\":12582912,"
      "\"largest\":12582912,\"releasable\":0},{\"reason\":\"other_class\",\"blocks\":1,"
      "\"bytes\":2096128,\"largest\":2096128,\"releasable\":0}],\"advice\":null}");
}

TEST(Report, WritesAnyLabelAsAJsonString) {
  const std::pair<const char*, const char*> labels[] = {
      {"plain", "plain"},
      {"\"quoted\\\"", "\\\"quoted\\\\\\\""},
      {"a\nb\tc\x01\x7f", "a\\nb\\u0009c\\u0001\\u007f"},
      {"\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x90\x8B", "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x90\x8B"},
      {"cut \xE2\x82", "cut \xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xFFoverlong\xC0\xAF", "\xEF\xBF\xBDoverlong\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"surrogate \xED\xA0\x80", "surrogate \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"beyond \xF4\x90\x80\x80", "beyond \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (const auto& [label, written] : labels) {
    Labelled with;
    with.allocate(label, 512);
    const std::string json = Report(with.report()).json();
    EXPECT_NE(json.find("{\"label\":\"" + std::string(written) + "\","), std::string::npos) << json;
  }
}

// ---- Bad input

TEST(Report, RefusesWhatItCannotBeMadeOf) {
  SimAllocator with({.device_count = 2});
  cachalot_report_options options = {};
  options.struct_size = sizeof options;
  cachalot_report* report = nullptr;
  const auto refused = [&] {
    return with.refused(cachalot_report_create(with.get(), &options, &report, with.error()),
                        CACHALOT_ERROR_INVALID_ARGUMENT);
  };
  options.device = 2;
  EXPECT_EQ(refused(), "device 2 does not exist; the driver has 2");
  options.device = 1;
  options.size = uint64_t{1} << 60;
  EXPECT_EQ(refused(), "requests of 2^60 bytes or more always fail");
  EXPECT_EQ(report, nullptr);
  with.fail(CACHALOT_SIM_CALL_MEMORY_INFO, 999);
  options.size = 0;
  with.refused(cachalot_report_create(with.get(), &options, &report, with.error()),
               CACHALOT_ERROR_DRIVER);
  EXPECT_EQ(report, nullptr);
}

TEST(Report, RefusesIndexesBeyondTheLastRow) {
  SimAllocator with;
  cachalot_report* report = nullptr;
  with.ok(cachalot_report_create(with.get(), nullptr, &report, with.error()));
  cachalot_report_holder holder = {};
  holder.struct_size = sizeof holder;
  cachalot_report_reason reason = {};
  reason.struct_size = sizeof reason;
  EXPECT_EQ(cachalot_report_get_holder(report, 0, &holder), CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(cachalot_report_get_reason(report, 0, &reason), CACHALOT_ERROR_INVALID_ARGUMENT);
  cachalot_report_destroy(report);
  EXPECT_STREQ(cachalot_report_reason_name(9), "unknown");
  EXPECT_STREQ(cachalot_report_outcome_name(-1), "unknown");
}

TEST(Report, IsNotThereWithTheOtherBackend) {
  SimAllocator with("backend:cudaMallocAsync");
  cachalot_report* report = nullptr;
  EXPECT_EQ(with.refused(cachalot_report_create(with.get(), nullptr, &report, with.error()),
                         CACHALOT_ERROR_NOT_SUPPORTED),
            "there are no reports with backend:cudaMallocAsync: the driver's pool keeps its blocks "
            "to itself");
}

TEST(Report, OutlivesItsAllocator) {
  cachalot_report* report = nullptr;
  {
    Labelled with;
    with.allocate("gone", 512);
    report = with.report();
  }
  EXPECT_EQ(Report(report).holders(), "gone@0 0 1 512 512");
}

}  // namespace
}  // namespace cachalot_test
