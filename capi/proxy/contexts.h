// SPDX-License-Identifier: MIT OR Apache-2.0
// The contexts that a program allocates in.
//
// Note [Ends of contexts]
// Rationale: a context takes its memory with it when it ends, without a free. A primary one ends by a reset or by the
// last release, of which a program has several, some of them inside of other libraries.
// Approach: the hooks of those calls ask the driver afterwards whether the context is there. For ends that no
// hook sees, the number that the driver gives each context (cuCtxGetId) is compared with each request: a primary
// context with a new number means that the old one is gone.
//
// Note [Green contexts]
// Rationale: a green context has a part of a device. Asked of a driver (docs/gpu.md): its memory is the primary
// context's and outlives it, a free in one of the two waits for the work of both, and an event of the primary one stands
// for the work of both.
// It holds the primary one, and may be the last to do so.
// Approach: where a green context is current, the primary one of its device is meant.
// Limitations: a wait for a green context is for its own work alone, so it is not recorded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "driver_types.h"

namespace cachalot::proxy {

class ServedContext;

enum class ContextKind : uint8_t {
  kPrimary,
  kCreated,  // by cuCtxCreate
  kOther,    // of unknown origin: whose memory it has, and what a free waits for, is not known
};

// One life of a context. Never destroyed, so that what refers to it can stay.
struct DriverContext {
  Context handle = nullptr;
  uint64_t id = 0;
  DeviceOrdinal device = 0;
  ContextKind kind = ContextKind::kOther;
  std::atomic<bool> has_ended = false;
  std::atomic<ServedContext*> served = nullptr;  // what serves it; null: nothing yet
  std::atomic<bool> cannot_be_served = false;    // what would serve it could not be made

  Mutex events_mutex{LockRank::kIdleEvents};
  size_t events = 0;                     // that were made
  std::vector<EventHandle> idle_events;  // of those, which nobody uses

  bool is_primary() const { return kind == ContextKind::kPrimary; }
  // 0 for a primary one (docs/trace-format.md).
  uint64_t name() const { return is_primary() ? 0 : reinterpret_cast<uint64_t>(handle); }
};

class DriverContexts {
 public:
  // The contexts call it once for each context that is met, and once for each that has ended.
  class Observer {
   public:
    virtual void context_met(const DriverContext*) {}
    virtual void context_ended(const DriverContext* context) = 0;

   protected:
    ~Observer() = default;
  };

  // Each thread remembers what it found last for each of these.
  enum class Owner : uint8_t { kRecorder, kServer };

  DriverContexts(Observer* observer, Owner owner) : observer_(observer), owner_(owner) {}

  // The one that is current on this thread; null if none is. For a green one the primary one of its device.
  DriverContext* current();
  bool is_green_current();
  // The program has called what ends the primary context of a device: a reset, or a release, which perhaps does.
  void look_after_primary(DeviceOrdinal device, bool is_reset);
  // What perhaps ends that of any device.
  void look_after_primaries();
  // The program has created the context that is current.
  void created();
  // The handle is of a green context; of one that the program destroys.
  void green_met(Context handle);
  void destroying_green(Context handle);
  // The program destroys a context of its own.
  void destroyed(Context handle);

 private:
  DriverContext* find(Context handle, uint64_t id);
  DriverContext* find_live(Context handle, uint64_t id);
  DriverContext* add(Context handle, uint64_t id, bool is_created);
  template <class Matches>
  void end_where(Matches matches);

  Observer* const observer_;
  const Owner owner_;
  Mutex mutex_{LockRank::kDriverContexts};
  std::vector<std::unique_ptr<DriverContext>> live_;
  std::vector<std::unique_ptr<DriverContext>> ended_;
  std::set<Context> green_;
};

}  // namespace cachalot::proxy
