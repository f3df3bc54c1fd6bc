// SPDX-License-Identifier: MIT OR Apache-2.0
// The ledger of one device: the bytes that each tenant has, is guaranteed and may have at most
// (cachalot/tenant.h has the rules by number). Row 0 is the default tenant's.
//
// Glossary
//   has      sizes of live blocks, from the hand-out to the caller's free
//   booked   what is granted to requests that are under way; no other request is granted the
//            same bytes while the device is unlocked
//   owed     what a tenant does not have and is guaranteed, or has booked beyond that
//
// The ledger has a lock of its own, under which nothing else is taken. What a call costs does not
// depend on how many tenants there are: sums over all are kept up with each change of a row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alloc/config/settings.h"
#include "alloc/stats/stats.h"
#include "alloc/tenants/pressure_order.h"
#include "base/assert.h"
#include "base/lock.h"

namespace cachalot {

// The promises to a tenant, and its limit, in bytes.
struct TenantTerms {
  uint64_t guaranteed = 0;
  // Never below `guaranteed`.
  uint64_t limit = kUnlimited;
  int32_t priority = 0;
};

// The blocks of a tenant, and the events since its sums were reset.
struct TenantUse {
  Stat allocation;
  Stat allocated_bytes;
  Stat requested_bytes;
  // Of blocks that sleep (pools/sleeping_pool.h), which the sums above leave out.
  uint64_t asleep_bytes = 0;
  // Requests that were refused by terms or that found no memory.
  int64_t num_ooms = 0;
  // Calls of the tenant's callback, and what they gave back.
  int64_t num_pressure_calls = 0;
  int64_t pressure_freed_bytes = 0;

  void add_block(uint64_t bytes, uint64_t requested) {
    allocation.increase(1);
    allocated_bytes.increase(static_cast<int64_t>(bytes));
    requested_bytes.increase(static_cast<int64_t>(requested));
  }
  void reset_peaks();
  void reset_accumulated();
};

// Why a request is not granted, and the numbers of that moment. Bytes.
struct TenantRefusal {
  bool by_limit;  // of the tenant; else: for what others are guaranteed
  uint64_t had;
  TenantTerms terms;
  uint64_t capacity;
  uint64_t had_by_all;
  uint64_t owed_to_others;  // guaranteed, or granted to requests under way
  uint64_t missing;
};

// Owns the rows of one device. Every function takes the lock of the ledger itself, so any thread may
// call it with other locks held. Invariants: the sums are those over all rows, the default tenant's
// included; a tenant that can be asked has a place in the order exactly while it has more than its
// guarantee.
class TenantLedger {
 public:
  using Slot = uint32_t;  // of a row; given again after close()

  TenantLedger();

  // Starts with what the device has handed out so far, all of it the default tenant's.
  void begin(const TenantUse& so_far);
  // Allocates, so it comes before anything that has to be undone. Throws std::bad_alloc.
  void reserve(Slot slot);  // so that open() cannot fail
  // pre: the slot is reserved and free; there is no objection() to the terms.
  void open(Slot slot, uint64_t id, const TenantTerms& terms, bool can_be_asked);
  void let_be_asked(Slot slot);
  void close(Slot slot);  // pre: is_unused()

  // The capacity is the lower of two numbers: the memory limit, and the memory that the driver
  // told.
  void set_limit(uint64_t bytes);
  void set_physical(uint64_t bytes);
  uint64_t capacity() const;
  // Empty, or why a tenant cannot have these terms (kNone: a new one).
  static constexpr Slot kNone = UINT32_MAX;
  std::string objection(Slot slot, const TenantTerms& terms) const;
  // pre: there is no objection() to them.
  void set_terms(Slot slot, const TenantTerms& terms);
  // pre (here and below): the slot is reserved, unless a function says otherwise.
  TenantTerms terms(Slot slot) const;

  // [tenant 1 to 3] For a request that has found its block: counts the block if `asked` bytes are
  // granted.
  // False: they are not, and nothing has changed.
  bool count_if_granted(Slot slot, uint64_t asked, uint64_t bytes, uint64_t requested);
  // [tenant 1 to 3] Books the bytes, or says why they are not granted.
  std::optional<TenantRefusal> book(Slot slot, uint64_t bytes);
  // Bytes that were booked are needed no longer: the request has its block, or has failed. pre:
  // they are booked. TenantBooking calls this.
  void unbook(Slot slot, uint64_t bytes);
  // A block of the tenant, at the hand-out and at the caller's free. Neither can fail, since the
  // device has already changed when they are called.
  void count(Slot slot, uint64_t bytes, uint64_t requested);
  void uncount(Slot slot, uint64_t bytes, uint64_t requested);
  // Bytes of blocks that sleep. The tenant does not have them, and cannot end.
  void fall_asleep(Slot slot, uint64_t bytes);
  void forget_asleep(Slot slot, uint64_t bytes);
  // Adds to num_ooms.
  void count_refusal(Slot slot);
  // A tenant that had so much has been asked. Gives what it has freed; 0 if it is gone.
  uint64_t end_pressure(Slot slot, uint64_t id, uint64_t had);

  uint64_t id(Slot slot) const;  // 0: the default tenant, or free
  TenantUse use(Slot slot) const;
  std::vector<std::pair<Slot, TenantUse>> uses() const;  // of all rows
  bool is_unused(Slot slot) const;  // no blocks, not even such that sleep, and nothing booked
  void reset_peaks();
  void reset_accumulated();

  // [tenant 5] The next to be asked for a tenant.
  struct Candidate {
    uint64_t id;
    Slot slot;
    uint64_t has;
    uint64_t guaranteed;
    bool is_request_guaranteed;
  };
  // Which tenants one request can still ask.
  struct Search {
    std::set<uint64_t> done;  // ids
    // Up to here all are done, or the requester itself, while the order has this version.
    std::optional<PressureOrder::Place> passed = {};
    uint64_t version = 0;
  };
  // Nothing: no tenant is left to ask. only_itself: the request passed the limit of its own tenant,
  // so memory of others would not help. What is found is only true until the lock is let go, so the
  // caller looks the tenant up by its id again.
  std::optional<Candidate> next_to_ask(Slot requester, bool only_itself, Search& search);

 private:
  // A tenant of the device. The row stays where it is for as long as its tenant lives, because the
  // order has an iterator into it.
  struct Row {
    uint64_t id = 0;
    bool can_be_asked = false;
    TenantTerms terms;
    TenantUse use;
    uint64_t booked = 0;
    PressureOrder::Member in_order;

    uint64_t has() const {
      CACHALOT_ASSERT(1, use.allocated_bytes.current >= 0);
      return static_cast<uint64_t>(use.allocated_bytes.current);
    }
    uint64_t has_with_booked() const { return has() + booked; }
    // The bytes that the tenant can still demand: the rest of its guarantee, or the bytes that it
    // has booked beyond the guarantee.
    uint64_t owed() const;
    bool is_within_guarantee() const { return has_with_booked() <= terms.guaranteed; }
    PressureOrder::Place place(Slot slot) const;
  };
  // Over all rows. They decide whether a request is granted without a look at each tenant.
  struct Sums {
    uint64_t guaranteed = 0;
    uint64_t has = 0;
    uint64_t owed = 0;

    void add(const Row& row);
    void subtract(const Row& row);
    bool operator==(const Sums&) const = default;
  };

  // The bytes by which a request is too large to be granted; 0: it is granted.
  struct Shortage {
    bool is_by_limit;
    uint64_t bytes;
  };

  // pre of all: lock_.
  Shortage shortage(const Row& own, uint64_t bytes) const;
  bool is_taken(Slot slot) const;
  // For assertions: the sums are those of the rows.
  bool is_sound() const;
  Row& row(Slot slot) {
    CACHALOT_ASSERT(1, is_taken(slot));
    return *rows_[slot];
  }
  const Row& row(Slot slot) const {
    CACHALOT_ASSERT(1, is_taken(slot));
    return *rows_[slot];
  }
  void add_block(Slot slot, uint64_t bytes, uint64_t requested);
  // Every change of a row is made here, so that the sums and the order of pressure follow.
  template <class Change>
  void change(Slot slot, Change change);
  // The place of the next tenant other than the requester; null: none.
  const PressureOrder::Place* next_other(Slot requester, Search& search);

  mutable Lock lock_{LockRank::kTenantBook};
  std::vector<std::unique_ptr<Row>> rows_;  // by slot; null: free
  size_t open_ = 0;                         // rows, without the default tenant's
  Sums sums_;
  PressureOrder order_;
  uint64_t limit_ = kUnlimited;
  uint64_t physical_ = kUnlimited;
};

// Bytes that are granted to a request until it has its block, or has failed.
class TenantBooking {
 public:
  TenantBooking() = default;
  TenantBooking(TenantLedger* ledger, TenantLedger::Slot slot, uint64_t bytes)
      : ledger_(ledger), slot_(slot), bytes_(bytes) {
    CACHALOT_ASSERT(1, ledger && bytes > 0);
  }
  TenantBooking(TenantBooking&& other) noexcept
      : ledger_(std::exchange(other.ledger_, nullptr)), slot_(other.slot_), bytes_(other.bytes_) {}
  ~TenantBooking() {
    if (ledger_) [[unlikely]]
      ledger_->unbook(slot_, bytes_);
  }
  TenantBooking(const TenantBooking&) = delete;
  TenantBooking& operator=(const TenantBooking&) = delete;
  TenantBooking& operator=(TenantBooking&&) = delete;

 private:
  TenantLedger* ledger_ = nullptr;
  TenantLedger::Slot slot_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace cachalot
