/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What an allocator takes from the environment when it is made, and what goes before it. */
#define _POSIX_C_SOURCE 200112L

#include <stdlib.h>

#include "check.h"

static const char* const kVariables[] = {"CACHALOT_ALLOC_CONF",
                                         "PYTORCH_CUDA_ALLOC_CONF",
                                         "PYTORCH_ALLOC_CONF",
                                         "PYTORCH_HIP_ALLOC_CONF",
                                         "CACHALOT_RELEASE",
                                         "CACHALOT_DEBUG",
                                         "CACHALOT_DISABLE",
                                         "CACHALOT_TEXTS",
                                         "PYTORCH_NO_CUDA_MEMORY_CACHING",
                                         "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC"};

static void clear_environment(void) {
  size_t i;
  for (i = 0; i < sizeof kVariables / sizeof *kVariables; i++) unsetenv(kVariables[i]);
}

static void set(const char* name, const char* value) { CHECK(setenv(name, value, 1) == 0); }

/* Unlike open_with it leaves a config of NULL alone. */
static fixture open_from_environment(cachalot_allocator_options options) {
  fixture opened = {NULL, NULL};
  opened.driver = open_sim();
  options.struct_size = sizeof options;
  options.driver = opened.driver;
  CHECK_OK(cachalot_allocator_create(&options, &opened.allocator, &last_error));
  return opened;
}

/* The option string that an allocator without one of its own has. */
static const char* config_in_force(void) {
  static char config[128];
  const cachalot_allocator_options options = {0};
  fixture with = open_from_environment(options);
  CHECK_OK(cachalot_get_config(with.allocator, config, sizeof config, NULL, &last_error));
  close_fixture(with);
  return config;
}

static void the_first_variable_that_is_set_has_the_options(void) {
  clear_environment();
  CHECK_TEXT(config_in_force(), "");
  set("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:50");
  CHECK_TEXT(config_in_force(), "");
  set("PYTORCH_ALLOC_CONF", "max_split_size_mb:40");
  CHECK_TEXT(config_in_force(), "max_split_size_mb:40");
  set("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:30");
  CHECK_TEXT(config_in_force(), "max_split_size_mb:30");
  set("CACHALOT_ALLOC_CONF", "");
  CHECK_TEXT(config_in_force(), "");
  clear_environment();
}

static void an_option_string_of_its_own_goes_before_the_environment(void) {
  const cachalot_allocator_options options = {.config = ""};
  char config[64] = "old";
  fixture with;
  clear_environment();
  set("CACHALOT_ALLOC_CONF", "no_such_option:1");
  with = open_from_environment(options);
  CHECK_OK(cachalot_get_config(with.allocator, config, sizeof config, NULL, &last_error));
  CHECK_TEXT(config, "");
  close_fixture(with);
  clear_environment();
}

static int32_t release_in_force(int32_t release) {
  const cachalot_allocator_options options = {.release = release};
  fixture with = open_from_environment(options);
  const int32_t in_force = cachalot_allocator_release(with.allocator);
  close_fixture(with);
  return in_force;
}

static void the_release_can_come_from_the_environment(void) {
  clear_environment();
  CHECK_EQUAL(release_in_force(CACHALOT_RELEASE_DEFAULT), CACHALOT_RELEASE_2_15);
  set("CACHALOT_RELEASE", "2.11");
  CHECK_EQUAL(release_in_force(CACHALOT_RELEASE_DEFAULT), CACHALOT_RELEASE_2_11);
  CHECK_EQUAL(release_in_force(CACHALOT_RELEASE_2_15), CACHALOT_RELEASE_2_15);
  set("CACHALOT_RELEASE", "2.15");
  CHECK_EQUAL(release_in_force(CACHALOT_RELEASE_DEFAULT), CACHALOT_RELEASE_2_15);
  clear_environment();
}

static void another_release_is_refused_by_name(void) {
  cachalot_allocator_options options = {.struct_size = sizeof(cachalot_allocator_options)};
  cachalot_allocator* allocator = NULL;
  clear_environment();
  options.driver = open_sim();
  set("CACHALOT_RELEASE", "2.12");
  CHECK_FAILS_WITH(cachalot_allocator_create(&options, &allocator, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT,
                   "the environment variable CACHALOT_RELEASE is \"2.12\": expected 2.11 or 2.15");
  CHECK(allocator == NULL);
  cachalot_driver_destroy(options.driver);
  clear_environment();
}

static int log_calls = 0;
static char log_text[256] = "";

static void keep_log(void* user_data, int32_t level, const char* message) {
  CHECK_EQUAL(level, CACHALOT_LOG_WARNING);
  CHECK(user_data == &log_calls);
  log_calls++;
  snprintf(log_text, sizeof log_text, "%s", message);
}

static int32_t caching_in_force(int32_t no_caching) {
  const cachalot_allocator_options options = {.no_caching = no_caching,
                                              .log = keep_log,
                                              .log_user_data = &log_calls,
                                              .release = CACHALOT_RELEASE_2_15};
  fixture with = open_from_environment(options);
  const int32_t in_force = cachalot_is_caching_enabled(with.allocator);
  close_fixture(with);
  return in_force;
}

static void caching_can_be_switched_off_from_the_environment(void) {
  clear_environment();
  log_calls = 0;
  CHECK_EQUAL(caching_in_force(0), 1);
  CHECK_EQUAL(caching_in_force(1), 0);
  set("PYTORCH_NO_CUDA_MEMORY_CACHING", "1");
  CHECK_EQUAL(caching_in_force(0), 0);
  CHECK_EQUAL(caching_in_force(-1), 1);
  set("PYTORCH_NO_CUDA_MEMORY_CACHING", "0");
  CHECK_EQUAL(caching_in_force(0), 1);
  CHECK_EQUAL(log_calls, 0);
  clear_environment();
}

static void the_switch_for_the_plain_driver_goes_before_the_program(void) {
  fixture with;
  cachalot_address address = 0;
  cachalot_tenant* tenant = NULL;
  cachalot_tenant_options named = {.struct_size = sizeof named, .name = "chat"};
  const cachalot_allocator_options insisting = {.no_caching = -1,
                                                .policy = CACHALOT_POLICY_SERVING};
  clear_environment();
  set("CACHALOT_DISABLE", "0");
  CHECK_EQUAL(caching_in_force(-1), 1);
  set("CACHALOT_DISABLE", "1");
  CHECK_EQUAL(caching_in_force(0), 0);
  CHECK_EQUAL(caching_in_force(-1), 0);
  with = open_from_environment(insisting);
  CHECK_OK(cachalot_tenant_create(with.allocator, &named, &tenant, &last_error));
  CHECK_OK(cachalot_allocate_for(with.allocator, tenant, 5000, 0, 0, &address, &last_error));
  CHECK_OK(cachalot_free(with.allocator, address, &last_error));
  CHECK_OK(cachalot_tenant_destroy(tenant, &last_error));
  CHECK_OK(cachalot_allocate(with.allocator, 5000, 0, 0, &address, &last_error));
  CHECK_OK(cachalot_free(with.allocator, address, &last_error));
  CHECK_EQUAL(cachalot_memory_reserved(with.allocator, 0), 0);
  close_fixture(with);
  clear_environment();
}

/* The first line of the summary's title. */
static int is_of_pytorch(int32_t texts) {
  char summary[8192] = "";
  const cachalot_allocator_options options = {.texts = texts};
  fixture with = open_from_environment(options);
  CHECK_OK(
      cachalot_memory_summary(with.allocator, 0, 1, summary, sizeof summary, NULL, &last_error));
  close_fixture(with);
  CHECK(strstr(summary, "CUDA memory summary, device ID 0") != NULL);
  return strstr(summary, "PyTorch") != NULL;
}

static void the_words_of_messages_can_come_from_the_environment(void) {
  cachalot_allocator_options options = {.struct_size = sizeof(cachalot_allocator_options)};
  cachalot_allocator* allocator = NULL;
  clear_environment();
  CHECK(is_of_pytorch(CACHALOT_TEXTS_DEFAULT));
  CHECK(!is_of_pytorch(CACHALOT_TEXTS_OWN));
  set("CACHALOT_TEXTS", "own");
  CHECK(!is_of_pytorch(CACHALOT_TEXTS_DEFAULT));
  CHECK(is_of_pytorch(CACHALOT_TEXTS_PYTORCH));
  set("CACHALOT_TEXTS", "pytorch");
  CHECK(is_of_pytorch(CACHALOT_TEXTS_DEFAULT));
  set("CACHALOT_TEXTS", "mine");
  options.driver = open_sim();
  CHECK_FAILS_WITH(cachalot_allocator_create(&options, &allocator, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT,
                   "the environment variable CACHALOT_TEXTS is \"mine\": expected pytorch or own");
  options.texts = CACHALOT_TEXTS_OWN + 1;
  CHECK_FAILS_WITH(cachalot_allocator_create(&options, &allocator, &last_error),
                   CACHALOT_ERROR_INVALID_ARGUMENT, "texts is 3: expected 0 to 2");
  cachalot_driver_destroy(options.driver);
  clear_environment();
}

static void a_value_that_is_no_switch_is_ignored_with_the_words_of_the_reference(void) {
  clear_environment();
  set("PYTORCH_NO_CUDA_MEMORY_CACHING", "true");
  log_calls = 0;
  CHECK_EQUAL(caching_in_force(0), 1);
  CHECK_EQUAL(log_calls, 1);
  CHECK_TEXT(log_text,
             "Ignoring invalid value for boolean flag PYTORCH_NO_CUDA_MEMORY_CACHING: truevalid "
             "values are 0 or 1.");
  CHECK_EQUAL(caching_in_force(1), 0);
  CHECK_EQUAL(log_calls, 1);
  clear_environment();
}

/* Whether pages are made to be shared: the simulated driver's log has the handle type of each. */
static int pages_are_shareable(int32_t shareable_pages) {
  const cachalot_allocator_options options = {.config = "expandable_segments:True",
                                              .shareable_pages = shareable_pages};
  fixture with = open_from_environment(options);
  char calls[2048] = "";
  CHECK_OK(cachalot_sim_log_calls(with.driver, CACHALOT_SIM_LOG_CALLS | CACHALOT_SIM_LOG_HANDLES,
                                  &last_error));
  free_block(with, allocate_on(with, 512, 0));
  CHECK_OK(cachalot_sim_read_calls(with.driver, calls, sizeof calls, NULL, &last_error));
  CHECK(strstr(calls, "handle type ") != NULL);
  close_fixture(with);
  return strstr(calls, "handle type 0") == NULL;
}

static void sharing_of_pages_can_be_switched_off_from_the_environment(void) {
  clear_environment();
  CHECK_EQUAL(pages_are_shareable(0), 1);
  CHECK_EQUAL(pages_are_shareable(-1), 0);
  set("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC", "0");
  CHECK_EQUAL(pages_are_shareable(0), 0);
  CHECK_EQUAL(pages_are_shareable(1), 1);
  clear_environment();
}

int main(void) {
  RUN(the_first_variable_that_is_set_has_the_options);
  RUN(an_option_string_of_its_own_goes_before_the_environment);
  RUN(the_release_can_come_from_the_environment);
  RUN(another_release_is_refused_by_name);
  RUN(caching_can_be_switched_off_from_the_environment);
  RUN(the_switch_for_the_plain_driver_goes_before_the_program);
  RUN(the_words_of_messages_can_come_from_the_environment);
  RUN(a_value_that_is_no_switch_is_ignored_with_the_words_of_the_reference);
  RUN(sharing_of_pages_can_be_switched_off_from_the_environment);
  return report();
}
