// SPDX-License-Identifier: MIT OR Apache-2.0
// What every function of the C interface stands in: exceptions become a status and a filled
// cachalot_error, and structs cross the border by the size that the caller knows.
//
//   cachalot_status cachalot_do(cachalot_allocator* allocator, cachalot_error* error) {
//     return guard(error, [&] { require(allocator, "allocator").core.do(); });
//   }
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/lock_rank.h"
#include "cachalot/status.h"

namespace cachalot::capi {

// The status of the exception that is being handled, which is written to `error` if there is one.
[[gnu::cold]] cachalot_status report_current_exception(cachalot_error* error) noexcept;

[[noreturn, gnu::cold]] void throw_null(const char* name);
[[noreturn, gnu::cold]] void throw_struct_size(const char* name, size_t given, size_t least);

// Runs `body`. A success leaves `error` alone.
template <class Body>
inline cachalot_status guard(cachalot_error* error, Body&& body) noexcept {
  [[maybe_unused]] const LockScope scope{};
  try {
    std::forward<Body>(body)();
    return CACHALOT_OK;
  } catch (...) {
    return report_current_exception(error);
  }
}

// What the pointer points to; throws "NAME is NULL" if that is nothing.
template <class T>
inline T& require(T* pointer, const char* name) {
  static_assert(std::is_trivially_copyable_v<T> || std::is_function_v<T>,
                "an object of ours needs a mark (handle.h)");
  if (pointer == nullptr) throw_null(name);
  return *pointer;
}

// The size that a struct had when it was first published: no caller knows less of it. To be
// specialised when a struct grows.
template <class T>
inline constexpr size_t kFirstSize = sizeof(T);

// A copy of what the caller filled in, with zeros for what the caller does not know. NULL: all
// zeros.
template <class T>
T read_options(const T* in, const char* name = "options") {
  static_assert(std::is_trivially_copyable_v<T>);
  T out{};
  if (in != nullptr) {
    if (in->struct_size < kFirstSize<T>) throw_struct_size(name, in->struct_size, kFirstSize<T>);
    std::memcpy(&out, in, std::min(in->struct_size, sizeof(T)));
  }
  out.struct_size = sizeof(T);
  return out;
}

// Fills as much of `out` as the caller knows and keeps its struct_size.
template <class T>
void write_struct(T* out, const T& value, const char* name = "out") {
  static_assert(std::is_trivially_copyable_v<T> && offsetof(T, struct_size) == 0);
  const size_t known = require(out, name).struct_size;
  if (known < kFirstSize<T>) throw_struct_size(name, known, kFirstSize<T>);
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(size_t),
              reinterpret_cast<const char*>(&value) + sizeof(size_t),
              std::min(known, sizeof(T)) - sizeof(size_t));
}

// Text like snprintf: as much as fits and a NUL; `out_length` (may be NULL) gets the full length.
void write_text(char* buffer, size_t capacity, size_t* out_length, std::string_view text);

}  // namespace cachalot::capi
