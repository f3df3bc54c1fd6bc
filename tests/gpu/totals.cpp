// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether the totals of a device agree with what nvidia-smi shows at the same moment, within 2 MiB,
// while nothing is allocated, 1 GiB is live, cached, given back, and another process holds 2 GiB.
//
// Usage: totals
// Exit code: 0 they agree, 1 they do not, 77 no GPU or no nvidia-smi.
//
// Three fields must agree: the total and the bytes in use with memory.total - memory.reserved and
// memory.used (the driver keeps memory.reserved for itself, and shows a program neither it nor its
// use), and the bytes of this process with its row among the compute processes. `reserved` must be
// what the library itself has obtained, `outside` the rest of what is in use. All numbers are
// printed, also those that need not agree.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdlib>
#include <vector>

#include "allocator.h"

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTolerance = 2 * kMiB;

struct CommandResult {
  int code;
  std::string output;
};

CommandResult run_command(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  gpu::require(pipe != nullptr, command + ": could not be started");
  CommandResult result = {0, ""};
  std::array<char, 512> piece = {};
  while (fgets(piece.data(), piece.size(), pipe)) result.output += piece.data();
  result.code = pclose(pipe);
  return result;
}

// The numbers of one line: "143771 MiB, 0 MiB" has two, other text none.
std::vector<uint64_t> numbers_of(const std::string& line) {
  std::vector<uint64_t> numbers;
  const char* const end = line.data() + line.size();
  for (const char* at = line.data(); at < end; at++) {
    uint64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc()) continue;
    numbers.push_back(number);
    at = rest;
  }
  return numbers;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

struct Process {
  uint64_t pid;
  uint64_t used;  // bytes
};

// What nvidia-smi shows of device 0. Bytes.
struct Shown {
  uint64_t total;
  uint64_t reserved;
  uint64_t used;
  uint64_t free;
  std::vector<Process> processes;

  const Process* process(uint64_t pid) const {
    for (const Process& row : processes) {
      if (row.pid == pid) return &row;
    }
    return nullptr;
  }
};

// It numbers the GPUs of the machine, the driver those that the process may see.
std::string ask_about_device_0() {
  std::array<char, 32> bus_id = {};
  CHECK_CUDA(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), 0));
  return std::string("nvidia-smi --format=csv,noheader -i ") + bus_id.data();
}

Shown ask_nvidia_smi() {
  const std::string ask = ask_about_device_0();
  const CommandResult memory =
      run_command(ask + " --query-gpu=memory.total,memory.reserved,memory.used,memory.free");
  const std::vector<uint64_t> numbers = numbers_of(memory.output);
  if (memory.code || numbers.size() != 4) throw gpu::Skip("nvidia-smi says: " + memory.output);
  printf("    nvidia-smi total, reserved, used, free: %s", memory.output.c_str());
  Shown shown = {numbers[0] * kMiB, numbers[1] * kMiB, numbers[2] * kMiB, numbers[3] * kMiB, {}};
  const CommandResult apps = run_command(ask + " --query-compute-apps=pid,used_memory");
  for (const std::string& line : lines_of(apps.output)) {
    printf("    nvidia-smi process: %s\n", line.c_str());
    const std::vector<uint64_t> row = numbers_of(line);
    if (row.size() == 2) shown.processes.push_back({row[0], row[1] * kMiB});
  }
  if (apps.output.empty()) printf("    nvidia-smi lists no process\n");
  return shown;
}

bool agree(uint64_t left, uint64_t right) {
  return (left > right ? left - right : right - left) <= kTolerance;
}

class Comparison {
 public:
  explicit Comparison(gpu::Allocator& allocator) : allocator_(allocator) {}

  bool passed() const { return passed_; }

  // Compares once nothing changes while nvidia-smi looks.
  cachalot_device_totals compare(const char* state) {
    printf("%s\n", state);
    for (int attempt = 0; attempt < 5; attempt++) {
      const cachalot_device_totals before = allocator_.totals(0);
      const Shown shown = ask_nvidia_smi();
      const cachalot_device_totals after = allocator_.totals(0);
      if (before.used != after.used) continue;
      print(after);
      compare(after, shown);
      return after;
    }
    throw gpu::Failure("the memory in use never stayed the same while nvidia-smi looked");
  }

  void expect(const char* what, uint64_t ours, uint64_t theirs) {
    const bool equal = agree(ours, theirs);
    printf("  %s: %s: %.1f and %.1f MiB\n", equal ? "agrees" : "DIFFERS", what,
           static_cast<double>(ours) / kMiB, static_cast<double>(theirs) / kMiB);
    passed_ = passed_ && equal;
  }

 private:
  static void print(const cachalot_device_totals& totals) {
    printf("    cachalot   total %" PRIu64 ", used %" PRIu64 ", used_by_process %" PRIu64
           ", reserved %" PRIu64 ", outside %" PRIu64 " bytes\n",
           totals.total, totals.used, totals.used_by_process, totals.reserved, totals.outside);
  }

  void compare(const cachalot_device_totals& totals, const Shown& shown) {
    expect("total, memory.total - memory.reserved", totals.total, shown.total - shown.reserved);
    expect("used, memory.used", totals.used, shown.used);
    expect("total - used, memory.free", totals.total - totals.used, shown.free);
    if (const Process* own = shown.process(static_cast<uint64_t>(getpid()))) {
      expect("used_by_process, used_memory of this process", totals.used_by_process, own->used);
    } else {
      printf("  nvidia-smi does not list this process (%d)\n", getpid());
      expect("used_by_process, nothing", totals.used_by_process, 0);
    }
    expect("reserved, what the allocator obtained", totals.reserved,
           cachalot_memory_reserved(allocator_.get(), 0));
    expect("outside, used - reserved", totals.outside, totals.used - totals.reserved);
  }

  gpu::Allocator& allocator_;
  bool passed_ = true;
};

// A process of its own that holds memory until it is told to end. To be made before this process
// uses the driver, because a driver does not survive a fork.
class Holder {
 public:
  explicit Holder(uint64_t size) {
    gpu::require(pipe(orders_.data()) == 0 && pipe(answers_.data()) == 0, "pipe failed");
    fflush(stdout);
    pid_ = fork();
    gpu::require(pid_ >= 0, "fork failed");
    if (pid_ == 0) {
      close(orders_[1]);
      _exit(serve(size));
    }
    close(orders_[0]);
    close(answers_[1]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { end(); }

  // Returns when the memory is held.
  void start() {
    char answer = 0;
    gpu::require(write(orders_[1], "a", 1) == 1 && read(answers_[0], &answer, 1) == 1,
                 "the other process could not allocate");
  }

  void end() {
    if (pid_ < 0) return;
    close(orders_[1]);
    close(answers_[0]);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  // In the other process: allocates when told to, ends when the pipe is closed.
  int serve(uint64_t size) const {
    char order = 0;
    if (read(orders_[0], &order, 1) != 1) return 0;
    try {
      gpu::Allocator allocator("");
      allocator.allocate(size, 0, nullptr);
      if (write(answers_[1], "a", 1) != 1) return 1;
      while (read(orders_[0], &order, 1) > 0) {
      }
      return 0;
    } catch (const std::exception& failure) {
      fprintf(stderr, "the other process: %s\n", failure.what());
      return 1;
    }
  }

  std::array<int, 2> orders_ = {};
  std::array<int, 2> answers_ = {};
  pid_t pid_ = -1;
};

bool compare_all() {
  Holder holder(2 * kGiB);
  gpu::require_gpus(1);
  gpu::Allocator allocator("");
  Comparison comparison(allocator);
  // The first request makes the context, whose memory is outside.
  allocator.free(allocator.allocate(512, 0, nullptr));
  allocator.empty_cache();
  const cachalot_device_totals nothing = comparison.compare("nothing allocated");
  const cachalot_address block = allocator.allocate(kGiB, 0, nullptr);
  const cachalot_device_totals live = comparison.compare("1 GiB live");
  comparison.expect("growth of used, 1 GiB", live.used - nothing.used, kGiB);
  comparison.expect("outside, as before", live.outside, nothing.outside);
  allocator.free(block);
  const cachalot_device_totals cached = comparison.compare("1 GiB cached");
  comparison.expect("used, as while it was live", cached.used, live.used);
  holder.start();
  const cachalot_device_totals beside = comparison.compare("another process holds 2 GiB");
  comparison.expect("reserved, as before", beside.reserved, cached.reserved);
  gpu::require(beside.outside >= cached.outside + 2 * kGiB,
               "the other process's 2 GiB are not outside");
  holder.end();
  comparison.compare("the other process has ended");
  allocator.empty_cache();
  const cachalot_device_totals emptied = comparison.compare("cache emptied");
  comparison.expect("used, as in the beginning", emptied.used, nothing.used);
  return comparison.passed();
}

}  // namespace

int main() { return gpu::run_program(compare_all); }
