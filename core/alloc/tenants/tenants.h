// SPDX-License-Identifier: MIT OR Apache-2.0
// The tenants of an allocator: their names and terms, and for each device a ledger of their bytes
// (tenant_ledger.h). How tenants are asked for memory stands in tenant_pressure.h. Callbacks run with no lock
// held; the order of the locks is that of base/lock_rank.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alloc/config/pool_id.h"
#include "alloc/tenants/tenant_ledger.h"
#include "alloc/tenants/tenant_list.h"
#include "base/assert.h"
#include "base/mutex.h"
#include "device/device_count.h"

namespace cachalot {

class Tenants;

// Why memory is short: the limit of the requester's own tenant, what others are guaranteed, or the
// device itself. The numbers are those of CACHALOT_PRESSURE_*.
enum class PressureReason : int32_t { kLimit = 1, kGuarantee = 2, kDevice = 3 };

// The question to a tenant that is asked for memory. Bytes.
struct Pressure {
  PressureReason reason;
  int device;
  uint64_t missing;
  uint64_t allocated;  // by the tenant that is asked
  uint64_t guaranteed;
  uint64_t requester;
  std::string requester_name;
  int32_t requester_priority;
  bool is_request_guaranteed;
};

// Gives the bytes that were freed.
using PressureCallback = std::function<uint64_t(const Pressure&)>;

// The options of a new tenant. The same terms hold on each device until set_bytes().
struct TenantOptions {
  std::string name;
  TenantTerms terms;
  PressureCallback pressure;  // empty: never asked
};

// A tenant's identity. Handles of callers, threads that have begun the tenant and the list hold it;
// its rows in the ledgers end with destroy(), whoever still holds the object. Nothing but `scopes`
// changes after creation, so readers need no lock.
struct Tenant {
  const Tenants* owner;
  uint64_t id;  // 0: the default tenant
  TenantLedger::Slot slot;
  std::string name;
  PressureCallback pressure;
  std::atomic<int> scopes{0};  // open ones, on all threads
};

// A tenant on one device.
struct TenantRow {
  uint64_t id;
  std::string name;
  TenantTerms terms;
  TenantUse use;
};

// Owns the list of tenants, the slots and the ledgers. A tenant has the same slot in the ledgers of all
// devices. Invariants: a slot is given to one tenant at a time; ids ascend and are never given
// again, so an id names a tenant for good.
class Tenants {
 public:
  static constexpr int kAllDevices = -1;

  explicit Tenants(int device_count);

  void require_device(int device) const {
    cachalot::require_device(device, static_cast<int>(ledgers_.size()));
  }
  // No lock is needed: the ledgers are made with the allocator and stay.
  TenantLedger& ledger(int device) {
    CACHALOT_ASSERT(1, device >= 0 && static_cast<size_t>(device) < ledgers_.size());
    return ledgers_[static_cast<size_t>(device)];
  }

  // pre (here and below): a tenant that is passed is one of these tenants.
  // pre: all devices count (TenantLedger::begin). Throws where the terms do not fit.
  std::shared_ptr<Tenant> create(TenantOptions options);
  // Throws while it is in use. It lives on until its last holder lets go.
  void destroy(const Tenant& tenant);
  // All devices, or none. Throws where the terms do not fit.
  void set_bytes(const Tenant& tenant, int device, uint64_t guaranteed, uint64_t limit);
  void set_priority(const Tenant& tenant, int32_t priority);

  // Puts a pool to sleep, and gives the bytes that came free; throws where it cannot. Called with no lock held, maybe
  // on several threads at once. A call that began before it was replaced may still come.
  using FallAsleep = std::function<uint64_t()>;
  // A pool that falls asleep when the tenant is asked for memory. Empty: not any more.
  void set_sleep(const Tenant& tenant, int device, PoolId pool, FallAsleep fall_asleep);
  // Those of a tenant on a device.
  std::vector<FallAsleep> sleeps_of(uint64_t id, int device) const;  // by pool

  // In the order of their creation, the default tenant first; none before the first was made.
  std::vector<TenantRow> rows(int device) const;
  TenantRow row_at(size_t index, int device);  // throws past the last
  size_t count() const;
  TenantRow row(const Tenant& tenant, int device) const;
  std::shared_ptr<Tenant> find(uint64_t id) const;  // null: gone
  // The tenant of a slot now; the default tenant's if the slot is free.
  std::pair<uint64_t, std::string> id_and_name(TenantLedger::Slot slot) const;
  // "Tenant 'a' is out of memory. ..."
  std::string refusal_text(TenantLedger::Slot slot, int device, uint64_t size,
                           const TenantRefusal& refusal) const;

 private:
  // The default tenant counts as soon as there was any other.
  size_t row_count() const {
    lock_.assert_held();
    return last_id_ == 0 ? 0 : tenants_.size() + 1;
  }
  TenantRow default_row(int device) const;
  // pre (here and below): the list's lock. Throws std::bad_alloc.
  TenantLedger::Slot reserve_slot();
  void take_slot(TenantLedger::Slot slot);
  void free_slot(TenantLedger::Slot slot);

  mutable Mutex lock_{LockRank::kTenantList};
  TenantList tenants_;  // without the default one
  // By the tenant's id, then by device and pool.
  std::map<uint64_t, std::map<std::pair<int, PoolId>, FallAsleep>> sleeps_;
  uint64_t last_id_ = 0;
  TenantLedger::Slot last_slot_ = 0;            // the highest that was given
  std::vector<TenantLedger::Slot> free_slots_;  // below it; has room for all
  std::vector<TenantLedger> ledgers_;           // by device; there is one at least
};

}  // namespace cachalot
