// SPDX-License-Identifier: MIT OR Apache-2.0
// Option strings. The first byte chooses the release and the driver; the first line is the string
// that the allocator is made with, each further line one that it is configured with.
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "sized.h"

namespace cachalot_test {
namespace {

constexpr uint8_t kIsOldRelease = 1;
constexpr uint8_t kIsHost = 2;

class OptionsRun {
 public:
  explicit OptionsRun(uint8_t flags) : flags_(flags) {
    if (flags & kIsHost)
      cachalot_driver_create_host(uint64_t{64} << 20, 1, &driver_, nullptr);
    else
      cachalot_sim_create(nullptr, &driver_, nullptr);
  }
  ~OptionsRun() {
    cachalot_allocator_destroy_all(allocator_, nullptr);
    cachalot_driver_destroy(driver_);
  }
  OptionsRun(const OptionsRun&) = delete;
  OptionsRun& operator=(const OptionsRun&) = delete;

  bool create(const std::string& config) {
    auto options = sized<cachalot_allocator_options>();
    options.driver = driver_;
    options.config = config.c_str();
    options.release = flags_ & kIsOldRelease ? CACHALOT_RELEASE_2_11 : CACHALOT_RELEASE_2_15;
    options.no_caching = options.shareable_pages = -1;
    options.check_every_call = 1;
    const cachalot_status status = cachalot_allocator_create(&options, &allocator_, &error_);
    if (worked(status, error_,
               {CACHALOT_ERROR_INVALID_ARGUMENT, CACHALOT_ERROR_INVALID_STATE,
                CACHALOT_ERROR_NOT_SUPPORTED}))
      return true;
    require(allocator_ == nullptr, "a failed creation gave an allocator");
    return false;
  }
  bool configure(const std::string& config) {
    return worked(cachalot_configure(allocator_, config.c_str(), &error_), error_,
                  {CACHALOT_ERROR_INVALID_ARGUMENT, CACHALOT_ERROR_INVALID_STATE,
                   CACHALOT_ERROR_NOT_SUPPORTED});
  }
  bool is_async() const {
    return std::strcmp(cachalot_allocator_backend(allocator_), "native") != 0;
  }

  // Under the other backend a faulty string of its creation shows here.
  bool settings(cachalot_settings* settings) {
    const cachalot_status status = cachalot_get_settings(allocator_, settings, &error_);
    require(is_async() || status == CACHALOT_OK, "the settings cannot be read", error_.message);
    return status == CACHALOT_OK;
  }
  std::string config() {
    size_t length = 0;
    cachalot_get_config(allocator_, nullptr, 0, &length, &error_);
    std::string text(length + 1, '\0');
    cachalot_get_config(allocator_, text.data(), text.size(), nullptr, &error_);
    text.resize(length);
    return text;
  }
  // What was read can be set, and is then as it was.
  void require_stable() {
    auto before = sized<cachalot_settings>();
    auto after = sized<cachalot_settings>();
    if (!settings(&before)) return;
    require(cachalot_set_settings(allocator_, &before, &error_) == CACHALOT_OK,
            "settings cannot be written back", error_.message);
    settings(&after);
    require(std::memcmp(&before, &after, sizeof before) == 0, "settings change when written back");
  }
  void require_usable() {
    cachalot_address address = 0;
    const cachalot_status status = cachalot_allocate(allocator_, 1000, 0, 0, &address, &error_);
    if (worked(status, error_, {CACHALOT_ERROR_OUT_OF_MEMORY}))
      require(cachalot_free(allocator_, address, &error_) == CACHALOT_OK, "a block stays");
    require(cachalot_check(allocator_, &error_) == CACHALOT_OK, "the auditor", error_.message);
  }

 private:
  const uint8_t flags_;
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_error error_ = CACHALOT_ERROR_INIT;
};

// White space counts nowhere, so it can stand inside a word.
bool names_backend(std::string config) {
  std::erase_if(config, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
  return config.find("backend") != std::string::npos;
}

// One allocator is made with the string, the other gets it afterwards: both end alike.
void compare_moments(uint8_t flags, const std::string& config) {
  if (names_backend(config)) return;
  OptionsRun made(flags);
  OptionsRun configured(flags);
  configured.create("");
  const bool was_made = made.create(config);
  const bool was_configured = configured.configure(config);
  require(was_made == was_configured, "a string is good at one moment only", config);
  if (!was_made) return;
  auto one = sized<cachalot_settings>();
  auto other = sized<cachalot_settings>();
  made.settings(&one);
  configured.settings(&other);
  require(std::memcmp(&one, &other, sizeof one) == 0, "a string means two things", config);
}

std::vector<std::string> lines_of(const uint8_t* data, size_t size) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < size && lines.size() <= 8; i++) {
    if (data[i] == '\n')
      lines.emplace_back();
    else if (data[i] != 0)
      lines.back().push_back(static_cast<char>(data[i]));
  }
  return lines;
}

void run(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const std::vector<std::string> lines = lines_of(data + 1, size - 1);
  OptionsRun run(data[0]);
  compare_moments(data[0], lines[0]);
  if (!run.create(lines[0])) return;
  if (!run.is_async()) run.require_stable();
  for (size_t i = 1; i < lines.size(); i++) {
    if (run.configure(lines[i])) {
      require(run.config() == lines[i], "another string is read back", run.config());
      run.require_stable();
    } else {
      auto settings = sized<cachalot_settings>();
      run.settings(&settings);
    }
    run.require_usable();
  }
}

}  // namespace
}  // namespace cachalot_test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cachalot_test::run(data, size);
  return 0;
}
