// SPDX-License-Identifier: MIT OR Apache-2.0
// A random run through the model and the library: after each operation all that both did is compared.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "setup.h"

namespace cachalot::policy_model {

// What happened, to be added up over runs.
struct Tally {
  uint64_t operations = 0;
  uint64_t hand_outs = 0;
  uint64_t out_of_memory = 0;
  uint64_t other_failures = 0;
  uint64_t pages_made = 0;
  uint64_t pages_unmapped = 0;
  uint64_t pages_released = 0;
  uint64_t stream_waits = 0;
  uint64_t host_waits = 0;

  void add(const Answer& answer, const std::vector<Call>& calls);
  void add(const Tally& other);
};

class Script {
 public:
  // tells: each operation before it is done, on the standard error output.
  Script(uint64_t seed, Fault fault, bool tells);

  // The first difference, told in some lines; empty: there is none.
  std::string run(uint64_t operations);
  const Tally& tally() const { return tally_; }

 private:
  struct Live {
    Address address;
    uint64_t size;
    Stream stream;
  };
  struct Pool {
    PoolId id;
    bool is_routed;
  };

  // ---- Operations
  void take_step();
  void allocate();
  void free_one();
  void record();
  void pin_step();
  void end_stream();
  void work();
  void finish();
  void empty_cache();
  void trim();
  void limit();
  void fail_later();
  void pool_step();
  void pool_pin_step();
  void capture_step();
  void end_capture();
  void free_all();

  // ---- Both sides
  void begin(const std::string& what);
  static Answer answer_of(const std::function<Address()>& call);
  Answer on_both(const std::string& what, const std::function<Address()>& on_model,
                 const std::function<Address()>& on_library);
  // What the caller of a simulated machine controls.
  void on_machines(const std::string& what, const std::function<void(SimMachine&)>& act);
  void compare(const Answer& model, const Answer& library);
  void compare_state();
  void report(const std::string& difference);

  uint64_t any_size();
  Stream any_stream() { return 0x10 * (1 + random_.below(setup_.streams)); }
  Pool* any_pool(bool is_routed);

  const uint64_t seed_;
  const bool tells_;
  Random random_;
  const Setup setup_;
  std::shared_ptr<NotingDriver> model_driver_;
  std::shared_ptr<NotingDriver> library_driver_;
  Model model_;
  Library library_;
  std::vector<Live> live_;
  std::vector<std::pair<Address, uint64_t>> pins_;
  std::vector<Pool> pools_;
  std::vector<PoolId> released_pools_;
  std::vector<uint64_t> favourites_;
  PoolId captured_into_;  // default: no capture is under way
  uint64_t captures_ = 0;
  Tally tally_;
  std::deque<std::string> history_;
  std::string found_;
};

}  // namespace cachalot::policy_model
