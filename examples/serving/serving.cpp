// SPDX-License-Identifier: MIT OR Apache-2.0
// Three models share one device: the same load twice, without and with tenants and trimming.
//
//   serving [--requests N] [--seed N] [--csv FILE]
//
// Without them a model that keeps what it once got starves the others, and memory that nobody uses
// stays with the process. With them each model is served within its guarantee at every step, and
// after an idle time no more than the watermark is reserved. Exit code 0: both were so, and the run
// without them was not; 1: not so; 2: wrong call.
//
// The device is simulated and the load comes from a seed, so that a run can be repeated anywhere.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>

#include "model.h"

namespace serving {
namespace {

constexpr uint64_t kCapacity = 16 * GiB;
constexpr uint64_t kWatermark = 9 * GiB;  // what may stay reserved when nothing goes on
constexpr Time kSecond = 1000;
constexpr Time kBetweenRequests = 60;
constexpr Time kIdleTime = 60 * kSecond;
constexpr uint64_t kNanosecondsPerTime = 1000000;

const ModelPlan kModels[] = {
    {"chat", 5 * GiB, 9 * GiB, 2, 1, 8, 16 * MiB, 3 * kSecond, 1 * kSecond},
    {"search", 1 * GiB, 3 * GiB / 2, 1, 1, 4, 12 * MiB, 1 * kSecond, 1 * kSecond},
    {"batch", 2 * GiB, 5 * GiB / 2, 0, 1, 4, 16 * MiB, 3 * kSecond, 60 * kSecond},
};
constexpr size_t kModelCount = std::size(kModels);

// A part of the day: how many of a hundred requests fall into it, and of a hundred of these whose
// they are.
struct Phase {
  uint64_t share;
  uint64_t of_model[kModelCount];
  bool is_idle_after;
};

const Phase kPhases[] = {
    {10, {50, 40, 10}, false},                             // the day begins
    {20, {15, 15, 70}, false},                             // batches take what is there
    {20, {75, 20, 5}, true},                               // everybody chats
    {15, {40, 30, 30}, false}, {20, {55, 10, 35}, false},  // all at once
    {15, {30, 60, 10}, true},                              // the day ends
};

struct Options {
  uint64_t requests = 10000;
  uint64_t seed = 1;
  const char* csv = nullptr;
};

struct Outcome {
  uint64_t refusals = 0;
  uint64_t broken_guarantees = 0;
  uint64_t wrong_counts = 0;  // steps at which the tenants' bytes were not those of the models
  uint64_t reserved_when_idle = 0;  // the most at the end of an idle time
};

class Server {
 public:
  Server(const Options& options, bool is_managed, std::FILE* csv)
      : options_(options), is_managed_(is_managed), csv_(csv), random_(options.seed) {
    cachalot_error error = CACHALOT_ERROR_INIT;
    cachalot_driver* driver = nullptr;
    cachalot_sim_options sim = {};
    sim.struct_size = sizeof sim;
    sim.capacity = kCapacity;
    require(cachalot_sim_create(&sim, &driver, &error), error);
    cachalot_allocator_options setup = {};
    setup.struct_size = sizeof setup;
    setup.driver = driver;
    setup.config = "";
    require(cachalot_allocator_create(&setup, &allocator_, &error), error);
    cachalot_driver_destroy(driver);
    for (const ModelPlan& plan : kModels) models_.emplace_back(allocator_, plan, is_managed);
  }

  ~Server() {
    models_.clear();
    cachalot_error error = CACHALOT_ERROR_INIT;
    require(cachalot_allocator_destroy(allocator_, &error), error);
  }

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Outcome run() {
    for (const Phase& phase : kPhases) {
      const uint64_t requests = options_.requests * phase.share / 100;
      for (uint64_t i = 0; i < requests; i++) {
        advance(kBetweenRequests);
        request(phase);
        note(false);
      }
      if (phase.is_idle_after) be_idle();
    }
    for (const Model& model : models_) {
      outcome_.refusals += model.refusals();
      outcome_.broken_guarantees += model.broken_guarantees();
    }
    return outcome_;
  }

 private:
  void request(const Phase& phase) {
    uint64_t draw = random_() % 100;
    size_t whose = 0;
    while (draw >= phase.of_model[whose]) draw -= phase.of_model[whose++];
    Model& model = models_[whose];
    const uint64_t choices = model.plan().most_pages - model.plan().fewest_pages + 1;
    model.serve(model.plan().fewest_pages + random_() % choices, now_);
  }

  void be_idle() {
    for (const Time end = now_ + kIdleTime; now_ < end;) {
      advance(kSecond);
      note(true);
    }
    outcome_.reserved_when_idle = std::max(outcome_.reserved_when_idle, reserved());
  }

  // A server would trim from a timer of its own.
  void advance(Time by) {
    const Time second = now_ / kSecond;
    now_ += by;
    for (Model& model : models_) model.tick(now_);
    if (!is_managed_ || now_ / kSecond == second) return;
    cachalot_error error = CACHALOT_ERROR_INIT;
    require(cachalot_trim_at(allocator_, 0, kWatermark, 5 * kSecond * kNanosecondsPerTime,
                             now_ * kNanosecondsPerTime, nullptr, &error),
            error);
  }

  // One row of the table, and what can be checked at every step.
  void note(bool is_idle) {
    uint64_t refusals = 0;
    uint64_t broken = 0;
    for (const Model& model : models_) {
      if (model.counted_bytes() != model.bytes()) outcome_.wrong_counts++;
      refusals += model.refusals();
      broken += model.broken_guarantees();
    }
    if (!csv_) return;
    std::fprintf(csv_, "%s,%.3f,%d", is_managed_ ? "with" : "without",
                 static_cast<double>(now_) / kSecond, is_idle ? 1 : 0);
    for (const Model& model : models_) print(model.bytes());
    print(cachalot_memory_allocated(allocator_, 0));
    print(reserved());
    print(refusals);
    print(broken);
    std::fputc('\n', csv_);
  }

  void print(uint64_t number) {
    std::fprintf(csv_, ",%llu", static_cast<unsigned long long>(number));
  }

  uint64_t reserved() const { return cachalot_memory_reserved(allocator_, 0); }

  const Options& options_;
  const bool is_managed_;
  std::FILE* const csv_;
  std::mt19937_64 random_;
  cachalot_allocator* allocator_ = nullptr;
  std::deque<Model> models_;
  Time now_ = 0;
  Outcome outcome_;
};

bool read_number(const char* text, uint64_t* number) {
  char* end = nullptr;
  *number = std::strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

bool read_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    if (std::strcmp(argv[i], "--requests") == 0) {
      if (!read_number(argv[i + 1], &options->requests)) return false;
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      if (!read_number(argv[i + 1], &options->seed)) return false;
    } else if (std::strcmp(argv[i], "--csv") == 0) {
      options->csv = argv[i + 1];
    } else {
      return false;
    }
  }
  return true;
}

void write_heading(std::FILE* csv) {
  std::fprintf(csv, "# capacity %llu, watermark %llu", static_cast<unsigned long long>(kCapacity),
               static_cast<unsigned long long>(kWatermark));
  for (const ModelPlan& plan : kModels)
    std::fprintf(csv, ", %s %llu", plan.name.c_str(),
                 static_cast<unsigned long long>(plan.guaranteed));
  std::fprintf(csv, "\nvariant,seconds,idle");
  for (const ModelPlan& plan : kModels) std::fprintf(csv, ",%s", plan.name.c_str());
  std::fprintf(csv, ",allocated,reserved,refusals,broken_guarantees\n");
}

void report(const char* variant, const Outcome& outcome) {
  std::printf("%-8s %10llu %24llu %17.2f GiB\n", variant,
              static_cast<unsigned long long>(outcome.refusals),
              static_cast<unsigned long long>(outcome.broken_guarantees),
              static_cast<double>(outcome.reserved_when_idle) / static_cast<double>(GiB));
}

int run(const Options& options) {
  std::FILE* csv = options.csv ? std::fopen(options.csv, "w") : nullptr;
  if (options.csv && !csv) {
    std::fprintf(stderr, "serving: %s cannot be written\n", options.csv);
    return 2;
  }
  if (csv) write_heading(csv);
  const Outcome without = Server(options, false, csv).run();
  const Outcome with = Server(options, true, csv).run();
  if (csv) std::fclose(csv);
  std::printf("%llu requests, seed %llu\n", static_cast<unsigned long long>(options.requests),
              static_cast<unsigned long long>(options.seed));
  std::printf("%-8s %10s %24s %21s\n", "tenants", "refusals", "below the guarantee",
              "reserved when idle");
  report("without", without);
  report("with", with);
  const bool holds = with.broken_guarantees == 0 && with.wrong_counts == 0 &&
                     with.reserved_when_idle <= kWatermark;
  const bool shows = without.broken_guarantees > 0 && without.reserved_when_idle > kWatermark;
  if (!holds) std::printf("with tenants the claims do not hold\n");
  if (!shows) std::printf("this load shows nothing: without tenants the claims hold too\n");
  return holds && shows ? 0 : 1;
}

}  // namespace
}  // namespace serving

int main(int argc, char** argv) {
  serving::Options options;
  if (!serving::read_options(argc, argv, &options)) {
    std::fprintf(stderr, "usage: serving [--requests N] [--seed N] [--csv FILE]\n");
    return 2;
  }
  return serving::run(options);
}
