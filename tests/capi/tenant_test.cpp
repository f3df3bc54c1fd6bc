// SPDX-License-Identifier: MIT OR Apache-2.0
// Tenants: what they have, what they may have, and whom the allocator asks for memory
// (cachalot/tenant.h, whose rules the tests name by number).
#include <optional>
#include <stdexcept>

#include "tenant_fixture.h"

namespace cachalot_test {
namespace {

const SimSetup kHundred{.config = "", .capacity = 100 * MiB};

std::string taken(std::vector<std::string>& asked) {
  return joined(std::exchange(asked, {}), "; ");
}

// ---- What a tenant has

TEST(Tenant, HasTheSizesOfItsBlocks) {
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  a.allocate(1000);
  a.allocate(20 * MiB);
  const cachalot_tenant_stats stats = a.stats();
  EXPECT_EQ(stats.allocation.current, 2);
  EXPECT_EQ(stats.allocated_bytes.current, static_cast<int64_t>(1024 + 20 * MiB));
  EXPECT_EQ(stats.requested_bytes.current, static_cast<int64_t>(1000 + 20 * MiB));
}

TEST(Tenant, KeepsPeaksAndSumsOfWhatItHad) {
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  a.allocate(20 * MiB, 2);
  a.free_oldest();
  const cachalot_stat bytes = a.stats().allocated_bytes;
  EXPECT_EQ(bytes.current, static_cast<int64_t>(20 * MiB));
  EXPECT_EQ(bytes.peak, static_cast<int64_t>(40 * MiB));
  EXPECT_EQ(bytes.allocated, static_cast<int64_t>(40 * MiB));
  EXPECT_EQ(bytes.freed, static_cast<int64_t>(20 * MiB));
  with.ok(cachalot_reset_peak_stats(with.get(), 0, with.error()));
  with.ok(cachalot_reset_accumulated_stats(with.get(), 0, with.error()));
  EXPECT_EQ(a.stats().allocated_bytes.peak, static_cast<int64_t>(20 * MiB));
  EXPECT_EQ(a.stats().allocated_bytes.allocated, 0);
}

TEST(Tenant, HasItsBlocksUntilTheCallersFreeAlsoWhereTheyWaitForAStream) {
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  const cachalot_address block = a.try_allocate(20 * MiB).address;
  with.queue_work(0x10);
  with.record_stream(block, 0x10);
  a.free_all();
  EXPECT_EQ(a.has(), 0);
  EXPECT_EQ(with.stats().active_bytes.all.current, static_cast<int64_t>(20 * MiB));
  with.finish_work(0x10);
}

// Gives one range, which is none of the device's.
cachalot_pool_source one_range() {
  cachalot_pool_source source = {};
  source.struct_size = sizeof source;
  source.allocate = [](void*, uint64_t, int32_t, cachalot_stream) { return 2 * kFirstAddress; };
  source.free = [](void*, cachalot_address, uint64_t, int32_t, cachalot_stream) {};
  return source;
}

TEST(Tenant, HasItsBlocksOfAPoolWithASourceOfItsOwnToo) {
  constexpr cachalot_pool_id kPool = SimAllocator::user_pool(1);
  SimAllocator with(kHundred);
  const cachalot_pool_source source = one_range();
  cachalot_pool_options options = {};
  options.struct_size = sizeof options;
  options.source = &source;
  with.ok(cachalot_pool_create(with.get(), 0, kPool, &options, with.error()));
  with.begin_pool(kPool);
  const cachalot_address early = with.allocate(20 * MiB);
  TestTenant a(with, {.name = "a", .limit = 50 * MiB, .can_be_asked = false});
  EXPECT_EQ(tenant_stats_at(with, 0).allocated_bytes.current, static_cast<int64_t>(20 * MiB));
  with.free(early);
  a.allocate(20 * MiB);
  EXPECT_EQ(a.has(), static_cast<int64_t>(20 * MiB));
  EXPECT_EQ(a.outcome_of(40 * MiB), "OUT_OF_MEMORY") << "beyond its limit";
  EXPECT_EQ(tenant_stats_at(with, 0).allocated_bytes.current, 0);
  with.leave_pool(kPool);
  with.ok(cachalot_check(with.get(), with.error()));
}

TEST(Tenant, LeavesAllOtherBlocksToTheDefaultTenant) {
  SimAllocator with;
  const cachalot_address early = with.allocate(20 * MiB);
  TestTenant a(with, {.name = "a"});
  const cachalot_address late = with.allocate(30 * MiB);
  a.allocate(10 * MiB);
  EXPECT_EQ(tenant_stats_at(with, 0).allocation.current, 2);
  EXPECT_EQ(tenant_stats_at(with, 0).allocated_bytes.current, static_cast<int64_t>(50 * MiB));
  with.free(early);
  with.free(late);
  EXPECT_EQ(tenant_stats_at(with, 0).allocated_bytes.current, 0);
  EXPECT_EQ(tenant_stats_at(with, 0).allocation.allocated, 2);
}

TEST(Tenant, IsListedInTheOrderOfCreationBehindTheDefaultTenant) {
  SimAllocator with;
  EXPECT_EQ(tenant_count(with), 0u);
  TestTenant a(with, {.name = "a", .guaranteed = MiB, .limit = 2 * MiB, .priority = -3});
  {
    TestTenant gone(with, {.name = "gone"});
    EXPECT_EQ(tenant_count(with), 3u);
  }
  TestTenant unnamed(with, {});
  EXPECT_EQ(tenant_count(with), 3u);
  EXPECT_STREQ(tenant_stats_at(with, 0).name, "default");
  EXPECT_EQ(tenant_stats_at(with, 0).id, 0u);
  const cachalot_tenant_stats row = tenant_stats_at(with, 1);
  EXPECT_STREQ(row.name, "a");
  EXPECT_EQ(row.guaranteed_bytes, MiB);
  EXPECT_EQ(row.limit_bytes, 2 * MiB);
  EXPECT_EQ(row.priority, -3);
  EXPECT_STREQ(tenant_stats_at(with, 2).name, "tenant 3");
  EXPECT_EQ(tenant_stats_at(with, 2).id, 3u);
  cachalot_tenant_stats none = {};
  none.struct_size = sizeof none;
  EXPECT_EQ(with.refused(cachalot_tenant_stats_at(with.get(), 0, 3, &none, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "there is no tenant 3: there are 3");
}

TEST(Tenant, CountsOnEachDeviceByItself) {
  SimAllocator with(SimSetup{.device_count = 2});
  TestTenant a(with, {.name = "a", .limit = 30 * MiB});
  EXPECT_EQ(a.try_allocate(30 * MiB, 0, 0).status, CACHALOT_OK);
  EXPECT_EQ(a.try_allocate(30 * MiB, 0, 1).status, CACHALOT_OK);
  EXPECT_EQ(a.stats(0).allocated_bytes.current, a.stats(1).allocated_bytes.current);
  a.set_bytes(0, 40 * MiB, 1);
  EXPECT_EQ(a.stats(0).limit_bytes, 30 * MiB);
  EXPECT_EQ(a.stats(1).limit_bytes, 40 * MiB);
}

TEST(Tenant, IsNamedByItsIdInReports) {
  SimAllocator with;
  { TestTenant gone(with, {.name = "gone"}); }
  TestTenant a(with, {.name = "a"});
  a.allocate(20 * MiB);
  cachalot_report* report = nullptr;
  with.ok(cachalot_report_create(with.get(), nullptr, &report, with.error()));
  cachalot_report_holder holder = {};
  holder.struct_size = sizeof holder;
  EXPECT_EQ(cachalot_report_get_holder(report, 0, &holder), CACHALOT_OK);
  EXPECT_EQ(holder.tenant, a.stats().id);
  EXPECT_EQ(holder.bytes, 20 * MiB);
  cachalot_report_destroy(report);
}

TEST(Tenant, OfTheThreadIsThatOfRequestsThatNameNone) {
  SimAllocator with;
  SimAllocator elsewhere;
  TestTenant a(with, {.name = "a"});
  TestTenant b(with, {.name = "b"});
  TestTenant other(elsewhere, {.name = "other"});
  std::vector<cachalot_address> blocks;
  const auto begin = [&](TestTenant& tenant) {
    with.ok(cachalot_tenant_begin(tenant.get(), with.error()));
    blocks.push_back(with.allocate(MiB));
  };
  const auto end = [&](TestTenant& tenant) {
    with.ok(cachalot_tenant_end(tenant.get(), with.error()));
    blocks.push_back(with.allocate(MiB));
  };
  begin(a);
  begin(b);
  begin(other);  // of another allocator: b stays that of this one
  b.allocate(MiB);
  end(other);
  end(b);
  EXPECT_EQ(with.refused(cachalot_tenant_end(b.get(), with.error()), CACHALOT_ERROR_INVALID_STATE),
            "tenant 'b' is not the one that this thread began last");
  end(a);
  EXPECT_EQ(a.has(), static_cast<int64_t>(2 * MiB));
  EXPECT_EQ(b.has(), static_cast<int64_t>(4 * MiB));
  EXPECT_EQ(other.has(), 0);
  EXPECT_EQ(tenant_stats_at(with, 0).allocated_bytes.current, static_cast<int64_t>(MiB));
  for (const cachalot_address block : blocks) with.free(block);
}

// ---- Terms

TEST(TenantTerms, MustFitTheCapacityTogether) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .guaranteed = 60 * MiB});
  TestTenant b(with, {.name = "b", .guaranteed = 40 * MiB});
  EXPECT_EQ(with.refused(cachalot_tenant_set_bytes(b.get(), 0, 41 * MiB, 0, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "device 0: a guarantee of 41.00 MiB does not fit: of 100.00 MiB 60.00 MiB are "
            "guaranteed to other tenants");
  cachalot_tenant_options options = {};
  options.struct_size = sizeof options;
  options.guaranteed_bytes = MiB;
  cachalot_tenant* tenant = nullptr;
  with.refused(cachalot_tenant_create(with.get(), &options, &tenant, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(tenant, nullptr);
  EXPECT_EQ(tenant_count(with), 3u);
}

TEST(TenantTerms, AreMeasuredByTheMemoryLimitWhereThatIsLess) {
  SimAllocator with(kHundred);
  with.set_limit(50 * MiB);
  TestTenant a(with, {.name = "a"});
  EXPECT_EQ(with.refused(cachalot_tenant_set_bytes(a.get(), 0, 60 * MiB, 0, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "device 0: a guarantee of 60.00 MiB does not fit: of 50.00 MiB 0 bytes are guaranteed "
            "to other tenants");
  with.set_limit(70 * MiB);
  a.set_bytes(60 * MiB);
}

TEST(TenantTerms, AreChangedOnAllDevicesOrOnNone) {
  SimAllocator with(SimSetup{.capacity = 100 * MiB, .device_count = 2});
  TestTenant a(with, {.name = "a"});
  TestTenant b(with, {.name = "b"});
  b.set_bytes(50 * MiB, 0, 1);
  with.refused(cachalot_tenant_set_bytes(a.get(), CACHALOT_ALL_DEVICES, 60 * MiB, 0, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(a.stats(0).guaranteed_bytes, 0u);
}

TEST(TenantTerms, RefuseALimitBelowTheGuarantee) {
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  EXPECT_EQ(with.refused(cachalot_tenant_set_bytes(a.get(), 0, 2 * MiB, MiB, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "device 0: the limit of 1024.00 KiB is below the guarantee of 2.00 MiB");
  with.refused(cachalot_tenant_set_bytes(a.get(), 1, 0, 0, with.error()),
               CACHALOT_ERROR_INVALID_ARGUMENT);
}

TEST(TenantTerms, RefuseANameThatIsTooLong) {
  SimAllocator with;
  const std::string name(CACHALOT_TENANT_NAME_CAPACITY, 'x');
  cachalot_tenant_options options = {};
  options.struct_size = sizeof options;
  options.name = name.c_str();
  int destroyed = 0;
  options.pressure_user_data = &destroyed;
  options.pressure_destroy = [](void* count) { ++*static_cast<int*>(count); };
  cachalot_tenant* tenant = nullptr;
  EXPECT_EQ(with.refused(cachalot_tenant_create(with.get(), &options, &tenant, with.error()),
                         CACHALOT_ERROR_INVALID_ARGUMENT),
            "name has 64 bytes: at most 63 are kept");
  EXPECT_EQ(destroyed, 1);
}

// ---- The limit [tenant 1]

TEST(TenantLimit, RefusesWhatIsBeyondItAndSaysTheNumbers) {
  SimAllocator with;
  TestTenant a(with, {.name = "a", .limit = 50 * MiB, .can_be_asked = false});
  a.allocate(30 * MiB);
  with.take_calls();
  const Outcome refused = a.try_allocate(21 * MiB);
  EXPECT_EQ(refused.status, CACHALOT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(
      refused.message(),
      "Tenant 'a' is out of memory. Tried to allocate 21.00 MiB on GPU 0. It has 30.00 MiB of "
      "its limit of 50.00 MiB.");
  EXPECT_EQ(refused.error.requested, 21 * MiB);
  EXPECT_EQ(with.take_calls(), "");
  EXPECT_EQ(a.stats().num_ooms, 1);
  EXPECT_EQ(with.stats().num_ooms, 1);
  a.allocate(20 * MiB);
  EXPECT_EQ(a.has(), static_cast<int64_t>(50 * MiB));
}

TEST(TenantLimit, AsksTheTenantItselfAndNobodyElse) {
  SimAllocator with;
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a", .limit = 50 * MiB}, &asked);
  TestTenant b(with, {.name = "b", .priority = -1}, &asked);
  b.allocate(30 * MiB);
  a.allocate(20 * MiB, 2);
  a.allocate(30 * MiB);
  EXPECT_EQ(taken(asked), "a: 20M for a, limit");
  EXPECT_EQ(a.has(), static_cast<int64_t>(50 * MiB));
  EXPECT_EQ(a.stats().num_pressure_calls, 1);
  EXPECT_EQ(a.stats().pressure_freed_bytes, static_cast<int64_t>(20 * MiB));
  EXPECT_EQ(a.outcome_of(51 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(a.has(), 0);  // it gave all, and that was not enough
}

TEST(TenantLimit, CanBeRaisedAndLoweredAtRunTime) {
  SimAllocator with;
  TestTenant a(with, {.name = "a", .limit = 20 * MiB, .can_be_asked = false});
  a.allocate(20 * MiB);
  EXPECT_EQ(a.outcome_of(512), "OUT_OF_MEMORY");
  a.set_bytes(0, 0);
  a.allocate(20 * MiB);
  a.set_bytes(0, 10 * MiB);
  EXPECT_EQ(a.outcome_of(512), "OUT_OF_MEMORY");
  a.free_all();
  a.allocate(10 * MiB);
}

// ---- Guarantees [tenant 2, 3]

TEST(TenantGuarantee, IsLeftByOthersAlsoWhereMemoryIsFree) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .guaranteed = 40 * MiB});
  TestTenant b(with, {.name = "b", .can_be_asked = false});
  b.allocate(50 * MiB);
  a.allocate(10 * MiB);
  with.take_calls();
  const Outcome refused = b.try_allocate(20 * MiB);
  EXPECT_EQ(refused.message(),
            "Tenant 'b' is out of memory. Tried to allocate 20.00 MiB on GPU 0. It has 50.00 MiB "
            "and is guaranteed 0 bytes. Of 100.00 MiB all tenants have 60.00 MiB, and 30.00 MiB "
            "more are guaranteed to others.");
  EXPECT_EQ(with.take_calls(), "");
  b.allocate(10 * MiB);
  a.allocate(30 * MiB);
}

TEST(TenantGuarantee, BindsTheDefaultTenantToo) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .guaranteed = 40 * MiB});
  const cachalot_address block = with.allocate(60 * MiB);
  EXPECT_EQ(with.try_allocate(512).message().substr(0, 45),
            "Tenant 'default' is out of memory. Tried to a");
  with.free(block);
}

TEST(TenantGuarantee, IsServedFromWhatOthersHaveInTheCache) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .guaranteed = 40 * MiB});
  TestTenant b(with, {.name = "b"});
  for (const cachalot_stream stream : {0x10, 0x20}) {
    EXPECT_EQ(b.outcome_of(50 * MiB, stream), "OK");
    b.free_all();
  }
  EXPECT_EQ(with.reserved(), 100 * MiB);
  a.allocate(20 * MiB, 2);
}

TEST(TenantGuarantee, CanBeExceededWhereNobodyIsOwed) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .guaranteed = 20 * MiB, .can_be_asked = false});
  TestTenant b(with, {.name = "b", .guaranteed = 20 * MiB, .can_be_asked = false});
  a.allocate(20 * MiB, 4);
  EXPECT_EQ(a.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  b.allocate(20 * MiB);
}

TEST(TenantGuarantee, IsNotRefusedForThoseOfOthersWithinItself) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"});
  TestTenant c(with, {.name = "c"});
  a.allocate(60 * MiB);
  b.set_bytes(40 * MiB);
  c.set_bytes(40 * MiB);  // of which a has the half by now
  b.allocate(40 * MiB);
  EXPECT_EQ(taken(asked), "");
  c.allocate(40 * MiB);
  EXPECT_EQ(taken(asked), "a: 40M for c, device");
}

TEST(TenantGuarantee, SeesMemoryThatOthersOutsideHaveGivenBack) {
  SimAllocator with(kHundred);
  cachalot_allocator* outside = nullptr;
  cachalot_allocator_options options = {};
  options.struct_size = sizeof options;
  options.driver = with.driver();
  options.config = "";
  with.ok(cachalot_allocator_create(&options, &outside, with.error()));
  cachalot_address theirs = 0;
  with.ok(cachalot_allocate(outside, 50 * MiB, 0, 0, &theirs, with.error()));
  TestTenant a(with, {.name = "a", .guaranteed = 20 * MiB});
  TestTenant b(with, {.name = "b", .can_be_asked = false});
  EXPECT_EQ(b.outcome_of(40 * MiB), "OUT_OF_MEMORY");
  with.ok(cachalot_free(outside, theirs, with.error()));
  with.ok(cachalot_allocator_destroy(outside, with.error()));
  b.allocate(40 * MiB);
}

// ---- The order of the callbacks [tenant 5]

TEST(TenantPressure, AsksTheLowestPriorityFirstThenWhoHasMostAboveItsGuarantee) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant low(with, {.name = "low", .priority = -1}, &asked);
  TestTenant little(with, {.name = "little", .guaranteed = 10 * MiB}, &asked);
  TestTenant much(with, {.name = "much"}, &asked);
  TestTenant high(with, {.name = "high", .priority = 1}, &asked);
  TestTenant a(with, {.name = "a", .guaranteed = 60 * MiB, .priority = -7}, &asked);
  low.allocate(10 * MiB);
  a.set_bytes(0);
  much.allocate(20 * MiB);
  little.allocate(20 * MiB);
  high.allocate(40 * MiB);
  a.set_bytes(60 * MiB);
  low.gives_at_most = little.gives_at_most = much.gives_at_most = high.gives_at_most = 0;
  EXPECT_EQ(a.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(taken(asked),
            "low: 20M for a, device; much: 20M for a, device; little: 20M for a, device; "
            "high: 20M for a, device");
}

TEST(TenantPressure, StopsAtTheFirstThatMadeRoom) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"}, &asked);
  TestTenant c(with, {.name = "c"}, &asked);
  a.allocate(20 * MiB, 3);
  b.allocate(40 * MiB);
  c.allocate(20 * MiB);
  EXPECT_EQ(taken(asked), "a: 20M for c, device");
  EXPECT_EQ(a.has(), static_cast<int64_t>(40 * MiB));
}

TEST(TenantPressure, AsksAgainWhileATenantGives) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"});
  a.allocate(20 * MiB, 5);
  a.gives_at_most = 1;
  b.allocate(60 * MiB);
  EXPECT_EQ(taken(asked), "a: 60M for b, device; a: 60M for b, device; a: 60M for b, device");
  EXPECT_EQ(a.stats().num_pressure_calls, 3);
  EXPECT_EQ(a.stats().pressure_freed_bytes, static_cast<int64_t>(60 * MiB));
}

TEST(TenantPressure, DoesNotAskATenantTwiceThatSaysItFreedAndDidNot) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"});
  a.allocate(20 * MiB, 5);
  a.answer = [](const cachalot_pressure&) { return 20 * MiB; };
  EXPECT_EQ(b.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(taken(asked), "a: 20M for b, device");
}

TEST(TenantPressure, SparesTenantsWithinTheirGuarantee) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a", .guaranteed = 60 * MiB, .priority = -1}, &asked);
  TestTenant b(with, {.name = "b", .guaranteed = 40 * MiB}, &asked);
  a.allocate(20 * MiB, 3);
  b.allocate(20 * MiB, 2);
  EXPECT_EQ(b.outcome_of(20 * MiB), "OK");  // by giving up a block of its own
  EXPECT_EQ(taken(asked), "b: 20M for b, device");
  EXPECT_EQ(a.has(), static_cast<int64_t>(60 * MiB));
}

TEST(TenantPressure, SparesHigherPrioritiesWhereTheRequestIsBeyondItsGuarantee) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant high(with, {.name = "high", .priority = 1}, &asked);
  TestTenant low(with, {.name = "low", .guaranteed = 20 * MiB}, &asked);
  high.allocate(20 * MiB, 4);
  low.allocate(20 * MiB);
  low.gives_at_most = 0;
  EXPECT_EQ(low.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(taken(asked), "low: 20M for low, device");
  low.set_bytes(40 * MiB);
  EXPECT_EQ(low.outcome_of(20 * MiB), "OK");
  EXPECT_EQ(taken(asked), "high: 20M for low, device");
}

TEST(TenantPressure, TurnsToTheTenantItselfLastWithinItsGuarantee) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a", .priority = -1}, &asked);
  TestTenant b(with, {.name = "b"}, &asked);
  a.allocate(20 * MiB);
  b.allocate(80 * MiB);
  a.set_bytes(100 * MiB);
  a.gives_at_most = b.gives_at_most = 0;
  EXPECT_EQ(a.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(taken(asked), "b: 20M for a, device; a: 20M for a, device");
}

TEST(TenantPressure, MakesRoomForWhatOthersAreGuaranteed) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a", .guaranteed = 40 * MiB});
  TestTenant b(with, {.name = "b"}, &asked);
  TestTenant c(with, {.name = "c"}, &asked);
  b.allocate(20 * MiB, 3);
  c.allocate(20 * MiB);
  EXPECT_EQ(taken(asked), "b: 20M for c, guarantee");
  EXPECT_EQ(a.outcome_of(40 * MiB), "OK");
  EXPECT_EQ(taken(asked), "");
}

TEST(TenantPressure, ComesAfterTheCacheHasBeenGivenBack) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"});
  a.allocate(20 * MiB, 2);
  with.free(with.allocate(60 * MiB));
  b.allocate(50 * MiB);
  EXPECT_EQ(taken(asked), "");
}

TEST(TenantPressure, UsesWhatWasFreedInASegmentOfOthers) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"});
  a.allocate(2 * MiB, 50);
  b.allocate(2 * MiB);
  EXPECT_EQ(taken(asked), "a: 2M for b, device");
  EXPECT_EQ(with.reserved(), 100 * MiB);
}

TEST(TenantPressure, LeavesNoTraceOfAttemptsThatTheCallerDoesNotSee) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a"});
  TestTenant b(with, {.name = "b"});
  a.allocate(20 * MiB, 5);
  with.watch();
  b.allocate(20 * MiB);
  EXPECT_EQ(with.take_trace().find("oom"), std::string::npos);
  EXPECT_EQ(with.stats().num_ooms, 0);
  EXPECT_EQ(b.stats().num_ooms, 0);
}

TEST(TenantPressure, EndsAsTheReferencesOutOfMemoryWhereNobodyGives) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .can_be_asked = false});
  a.allocate(100 * MiB);
  with.watch();
  EXPECT_EQ(a.try_allocate(20 * MiB).message().substr(0, 52),
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU");
  EXPECT_EQ(with.take_trace(), "oom 0 20M");
  EXPECT_EQ(a.stats().num_ooms, 1);
}

// ---- What a callback may do

TEST(TenantCallback, SeesWhatItsTenantHasAndForWhomItIsAsked) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a", .guaranteed = 20 * MiB});
  TestTenant b(with, {.name = "b", .guaranteed = 40 * MiB, .priority = 5});
  a.allocate(20 * MiB, 3);
  with.set_limit(60 * MiB);
  cachalot_pressure seen = {};
  a.answer = [&](const cachalot_pressure& pressure) {
    seen = pressure;
    return 0;
  };
  EXPECT_EQ(b.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  EXPECT_EQ(seen.reason, CACHALOT_PRESSURE_DEVICE);
  EXPECT_EQ(seen.allocated_bytes, 60 * MiB);
  EXPECT_EQ(seen.guaranteed_bytes, 20 * MiB);
  EXPECT_EQ(seen.requester, b.stats().id);
  EXPECT_EQ(seen.requester_priority, 5);
  EXPECT_EQ(seen.is_guaranteed, 1);
}

TEST(TenantCallback, MayAllocateWhichAsksNobody) {
  SimAllocator with(kHundred);
  std::vector<std::string> asked;
  TestTenant a(with, {.name = "a"}, &asked);
  TestTenant b(with, {.name = "b"}, &asked);
  a.allocate(20 * MiB, 4);
  b.allocate(20 * MiB);
  std::string nested;
  a.answer = [&](const cachalot_pressure&) {
    nested = a.outcome_of(20 * MiB);
    a.free_oldest();
    nested += " " + a.outcome_of(MiB);
    return 19 * MiB;
  };
  EXPECT_EQ(b.outcome_of(18 * MiB), "OK");
  EXPECT_EQ(nested, "OUT_OF_MEMORY OK");
  EXPECT_EQ(taken(asked), "a: 18M for b, device");
}

TEST(TenantCallback, MayMakeAndEndOtherTenantsButNotItsOwn) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a"});
  TestTenant b(with, {.name = "b"});
  a.allocate(20 * MiB, 5);
  std::string refusal;
  a.answer = [&](const cachalot_pressure&) {
    TestTenant other(with, {.name = "other"});
    refusal =
        with.refused(cachalot_tenant_destroy(a.get(), with.error()), CACHALOT_ERROR_INVALID_STATE);
    return a.free_oldest() ? 20 * MiB : 0;
  };
  b.allocate(20 * MiB);
  EXPECT_EQ(refusal, "tenant 'a' is being asked for memory");
}

TEST(TenantCallback, FreesNothingByAnException) {
  SimAllocator with(kHundred);
  TestTenant a(with, {.name = "a"});
  TestTenant b(with, {.name = "b"});
  a.allocate(20 * MiB, 5);
  a.answer = [](const cachalot_pressure&) -> uint64_t { throw std::runtime_error("no"); };
  EXPECT_EQ(b.outcome_of(20 * MiB), "OUT_OF_MEMORY");
  a.answer = nullptr;
  EXPECT_EQ(b.outcome_of(20 * MiB), "OK");
}

// ---- Handles

TEST(TenantHandle, IsNotEndedWhileItHasBlocks) {
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  a.allocate(512, 2);
  EXPECT_EQ(
      with.refused(cachalot_tenant_destroy(a.get(), with.error()), CACHALOT_ERROR_INVALID_STATE),
      "tenant 'a' has 2 live blocks");
  a.allocate(512);
}

TEST(TenantHandle, IsNotEndedWhileAThreadHasBegunIt) {
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  with.ok(cachalot_tenant_begin(a.get(), with.error()));
  EXPECT_EQ(
      with.refused(cachalot_tenant_destroy(a.get(), with.error()), CACHALOT_ERROR_INVALID_STATE),
      "tenant 'a' is begun 1 time");
  with.ok(cachalot_tenant_end(a.get(), with.error()));
}

TEST(TenantHandle, OutlivesItsAllocator) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_driver* driver = nullptr;
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_sim_create(nullptr, &driver, &error), CACHALOT_OK);
  cachalot_allocator_options setup = {};
  setup.struct_size = sizeof setup;
  setup.driver = driver;
  setup.config = "";
  ASSERT_EQ(cachalot_allocator_create(&setup, &allocator, &error), CACHALOT_OK);
  int destroyed = 0;
  cachalot_tenant_options options = {};
  options.struct_size = sizeof options;
  options.pressure = [](void*, const cachalot_pressure*) { return uint64_t{0}; };
  options.pressure_user_data = &destroyed;
  options.pressure_destroy = [](void* count) { ++*static_cast<int*>(count); };
  cachalot_tenant* tenant = nullptr;
  ASSERT_EQ(cachalot_tenant_create(allocator, &options, &tenant, &error), CACHALOT_OK);
  cachalot_address address = 0;
  ASSERT_EQ(cachalot_allocate_for(allocator, tenant, 512, 0, 0, &address, &error), CACHALOT_OK);
  ASSERT_EQ(cachalot_allocator_destroy_all(allocator, &error), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  cachalot_tenant_stats stats = {};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(cachalot_get_tenant_stats(tenant, 0, &stats, &error), CACHALOT_OK);
  EXPECT_EQ(stats.allocated_bytes.current, 0);
  EXPECT_EQ(stats.allocated_bytes.peak, 512);
  EXPECT_EQ(destroyed, 0);
  EXPECT_EQ(cachalot_tenant_destroy(tenant, &error), CACHALOT_OK);
  EXPECT_EQ(destroyed, 1);
}

TEST(TenantHandle, IsOfOneAllocator) {
  SimAllocator with;
  SimAllocator elsewhere;
  TestTenant a(elsewhere, {.name = "a"});
  cachalot_address address = 77;
  EXPECT_EQ(
      with.refused(cachalot_allocate_for(with.get(), a.get(), 512, 0, 0, &address, with.error()),
                   CACHALOT_ERROR_INVALID_ARGUMENT),
      "tenant 'a' is of another allocator");
  EXPECT_EQ(address, 77u);
}

TEST(TenantHandle, IsRefusedUnderTheOtherBackendAndWithoutACache) {
  SimAllocator async("backend:cudaMallocAsync");
  cachalot_tenant* tenant = nullptr;
  EXPECT_EQ(async.refused(cachalot_tenant_create(async.get(), nullptr, &tenant, async.error()),
                          CACHALOT_ERROR_NOT_SUPPORTED),
            "backend:cudaMallocAsync has no blocks of ours to count: no tenants");
  SimAllocator with;
  TestTenant a(with, {.name = "a"});
  with.ok(cachalot_set_caching_enabled(with.get(), 0, with.error()));
  EXPECT_EQ(a.try_allocate(512).message(),
            "caching is off: only blocks of the cache count for tenants");
}

// ---- What does not change

TEST(NoTenant, ChangesNothingInTheEventsOfOthers) {
  const auto story = [](bool has_tenants) {
    SimAllocator with(kHundred);
    std::optional<TestTenant> a;
    if (has_tenants) a.emplace(with, TenantSetup{.name = "a"});
    with.watch();
    with.take_calls();
    const cachalot_address first = with.allocate(30 * MiB);
    with.cache({20, 20});
    const cachalot_address second = with.allocate(11 * MiB);
    with.free(first);
    with.allocate(90 * MiB - 11 * MiB + 512 * KiB);
    with.try_allocate(60 * MiB);
    with.free(second);
    return with.take_calls() + " | " + with.take_trace() + " | " + with.layout();
  };
  EXPECT_EQ(story(true), story(false));
}

}  // namespace
}  // namespace cachalot_test
