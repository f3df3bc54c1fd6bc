// SPDX-License-Identifier: MIT OR Apache-2.0
// The model and the library under the same calls: after each operation all that both did is compared.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "library.h"
#include "model.h"

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

class BothSides {
 public:
  const Tally& tally() const { return tally_; }

 protected:
  struct Options {
    std::string name;  // of the run, for a difference
    uint64_t capacity;
    LibraryOptions library;
    ModelOptions model;
    uint64_t looks_inside_every;  // so many operations
    bool tells;                   // each operation before it is done, on the standard error output
  };
  explicit BothSides(Options options);

  Answer on_both(const std::string& what, const std::function<Address()>& on_model,
                 const std::function<Address()>& on_library);
  Answer allocate_on_both(uint64_t size, Stream stream);
  void free_on_both(Address address);
  void record_on_both(Address address, Stream stream);
  void empty_on_both(PoolId pool);
  // What the caller of a simulated machine controls.
  void on_machines(const std::string& what, const std::function<void(SimMachine&)>& act);
  void compare_state();

  // The first difference, told in some lines; empty: there is none.
  const std::string& found() const { return found_; }

 private:
  const Options options_;
  std::shared_ptr<NotingDriver> model_driver_;
  std::shared_ptr<NotingDriver> library_driver_;

 protected:
  Model model_;
  Library library_;

 private:
  void begin(const std::string& what);
  static Answer answer_of(const std::function<Address()>& call);
  void compare(const Answer& model, const Answer& library);
  void report(const std::string& difference);

  Tally tally_;
  std::deque<std::string> history_;
  std::string found_;
};

}  // namespace cachalot::policy_model
