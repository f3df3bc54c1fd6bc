// SPDX-License-Identifier: MIT OR Apache-2.0
// A small world around one allocator: logical threads whose calls are interleaved on one thread of
// the system, devices that fail, and a model that knows what must hold.
//
// A step is one act of one logical thread. Where the library holds no lock (inside free-memory
// callbacks and observers of failures, while the driver is asked under release_lock_on_cudamalloc
// or without caching, while it copies) other threads' steps run in the middle of a call, up to
// kDeepest inside each other.
//
// After every step holds: no two live blocks share a byte; no block is handed out, and no memory
// given back, while work that was recorded uses it; a call fails only for a reason that the world
// knows, with one line of text; a pool that sleeps has its pages given back, refuses what needs
// them, and comes back at the same addresses with the contents that were kept. Now and then: the
// statistics are those of the model, and the auditor finds nothing. At the end everything is back
// where it came from.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "block_model.h"
#include "choices.h"
#include "machine.h"
#include "sleep_model.h"

namespace cachalot_test {

struct WorldSetup {
  int32_t release = CACHALOT_RELEASE_2_15;
  std::string config;
  uint32_t mend = 0;
  bool is_sim = false;  // else the ledger
  bool sleeps = false;  // pools sleep often
  bool shares_pages = false;
  bool has_fabric = false;  // of the ledger: how pages go to other processes
  bool has_faults = true;
  bool refuses_returns = false;  // faults also where the allocator gives something back
  bool tracks_labels = false;
  bool checks_every_call = false;
  Plant plant = Plant::kNothing;
  bool tells = false;                 // each step, on the standard error output
  uint64_t steps_between_audits = 0;  // 0: none
  uint64_t capacity = uint64_t{1} << 30;
  int32_t device_count = 2;
};

// What happened, to be added up over runs.
struct Tally {
  uint64_t operations = 0;
  uint64_t interleaved = 0;  // of these, in the middle of another call
  uint64_t hand_outs = 0;
  uint64_t audits = 0;
  uint64_t comparisons = 0;  // of all statistics with the model
  uint64_t sleeps = 0;
  uint64_t asleep = 0;  // blocks, when their pool fell asleep
  uint64_t wakes = 0;
  uint64_t beside_sleep = 0;             // operations while a pool fell asleep or woke
  uint64_t opened = 0;                   // memory of blocks that were shared
  std::array<uint64_t, 32> faults = {};  // by the number of the bit of CACHALOT_SIM_CALL_*
  std::map<int32_t, uint64_t> errors;    // by status
};

class World final : private MachineWatcher {
 public:
  World(const WorldSetup& setup, Choices* choices, Tally* tally);
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Until so many steps are done, or the choices end.
  void run(uint64_t steps);
  // Everything is freed, one by one or at once, and nothing may be left.
  void end();

 private:
  static constexpr int kDeepest = 3;
  static constexpr size_t kMostPools = 6;
  static constexpr size_t kMostLive = 96;

  struct Actor {
    int32_t device;
    cachalot_stream streams[3];
    uint64_t favourites[4];
    int label;  // 0: none
  };
  struct Pool {
    cachalot_pool_id id;
    int32_t device;
    bool is_routed;
    uint64_t capture;  // 0: none

    PoolKey key() const { return {device, id}; }
  };
  // Memory that cachalot_open_shared has opened.
  struct Opened {
    int32_t device;
    std::string bytes;
    cachalot_address address;
    uint64_t users;
  };
  struct Freed {
    cachalot_address address;
    uint64_t size;
    cachalot_stream stream;
    int32_t device;
  };
  // The call that is under way.
  struct Frame {
    bool is_uncached = false;
    uint64_t faults = 0;  // before it
  };
  struct Operation {
    uint32_t weight;
    const char* name;
    void (World::*run)();
    bool is_of_sleep = false;
  };
  static const Operation kOperations[];
  static const size_t kOperationCount;
  static const char* const kConfigs[];

  // MachineWatcher
  void giving_back(cachalot_address address, uint64_t size) override;
  void under_way(bool is_allocation) override;
  void unlocked() override {
    if (!is_copying_) interlude();
  }

  // world.cpp
  void step();
  const Operation& next_operation();
  void interlude();
  void begin_call(bool is_uncached = false);
  bool worked(cachalot_status status);
  bool worked_or_unwilling(cachalot_status status);
  void require(cachalot_status status);
  bool has_fault_come() const;
  void compare_statistics(int32_t device);
  void compare_row(const char* name, const cachalot_stat& stat, const Row& row);
  void audit();
  void require_empty();
  void issue_put_off_frees();

  // world_blocks.cpp
  void allocate();
  void allocate_and_free();
  void allocate_at();
  void free_one();
  void free_nonsense();
  void record_stream();
  void work();
  void add_block(cachalot_address address, uint64_t requested, cachalot_stream stream,
                 int32_t device);
  void mark(LiveBlock* block);
  bool ask(uint64_t size, int32_t device, cachalot_stream stream, cachalot_address* address);
  bool free_at(size_t index);
  void count_front(cachalot_address address, int32_t device);
  void require_invalid_free(cachalot_address address);
  uint64_t any_size();
  cachalot_stream any_stream();

  // world_pools.cpp
  void pool_create();
  void pool_begin();
  void pool_end();
  void pool_release();
  void pool_flags();
  void pool_empty();
  void capture_begin();
  void capture_node();
  void capture_end();
  void begin(Pool& pool, int32_t kind);
  void end_routing(Pool& pool);
  void end_capture(Pool& pool);
  int32_t use_count(const Pool& pool);
  void forget_dead_pools();

  // world_sleep.cpp
  void load_pool();
  void pool_sleep();
  void pool_wake();
  void free_asleep();
  void use_asleep();
  const Pool& any_pool_to_sleep();
  using ContentsOfLabels = std::map<std::string, int32_t>;
  ContentsOfLabels set_contents(const Pool& pool);
  void put_to_sleep(const Pool& pool, int32_t contents, cachalot_stream stream);
  SleepingPool& note_falling(const Pool& pool, int32_t contents, ContentsOfLabels by_label);
  void has_fallen_asleep(SleepingPool& pool, uint64_t bytes);
  void require_given_back(const SleepingPool& pool);
  SleepingPool& any_sleeping_pool();
  void judge_refused_sleep(const PoolKey& pool, cachalot_status status, bool is_known);
  void judge_refused_wake(const SleepingPool& pool, cachalot_status status, bool is_alone);
  bool has_plain_segment(const PoolKey& pool);
  bool is_short_of(int32_t device, uint64_t bytes);
  bool is_any_routed(int32_t device) const;
  void has_woken(SleepingPool& pool);
  void require_back(const SleepingPool& pool, LiveBlock& block);
  void free_asleep_at(SleepingPool& pool, size_t index);
  bool settle(SleepingPool& pool);
  void note_kept(SleepingPool& pool);
  void use_block_asleep(const LiveBlock& block);
  void require_asleep(cachalot_status status, const char* what);
  bool is_asleep(const Pool& pool) { return sleeping_.find(pool.key()) != nullptr; }
  void compare_sleep(int32_t device);
  void empty_sleeping_pools();

  // world_sharing.cpp
  void copy();
  void share_and_open();
  void close_opened();
  bool share(const LiveBlock& block, std::string* bytes, uint64_t* offset);
  bool open(const LiveBlock& block, const std::string& bytes, uint64_t offset);

  // world_controls.cpp
  void empty_cache();
  void fault();
  void configure();
  void set_settings();
  void limit();
  void snapshot();
  void look();
  void reset();
  void history();
  void observe();
  void switch_caching();
  void ask_questions();
  void label();
  void reserve_class();
  void nonsense();
  void read_settings();

  Actor& actor() { return actors_[current_actor_]; }
  int32_t any_device();

  const WorldSetup setup_;
  Choices& choices_;
  Tally& tally_;
  std::unique_ptr<Machine> machine_;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
  BlockModel model_;
  SleepModel sleeping_;
  std::vector<Opened> opened_;
  uint64_t last_mark_ = 0;
  bool is_copying_ = false;    // for the program, which keeps both blocks meanwhile
  std::string current_label_;  // of the thread of the system, as the statistics have it
  bool is_async_ = false;
  std::vector<Actor> actors_;
  size_t current_actor_ = 0;
  Frame frame_;
  int depth_ = 0;
  bool is_ending_ = false;
  uint64_t steps_ = 0;
  std::vector<Pool> pools_;
  std::vector<Freed> recently_freed_;
  std::vector<uint64_t> observers_;
  bool is_caching_ = true;
  bool releases_lock_ = false;
  int captures_ = 0;
  uint64_t resets_ = 0;  // of the sums
  uint64_t last_capture_ = 0;
  std::vector<uint64_t> source_bytes_;  // by device: what pools got from a source of their own
  cachalot_address next_source_address_ = 0x600000000000;
  std::vector<uint16_t> lottery_;  // an operation's number as often as its weight says
};

}  // namespace cachalot_test
