// SPDX-License-Identifier: MIT OR Apache-2.0
#include "script.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace cachalot::differential {
namespace {

constexpr const char* kConfigVariable = "PYTORCH_CUDA_ALLOC_CONF";
constexpr const char* kNoCachingVariable = "PYTORCH_NO_CUDA_MEMORY_CACHING";

// All that the library reads.
constexpr std::array<const char*, 8> kVariables = {
    "CACHALOT_ALLOC_CONF", kConfigVariable,
    "PYTORCH_ALLOC_CONF",  "CACHALOT_RELEASE",
    "CACHALOT_DRIVER",     "PYTORCH_HIP_ALLOC_CONF",
    kNoCachingVariable,    "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC",
};

constexpr std::string_view kDifference = "differs from PyTorch: ";

Script& script_of(void* user_data) { return *static_cast<Script*>(user_data); }

// "U3" of "differs from PyTorch: U3: ...".
std::string defect_of(std::string_view message) {
  if (message.starts_with(kDifference)) message.remove_prefix(kDifference.size());
  return std::string(message.substr(0, message.find(':')));
}

}  // namespace

std::string metadata_marks(const Script& script, const cachalot_trace_entry& entry) {
  if (!script.log.metadata) return "";
  std::string marks = " metadata \"" + std::string(entry.metadata) + "\"";
  if (script.release() >= CACHALOT_RELEASE_2_15) {
    marks += " internal \"" + std::string(entry.internal_metadata) + "\"";
  }
  return marks + " pool " + decimal(entry.pool.first) + "," + decimal(entry.pool.second);
}

// ---- Life ---------------------------------------------------------------------------------------

std::unique_ptr<ScriptDevice> make_simulated_device(Transcript& transcript) {
  return std::make_unique<ScriptDevice>(transcript);
}

Script::Script(Setup setup, const MakeDevice& make_device)
    : setup_(std::move(setup)), device_(make_device(transcript_)) {}

Script::~Script() { finish(); }

void Script::reset_environment() const {
  for (const char* name : kVariables) unsetenv(name);
  for (const auto& [name, value] : setup_.environment) unsetenv(name.c_str());
}

// As the oracle does it: an option string that is not empty becomes a variable, before the script's
// own.
void Script::set_environment() const {
  reset_environment();
  if (setup_.environment.empty()) return;
  if (!setup_.config.empty()) setenv(kConfigVariable, setup_.config.c_str(), 1);
  for (const auto& [name, value] : setup_.environment) setenv(name.c_str(), value.c_str(), 1);
}

cachalot_allocator_options Script::options() {
  cachalot_allocator_options options{};
  options.struct_size = sizeof options;
  options.driver = driver_;
  options.config = setup_.environment.empty() ? setup_.config.c_str() : nullptr;
  options.release = setup_.release;
  options.context_source = CACHALOT_CONTEXT_CALLBACK;
  options.log = [](void* user, int32_t level, const char* message) {
    script_of(user).on_log(level, message);
  };
  options.log_user_data = this;
  options.context_capture = [](void* user) {
    const Script& script = script_of(user);
    return script.log.context ? script.operation_ : uint64_t{0};
  };
  options.context_user_data = this;
  return options;
}

bool Script::attach_observers() {
  const auto trace = [](void* user, const cachalot_trace_entry* entry) {
    script_of(user).on_event(*entry);
  };
  const auto out_of_memory = [](void* user, const cachalot_out_of_memory* numbers) {
    script_of(user).on_out_of_memory(*numbers);
  };
  const auto rejection = [](void* user, const cachalot_rejection* numbers) {
    script_of(user).on_rejection(*numbers);
  };
  const auto free_memory = [](void* user, int32_t, uint64_t) {
    return script_of(user).on_free_memory();
  };
  cachalot_history_options history{};
  history.struct_size = sizeof history;
  history.enabled = 1;
  history.max_entries = 1;
  history.clear = 1;
  const bool sees_events =
      setup_.unobserved ||
      (worked(cachalot_observe_trace(allocator_, trace, this, nullptr, nullptr, &error_)) &&
       worked(cachalot_record_history(allocator_, &history, &error_)));
  return sees_events &&
         worked(cachalot_observe_out_of_memory(allocator_, out_of_memory, this, nullptr, nullptr,
                                               &error_)) &&
         worked(
             cachalot_observe_rejection(allocator_, rejection, this, nullptr, nullptr, &error_)) &&
         worked(cachalot_register_free_memory_callback(allocator_, free_memory, this, nullptr,
                                                       nullptr, &error_));
}

bool Script::start() {
  if (allocator_ != nullptr) return true;
  if (!worked(cachalot_set_metadata("", &error_))) return false;
  if (driver_ == nullptr && !worked(device_->create_driver(&driver_, &error_))) return false;
  set_environment();
  const cachalot_allocator_options created_with = options();
  const cachalot_status status = cachalot_allocator_create(&created_with, &allocator_, &error_);
  reset_environment();
  if (status == CACHALOT_OK) return is_backend_async() || attach_observers();
  add_failure(status, true);
  return false;
}

std::string Script::finish() {
  device()->stop_printing();
  device()->end_all_captures();
  device()->fail_allocations(0, 0);
  device()->fail_once(0, 0);
  device()->fail_event(0, 0);
  device()->fail_host_free(0, 0);
  device()->set_pending_error(0);
  cachalot_status status = CACHALOT_OK;
  if (allocator_ != nullptr) status = cachalot_allocator_destroy_all(allocator_, &error_);
  allocator_ = nullptr;
  cachalot_driver_destroy(std::exchange(driver_, nullptr));
  if (status != CACHALOT_OK)
    return std::string("destroying the allocator failed: ") + error_.message;
  const std::string leftovers = device()->leftovers();
  return leftovers.empty() ? ""
                           : "after destroying the allocator the device still has " + leftovers;
}

// ---- Operations ---------------------------------------------------------------------------------

void Script::begin_operation(uint64_t number, std::span<const std::string_view> expected) {
  operation_ = number;
  transcript_.clear();
  exempt_operation_ = false;
  exempt_error_text_ = false;
  expected_ = expected;
  device()->expect_addresses(expected);
}

// The reference calls the rejection observers from a thread of their own; the oracle prints them
// last.
void Script::end_operation() {
  for (std::string& line : rejections_) transcript_.add(std::move(line));
  rejections_.clear();
}

bool Script::worked(cachalot_status status) {
  if (status == CACHALOT_OK) return true;
  add_failure(status, false);
  return false;
}

// A call that fails must fill the record, so a message of an earlier failure is never shown for it.
void Script::add_failure(cachalot_status status, bool at_init) {
  const bool is_filled = error_.status == static_cast<int32_t>(status);
  transcript_.add_failure({status, at_init}, is_filled ? error_.message : kNoMessage);
  error_.status = CACHALOT_OK;
}

void Script::free_live(int64_t id) {
  const auto found = live.find(id);
  if (found == live.end()) return;
  const cachalot_address address = found->second;
  live.erase(found);
  worked(cachalot_free_on_stream(allocator_, address, current_stream, &error_));
}

void Script::close_import(int64_t id) {
  const auto found = imported.find(id);
  if (found == imported.end()) return;
  worked(cachalot_close_shared(allocator_, found->second, &error_));
  imported.erase(found);
}

void Script::free_pinned(int64_t id) {
  const auto found = pinned.find(id);
  if (found == pinned.end()) return;
  const cachalot_address address = found->second;
  pinned.erase(found);
  worked(cachalot_pinned_free(allocator_, reinterpret_cast<void*>(address), &error_));
}

bool Script::is_backend_async() const {
  return std::string_view(cachalot_allocator_backend(allocator_)) == "cudaMallocAsync";
}

bool Script::is_caching() const {
  const auto is_off = [](const auto& variable) {
    return variable.first == kNoCachingVariable && variable.second == "1";
  };
  return caching_switched_on &&
         std::none_of(setup_.environment.begin(), setup_.environment.end(), is_off);
}

// ---- What the library tells ---------------------------------------------------------------------

void Script::on_log(int32_t level, std::string_view message) {
  if (level == CACHALOT_LOG_DIFFERENCE) mended_ = defect_of(message);
  if (level == CACHALOT_LOG_WARNING) {
    transcript_.add("W " + std::string(message.substr(0, message.find('\n'))));
  }
}

void Script::on_event(const cachalot_trace_entry& entry) {
  transcript_.add(std::string("T ") + cachalot_action_name(entry.action) + " " +
                  hex(entry.address) + " " + decimal(entry.size) + " " + hex(entry.stream) +
                  metadata_marks(*this, entry));
}

// Without a limit the reference tells its observers the device's memory. A limit of 0 is one.
void Script::on_out_of_memory(const cachalot_out_of_memory& numbers) {
  if (!log.observer) return;
  uint64_t limit = UINT64_MAX;
  worked(cachalot_memory_limit(allocator_, numbers.device, &limit, &error_));
  transcript_.add("O " + decimal(numbers.device) + " " + decimal(numbers.segment_size) + " " +
                  decimal(limit == UINT64_MAX ? numbers.device_total : limit) + " " +
                  decimal(numbers.device_free));
}

void Script::on_rejection(const cachalot_rejection& numbers) {
  if (!log.rejection) return;
  rejections_.push_back("J " + decimal(numbers.device) + " " + decimal(numbers.segment_size) + " " +
                        decimal(numbers.reserved) + " " + decimal(numbers.device_total));
}

int32_t Script::on_free_memory() {
  if (armed.empty()) return 0;
  transcript_.add("C callback");
  for (const int64_t id : std::exchange(armed, {})) free_live(id);
  return 1;
}

}  // namespace cachalot::differential
