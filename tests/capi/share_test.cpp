// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory between real processes over the host driver: its lifetimes, and what becomes of both ends when one dies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "../other_process.h"
#include "cachalot/cachalot.h"

namespace {

constexpr uint64_t MiB = uint64_t{1} << 20;
constexpr const char* kPlain = "";
constexpr const char* kPages = "expandable_segments:True";
constexpr const char* kBoth[] = {kPlain, kPages};

// Another process with an allocator.
class Other : public cachalot_test::OtherProcess {
 public:
  explicit Other(const char* config, const char* driver = "host-shared:256MiB")
      : OtherProcess({CACHALOT_SHARE_HELPER, driver, config},
                     [](const std::string& what) { ADD_FAILURE() << what; }) {}
};

// Repeats the question until the answer comes, for what happens on another thread.
template <class Question>
void expect_soon(const std::string& expected, Question question) {
  std::string last;
  for (int i = 0; i < 500; i++) {
    last = question();
    if (last == expected) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(last, expected);
}

size_t open_descriptors(pid_t process) {
  const auto folder = "/proc/" + std::to_string(process) + "/fd";
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) count++;
  return count;
}

std::string share(Other& sharer, uint64_t size, int filling) {
  sharer.get("allocate " + std::to_string(size) + " " + std::to_string(filling));
  return sharer.get("share");
}

TEST(AnotherProcess, ThatIsGoneDoesNotEndTheTest) {
  Other other(kPlain);
  other.kill();
  for (int i = 0; i < 3; i++) EXPECT_EQ(other.ask("users"), "gone");
}

TEST(SharedBlock, IsTheSameMemoryInBothProcesses) {
  for (const char* config : kBoth) {
    Other sharer(config);
    Other opener(config);
    const std::string ticket = share(sharer, 30 * MiB, 7);
    EXPECT_EQ(opener.get("open " + ticket), std::to_string(30 * MiB));
    for (const char* offset : {"0", "2097152", "31457279"}) {
      const std::string place = offset;
      EXPECT_EQ(opener.get("read " + place), "7") << config;
      opener.get("write " + place + " 9");
      EXPECT_EQ(sharer.get("read " + place), "9") << config;
      sharer.get("write " + place + " 11");
      EXPECT_EQ(opener.get("read " + place), "11") << config;
    }
  }
}

TEST(SharedBlock, LivesUntilItsLastUserHasClosedIt) {
  for (const char* config : kBoth) {
    Other sharer(config);
    Other first(config);
    Other second(config);
    const std::string ticket = share(sharer, 3 * MiB, 5);
    first.get("open " + ticket);
    second.get("open " + ticket);
    EXPECT_EQ(sharer.get("users"), "2");
    sharer.get("end");
    EXPECT_EQ(sharer.ask("destroy"), "INVALID_STATE 1 block is still live");
    first.get("close");
    EXPECT_EQ(second.get("read 100"), "5");
    EXPECT_EQ(sharer.ask("destroy"), "INVALID_STATE 1 block is still live");
    second.get("close");
    expect_soon("ok", [&] { return sharer.ask("destroy"); });
  }
}

TEST(SharedBlock, IsFreedAtItsEndWhereNobodyHasItOpen) {
  Other sharer(kPlain);
  share(sharer, MiB, 1);
  sharer.get("end");
  EXPECT_EQ(sharer.ask("destroy"), "ok");
}

TEST(SharedBlock, IsFreedWhenItsOpenerWasKilled) {
  for (const char* config : kBoth) {
    Other sharer(config);
    Other opener(config);
    opener.get("open " + share(sharer, 50 * MiB, 1));
    EXPECT_EQ(sharer.get("users"), "1");
    opener.kill();
    expect_soon("0", [&] { return sharer.get("users"); });
    sharer.get("end");
    EXPECT_EQ(sharer.ask("destroy"), "ok");
  }
}

TEST(SharedBlock, IsFreedWhenItsOwnerHasEndedItAndItsOpenerWasKilled) {
  Other sharer(kPlain);
  Other opener(kPlain);
  opener.get("open " + share(sharer, MiB, 1));
  sharer.get("end");
  opener.kill();
  expect_soon("ok", [&] { return sharer.ask("destroy"); });
}

TEST(SharedBlock, StaysReadableWhenItsSharerWasKilled) {
  for (const char* config : kBoth) {
    Other sharer(config);
    Other opener(config);
    const std::string ticket = share(sharer, 30 * MiB, 3);
    opener.get("open " + ticket);
    EXPECT_EQ(opener.get("has_sharer"), "1");
    sharer.kill();
    expect_soon("0", [&] { return opener.get("has_sharer"); });
    EXPECT_EQ(opener.get("read 30000000"), "3");
    opener.get("close");
    EXPECT_EQ(
        opener.ask("open " + ticket),
        "INVALID_STATE the process or the allocator that shared the block is gone, or in another "
        "network namespace");
    EXPECT_EQ(opener.ask("destroy"), "ok");
  }
}

TEST(SharedBlock, LeavesNoDescriptorsWhereItIsOpenedAndClosedOften) {
  Other sharer(kPages);
  Other opener(kPages);
  const std::string ticket = share(sharer, 200 * MiB, 3);
  const size_t before = open_descriptors(opener.process());
  for (int i = 0; i < 20; i++) {
    opener.get("open " + ticket);
    EXPECT_EQ(opener.get("read 209715199"), "3");
    opener.get("close");
  }
  EXPECT_EQ(open_descriptors(opener.process()), before);
  expect_soon("0", [&] { return sharer.get("users"); });
}

TEST(SharedBlock, IsRefusedToForgedAndStaleTickets) {
  Other sharer(kPlain);
  Other opener(kPlain);
  const std::string ticket = share(sharer, MiB, 3);
  EXPECT_EQ(opener.ask("open nonsense"),
            "INVALID_ARGUMENT a text of 8 bytes is no ticket of a shared block");
  EXPECT_EQ(opener.ask("open " + ticket + "0"),
            "INVALID_ARGUMENT a text of 82 bytes is no ticket of a shared block");
  std::string forged = ticket;
  forged.back() = forged.back() == '0' ? '1' : '0';
  const std::string no_such =
      "INVALID_STATE the block is not shared any more, or never was under this ticket";
  EXPECT_EQ(opener.ask("open " + forged), no_such);
  sharer.get("end");
  EXPECT_EQ(opener.ask("open " + ticket), no_such);
  forged[20] = forged[20] == '0' ? '1' : '0';
  EXPECT_EQ(
      opener.ask("open " + forged),
      "INVALID_STATE the process or the allocator that shared the block is gone, or in another "
      "network namespace");
  EXPECT_EQ(sharer.ask("destroy"), "ok");
  EXPECT_EQ(opener.ask("destroy"), "ok");
}

TEST(SharedBlock, IsNotFreedByItsOwner) {
  Other sharer(kPlain);
  share(sharer, MiB, 3);
  const std::string answer = sharer.ask("free");
  EXPECT_EQ(answer.substr(0, 27), "INVALID_STATE the block at ") << answer;
  EXPECT_EQ(sharer.ask("share").substr(0, 13), "INVALID_STATE");
  sharer.get("end");
  EXPECT_EQ(sharer.ask("free").substr(0, 16), "INVALID_ARGUMENT");
}

TEST(SharedBytes, OpenTheMemoryOfAnotherProcess) {
  for (const char* config : kBoth) {
    Other sharer(config);
    Other opener(config);
    sharer.get("allocate 5000000 1");
    sharer.get("allocate 25000000 8");
    const std::string bytes = sharer.get("bytes");
    opener.get("open_bytes " + bytes);
    EXPECT_EQ(opener.get("read 24999999"), "8") << config;
    opener.get("write 5 77");
    EXPECT_EQ(sharer.get("read 5"), "77") << config;
    EXPECT_EQ(opener.ask("destroy"),
              "INVALID_STATE memory of other processes is open at 1 address");
    opener.get("close_bytes");
    EXPECT_EQ(opener.ask("close_bytes").substr(0, 16), "INVALID_ARGUMENT");
    EXPECT_EQ(opener.ask("destroy"), "ok");
  }
}

TEST(SharedBytes, OfPagesOutliveTheSharer) {
  Other sharer(kPages);
  Other opener(kPages);
  sharer.get("allocate 25000000 8");
  opener.get("open_bytes " + sharer.get("bytes"));
  sharer.kill();
  EXPECT_EQ(opener.get("read 24999999"), "8");
  opener.get("close_bytes");
}

TEST(SharedBytes, AreRefusedOnceTheSharerIsGone) {
  std::string plain;
  std::string pages;
  {
    Other sharer(kPlain);
    sharer.get("allocate 5000000 1");
    plain = sharer.get("bytes");
  }
  {
    Other sharer(kPages);
    sharer.get("allocate 5000000 1");
    pages = sharer.get("bytes");
  }
  Other opener(kPlain);
  EXPECT_EQ(opener.ask("open_bytes " + plain), "DRIVER CUDA error: invalid resource handle");
  EXPECT_EQ(opener.ask("open_bytes " + pages), "INVALID_STATE pidfd_open:No such process");
  EXPECT_EQ(opener.ask("destroy"), "ok");
}

TEST(SharedBytes, AreRefusedWhereTheMemoryIsGone) {
  Other sharer(kPlain);
  Other opener(kPlain);
  sharer.get("allocate 50000000 1");
  const std::string bytes = sharer.get("bytes");
  sharer.get("free");
  sharer.get("destroy");
  EXPECT_EQ(opener.ask("open_bytes " + bytes), "DRIVER CUDA error: invalid resource handle");
}

TEST(SharedBytes, AreNotOpenedForWhateverHasTheDescriptorNow) {
  Other opener(kPlain);
  // 1 page of 2 MiB, descriptor 0 of this process, which is no memory.
  char bytes[128];
  const auto byte_of = [](int shift) { return (getpid() >> shift) & 255; };
  snprintf(
      bytes, sizeof bytes,
      "open_bytes 0 0365%02x%02x%02x%02x00000000000020000000000001000000000000000100000000000000"
      "00000000",
      byte_of(0), byte_of(8), byte_of(16), byte_of(24));
  EXPECT_EQ(opener.ask(bytes), "DRIVER CUDA driver error: invalid resource handle");
  EXPECT_EQ(opener.ask("destroy"), "ok");
}

TEST(SharedMemory, NeedsADriverThatCanShare) {
  Other sharer(kPlain, "host");
  sharer.get("allocate 5000 1");
  const std::string refusal =
      "NOT_SUPPORTED memory of the driver 'host' cannot be shared between processes, only that of "
      "'host-shared'";
  EXPECT_EQ(sharer.ask("bytes"), refusal);
  EXPECT_EQ(sharer.ask("share"), refusal);
  EXPECT_EQ(sharer.ask("free"), "ok");
}

TEST(SharedMemory, IsServedToManyProcessesAtOnce) {
  Other sharer(kPages);
  const std::string ticket = share(sharer, 60 * MiB, 3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&] {
      Other opener(kPages);
      for (int round = 0; round < 5; round++) {
        opener.get("open " + ticket);
        EXPECT_EQ(opener.get("read 60000000"), "3");
        if (round == 4) opener.kill();
        if (round < 4) opener.get("close");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_soon("0", [&] { return sharer.get("users"); });
  sharer.get("end");
  EXPECT_EQ(sharer.ask("destroy"), "ok");
}

}  // namespace
