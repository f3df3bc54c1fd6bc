// SPDX-License-Identifier: MIT OR Apache-2.0
// The tenants of a device that can be asked for memory and have more than they are guaranteed, in
// the order in which they are asked [tenant 5].
//
// Note [Order of pressure]
// Rationale: each allocation and each free of a tenant changes its place, and only requests for
// which memory is short look at the order. Neither may cost more where there are more tenants.
// Approach: a change only notes the tenant, and no tenant is noted twice. A look at the order first
// gives the noted tenants their new places.
// Invariants: nothing but the constructor of a member takes memory, so that no change can fail.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <optional>
#include <set>

namespace cachalot {

// Owns the places. Members belong to the rows of the ledger, whose lock guards the order. Invariants:
// a member is in `noted_` at most once; all members that are not noted have the place they want, or
// none.
class PressureOrder {
 public:
  struct Place {
    int32_t priority;
    int64_t below;  // what the tenant lacks of its guarantee: below 0 where it has more
    uint64_t id;
    uint32_t slot;

    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Places = std::set<Place>;

  // A tenant's part in the order; it must have left before it ends.
  class Member {
   public:
    Member();

   private:
    friend PressureOrder;

    // The two nodes are moved between the member and the containers, never made: see Note [Order of
    // pressure].
    std::optional<Place> wanted_;  // none: it is not to be asked
    Places::node_type node_;       // empty while the member has a place,
    Places::iterator at_;          // which is this one
    std::list<Member*> note_;      // empty while the member is noted
    std::list<Member*>::iterator noted_at_;
  };

  // Constant time, and no comparison of places: it runs at each allocation and free of a tenant.
  void note(Member& member, const std::optional<Place>& wanted);
  // pre of the member's end: otherwise the containers would keep nodes of a row that is gone.
  void leave(Member& member);

  // With all noted members at their places.
  const Places& up_to_date();
  // Another number whenever a member may have got another place.
  uint64_t version() const { return version_; }

 private:
  void update(Member& member);

  Places places_;
  std::list<Member*> noted_;
  uint64_t version_ = 0;
};

}  // namespace cachalot
