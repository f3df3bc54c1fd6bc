// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies, pools that sleep and memory between processes, with each driver call of theirs failing once. A call that says so
// has changed nothing and can be repeated.
#include <functional>
#include <map>
#include <memory>

#include "sim_fixture.h"

namespace cachalot_test {
namespace {

constexpr cachalot_pool_id kPool = SimAllocator::user_pool(7);
constexpr cachalot_stream kStream = 0x10;
constexpr const char* kPlain = "";
constexpr const char* kExpandable = "expandable_segments:True";
// What the driver refuses to take back is still there, and nobody is told.
constexpr uint32_t kGivingBack = CACHALOT_SIM_CALL_FREE | CACHALOT_SIM_CALL_UNRESERVE |
                                 CACHALOT_SIM_CALL_RELEASE | CACHALOT_SIM_CALL_UNMAP |
                                 CACHALOT_SIM_CALL_HOST_FREE;
// More calls of one kind than any act here makes.
constexpr uint64_t kMostCalls = 6;

// An allocator with a block outside of every pool, one in a pool, and one on another device.
class Stage {
 public:
  Stage(const char* config, int32_t release)
      : with(SimSetup{.config = config, .release = release, .device_count = 2}) {
    first = with.allocate(30 * MiB);
    there = with.allocate(1000, 0, 1);
    with.create_pool(kPool);
    with.begin_pool(kPool);
    in_pool = with.allocate(50 * MiB);
    with.leave_pool(kPool);
  }
  ~Stage() {
    cachalot_opened_block_destroy(opened);
    cachalot_shared_block_destroy(shared);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  cachalot_status sleep(int32_t contents) {
    return cachalot_pool_sleep(with.get(), 0, kPool, contents, kStream, nullptr, with.error());
  }
  cachalot_status wake() { return cachalot_pool_wake(with.get(), 0, kPool, kStream, with.error()); }
  cachalot_status copy(cachalot_address from, int32_t device) {
    return cachalot_copy(with.get(), first, 0, from, device, 1000, kStream, with.error());
  }
  cachalot_status share() {
    return cachalot_shared_block_create(with.get(), first, &shared, with.error());
  }
  cachalot_status open() {
    char ticket[CACHALOT_TICKET_CAPACITY];
    with.ok(cachalot_shared_block_ticket(shared, ticket, sizeof ticket, nullptr, with.error()));
    return cachalot_opened_block_create(with.get(), 0, ticket, &opened, with.error());
  }
  cachalot_status share_bytes() {
    std::string buffer(4096, '\0');
    size_t size = 0;
    uint64_t offset = 0;
    const cachalot_status status = cachalot_share(with.get(), first, buffer.data(), buffer.size(),
                                                  &size, &offset, with.error());
    if (status == CACHALOT_OK) bytes = buffer.substr(0, size);
    return status;
  }
  cachalot_status open_bytes() {
    cachalot_address address = 0;
    return cachalot_open_shared(with.get(), 0, bytes.data(), bytes.size(), &address, with.error());
  }

  // Everything that a caller can see, and what the device has handed out.
  std::string state() {
    std::string text = with.layout() + "\n" + with.layout(kPool) + "\n";
    cachalot_sleep_stats sleeping = {};
    sleeping.struct_size = sizeof sleeping;
    with.ok(cachalot_get_sleep_stats(with.get(), 0, kPool, &sleeping, with.error()));
    uint64_t totals[2] = {};
    with.ok(cachalot_expandable_totals(with.get(), &totals[0], &totals[1], with.error()));
    const cachalot_stats stats = with.stats();
    for (const uint64_t number :
         {static_cast<uint64_t>(sleeping.state), sleeping.blocks, sleeping.allocated_bytes,
          sleeping.asleep_bytes, sleeping.kept_bytes, totals[0], totals[1], with.reserved(),
          static_cast<uint64_t>(stats.allocated_bytes.all.current),
          cachalot_shared_block_users(shared)})
      text += std::to_string(number) + " ";
    return text + held();
  }

  SimAllocator with;
  cachalot_address first = 0;
  cachalot_address there = 0;
  cachalot_address in_pool = 0;
  cachalot_shared_block* shared = nullptr;
  cachalot_opened_block* opened = nullptr;
  std::string bytes;

 private:
  // How many calls of each kind have worked and were not taken back. Not of pinned memory and events, which are cached.
  std::string held() {
    static const std::map<std::string, std::pair<const char*, int>> kKinds = {
        {"malloc", {"segments", 1}},   {"free", {"segments", -1}},   {"reserve", {"ranges", 1}},
        {"unreserve", {"ranges", -1}}, {"create", {"pages", 1}},     {"import", {"pages", 1}},
        {"release", {"pages", -1}},    {"map", {"maps", 1}},         {"unmap", {"maps", -1}},
        {"ipc_open", {"opened", 1}},   {"ipc_close", {"opened", -1}}};
    std::istringstream calls(with.take_calls());
    for (std::string call; std::getline(calls >> std::ws, call, ';');) {
      const auto kind = kKinds.find(call.substr(0, call.find(' ')));
      const bool worked =
          call.find(" oom") == std::string::npos && call.find(" error") == std::string::npos;
      if (kind != kKinds.end() && worked) held_[kind->second.first] += kind->second.second;
    }
    std::string text;
    for (const auto& [what, count] : held_) text += std::to_string(count) + " " + what + " ";
    return text;
  }

  std::map<std::string, int> held_;
};

struct Act {
  const char* name;
  const char* config;
  std::function<void(Stage&)> prepare;
  std::function<cachalot_status(Stage&)> run;
};

void nothing(Stage&) {}

const Act kActs[] = {
    {"a copy within a device", kPlain, nothing, [](Stage& s) { return s.copy(s.in_pool, 0); }},
    {"a copy between devices", kPlain, nothing, [](Stage& s) { return s.copy(s.there, 1); }},
    {"a copy of peers", kExpandable, nothing, [](Stage& s) { return s.copy(s.there, 1); }},
    {"a sleep that discards", kExpandable, nothing,
     [](Stage& s) { return s.sleep(CACHALOT_SLEEP_DISCARD); }},
    {"a sleep that keeps", kExpandable, nothing,
     [](Stage& s) { return s.sleep(CACHALOT_SLEEP_KEEP); }},
    {"a wake without contents", kExpandable,
     [](Stage& s) { s.with.ok(s.sleep(CACHALOT_SLEEP_DISCARD)); },
     [](Stage& s) { return s.wake(); }},
    {"a wake with contents", kExpandable,
     [](Stage& s) { s.with.ok(s.sleep(CACHALOT_SLEEP_KEEP_ALL)); },
     [](Stage& s) { return s.wake(); }},
    {"a shared block of a segment", kPlain, nothing, [](Stage& s) { return s.share(); }},
    {"a shared block of pages", kExpandable, nothing, [](Stage& s) { return s.share(); }},
    {"an opened block of a segment", kPlain, [](Stage& s) { s.with.ok(s.share()); },
     [](Stage& s) { return s.open(); }},
    {"an opened block of pages", kExpandable, [](Stage& s) { s.with.ok(s.share()); },
     [](Stage& s) { return s.open(); }},
    {"PyTorch's bytes of a segment", kPlain, nothing, [](Stage& s) { return s.share_bytes(); }},
    {"PyTorch's bytes of pages", kExpandable, nothing, [](Stage& s) { return s.share_bytes(); }},
    {"memory by the bytes of a segment", kPlain, [](Stage& s) { s.with.ok(s.share_bytes()); },
     [](Stage& s) { return s.open_bytes(); }},
    {"memory by the bytes of pages", kExpandable, [](Stage& s) { s.with.ok(s.share_bytes()); },
     [](Stage& s) { return s.open_bytes(); }},
};

// What a caller sees before the act and after it, where no call fails.
struct Sight {
  std::string before;
  std::string after;
};

Sight sight_of(const Act& act, int32_t release) {
  Stage stage(act.config, release);
  act.prepare(stage);
  Sight sight{stage.state(), ""};
  stage.with.ok(act.run(stage));
  sight.after = stage.state();
  return sight;
}

// Of calls of one kind the one after so many that work.
struct Failing {
  uint32_t call;
  int32_t code;
  uint64_t after;
};

// Whether the act failed.
bool fails(const Act& act, int32_t release, const Sight& sight, const Failing& failing) {
  Stage stage(act.config, release);
  act.prepare(stage);
  EXPECT_EQ(stage.state(), sight.before);
  stage.with.fail(failing.call, failing.code, failing.after);
  const cachalot_status status = act.run(stage);
  if (status != CACHALOT_OK) {
    EXPECT_TRUE(status == CACHALOT_ERROR_DRIVER || status == CACHALOT_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(stage.with.error()->driver_code, failing.code) << stage.with.error()->message;
    EXPECT_NE(std::string(stage.with.error()->message), "");
    EXPECT_EQ(stage.state(), sight.before);
    stage.with.ok(act.run(stage));
  }
  EXPECT_EQ(stage.state(), sight.after);
  return status != CACHALOT_OK;
}

// How often the act failed.
size_t failures_of(const Act& act, int32_t release) {
  const Sight sight = sight_of(act, release);
  size_t failures = 0;
  for (uint32_t call = 1; call <= CACHALOT_SIM_CALL_COPY; call <<= 1) {
    if ((call & kGivingBack) != 0) continue;
    SCOPED_TRACE(act.name + std::string(", call ") + std::to_string(call));
    for (const int32_t code : {700, CACHALOT_DRIVER_OUT_OF_MEMORY}) {
      Failing failing{call, code, 0};
      for (; failing.after < kMostCalls && fails(act, release, sight, failing); failing.after++)
        failures++;
    }
  }
  return failures;
}

TEST(AFailedDriverCall, ChangesNothingAndTheCallCanBeRepeated) {
  for (const int32_t release : kReleases)
    for (const Act& act : kActs) EXPECT_GT(failures_of(act, release), 0u) << act.name;
}

}  // namespace
}  // namespace cachalot_test
