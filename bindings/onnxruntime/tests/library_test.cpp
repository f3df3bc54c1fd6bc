// SPDX-License-Identifier: MIT OR Apache-2.0
// Which ORT is found, if any. One test, since what is loaded once stays.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "cachalot/onnxruntime.h"

namespace {

cachalot_status try_to_register(const char* library, cachalot_error* error) {
  cachalot_driver* driver = nullptr;
  EXPECT_EQ(cachalot_driver_open("host:1GiB", &driver, nullptr), CACHALOT_OK);
  cachalot_allocator_options made{};
  made.struct_size = sizeof made;
  made.driver = driver;
  cachalot_allocator* allocator = nullptr;
  EXPECT_EQ(cachalot_allocator_create(&made, &allocator, nullptr), CACHALOT_OK);
  cachalot_ort_options options{};
  options.struct_size = sizeof options;
  options.allocator = allocator;
  options.library = library;
  cachalot_ort_allocator* registered = nullptr;
  const cachalot_status status = cachalot_ort_register(&options, &registered, error);
  EXPECT_EQ(cachalot_ort_unregister(registered, nullptr), CACHALOT_OK);
  EXPECT_EQ(cachalot_allocator_destroy(allocator, nullptr), CACHALOT_OK);
  cachalot_driver_destroy(driver);
  return status;
}

void expect_text(const cachalot_error& error, const char* part) {
  EXPECT_NE(std::string(error.message).find(part), std::string::npos) << error.message;
}

TEST(Library, IsFoundAmongThoseThatAreLoadedOrSaysWhyNot) {
  cachalot_error error = CACHALOT_ERROR_INIT;
  EXPECT_EQ(try_to_register(nullptr, &error), CACHALOT_ERROR_INVALID_STATE);
  expect_text(error, "No ONNX Runtime is loaded: of the ");

  EXPECT_EQ(try_to_register("/nowhere/libonnxruntime.so", &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  expect_text(error, "ONNX Runtime cannot be loaded: /nowhere/libonnxruntime.so");
  EXPECT_EQ(try_to_register("libm.so.6", &error), CACHALOT_ERROR_INVALID_ARGUMENT);
  expect_text(error, "libm.so.6 is no ONNX Runtime");

  void* const old = ::dlopen(CACHALOT_ORT_OLD, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(old, nullptr) << ::dlerror();
  EXPECT_EQ(try_to_register(nullptr, &error), CACHALOT_ERROR_NOT_SUPPORTED);
  expect_text(error,
              "ONNX Runtime 1.8.2 is too old: its interface has version 8, and 17 is needed");

  // A real one beside it, which is not in the global scope.
  void* const real = ::dlopen(CACHALOT_ORT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(real, nullptr) << ::dlerror();
  EXPECT_EQ(::dlsym(RTLD_DEFAULT, "OrtGetApiBase"), nullptr);
  EXPECT_EQ(try_to_register(nullptr, &error), CACHALOT_ERROR_INVALID_STATE);
  expect_text(error, "2 libraries of ONNX Runtime are loaded, ");
  // Nor is it preferred once it is.
  ASSERT_NE(::dlopen(CACHALOT_ORT_LIBRARY, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL), nullptr);
  EXPECT_EQ(try_to_register(nullptr, &error), CACHALOT_ERROR_INVALID_STATE);
  expect_text(error, "2 libraries of ONNX Runtime are loaded, ");
  EXPECT_EQ(try_to_register(CACHALOT_ORT_LIBRARY, &error), CACHALOT_OK) << error.message;

  // A version is no promise.
  EXPECT_EQ(try_to_register(CACHALOT_ORT_SECOND, &error), CACHALOT_ERROR_NOT_SUPPORTED);
  expect_text(error, "ONNX Runtime 1.31.0 does not have version ");
  EXPECT_EQ(::dlopen(CACHALOT_ORT_SECOND, RTLD_NOW | RTLD_NOLOAD),
            nullptr);  // nothing has happened
}

}  // namespace
