// SPDX-License-Identifier: MIT OR Apache-2.0
#include "replay/recording_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "base/error.h"

namespace cachalot {
namespace {

class RecordingFileTest : public testing::Test {
 protected:
  RecordingFileTest() {
    std::string pattern = testing::TempDir() + "cachalot-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~RecordingFileTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "recording") const { return folder_ + "/" + name; }

  // What a reader takes it to be.
  static std::string text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    std::string text;
    for (size_t at = 0; at < all.size() && all[at] != '\0';) {
      const size_t end = all.find('\n', at);
      if (end == std::string::npos) break;
      text += all.substr(at, end + 1 - at);
      at = end + 1;
    }
    return text;
  }

 private:
  std::string folder_;
};

TEST_F(RecordingFileTest, CanBeReadAtAnyTime) {
  RecordingFile file(path());
  EXPECT_EQ(text(path()), "");
  EXPECT_TRUE(file.append("one\n"));
  EXPECT_EQ(text(path()), "one\n");
  EXPECT_TRUE(file.append("two\nthree\n"));
  EXPECT_EQ(text(path()), "one\ntwo\nthree\n");
}

TEST_F(RecordingFileTest, EndsBehindItsLastLineOnceItIsClosed) {
  RecordingFile file(path());
  file.append("one\n");
  file.close("end\n");
  EXPECT_EQ(std::filesystem::file_size(path()), 8u);
  EXPECT_EQ(text(path()), "one\nend\n");
  EXPECT_FALSE(file.append("late\n"));
  EXPECT_EQ(file.lost(), 1u);
  file.close("end again\n");
  EXPECT_EQ(text(path()), "one\nend\n");
}

TEST_F(RecordingFileTest, NeverTouchesAFileThatIsThere) {
  std::ofstream(path()) << "mine";
  std::ofstream(path("recording.2")) << "mine too";
  RecordingFile file(path());
  EXPECT_EQ(file.path(), path("recording.3"));
  file.append("one\n");
  EXPECT_EQ(std::filesystem::file_size(path()), 4u);
  EXPECT_EQ(std::filesystem::file_size(path("recording.2")), 8u);
}

TEST_F(RecordingFileTest, ThatCannotBeMadeSaysWhy) {
  try {
    RecordingFile file("/nowhere/recording");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kIo);
    EXPECT_EQ(error.message(), "/nowhere/recording: cannot be made: No such file or directory");
  }
}

TEST_F(RecordingFileTest, IsOfThisUserOnly) {
  RecordingFile file(path());
  EXPECT_EQ(std::filesystem::status(path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// In a process of its own, since the limit is the process's.
void run_with_limit(int resource, uint64_t bytes, void (*act)(const std::string&),
                    const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    setrlimit(static_cast<__rlimit_resource>(resource), &limit);
    act(path);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

constexpr uint64_t kRoom = uint64_t{3} << 20;

TEST_F(RecordingFileTest, LosesWhatItHasNoRoomForAndSaysHowMuch) {
  run_with_limit(
      RLIMIT_FSIZE, kRoom,
      [](const std::string& path) {
        RecordingFile file(path);
        const std::string line(99, 'x');
        uint64_t kept = 0;
        for (int i = 0; i < 100000; i++) kept += file.append(line + "\n");
        EXPECT_GT(kept, kRoom / 100 - 2);
        EXPECT_EQ(file.lost(), 100000 - kept);
        EXPECT_FALSE(file.append("y\nz\n"));  // also what would fit: nothing stands behind a gap
        EXPECT_EQ(file.lost(), 100002 - kept);
        file.close("end\n");
        EXPECT_EQ(text(path).size(), kept * 100 + 4);
        EXPECT_EQ(text(path).substr(kept * 100), "end\n");
      },
      path());
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they need address space of their own
TEST_F(RecordingFileTest, TakesWhatAddressSpaceThereIs) {
  run_with_limit(
      RLIMIT_AS, uint64_t{1} << 30,
      [](const std::string& path) {
        RecordingFile file(path);
        EXPECT_TRUE(file.append("one\n"));
        file.close("end\n");
        EXPECT_EQ(text(path), "one\nend\n");
      },
      path());
}
#endif

TEST_F(RecordingFileTest, HasTheLinesOfAllThreadsWhole) {
  constexpr int kThreads = 4;
  constexpr int kLines = 40000;  // several chunks
  RecordingFile file(path());
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++)
    threads.emplace_back([&, i] {
      for (int k = 0; k < kLines; k++)
        file.append("thread " + std::to_string(i) + " line " + std::to_string(k) + "\nbelow\n");
    });
  for (auto& thread : threads) thread.join();
  file.close("end\n");
  std::istringstream lines(text(path()));
  std::set<std::string> seen;
  std::string line;
  std::string below;
  while (std::getline(lines, line) && line != "end") {
    std::getline(lines, below);
    EXPECT_EQ(below, "below");  // those of one call stay together
    seen.insert(line);
  }
  EXPECT_EQ(line, "end");
  EXPECT_EQ(seen.size(), static_cast<size_t>(kThreads) * kLines);
}

}  // namespace
}  // namespace cachalot
