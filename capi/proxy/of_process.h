// SPDX-License-Identifier: MIT OR Apache-2.0
// An object that each process has one of, also a child that was forked: its parent's locks can be held by threads that
// the child does not have. Never destroyed, since a program's threads go on while it ends.
#pragma once

#include <atomic>
#include <mutex>

#include "device/fork_mark.h"

namespace cachalot::proxy {

template <class T>
class OfProcess {
 public:
  // make: is given the parent's object, or null, and gives that of this process, or null. What it throws leaves the
  // call.
  template <class Make>
  T* get(Make make) {
    Held* held = held_.load(std::memory_order_acquire);
    if (held == nullptr || held->mark.is_in_child()) held = replace(held, make);
    return held->object;
  }
  // Null if this process has none yet.
  T* if_made() const {
    const Held* const held = held_.load(std::memory_order_acquire);
    return held == nullptr || held->mark.is_in_child() ? nullptr : held->object;
  }

 private:
  struct Held {
    T* object;
    // The parent's, which a leak checker would otherwise report in the child.
    const Held* parent;
    ForkMark mark;
  };

  template <class Make>
  Held* replace(const Held* old, Make make) {
    static std::mutex mutex;
    const std::lock_guard guard(mutex);
    Held* const present = held_.load();
    if (present != old) return present;
    auto* const held = new Held{make(old == nullptr ? nullptr : old->object), old, {}};
    held_.store(held, std::memory_order_release);
    return held;
  }

  std::atomic<Held*> held_{nullptr};
};

}  // namespace cachalot::proxy
