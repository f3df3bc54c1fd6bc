// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/tenant_scope.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/error.h"

namespace cachalot {

namespace {

// One at a time: requests from within a callback ask no tenant.
thread_local const Tenant* asked = nullptr;

// As with labels (contexts.cpp): other thread_local objects may still ask while a thread ends, and
// a pointer can be read at any time.
using BegunTenants = std::vector<std::shared_ptr<Tenant>>;
thread_local BegunTenants* begun_tenants = nullptr;
thread_local bool has_no_tenants_any_more = false;

// Ends what the thread has begun and not ended, so that such a tenant can be destroyed afterwards.
struct EndOfTenants {
  ~EndOfTenants() {
    has_no_tenants_any_more = true;
    const std::unique_ptr<BegunTenants> begun(std::exchange(begun_tenants, nullptr));
    if (!begun) return;
    for (const auto& tenant : *begun) tenant->scopes--;
  }
};

}  // namespace

void begin_tenant(const std::shared_ptr<Tenant>& tenant) {
  CACHALOT_ASSERT(1, tenant);
  if (has_no_tenants_any_more) throw_invalid_state("this thread is about to end");
  if (!begun_tenants) {
    thread_local EndOfTenants end;
    begun_tenants = new BegunTenants;
  }
  // May throw, so it comes before the count.
  begun_tenants->push_back(tenant);
  tenant->scopes++;
}

// Only the innermost: scopes nest, so that each end restores the tenant before it.
bool end_tenant(const Tenant& tenant) {
  if (!begun_tenants || begun_tenants->empty() || begun_tenants->back().get() != &tenant)
    return false;
  CACHALOT_ASSERT(1, tenant.scopes.load() > 0);
  begun_tenants->back()->scopes--;
  begun_tenants->pop_back();
  return true;
}

// The innermost one is nearly always of this allocator, and then no list is walked.
TenantLedger::Slot current_tenant(const Tenants& allocators) {
  if (!begun_tenants || begun_tenants->empty()) return 0;
  const Tenant& innermost = *begun_tenants->back();
  if (innermost.owner == &allocators) [[likely]]
    return innermost.slot;
  const auto found = std::find_if(begun_tenants->rbegin(), begun_tenants->rend(),
                                  [&](const auto& tenant) { return tenant->owner == &allocators; });
  return found == begun_tenants->rend() ? 0 : (*found)->slot;
}

AskingTenant::AskingTenant(const Tenant& tenant) {
  CACHALOT_ASSERT(1, !asked);
  asked = &tenant;
}
AskingTenant::~AskingTenant() { asked = nullptr; }

bool is_asking_a_tenant() { return asked != nullptr; }
bool is_being_asked(const Tenant& tenant) { return asked == &tenant; }

}  // namespace cachalot
