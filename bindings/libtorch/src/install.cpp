// SPDX-License-Identifier: MIT OR Apache-2.0
// What libtorch calls is the functions of capi/pluggable, over the allocator that the program gives.
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

#include "cachalot/libtorch.h"
#include "disabled.h"
#include "error.h"
#include "hooks.h"
#include "torch.h"

namespace cachalot::libtorch {
namespace {

using pluggable::only_allocator;

constinit std::mutex mutex;  // one installation at a time
// Null: there is none yet. Never destroyed: static objects of libtorch free memory until the very end.
constinit Allocator* installed = nullptr;

Allocator make_allocator(const Functions& torch) {
  Allocator made =
      torch.create(pluggable::cachalot_pluggable_alloc, pluggable::cachalot_pluggable_free);
  void* const self = made.get();
  torch.set_init(self, pluggable::cachalot_pluggable_init);
  torch.set_reset(self, pluggable::cachalot_pluggable_reset);
  torch.set_memory_fraction(self, pluggable::cachalot_pluggable_memory_fraction);
  torch.set_base_alloc(self, pluggable::cachalot_pluggable_base_alloc);
  torch.set_record_stream(self, pluggable::cachalot_pluggable_record_stream);
  torch.set_begin_allocate_to_pool(self, pluggable::cachalot_pluggable_begin_allocate_to_pool);
  torch.set_end_allocate_to_pool(self, pluggable::cachalot_pluggable_end_allocate_to_pool);
  torch.set_release_pool(self, pluggable::cachalot_pluggable_release_pool);
  return made;
}

// libtorch's exceptions carry a backtrace behind their first line.
int first_line_of(const char* text) { return static_cast<int>(std::strcspn(text, "\n")); }

cachalot_status change_allocator(const Torch& torch, cachalot_allocator* allocator,
                                 cachalot_error* error) {
  try {
    auto made = std::make_unique<Allocator>(make_allocator(torch.functions));
    pluggable::choose_torch_errors(torch.errors);
    only_allocator.store(allocator, std::memory_order_release);
    torch.functions.change_current(*made);
    installed = made.release();
    return CACHALOT_OK;
  } catch (const std::bad_alloc&) {
    only_allocator.store(nullptr, std::memory_order_release);
    return fail(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY,
                "There is no memory for libtorch's allocator.");
  } catch (const std::exception& refusal) {
    only_allocator.store(nullptr, std::memory_order_release);
    return fail(error, CACHALOT_ERROR_INVALID_STATE,
                "%s keeps its allocator, as it does once CUDA is in use: \"%.*s\"",
                torch.name().c_str(), first_line_of(refusal.what()), refusal.what());
  }
}

// A call that only a live allocator of this copy of the library serves.
cachalot_status check_is_live(cachalot_allocator* allocator, cachalot_error* error) {
  cachalot_settings settings{};
  settings.struct_size = sizeof settings;
  return cachalot_get_settings(allocator, &settings, error);
}

// libtorch's kernels reach memory of `cuda` only, and memory of `sim` does not exist.
cachalot_status check_driver(const cachalot_allocator* allocator, uint32_t flags,
                             cachalot_error* error) {
  const std::string_view name = cachalot_driver_name(cachalot_allocator_driver(allocator));
  if (name == "cuda") return CACHALOT_OK;
  if (name == "sim")
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
                "The allocator's driver is sim, whose memory nothing can use.");
  if ((flags & CACHALOT_LIBTORCH_ANY_DRIVER) != 0) return CACHALOT_OK;
  return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
              "The allocator's driver is %s, whose memory libtorch's kernels cannot use: it has to "
              "be cuda, or the flag CACHALOT_LIBTORCH_ANY_DRIVER is set.",
              name.data());
}

cachalot_status check_release(const Torch& torch, const cachalot_allocator* allocator,
                              cachalot_error* error) {
  const int32_t release = cachalot_allocator_release(allocator);
  if (release == torch.release()) return CACHALOT_OK;
  return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
              "The allocator makes the decisions of PyTorch %d.%d, and %s is loaded.",
              release / 100, release % 100, torch.name().c_str());
}

cachalot_status install(cachalot_allocator* allocator, uint32_t flags, cachalot_error* error) {
  constexpr uint32_t kFlags = CACHALOT_LIBTORCH_SAME_RELEASE | CACHALOT_LIBTORCH_ANY_DRIVER;
  if (const uint32_t unknown = flags & ~kFlags; unknown != 0)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT, "flags has unknown bits: 0x%x", unknown);
  if (is_disabled_for("libtorch")) return CACHALOT_OK;
  const std::lock_guard lock(mutex);
  if (installed != nullptr)
    return fail(error, CACHALOT_ERROR_INVALID_STATE, "cachalot is libtorch's allocator already.");
  cachalot_status status = check_is_live(allocator, error);
  if (status == CACHALOT_OK) status = check_driver(allocator, flags, error);
  Torch torch;
  if (status == CACHALOT_OK) status = find_torch(&torch, error);
  if (status == CACHALOT_OK && (flags & CACHALOT_LIBTORCH_SAME_RELEASE) != 0)
    status = check_release(torch, allocator, error);
  return status == CACHALOT_OK ? change_allocator(torch, allocator, error) : status;
}

// No caller knows less of it than version 0.1 had.
constexpr size_t kFirstInfo = sizeof(cachalot_libtorch_info);

cachalot_status find(cachalot_libtorch_info* out_info, cachalot_error* error) {
  if (out_info != nullptr && out_info->struct_size < kFirstInfo)
    return fail(error, CACHALOT_ERROR_INVALID_ARGUMENT,
                "out_info: struct_size is %zu, less than %zu", out_info->struct_size, kFirstInfo);
  Torch torch;
  const cachalot_status status = find_torch(&torch, error);
  if (status != CACHALOT_OK || out_info == nullptr) return status;
  *out_info = {out_info->struct_size, torch.major,     torch.minor,
               torch.patch,           torch.release(), torch.library};
  return status;
}

// What may not throw into C.
template <class Function>
cachalot_status guarded(cachalot_error* error, Function function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return fail(error, CACHALOT_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
  }
}

}  // namespace
}  // namespace cachalot::libtorch

// A call comes only once there is an allocator.
cachalot_status cachalot::pluggable::find_or_make_allocator(cachalot_allocator** out,
                                                            cachalot_error* error) {
  *out = only_allocator.load(std::memory_order_acquire);
  if (*out != nullptr) return CACHALOT_OK;
  return fail(error, CACHALOT_ERROR_INVALID_STATE, "cachalot is not installed");
}

cachalot_status cachalot_libtorch_find(cachalot_libtorch_info* out_info, cachalot_error* error) {
  return cachalot::libtorch::guarded(error,
                                     [&] { return cachalot::libtorch::find(out_info, error); });
}

cachalot_status cachalot_libtorch_install(cachalot_allocator* allocator, uint32_t flags,
                                          cachalot_error* error) {
  return cachalot::libtorch::guarded(
      error, [&] { return cachalot::libtorch::install(allocator, flags, error); });
}
