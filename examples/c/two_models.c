/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two models, of which one fits the device: loading one evicts the other, by callbacks of tenants.
 *
 *   CACHALOT_DRIVER=sim:1GiB two_models
 */
#include <cachalot/cachalot.h>
#include <stdio.h>
#include <string.h>

#define LAYERS 12
#define LAYER_SIZE ((uint64_t)64 << 20)

typedef struct model {
  const char* name;
  cachalot_allocator* allocator;
  cachalot_tenant* tenant;
  cachalot_address weights[LAYERS]; /* 0: not loaded */
} model;

/* Is asked when the other model finds no memory. It has no guarantee, so it gives all. */
static uint64_t evict(void* user_data, const cachalot_pressure* pressure) {
  model* const self = user_data;
  uint64_t freed = 0;
  int i;
  if (strcmp(pressure->requester_name, self->name) == 0) return 0; /* not while it is loading */
  for (i = 0; i < LAYERS; i++) {
    if (self->weights[i] == 0) continue;
    if (cachalot_free(self->allocator, self->weights[i], NULL) == CACHALOT_OK) freed += LAYER_SIZE;
    self->weights[i] = 0;
  }
  printf("%s gives %.0f MiB for %s\n", self->name, (double)freed / (1 << 20),
         pressure->requester_name);
  return freed;
}

static cachalot_status open_model(model* self, cachalot_error* error) {
  cachalot_tenant_options options = {.struct_size = sizeof options};
  options.name = self->name;
  options.pressure = evict;
  options.pressure_user_data = self;
  return cachalot_tenant_create(self->allocator, &options, &self->tenant, error);
}

static cachalot_status load(model* self, cachalot_error* error) {
  int i;
  for (i = 0; i < LAYERS; i++) {
    cachalot_status status = CACHALOT_OK;
    if (self->weights[i] == 0)
      status = cachalot_allocate_for(self->allocator, self->tenant, LAYER_SIZE, 0, 0,
                                     &self->weights[i], error);
    if (status != CACHALOT_OK) return status;
  }
  printf("%s is loaded\n", self->name);
  return CACHALOT_OK;
}

static int fail(const cachalot_error* error) {
  fprintf(stderr, "%s\n", error->message);
  return 1;
}

int main(void) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  cachalot_allocator* allocator = NULL;
  model chat = {.name = "chat"}, search = {.name = "search"};
  int round;

  if (cachalot_allocator_create(NULL, &allocator, &error) != CACHALOT_OK) return fail(&error);
  /* Smaller than both models together, whatever the device is. */
  if (cachalot_set_memory_limit(allocator, 0, (uint64_t)1 << 30, &error) != CACHALOT_OK)
    return fail(&error);
  chat.allocator = search.allocator = allocator;
  if (open_model(&chat, &error) != CACHALOT_OK) return fail(&error);
  if (open_model(&search, &error) != CACHALOT_OK) return fail(&error);
  for (round = 0; round < 2; round++) {
    if (load(&chat, &error) != CACHALOT_OK) return fail(&error);
    if (load(&search, &error) != CACHALOT_OK) return fail(&error);
  }
  /* The handles first or last: a tenant may outlive its allocator. */
  if (cachalot_allocator_destroy_all(allocator, &error) != CACHALOT_OK) return fail(&error);
  if (cachalot_tenant_destroy(chat.tenant, &error) != CACHALOT_OK) return fail(&error);
  if (cachalot_tenant_destroy(search.tenant, &error) != CACHALOT_OK) return fail(&error);
  return 0;
}
