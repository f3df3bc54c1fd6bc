// SPDX-License-Identifier: MIT OR Apache-2.0
// A random run through the model and the library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "both_sides.h"
#include "setup.h"

namespace cachalot::policy_model {

class Script : public BothSides {
 public:
  // tells: each operation before it is done, on the standard error output.
  Script(uint64_t seed, Fault fault, bool tells);

  // The first difference, told in some lines; empty: there is none.
  std::string run(uint64_t operations);

 private:
  Script(uint64_t seed, const Setup& setup, Fault fault, bool tells);

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

  uint64_t any_size();
  Stream any_stream() { return 0x10 * (1 + random_.below(setup_.streams)); }
  Pool* any_pool(bool is_routed);

  Random random_;
  const Setup setup_;
  std::vector<Live> live_;
  std::vector<std::pair<Address, uint64_t>> pins_;
  std::vector<Pool> pools_;
  std::vector<PoolId> released_pools_;
  std::vector<uint64_t> favourites_;
  PoolId captured_into_;  // default: no capture is under way
  uint64_t captures_ = 0;
};

}  // namespace cachalot::policy_model
