// SPDX-License-Identifier: MIT OR Apache-2.0
// A device filled with blocks of mixed sizes: how long that takes, what it costs the host, and how fast
// kernels read the memory. Each contender has a process of its own.
//
// Usage: fill [--gib N] [--leave 8] [--seed 1] [--out FOLDER] [--driver cuda] [--only NAME]
//   --gib    how much; without it all that is free but --leave GiB
//   --out    where fill.md goes (.)
//   --only   this contender alone
// Exit code: 0 each has filled it and no word differed, 1 not, 77 no GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "../test_seed.h"
#include "contender.h"
#include "flags.h"
#include "measure.h"
#include "mismatches.h"
#include "streams.h"
#include "text_file.h"

namespace {

using gpu::Contender;

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr double kGiB = 1 << 30;
constexpr uint64_t kSmallest = 64 * kKiB;
constexpr uint64_t kLargest = 1024 * kMiB;

constexpr const char* kHead =
    "| contender | GiB | blocks | to fill, s | to give back, s | host, MiB: before | full | at the "
    "end "
    "| machine, MiB | read, GB/s |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";

struct Options {
  uint64_t gib;
  uint64_t leave;
  uint64_t seed;
  std::string out;
  std::string driver;
  std::string only;
};

struct Block {
  void* address;
  uint64_t size;
};

uint64_t number_behind(const char* file_name, const char* name) {
  FILE* const file = fopen(file_name, "r");
  if (!file) return 0;
  char line[256];
  unsigned long long value = 0;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), "%llu", &value) == 1)
      break;
  }
  fclose(file);
  return value;
}

// KiB. The process's own, and what the machine has left: the driver's tables are in no process.
uint64_t resident() { return number_behind("/proc/self/status", "VmRSS:"); }
uint64_t available() { return number_behind("/proc/meminfo", "MemAvailable:"); }

double in_mib(uint64_t kib) { return static_cast<double>(kib) / 1024; }

class Fill {
 public:
  Fill(Contender& contender, uint64_t bytes, uint64_t seed)
      : contender_(contender), bytes_(bytes), random_(seed), streams_(1) {}

  // Ends early where there is no more; then why_not() tells.
  void fill() {
    while (filled_ < bytes_) {
      const uint64_t left = std::max(bytes_ - filled_, kSmallest);
      const uint64_t size =
          std::min(random_.of_any_magnitude(kSmallest, kLargest), left) / 512 * 512;
      try {
        blocks_.push_back({contender_.allocate(size, streams_[0]), size});
      } catch (const gpu::Failure& failure) {
        why_not_ = failure.what();
        return;
      }
      filled_ += size;
    }
  }

  void write_patterns() {
    for (size_t i = 0; i < blocks_.size(); i++) {
      CHECK_CUDA(gpu::fill_pattern(address(i), blocks_[i].size, number(i), streams_[0]));
    }
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  // All words that differ; prints the first.
  uint64_t verify() {
    for (size_t i = 0; i < blocks_.size(); i++) {
      CHECK_CUDA(gpu::verify_pattern(address(i), blocks_[i].size, number(i),
                                     mismatches_.on_device(), streams_[0]));
    }
    return mismatches_.print();
  }

  // The best of three.
  double bytes_per_second() {
    void* memory = nullptr;
    CHECK_CUDA(cudaMalloc(&memory, sizeof(uint64_t)));
    CHECK_CUDA(cudaMemset(memory, 0, sizeof(uint64_t)));
    double best = 0;
    for (int i = 0; i < 3; i++) {
      const double seconds = gpu::seconds_of([&] { read_all(static_cast<uint64_t*>(memory)); });
      best = std::max(best, static_cast<double>(filled_) / seconds);
    }
    CHECK_CUDA(cudaFree(memory));
    return best;
  }

  void give_back() {
    for (const Block& block : blocks_) contender_.free(block.address, streams_[0]);
    blocks_.clear();
    contender_.empty();
  }

  uint64_t filled() const { return filled_; }
  size_t blocks() const { return blocks_.size(); }
  const std::string& why_not() const { return why_not_; }

 private:
  uint64_t address(size_t i) const { return reinterpret_cast<uint64_t>(blocks_[i].address); }
  static uint32_t number(size_t i) { return static_cast<uint32_t>(i + 1); }

  void read_all(uint64_t* sum) {
    for (size_t i = 0; i < blocks_.size(); i++) {
      CHECK_CUDA(gpu::read_all(address(i), blocks_[i].size, sum, streams_[0]));
    }
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  Contender& contender_;
  const uint64_t bytes_;
  cachalot::Random random_;
  gpu::Streams streams_;
  gpu::Mismatches mismatches_;
  std::vector<Block> blocks_;
  uint64_t filled_ = 0;
  std::string why_not_;
};

using Make = std::function<std::unique_ptr<Contender>(const std::string& name)>;

uint64_t bytes_to_fill(const Options& options) {
  if (options.gib) return options.gib << 30;
  size_t free = 0;
  size_t total = 0;
  CHECK_CUDA(cudaMemGetInfo(&free, &total));
  gpu::require(free > options.leave << 30, "less is free than is to be left");
  return free - (options.leave << 30);
}

// Whether all is well. The row goes to the standard output and into the table.
bool measure(const Options& options, const std::string& name, const Make& make) {
  gpu::require_gpus(1);
  CHECK_CUDA(cudaFree(nullptr));  // a context, before anything is measured
  const std::unique_ptr<Contender> contender = make(name);
  contender->free(contender->allocate(kMiB, nullptr), nullptr);
  const uint64_t bytes = bytes_to_fill(options);
  Fill fill(*contender, bytes, options.seed);
  const uint64_t before = resident();
  const uint64_t machine = available();
  const double filling = gpu::seconds_of([&] { fill.fill(); });
  const uint64_t full = resident();
  const uint64_t less = available();
  const size_t blocks = fill.blocks();
  fill.write_patterns();
  const double rate = fill.bytes_per_second();
  const uint64_t differing = fill.verify();
  const double giving = gpu::seconds_of([&] { fill.give_back(); });
  const std::string row = gpu::format(
      "| %s | %.1f | %zu | %.3f | %.3f | %.1f | %.1f | %.1f | %.1f | %.0f |\n", name.c_str(),
      static_cast<double>(fill.filled()) / kGiB, blocks, filling, giving, in_mib(before),
      in_mib(full), in_mib(resident()), in_mib(machine) - in_mib(less), rate / 1e9);
  printf("%s", row.c_str());
  if (!fill.why_not().empty())
    printf("%s stopped early: %s\n", name.c_str(), fill.why_not().c_str());
  if (differing) printf("%s: %" PRIu64 " words differ\n", name.c_str(), differing);
  std::ofstream(options.out + "/fill.md", std::ios::app) << row;
  return differing == 0 && fill.why_not().empty();
}

// In a process that has not used CUDA yet.
int measure_in_child(const Options& options, const std::string& name, const Make& make) {
  fflush(stdout);
  const pid_t child = fork();
  gpu::require(child >= 0, "no process could be made");
  if (child == 0) {
    alarm(120);
    const int code = gpu::run_program([&] { return measure(options, name, make); });
    fflush(stdout);
    _exit(code);
  }
  int status = 0;
  gpu::require(waitpid(child, &status, 0) == child, "the process could not be waited for");
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  printf("%s: ended by signal %d\n", name.c_str(), WTERMSIG(status));
  return gpu::kFailed;
}

std::vector<std::pair<std::string, Make>> contenders(const Options& options) {
  const auto ours = [&options](const char* config, const char* policy) -> Make {
    return [&options, config, policy](const std::string& name) {
      return gpu::make_cachalot(name, config, options.driver, policy);
    };
  };
  return {{"cudaMalloc", [](const std::string&) { return gpu::make_plain(); }},
          {"cachalot", ours("", "")},
          {"cachalot, expandable", ours("expandable_segments:True", "")},
          {"serving", ours("", "serving")},
          {"serving, pages of 8 MiB", ours("", "serving,page=8MiB")}};
}

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  Options options;
  options.gib = flags.number("gib", 0);
  options.leave = flags.number("leave", 8);
  options.seed = flags.number("seed", 1);
  options.out = flags.text("out", ".");
  options.driver = flags.text("driver", "cuda");
  options.only = flags.text("only", "");
  flags.reject_unknown();
  gpu::write_file(options.out + "/fill.md", kHead);
  printf("%s", kHead);
  bool passed = true;
  for (const auto& [name, make] : contenders(options)) {
    if (!options.only.empty() && options.only != name) continue;
    const int code = measure_in_child(options, name, make);
    if (code == gpu::kSkipped) throw gpu::Skip("no GPU");
    passed = passed && code == gpu::kPassed;
  }
  printf(passed ? "passed: all have filled it\n" : "failed: see above\n");
  return passed;
}

}  // namespace

int main(int argc, char** argv) {
  return gpu::run_program([&] { return run(argc, argv); });
}
