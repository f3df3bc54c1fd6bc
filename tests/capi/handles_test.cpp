// SPDX-License-Identifier: MIT OR Apache-2.0
// Handles that are not what a function wants: each kind in the place of each other kind, destroyed
// ones, and none at all.
#include <cstring>
#include <functional>
#include <memory>

#include "../sanitizers.h"
#include "sim_fixture.h"

namespace cachalot_test {
namespace {

int64_t read_text(void* user_data, void* buffer, size_t capacity) {
  auto& left = *static_cast<std::string*>(user_data);
  const size_t count = left.copy(static_cast<char*>(buffer), capacity);
  left.erase(0, count);
  return static_cast<int64_t>(count);
}

int32_t pass_over(void*, const void*, size_t) { return 0; }

// A function that takes a handle in the place of one of its kind.
struct Use {
  const char* name;
  std::function<cachalot_status(void*, cachalot_error*)> call;
  bool tells = true;  // has a cachalot_error
};

struct Kind {
  const char* name;
  std::function<void*()> make;
  std::vector<Use> uses;
  std::function<void(void*)> destroy;  // changes nothing for what it does not take
};

// What answers without a status: as it should for what is no handle, or not.
cachalot_status refused_if(bool condition) {
  return condition ? CACHALOT_ERROR_INVALID_ARGUMENT : CACHALOT_OK;
}

template <class T>
T sized() {
  T out{};
  out.struct_size = sizeof out;
  return out;
}

// One live object of each kind, and what the others need to be made.
class Handles : public testing::Test {
 protected:
  Handles() {
    kinds = {driver_kind(), allocator_kind(), snapshot_kind(), trace_kind(),
             replay_kind(), report_kind(),    tenant_kind()};
  }

  static Kind driver_kind() {
    return {
        "driver",
        [] {
          cachalot_driver* made = nullptr;
          EXPECT_EQ(cachalot_sim_create(nullptr, &made, nullptr), CACHALOT_OK);
          return made;
        },
        {{"sim_queue_work",
          [](void* handle, cachalot_error* error) {
            return cachalot_sim_queue_work(static_cast<cachalot_driver*>(handle), 0, 0, error);
          }},
         {"driver_name",
          [](void* handle, cachalot_error*) {
            return refused_if(*cachalot_driver_name(static_cast<cachalot_driver*>(handle)) == '\0');
          },
          false},
         {"driver_device_count",
          [](void* handle, cachalot_error*) {
            return refused_if(cachalot_driver_device_count(static_cast<cachalot_driver*>(handle)) ==
                              0);
          },
          false}},
        [](void* handle) { cachalot_driver_destroy(static_cast<cachalot_driver*>(handle)); }};
  }

  Kind allocator_kind() {
    return {"allocator",
            [this] {
              auto options = sized<cachalot_allocator_options>();
              options.driver = with.driver();
              options.config = "";
              cachalot_allocator* made = nullptr;
              EXPECT_EQ(cachalot_allocator_create(&options, &made, nullptr), CACHALOT_OK);
              return made;
            },
            {{"empty_cache",
              [](void* handle, cachalot_error* error) {
                return cachalot_empty_cache(static_cast<cachalot_allocator*>(handle), error);
              }},
             {"allocator_driver",
              [](void* handle, cachalot_error*) {
                return refused_if(
                    cachalot_allocator_driver(static_cast<cachalot_allocator*>(handle)) == nullptr);
              },
              false}},
            [](void* handle) {
              cachalot_allocator_destroy_all(static_cast<cachalot_allocator*>(handle), nullptr);
            }};
  }

  Kind snapshot_kind() {
    return {
        "snapshot",
        [this] { return with.take_snapshot(); },
        {{"trace_write",
          [](void* handle, cachalot_error* error) {
            return cachalot_trace_write(static_cast<cachalot_snapshot*>(handle), nullptr, "",
                                        pass_over, nullptr, error);
          }},
         {"snapshot_config",
          [](void* handle, cachalot_error*) {
            auto settings = sized<cachalot_settings>();
            return cachalot_snapshot_settings(static_cast<cachalot_snapshot*>(handle), &settings);
          },
          false}},
        [](void* handle) { cachalot_snapshot_destroy(static_cast<cachalot_snapshot*>(handle)); }};
  }

  static cachalot_trace* make_trace() {
    std::string text = "# {\"torch\": \"2.11.0\"}\na,700000000000,512,0\n";
    cachalot_trace* made = nullptr;
    cachalot_error error = CACHALOT_ERROR_INIT;
    EXPECT_EQ(cachalot_trace_read(read_text, &text, &made, &error), CACHALOT_OK) << error.message;
    return made;
  }

  static Kind trace_kind() {
    return {"trace",
            [] { return make_trace(); },
            {{"replay_write_script",
              [](void* handle, cachalot_error* error) {
                return cachalot_replay_write_script(static_cast<cachalot_trace*>(handle), nullptr,
                                                    pass_over, nullptr, error);
              }},
             {"trace_get_info",
              [](void* handle, cachalot_error*) {
                auto info = sized<cachalot_trace_info>();
                return cachalot_trace_get_info(static_cast<cachalot_trace*>(handle), &info);
              },
              false}},
            [](void* handle) { cachalot_trace_destroy(static_cast<cachalot_trace*>(handle)); }};
  }

  static Kind replay_kind() {
    return {"replay",
            [] {
              cachalot_trace* const trace = make_trace();
              cachalot_replay* made = nullptr;
              EXPECT_EQ(cachalot_replay_run(trace, nullptr, &made, nullptr), CACHALOT_OK);
              cachalot_trace_destroy(trace);
              return made;
            },
            {{"replay_get_result",
              [](void* handle, cachalot_error*) {
                auto result = sized<cachalot_replay_result>();
                return cachalot_replay_get_result(static_cast<cachalot_replay*>(handle), &result);
              },
              false},
             {"replay_allocator",
              [](void* handle, cachalot_error*) {
                return refused_if(
                    cachalot_replay_allocator(static_cast<cachalot_replay*>(handle)) == nullptr);
              },
              false}},
            [](void* handle) { cachalot_replay_destroy(static_cast<cachalot_replay*>(handle)); }};
  }

  Kind report_kind() {
    const auto of = [](void* handle) { return static_cast<cachalot_report*>(handle); };
    return {"report",
            [this] {
              cachalot_report* made = nullptr;
              EXPECT_EQ(cachalot_report_create(with.get(), nullptr, &made, nullptr), CACHALOT_OK);
              return made;
            },
            {{"report_text",
              [of](void* handle, cachalot_error* error) {
                return cachalot_report_text(of(handle), nullptr, 0, nullptr, error);
              }},
             {"report_json",
              [of](void* handle, cachalot_error* error) {
                return cachalot_report_json(of(handle), nullptr, 0, nullptr, error);
              }},
             {"report_get_numbers",
              [of](void* handle, cachalot_error*) {
                auto numbers = sized<cachalot_report_numbers>();
                return cachalot_report_get_numbers(of(handle), &numbers);
              },
              false},
             {"report_reason_count",
              [of](void* handle, cachalot_error*) {
                return refused_if(cachalot_report_holder_count(of(handle)) == 0 &&
                                  cachalot_report_reason_count(of(handle)) == 0 &&
                                  *cachalot_report_advice(of(handle)) == '\0');
              },
              false}},
            [of](void* handle) { cachalot_report_destroy(of(handle)); }};
  }

  Kind tenant_kind() {
    const auto of = [](void* handle) { return static_cast<cachalot_tenant*>(handle); };
    return {"tenant",
            [this] {
              cachalot_tenant* made = nullptr;
              EXPECT_EQ(cachalot_tenant_create(with.get(), nullptr, &made, nullptr), CACHALOT_OK);
              return made;
            },
            {{"allocate_for",
              [of, this](void* handle, cachalot_error* error) {
                cachalot_address address = 0;
                const cachalot_status status =
                    cachalot_allocate_for(with.get(), of(handle), 512, 0, 0, &address, error);
                if (status == CACHALOT_OK) cachalot_free(with.get(), address, nullptr);
                return status;
              }},
             {"tenant_begin",
              [of](void* handle, cachalot_error* error) {
                const cachalot_status status = cachalot_tenant_begin(of(handle), error);
                if (status == CACHALOT_OK) cachalot_tenant_end(of(handle), nullptr);
                return status;
              }},
             {"tenant_set_bytes",
              [of](void* handle, cachalot_error* error) {
                return cachalot_tenant_set_bytes(of(handle), 0, 0, 0, error);
              }},
             {"tenant_set_priority",
              [of](void* handle, cachalot_error* error) {
                return cachalot_tenant_set_priority(of(handle), 1, error);
              }},
             {"get_tenant_stats",
              [of](void* handle, cachalot_error* error) {
                auto stats = sized<cachalot_tenant_stats>();
                return cachalot_get_tenant_stats(of(handle), 0, &stats, error);
              }}},
            [of](void* handle) { cachalot_tenant_destroy(of(handle), nullptr); }};
  }

  // Every function that takes this kind refuses the handle, and `text` says why.
  static void expect_refused(const Kind& kind, void* handle, const std::string& text) {
    for (const Use& use : kind.uses) {
      cachalot_error error = CACHALOT_ERROR_INIT;
      EXPECT_EQ(use.call(handle, &error), CACHALOT_ERROR_INVALID_ARGUMENT) << use.name;
      if (use.tells) {
        EXPECT_EQ(error.message, text) << use.name;
      }
    }
    kind.destroy(handle);
  }

  static void expect_accepted(const Kind& kind, void* handle) {
    for (const Use& use : kind.uses) {
      cachalot_error error = CACHALOT_ERROR_INIT;
      EXPECT_EQ(use.call(handle, &error), CACHALOT_OK) << use.name << ": " << error.message;
    }
  }

  static std::string with_article(const std::string& noun) {
    return (noun[0] == 'a' ? "an " : "a ") + noun;
  }

  SimAllocator with;
  const cachalot_address block = with.allocate(4096);  // so that a report has rows
  std::vector<Kind> kinds;
};

TEST_F(Handles, OfAnotherKindAreRefusedByNameAndStayWhatTheyAre) {
  for (const Kind& given : kinds) {
    void* const handle = given.make();
    for (const Kind& wanted : kinds) {
      if (&wanted == &given) continue;
      SCOPED_TRACE(with_article(given.name) + " in the place of " + with_article(wanted.name));
      expect_refused(wanted, handle,
                     std::string(wanted.name) + " is " + with_article(given.name) + ", not " +
                         with_article(wanted.name));
      expect_accepted(given, handle);
    }
    given.destroy(handle);
  }
  with.free(block);
}

#if !CACHALOT_HEAP_IS_SANITIZED  // reads what was freed, as a program's mistake does
TEST_F(Handles, ThatWereDestroyedAreRefusedByNameAlsoToBeDestroyedAgain) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    void* const handle = kind.make();
    expect_accepted(kind, handle);
    kind.destroy(handle);
    expect_refused(kind, handle,
                   std::string(kind.name) + " is not " + with_article(kind.name) +
                       ": it was destroyed or never was one");
    kind.destroy(handle);
  }
  with.free(block);
}
#endif

TEST_F(Handles, ThatNeverWereOnesAreRefusedByName) {
  for (const Kind& kind : kinds) {
    for (const int byte : {0, 0xFF, 0xA5}) {
      SCOPED_TRACE(kind.name);
      alignas(64) char memory[4096];
      std::memset(memory, byte, sizeof memory);
      expect_refused(kind, memory,
                     std::string(kind.name) + " is not " + with_article(kind.name) +
                         ": it was destroyed or never was one");
    }
  }
  with.free(block);
}

TEST_F(Handles, ThatAreNullAreRefusedByName) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    expect_refused(kind, nullptr, std::string(kind.name) + " is NULL");
  }
  with.free(block);
}

TEST(ADriver, IsGivenBackByItsCallerOnceHoweverManyAllocatorsHoldIt) {
  cachalot_driver* driver = nullptr;
  ASSERT_EQ(cachalot_sim_create(nullptr, &driver, nullptr), CACHALOT_OK);
  auto options = sized<cachalot_allocator_options>();
  options.driver = driver;
  options.config = "";
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  for (int i = 0; i < 3; i++) cachalot_driver_destroy(driver);
  ASSERT_STREQ(cachalot_driver_name(driver), "sim");
  cachalot_address address = 0;
  ASSERT_EQ(cachalot_allocate(allocator, 512, 0, 0, &address, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_allocator_destroy_all(allocator, nullptr), CACHALOT_OK);
}

TEST(ADriver, ThatAnAllocatorOpenedItselfIsNotItsCallersToGiveBack) {
  auto options = sized<cachalot_allocator_options>();
  options.config = "";
  cachalot_allocator* allocator = nullptr;
  ASSERT_EQ(cachalot_allocator_create(&options, &allocator, nullptr), CACHALOT_OK);
  cachalot_driver* const borrowed = cachalot_allocator_driver(allocator);
  cachalot_driver_destroy(borrowed);
  EXPECT_EQ(cachalot_driver_device_count(borrowed), 1);
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
}

}  // namespace
}  // namespace cachalot_test
