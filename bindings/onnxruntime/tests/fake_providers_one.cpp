// SPDX-License-Identifier: MIT OR Apache-2.0
// A library of a provider of ORT's, by its name.
#include <onnxruntime_c_api.h>

#include <cstdio>
#include <exception>

extern "C" const char* message_of_alloc(OrtAllocator* table, size_t size) {
  static char message[4096];
  try {
    return table->Alloc(table, size) == nullptr ? "NULL" : "a block";
  } catch (const std::exception& error) {
    std::snprintf(message, sizeof message, "%s", error.what());
    return message;
  }
}
