// SPDX-License-Identifier: MIT OR Apache-2.0
// Stacks of a program and of libraries that are compiled with debug information, without it, and
// stripped.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cachalot/cachalot.h"
#include "called_code.h"

namespace {

using CallThrough = decltype(&call_through);

// An allocator that keeps the stack of each hand-out.
class Traced {
 public:
  Traced() {
    ok(cachalot_driver_create_host(uint64_t{1} << 30, 1, &driver_, &error_));
    cachalot_allocator_options options{};
    options.struct_size = sizeof options;
    options.driver = driver_;
    options.release = CACHALOT_RELEASE_2_15;
    options.context_source = CACHALOT_CONTEXT_STACK;
    ok(cachalot_allocator_create(&options, &allocator_, &error_));
    cachalot_history_options history{};
    history.struct_size = sizeof history;
    history.enabled = 1;
    history.context = CACHALOT_CONTEXT_LEVEL_ALL;
    ok(cachalot_record_history(allocator_, &history, &error_));
  }
  ~Traced() {
    cachalot_allocator_destroy_all(allocator_, nullptr);
    cachalot_driver_destroy(driver_);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  // The frames of a hand-out that a function makes, from this one's on.
  std::vector<std::string> frames_through(CallThrough function, CalledLines* lines) {
    function([](void* self) { static_cast<Traced*>(self)->allocate(); }, this, lines);
    uint64_t context = 0;
    ok(cachalot_context_of(allocator_, block_, &context, &error_));
    size_t length = 0;
    ok(cachalot_context_text(allocator_, context, nullptr, 0, &length, &error_));
    std::string text(length + 1, '\0');
    ok(cachalot_context_text(allocator_, context, text.data(), text.size(), nullptr, &error_));
    text.resize(length);
    std::vector<std::string> frames;
    std::istringstream stream(text);
    for (std::string frame; std::getline(stream, frame);) frames.push_back(frame);
    return frames;
  }

 private:
  void ok(cachalot_status status) const {
    if (status != CACHALOT_OK) throw std::runtime_error(error_.message);
  }
  void allocate() { ok(cachalot_allocate(allocator_, 512, 0, 0, &block_, &error_)); }

  cachalot_error error_ = CACHALOT_ERROR_INIT;
  cachalot_driver* driver_ = nullptr;
  cachalot_allocator* allocator_ = nullptr;
  cachalot_address block_ = 0;
};

class Library {
 public:
  // How called_code.cpp was compiled for it.
  explicit Library(const std::string& kind)
      : path_(CACHALOT_CALLED_LIBRARIES + kind + ".so"),
        handle_(dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& path() const { return path_; }
  CallThrough function() const {
    return reinterpret_cast<CallThrough>(dlsym(handle_, "call_through"));
  }

 private:
  std::string path_;
  void* handle_;
};

const std::string kInner = "call_from_within(void (*)(void*), void*, int*)";

// The frames of called_code.cpp.
struct CalledFrames {
  std::string inner;
  std::string outer;
};

// Others know the outer one, so that it has its name in any case.
CalledFrames called_frames(const std::vector<std::string>& frames) {
  for (size_t i = 1; i < frames.size(); ++i)
    if (frames[i].starts_with("call_through (") || frames[i].ends_with(":call_through"))
      return {frames[i - 1], frames[i]};
  throw std::runtime_error("call_through is no frame");
}

void expect_lines(Traced& traced, CallThrough function) {
  CalledLines lines{};
  const CalledFrames frames = called_frames(traced.frames_through(function, &lines));
  const std::string file = "called_code.cpp:";
  const std::string inner = file + std::to_string(lines.inner) + ":" + kInner;
  const std::string outer = file + std::to_string(lines.outer) + ":call_through";
  EXPECT_TRUE(frames.inner.ends_with("/" + inner)) << frames.inner;
  EXPECT_TRUE(frames.outer.ends_with("/" + outer)) << frames.outer;
}

void expect_no_lines(Traced& traced, const Library& library, const std::string& inner_name) {
  CalledLines lines{};
  const CalledFrames frames = called_frames(traced.frames_through(library.function(), &lines));
  const std::string in_file = " (" + library.path() + "+0x";
  EXPECT_TRUE(frames.inner.starts_with(inner_name + in_file)) << frames.inner;
  EXPECT_TRUE(frames.outer.starts_with("call_through" + in_file)) << frames.outer;
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(library.function()), &info), 0);
  const auto offset = static_cast<uint64_t>(reinterpret_cast<char*>(library.function()) -
                                            static_cast<char*>(info.dli_fbase));
  const uint64_t told = std::stoull(frames.outer.substr(frames.outer.rfind('+') + 1), nullptr, 16);
  EXPECT_TRUE(offset < told && told < offset + 200) << frames.outer;
}

TEST(Frames, HaveFileAndLineInLibrariesWithDebugInformation) {
  Traced traced;
  for (const char* const kind : {"dwarf-4", "dwarf-5", "dwarf64"}) {
    const Library library(kind);
    expect_lines(traced, library.function());
  }
}

TEST(Frames, HaveFileAndLineInTheProgram) {
  Traced traced;
  expect_lines(traced, call_through);
}

TEST(Frames, BeginWithTheCallerOfTheLibrary) {
  Traced traced;
  CalledLines lines{};
  const std::string innermost = traced.frames_through(call_through, &lines).at(0);
  EXPECT_NE(innermost.find("(anonymous namespace)::Traced::"), std::string::npos) << innermost;
}

TEST(Frames, AreFunctionsAndPlacesInTheFileWithoutDebugInformation) {
  Traced traced;
  expect_no_lines(traced, Library("plain"), kInner);
}

TEST(Frames, AreNamedAsFarAsTheLoaderKnowsInAStrippedLibrary) {
  Traced traced;
  expect_no_lines(traced, Library("stripped"), "??");
}

TEST(Frames, AreOfTheLibraryThatCameInThePlaceOfAnother) {
  Traced traced;
  CallThrough before = nullptr;
  {
    const Library library("dwarf-5");
    before = library.function();
    expect_lines(traced, before);
  }
  const Library library("plain");
  if (library.function() != before) GTEST_SKIP() << "it is loaded elsewhere";
  expect_no_lines(traced, library, kInner);
}

}  // namespace
