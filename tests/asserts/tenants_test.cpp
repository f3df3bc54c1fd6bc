// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults in the accounts of tenants are found.
#include "alloc/tenants/tenants.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "alloc/tenants/pressure_order.h"
#include "alloc/tenants/tenant_ledger.h"
#include "alloc/tenants/tenant_list.h"
#include "alloc/tenants/tenant_pressure.h"
#include "alloc/tenants/tenant_scope.h"
#include "base/lock.h"

namespace cachalot {
namespace {

std::shared_ptr<Tenant> tenant_of(uint64_t id) {
  auto tenant = std::make_shared<Tenant>();
  tenant->id = id;
  return tenant;
}

class TenantsDeathTest : public testing::Test {
 protected:
  TenantsDeathTest() {
    book_.reserve(1);
    book_.open(1, 1, {}, false);
  }

  TenantLedger book_;
};

TEST_F(TenantsDeathTest, FindsARowThatThereIsNot) {
  EXPECT_DEATH(book_.terms(2), "is_taken");
  EXPECT_DEATH(book_.count(7, 512, 512), "is_taken");
}

TEST_F(TenantsDeathTest, FindsARowThatIsOpenedTwice) {
  EXPECT_DEATH(book_.open(1, 2, {}, false), "row.slot..id == 0");
  EXPECT_DEATH(book_.open(0, 2, {}, false), "slot != 0");
}

TEST_F(TenantsDeathTest, FindsARowThatIsClosedWhileItIsInUse) {
  book_.count(1, 512, 512);
  EXPECT_DEATH(book_.close(1), "has_with_booked.. == 0");
  book_.uncount(1, 512, 512);
  book_.close(1);
}

TEST_F(TenantsDeathTest, FindsTermsThatContradictThemselves) {
  EXPECT_DEATH(book_.set_terms(1, {.guaranteed = 2, .limit = 1}), "guaranteed <= terms.limit");
}

TEST_F(TenantsDeathTest, FindsMoreThanWasBookedOrCounted) {
  ASSERT_FALSE(book_.book(1, 512));
  EXPECT_DEATH(book_.unbook(1, 1024), "bytes <= row.slot..booked");
  book_.unbook(1, 512);
  EXPECT_DEATH(book_.count(1, 512, 513), "requested <= bytes");
  book_.count(1, 512, 512);
  EXPECT_DEATH(book_.uncount(1, 1024, 512), "bytes <= row.slot..has");
}

TEST_F(TenantsDeathTest, FindsABookingOfNothing) {
  EXPECT_DEATH(TenantBooking(&book_, 1, 0), "bytes > 0");
}

TEST_F(TenantsDeathTest, FindsTwoTenantsAtOnePlace) {
  PressureOrder order;
  PressureOrder::Member first;
  PressureOrder::Member second;
  const PressureOrder::Place place{.priority = 0, .below = -512, .id = 1, .slot = 1};
  order.note(first, place);
  order.note(second, place);
  EXPECT_DEATH(order.up_to_date(), "inserted.inserted");
}

TEST_F(TenantsDeathTest, FindsIdsThatDoNotAscend) {
  TenantList list;
  list.reserve_one();
  list.add(tenant_of(2));
  list.reserve_one();
  EXPECT_DEATH(list.add(tenant_of(2)), "id < id");
  EXPECT_DEATH(list.remove(1), "find.id");
  EXPECT_DEATH(list.at(1), "index < size");
}

TEST_F(TenantsDeathTest, FindsATenantOfAnotherAllocator) {
  Tenants tenants(1);
  Tenants others(1);
  const std::shared_ptr<Tenant> tenant = others.create({});
  EXPECT_DEATH(tenants.destroy(*tenant), "tenant.owner == this");
  EXPECT_DEATH(tenants.set_priority(*tenant, 1), "tenant.owner == this");
  EXPECT_DEATH(tenants.ledger(1), "ledgers_.size");
}

TEST_F(TenantsDeathTest, FindsATenantThatIsAskedUnderALock) {
  Tenants tenants(1);
  TenantPressure pressure(tenants, 0, 0);
  EXPECT_FALSE(pressure.ask_next(PressureReason::kLimit, 512));
  Lock device(LockRank::kDevice);
  const std::lock_guard guard(device);
  EXPECT_DEATH(pressure.ask_next(PressureReason::kLimit, 512), "holds_no_lock");
}

TEST_F(TenantsDeathTest, FindsATenantThatIsAskedWhileAnotherOneIs) {
  const std::shared_ptr<Tenant> tenant = tenant_of(1);
  const AskingTenant asking(*tenant);
  EXPECT_DEATH(AskingTenant{*tenant}, "!asked");
}

}  // namespace
}  // namespace cachalot
