// SPDX-License-Identifier: MIT OR Apache-2.0
#include "capture.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace cachalot::cli {
namespace {

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> buffer;
  ssize_t count = 0;
  while ((count = read(file, buffer.data(), buffer.size())) > 0 || (count < 0 && errno == EINTR))
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<std::string> lines_of_output(const std::vector<std::string>& command) {
  std::array<int, 2> output{};
  if (pipe2(output.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t process = 0;
  const bool is_started =
      posix_spawnp(&process, arguments.front(), &actions, nullptr, arguments.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  const std::string text = is_started ? read_all(output[0]) : "";
  close(output[0]);
  while (is_started && waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return split(text);
}

}  // namespace cachalot::cli
