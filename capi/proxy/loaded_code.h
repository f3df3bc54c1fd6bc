// SPDX-License-Identifier: MIT OR Apache-2.0
// The code that this process has loaded, as files and for unwinding.
//
// Note [Code that comes and goes]
// Rationale: the unwinder reads the tables of the libraries on a stack. A library can be unloaded, and another one
// loaded at its place.
// Approach: the loader counts what it loads and unloads. Each walk asks for the counts, which takes some
// dozen nanoseconds, and makes the list anew where they have changed. What is on a thread's own stack cannot be
// unloaded meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

struct cachalot_unwinder_modules;

namespace cachalot::proxy {

// A part of a file that is mapped to be executed.
struct CodeFile {
  Address begin;
  Address end;
  uint64_t offset;
  std::string path;

  bool operator==(const CodeFile&) const = default;
};

class LoadedCode {
 public:
  // told: is called for each part of a file that was not there before.
  explicit LoadedCode(std::function<void(const CodeFile&)> told);
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  // Calls `walk` with what the unwinder knows of the code that is loaded now.
  template <class Walk>
  void with_modules(Walk walk) {
    refresh_if_changed();
    const std::shared_lock guard(mutex_);
    walk(modules_);
  }

  // Tells of all files again.
  void tell_all();

  // Whether the address is in this library itself.
  bool is_own(Address address) const { return own_.first <= address && address < own_.second; }

 private:
  // What the loader has loaded and unloaded so far.
  struct Changes {
    uint64_t loads = 0;
    uint64_t unloads = 0;

    bool operator==(const Changes&) const = default;
  };

  static Changes ask_loader();
  void refresh_if_changed();
  void refresh();

  const std::function<void(const CodeFile&)> told_;
  const std::pair<Address, Address> own_;  // begin and end
  std::shared_mutex mutex_;
  Changes changes_;  // of which the rest is
  cachalot_unwinder_modules* modules_ = nullptr;
  std::vector<CodeFile> files_;
};

}  // namespace cachalot::proxy
