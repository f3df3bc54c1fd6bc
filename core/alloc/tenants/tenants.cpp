// SPDX-License-Identifier: MIT OR Apache-2.0
#include "alloc/tenants/tenants.h"

#include "alloc/tenants/tenant_scope.h"
#include "base/error.h"
#include "base/reserve.h"
#include "base/text.h"

namespace cachalot {

namespace {

constexpr const char* kDefaultName = "default";

std::string shown_name(const std::string& name) { return "tenant '" + name + "'"; }

}  // namespace

// Made with the allocator, also where no tenant ever comes: requests then see a flag that is not
// set.
Tenants::Tenants(int device_count) : ledgers_(static_cast<size_t>(device_count)) {}

// The slot that is taken next. Its free_slot() cannot fail.
TenantLedger::Slot Tenants::reserve_slot() {
  lock_.assert_held();
  if (!free_slots_.empty()) return free_slots_.back();
  reserve_for(free_slots_, last_slot_ + 1);
  return last_slot_ + 1;
}

// The slot that reserve_slot() gave, while the lock was held all the time.
void Tenants::take_slot(TenantLedger::Slot slot) {
  CACHALOT_ASSERT(1, slot == reserve_slot());
  if (slot > last_slot_) {
    last_slot_ = slot;
  } else {
    free_slots_.pop_back();
  }
}

// With the last tenant all slots go.
void Tenants::free_slot(TenantLedger::Slot slot) {
  CACHALOT_ASSERT(1, slot > 0 && slot <= last_slot_);
  CACHALOT_ASSERT(1, free_slots_.size() < free_slots_.capacity());
  free_slots_.push_back(slot);
  if (tenants_.size() > 0) return;
  free_slots_ = {};
  last_slot_ = 0;
}

// First all that can fail (objections, memory), then the changes, so that a failed call leaves no
// trace in any ledger. The lock of the list keeps two creations from being promised the same bytes.
std::shared_ptr<Tenant> Tenants::create(TenantOptions options) {
  auto tenant = std::make_shared<Tenant>();
  const std::lock_guard guard(lock_);
  for (size_t i = 0; i < ledgers_.size(); i++) {
    const std::string objection = ledgers_[i].objection(TenantLedger::kNone, options.terms);
    if (!objection.empty()) throw_invalid_argument(format("device %zu: ", i) + objection);
  }
  tenant->owner = this;
  tenant->id = last_id_ + 1;
  tenant->slot = reserve_slot();
  tenant->name = options.name.empty() ? "tenant " + std::to_string(tenant->id) : options.name;
  tenant->pressure = std::move(options.pressure);
  tenants_.reserve_one();
  for (TenantLedger& ledger : ledgers_) ledger.reserve(tenant->slot);
  for (TenantLedger& ledger : ledgers_)
    ledger.open(tenant->slot, tenant->id, options.terms, tenant->pressure != nullptr);
  take_slot(tenant->slot);
  last_id_ = tenant->id;
  tenants_.add(tenant);
  return tenant;
}

void Tenants::destroy(const Tenant& tenant) {
  CACHALOT_ASSERT(1, tenant.owner == this);
  const std::string name = shown_name(tenant.name);
  if (is_being_asked(tenant)) throw_invalid_state(name + " is being asked for memory");
  std::shared_ptr<Tenant> gone;  // what it holds may call back when it goes
  const std::lock_guard guard(lock_);
  if (const int scopes = tenant.scopes.load())
    throw_invalid_state(name + format(" is begun %d time%s", scopes, scopes == 1 ? "" : "s"));
  uint64_t live = 0;
  uint64_t asleep = 0;
  bool is_unused = true;
  for (const TenantLedger& ledger : ledgers_) {
    const TenantUse use = ledger.use(tenant.slot);
    live += static_cast<uint64_t>(use.allocation.current);
    asleep += use.asleep_bytes;
    is_unused = is_unused && ledger.is_unused(tenant.slot);
  }
  if (!is_unused && live == 0 && asleep != 0)
    throw_invalid_state(name + " has " + format_size(asleep) + " in blocks that sleep");
  if (!is_unused) {
    // The sum over all devices, since a caller frees blocks and not devices.
    throw_invalid_state(name + format(" has %llu live block%s",
                                      static_cast<unsigned long long>(live), live == 1 ? "" : "s"));
  }
  for (TenantLedger& ledger : ledgers_) ledger.close(tenant.slot);
  sleeps_.erase(tenant.id);
  gone = tenants_.remove(tenant.id);
  free_slot(tenant.slot);
}

// One rule for each pool; a new one replaces it.
void Tenants::set_sleep(const Tenant& tenant, int device, PoolId pool, FallAsleep fall_asleep) {
  CACHALOT_ASSERT(1, tenant.owner == this);
  FallAsleep rule =
      std::move(fall_asleep);  // and then the one that it replaces, which goes when no lock is held
  const std::lock_guard guard(lock_);
  if (!rule) {
    const auto known = sleeps_.find(tenant.id);
    if (known != sleeps_.end()) known->second.erase({device, pool});
    return;
  }
  sleeps_[tenant.id][{device, pool}].swap(rule);
  ledger(device).let_be_asked(tenant.slot);
}

// Copies, which are called when no lock is held.
std::vector<Tenants::FallAsleep> Tenants::sleeps_of(uint64_t id, int device) const {
  const std::lock_guard guard(lock_);
  std::vector<FallAsleep> found;
  const auto known = sleeps_.find(id);
  if (known == sleeps_.end()) return found;
  for (const auto& [key, fall_asleep] : known->second)
    if (key.first == device) found.push_back(fall_asleep);
  return found;
}

// Looks at all ledgers before it changes any.
void Tenants::set_bytes(const Tenant& tenant, int device, uint64_t guaranteed, uint64_t limit) {
  CACHALOT_ASSERT(1, tenant.owner == this);
  if (device != kAllDevices) require_device(device);
  const std::lock_guard guard(lock_);
  const auto change = [&](auto apply) {
    for (size_t i = 0; i < ledgers_.size(); i++) {
      if (device != kAllDevices && static_cast<size_t>(device) != i) continue;
      TenantTerms terms = ledgers_[i].terms(tenant.slot);
      terms.guaranteed = guaranteed;
      terms.limit = limit;
      apply(i, terms);
    }
  };
  change([&](size_t i, const TenantTerms& terms) {
    const std::string objection = ledgers_[i].objection(tenant.slot, terms);
    if (!objection.empty()) throw_invalid_argument(format("device %zu: ", i) + objection);
  });
  change([&](size_t i, const TenantTerms& terms) { ledgers_[i].set_terms(tenant.slot, terms); });
}

// A priority fits always, so nothing is looked at first.
void Tenants::set_priority(const Tenant& tenant, int32_t priority) {
  CACHALOT_ASSERT(1, tenant.owner == this);
  const std::lock_guard guard(lock_);
  for (TenantLedger& ledger : ledgers_) {
    TenantTerms terms = ledger.terms(tenant.slot);
    terms.priority = priority;
    ledger.set_terms(tenant.slot, terms);
  }
}

// With the default tenant.
size_t Tenants::count() const {
  const std::lock_guard guard(lock_);
  return row_count();
}

// Two reads under the ledger's lock, not one: terms and use may be of two moments, which no invariant
// links.
TenantRow Tenants::row(const Tenant& tenant, int device) const {
  CACHALOT_ASSERT(1, tenant.owner == this);
  require_device(device);
  const TenantLedger& ledger = ledgers_[static_cast<size_t>(device)];
  return {tenant.id, tenant.name, ledger.terms(tenant.slot), ledger.use(tenant.slot)};
}

// It has no Tenant object: its terms never change, and no call ends it.
TenantRow Tenants::default_row(int device) const {
  const TenantLedger& ledger = ledgers_[static_cast<size_t>(device)];
  return {0, kDefaultName, ledger.terms(0), ledger.use(0)};
}

// The lock of the list is held so that no slot gets another tenant meanwhile.
std::vector<TenantRow> Tenants::rows(int device) const {
  require_device(device);
  const std::lock_guard guard(lock_);
  std::vector<TenantRow> rows;
  rows.reserve(row_count());
  if (row_count() == 0) return rows;
  rows.push_back(default_row(device));
  tenants_.for_each([&](const Tenant& tenant) { rows.push_back(row(tenant, device)); });
  return rows;
}

TenantRow Tenants::row_at(size_t index, int device) {
  require_device(device);
  const std::lock_guard guard(lock_);
  require_row(index, row_count(), "tenant");
  return index == 0 ? default_row(device) : row(tenants_.at(index - 1), device);
}

// The caller shares the tenant, so that its callback outlives a destroy() by another thread.
std::shared_ptr<Tenant> Tenants::find(uint64_t id) const {
  const std::lock_guard guard(lock_);
  return tenants_.find(id);
}

std::pair<uint64_t, std::string> Tenants::id_and_name(TenantLedger::Slot slot) const {
  const std::lock_guard guard(lock_);
  // Any ledger would do: a slot is the same tenant's in all.
  const std::shared_ptr<Tenant> tenant = tenants_.find(ledgers_.front().id(slot));
  if (!tenant) return {0, kDefaultName};
  return {tenant->id, tenant->name};
}

// Worded as PyTorch's out-of-memory text is, with the numbers that led to the decision.
std::string Tenants::refusal_text(TenantLedger::Slot slot, int device, uint64_t size,
                                  const TenantRefusal& refusal) const {
  std::string text = "Tenant '" + id_and_name(slot).second +
                     "' is out of memory. Tried to allocate " + format_size(size) + " on GPU " +
                     std::to_string(device) + ". It has " + format_size(refusal.had);
  if (refusal.by_limit) return text + " of its limit of " + format_size(refusal.terms.limit) + ".";
  return text + " and is guaranteed " + format_size(refusal.terms.guaranteed) + ". Of " +
         format_size(refusal.capacity) + " all tenants have " + format_size(refusal.had_by_all) +
         ", and " + format_size(refusal.owed_to_others) + " more are guaranteed to others.";
}

}  // namespace cachalot
