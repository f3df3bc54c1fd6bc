/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tenants while memory fails: whichever call for ordinary memory or of the driver fails, what
 * tenants have stays right, and nothing stays booked. */
#include <stdlib.h>

#include "check.h"

/* The heap of this program fails once, at a call that the tests choose. What is behind it are the C
 * library's own functions. Sanitizers bring a heap of theirs. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_CAN_FAIL 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_CAN_FAIL 0
#endif
#endif
#if !defined(HEAP_CAN_FAIL) && defined(__GLIBC__)
#define HEAP_CAN_FAIL 1
#endif

static int64_t calls_until_failure = -1; /* below 0: never */

#if HEAP_CAN_FAIL
static int is_to_fail(void) { return calls_until_failure >= 0 && calls_until_failure-- == 0; }

void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return is_to_fail() ? NULL : __libc_malloc(size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return is_to_fail() ? NULL : __libc_memalign(alignment, size);
}
#endif

#define BLOCKS 8

/* A tenant with blocks of 100 MiB that gives up the last one when it is asked. */
typedef struct model {
  fixture with;
  cachalot_tenant* tenant;
  cachalot_address blocks[BLOCKS];
  size_t count;
  int destroyed;
} model;

static void free_last(model* self) {
  self->count--;
  while (cachalot_free(self->with.allocator, self->blocks[self->count], NULL) != CACHALOT_OK) {
  }
}

static uint64_t give(void* user_data, const cachalot_pressure* pressure) {
  model* const self = user_data;
  CHECK(pressure->missing_bytes > 0);
  if (self->count == 0) return 0;
  free_last(self);
  return 100 * MIB;
}

static void let_go(void* user_data) { ((model*)user_data)->destroyed++; }

/* What went wrong, if it is not a failure that was ordered. */
static void note(cachalot_status status) {
  CHECK(status == CACHALOT_OK || status == CACHALOT_ERROR_OUT_OF_HOST_MEMORY ||
        status == CACHALOT_ERROR_OUT_OF_MEMORY || status == CACHALOT_ERROR_DRIVER);
}

static void make(model* self, const char* name, uint64_t guaranteed) {
  cachalot_tenant_options options = {.struct_size = sizeof(cachalot_tenant_options)};
  options.name = name;
  options.guaranteed_bytes = guaranteed;
  options.limit_bytes = 800 * MIB;
  options.pressure = give;
  options.pressure_user_data = self;
  options.pressure_destroy = let_go;
  self->destroyed = 0;
  note(cachalot_tenant_create(self->with.allocator, &options, &self->tenant, &last_error));
  CHECK_EQUAL(self->destroyed, self->tenant == NULL);
}

static void grow(model* self, size_t count) {
  size_t i;
  if (self->tenant == NULL) return;
  for (i = 0; i < count && self->count < BLOCKS; i++) {
    cachalot_address block = 0; /* the callback may change the list meanwhile */
    const cachalot_status status = cachalot_allocate_for(self->with.allocator, self->tenant,
                                                         100 * MIB, 0, 0, &block, &last_error);
    note(status);
    if (status == CACHALOT_OK) self->blocks[self->count++] = block;
  }
}

static int64_t has(const model* self) {
  cachalot_tenant_stats stats = {.struct_size = sizeof(cachalot_tenant_stats)};
  CHECK_OK(cachalot_get_tenant_stats(self->tenant, 0, &stats, &last_error));
  return stats.allocated_bytes.current;
}

/* A tenant for which bytes are still booked cannot be ended. */
static void end(model* self) {
  if (self->tenant == NULL) return;
  CHECK_EQUAL(has(self), self->count * 100 * MIB);
  while (self->count > 0) free_last(self);
  CHECK_OK(cachalot_tenant_destroy(self->tenant, &last_error));
  CHECK_EQUAL(self->destroyed, 1);
}

/* The n-th call fails. Gives whether there were so many. */
static int live_through(int64_t n, const cachalot_sim_failure* of_driver) {
  model a = {.with = open_fixture()};
  model b = {.with = a.with};
  int came_to_it = 0;
  if (of_driver != NULL) CHECK_OK(cachalot_sim_fail(a.with.driver, of_driver, &last_error));
  calls_until_failure = of_driver != NULL ? -1 : n;
  make(&a, "a", 500 * MIB);
  make(&b, "b", 200 * MIB);
  if (a.tenant != NULL) note(cachalot_tenant_begin(a.tenant, &last_error));
  if (a.tenant != NULL) (void)cachalot_tenant_end(a.tenant, &last_error);
  grow(&a, 8);
  grow(&b, 5);
  grow(&a, 3);
  came_to_it = calls_until_failure < 0;
  calls_until_failure = -1;
  CHECK_OK(cachalot_check(a.with.allocator, &last_error));
  end(&a);
  end(&b);
  close_fixture(a.with);
  return came_to_it;
}

static void each_call_for_ordinary_memory_may_fail(void) {
#if HEAP_CAN_FAIL
  int64_t n = 0;
  while (live_through(n, NULL)) n++;
  CHECK(n > 20);
#endif
}

static void each_call_of_the_driver_may_fail(void) {
  const int32_t codes[] = {CACHALOT_DRIVER_OUT_OF_MEMORY, 700};
  size_t code;
  uint64_t n;
  for (code = 0; code < 2; code++) {
    for (n = 0; n < 40; n++) {
      cachalot_sim_failure failure = {.struct_size = sizeof(cachalot_sim_failure)};
      failure.calls = CACHALOT_SIM_CALL_ALLOCATE | CACHALOT_SIM_CALL_MEMORY_INFO;
      failure.code = codes[code];
      failure.after = n;
      live_through(0, &failure);
    }
  }
}

int main(void) {
  RUN(each_call_for_ordinary_memory_may_fail);
  RUN(each_call_of_the_driver_may_fail);
  return report();
}
