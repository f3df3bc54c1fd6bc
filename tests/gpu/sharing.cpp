// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of a GPU between processes: plain segments and pages, both ways of share.h, each end killed, forged and stale
// tickets. Each end is a process of its own, since CUDA does not live in a forked child.
//
// Usage: sharing [--megabytes 256]
// Exit code: 0 all is as it should be, 1 not, 77 no GPU.
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>
#include <vector>

#include "../hex_digits.h"
#include "../other_process.h"
#include "allocator.h"
#include "flags.h"
#include "measure.h"

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr const char* kPlain = "";
constexpr const char* kPages = "expandable_segments:True";

// Of a call, with its status.
template <class Call>
double microseconds_of(cachalot_status& status, Call call) {
  return 1e6 * gpu::seconds_of([&] { status = call(); });
}

// ---- One end: it does what it is told on its standard input

class End {
 public:
  explicit End(const char* config) : allocator_(config) {}

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "allocate") return allocate(words);
    if (word == "fill") return fill(words);
    if (word == "check") return check(words);
    if (word == "work") return work();
    if (word == "share") return share();
    if (word == "users") return "ok " + std::to_string(cachalot_shared_block_users(shared_));
    if (word == "end") return end();
    if (word == "open") return open(words);
    if (word == "has_sharer")
      return "ok " + std::to_string(cachalot_opened_block_has_sharer(opened_));
    if (word == "close") return close();
    if (word == "bytes") return bytes();
    if (word == "open_bytes") return open_bytes(words);
    if (word == "close_bytes")
      return told(cachalot_close_shared(allocator_.get(), memory_, &error_));
    if (word == "live") return live();
    return "unknown word";
  }

 private:
  std::string told(cachalot_status status, const std::string& result = "") {
    if (status == CACHALOT_OK) return "ok " + result;
    return std::string(cachalot_status_name(status)) + " " + error_.message;
  }

  void* pointer() const { return reinterpret_cast<void*>(address_); }

  std::string allocate(std::istringstream& words) {
    words >> size_;
    address_ = allocator_.allocate(size_, 0, nullptr);
    return "ok ";
  }

  std::string fill(std::istringstream& words) {
    int byte = 0;
    words >> byte;
    CHECK_CUDA(cudaMemset(pointer(), byte, size_));
    CHECK_CUDA(cudaDeviceSynchronize());
    return "ok ";
  }

  std::string check(std::istringstream& words) {
    int byte = 0;
    words >> byte;
    std::vector<unsigned char> found(size_);
    CHECK_CUDA(cudaMemcpy(found.data(), pointer(), size_, cudaMemcpyDeviceToHost));
    uint64_t wrong = 0;
    for (const unsigned char each : found) wrong += each != byte;
    return "ok " + std::to_string(wrong);
  }

  // Much, and not waited for.
  std::string work() {
    for (int i = 0; i < 2000; i++) CHECK_CUDA(cudaMemsetAsync(pointer(), i & 255, size_, nullptr));
    return "ok ";
  }

  std::string share() {
    cachalot_status status = CACHALOT_OK;
    const double took = microseconds_of(status, [&] {
      return cachalot_shared_block_create(allocator_.get(), address_, &shared_, &error_);
    });
    if (status != CACHALOT_OK) return told(status);
    char ticket[CACHALOT_TICKET_CAPACITY];
    cachalot_shared_block_ticket(shared_, ticket, sizeof ticket, nullptr, &error_);
    return std::string("ok ") + ticket + " " + std::to_string(took);
  }

  std::string end() {
    cachalot_shared_block_destroy(shared_);
    shared_ = nullptr;
    return "ok ";
  }

  std::string open(std::istringstream& words) {
    std::string ticket;
    words >> ticket;
    cachalot_status status = CACHALOT_OK;
    const double took = microseconds_of(status, [&] {
      return cachalot_opened_block_create(allocator_.get(), 0, ticket.c_str(), &opened_, &error_);
    });
    if (status == CACHALOT_OK)
      status = cachalot_opened_block_address(opened_, &address_, &size_, &error_);
    return told(status, std::to_string(took));
  }

  std::string close() {
    cachalot_opened_block_destroy(opened_);
    opened_ = nullptr;
    return "ok ";
  }

  std::string bytes() {
    std::string buffer(1 << 20, '\0');
    size_t size = 0;
    uint64_t offset = 0;
    const cachalot_status status = cachalot_share(allocator_.get(), address_, buffer.data(),
                                                  buffer.size(), &size, &offset, &error_);
    if (status != CACHALOT_OK) return told(status);
    buffer.resize(size);
    return "ok " + std::to_string(offset) + " " + cachalot_test::to_hex_digits(buffer);
  }

  // SIZE OFFSET DIGITS
  std::string open_bytes(std::istringstream& words) {
    uint64_t offset = 0;
    std::string digits;
    words >> size_ >> offset >> digits;
    const std::string in = cachalot_test::of_hex_digits(digits);
    const cachalot_status status =
        cachalot_open_shared(allocator_.get(), 0, in.data(), in.size(), &memory_, &error_);
    address_ = memory_ + offset;
    return told(status);
  }

  std::string live() {
    cachalot_stats stats = {};
    stats.struct_size = sizeof stats;
    const cachalot_status status = cachalot_get_stats(allocator_.get(), 0, &stats, &error_);
    return told(status, std::to_string(stats.allocation.all.current));
  }

  gpu::Allocator allocator_;
  cachalot_shared_block* shared_ = nullptr;
  cachalot_opened_block* opened_ = nullptr;
  cachalot_address address_ = 0;
  cachalot_address memory_ = 0;
  uint64_t size_ = 0;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
};

int be_an_end(const char* config) {
  try {
    End end(config);
    std::cout << "ok " << std::endl;
    for (std::string line; std::getline(std::cin, line);)
      std::cout << end.answer(line) << std::endl;
  } catch (const std::exception& failure) {
    std::cout << "failed " << failure.what() << std::endl;
    return 1;
  }
  return 0;
}

// ---- The test

int failures = 0;

void expect(bool is_so, const std::string& what) {
  if (is_so) return;
  failures++;
  printf("failed: %s\n", what.c_str());
}

class Other : public cachalot_test::OtherProcess {
 public:
  explicit Other(const char* config)
      : OtherProcess({"/proc/self/exe", "--end", config},
                     [](const std::string& what) { expect(false, what); }) {}
};

// It happens on another thread.
void expect_soon(const std::string& what, const std::string& expected,
                 const std::function<std::string()>& ask) {
  std::string last;
  for (int i = 0; i < 1000 && last != expected; i++) {
    last = ask();
    if (last != expected) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  expect(last == expected, what + ": " + last + " instead of " + expected);
}

struct Shared {
  std::string ticket;
  std::string took;
};

Shared share(Other& sharer, uint64_t size, int byte) {
  sharer.get("allocate " + std::to_string(size));
  sharer.get("fill " + std::to_string(byte));
  std::istringstream words(sharer.get("share"));
  Shared shared;
  words >> shared.ticket >> shared.took;
  return shared;
}

void both_ways(const char* config, uint64_t size) {
  Other sharer(config);
  Other opener(config);
  const Shared shared = share(sharer, size, 7);
  opener.get("allocate 1000");  // makes the context, which takes longer than anything else
  const std::string took = opener.get("open " + shared.ticket);
  printf("  %llu MiB: shared in %s us, opened in %s us\n",
         static_cast<unsigned long long>(size / kMiB), shared.took.c_str(), took.c_str());
  expect(opener.get("check 7") == "0", "the opener reads other bytes");
  opener.get("fill 9");
  expect(sharer.get("check 9") == "0", "the sharer reads other bytes");
  sharer.get("end");
  expect(sharer.get("live") == "1", "the block is gone while it is open");
  opener.get("close");
  expect_soon("live blocks", "0", [&] { return sharer.get("live"); });
}

void killed_opener(const char* config, uint64_t size) {
  Other sharer(config);
  Other opener(config);
  opener.get("open " + share(sharer, size, 7).ticket);
  opener.get("work");
  sharer.get("end");
  opener.kill();
  expect_soon("live blocks", "0", [&] { return sharer.get("live"); });
  // Nothing of the dead process writes to what is handed out next.
  sharer.get("allocate " + std::to_string(size));
  sharer.get("fill 5");
  expect(sharer.get("check 5") == "0", "a process that is gone has written");
}

void killed_sharer(const char* config, uint64_t size) {
  Other sharer(config);
  Other opener(config);
  const Shared shared = share(sharer, size, 7);
  opener.get("open " + shared.ticket);
  sharer.kill();
  expect_soon("the sharer", "0", [&] { return opener.get("has_sharer"); });
  const std::string wrong = opener.ask("check 7");
  printf("  after the sharer's death: %s bytes differ\n", wrong.c_str());
  if (config == kPages) expect(wrong == "ok 0", "pages are gone with their sharer");
  opener.ask("close");
  expect(opener.ask("open " + shared.ticket).substr(0, 13) == "INVALID_STATE",
         "a stale ticket opens");
}

void forged(const char* config, uint64_t size) {
  Other sharer(config);
  Other opener(config);
  std::string ticket = share(sharer, size, 7).ticket;
  ticket.back() = ticket.back() == '0' ? '1' : '0';
  expect(opener.ask("open " + ticket).substr(0, 13) == "INVALID_STATE", "a forged ticket opens");
  const std::string segment = "open_bytes 1 0 0363" + std::string(128, '5');
  expect(opener.ask(segment).substr(0, 6) == "DRIVER", "a forged handle opens");
  opener.get("allocate 1000000");
  opener.get("fill 1");
  expect(opener.get("check 1") == "0", "the opener does not work any more");
}

void bytes(const char* config, uint64_t size) {
  Other sharer(config);
  Other opener(config);
  sharer.get("allocate 5000000");
  sharer.get("allocate " + std::to_string(size));
  sharer.get("fill 3");
  const std::string handle = sharer.get("bytes");
  const std::string opened = opener.ask("open_bytes " + std::to_string(size) + " " + handle);
  // Containers may forbid pidfd_getfd, which PyTorch needs for descriptors.
  if (opened.find("pidfd_getfd: Operation not permitted") != opened.npos)
    return static_cast<void>(printf("  PyTorch's bytes: %s\n", opened.c_str()));
  expect(opened == "ok ", "PyTorch's bytes: " + opened);
  expect(opener.get("check 3") == "0", "PyTorch's bytes open other memory");
  opener.get("close_bytes");
}

bool run(int argc, char** argv) {
  gpu::Flags flags(argc, argv);
  const uint64_t megabytes = flags.number("megabytes", 256);
  flags.reject_unknown();
  gpu::require_gpus(1);
  for (const char* config : {kPlain, kPages}) {
    printf("\"%s\"\n", config);
    for (const uint64_t size : {uint64_t{1}, uint64_t{20}, megabytes})
      both_ways(config, size * kMiB);
    killed_opener(config, megabytes * kMiB);
    killed_sharer(config, megabytes * kMiB);
    forged(config, kMiB);
    bytes(config, megabytes * kMiB);
  }
  printf("%s\n", failures == 0 ? "passed" : "failed");
  return failures == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--end") == 0) return be_an_end(argv[2]);
  return gpu::run_program([&] { return run(argc, argv); });
}
