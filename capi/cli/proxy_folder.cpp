// SPDX-License-Identifier: MIT OR Apache-2.0
#include "proxy_folder.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <system_error>

#include "failure.h"

namespace cachalot::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriverName = "libcuda.so.1";
constexpr const char* kRealName = "libcachalot_real_cuda.so";
constexpr const char* kAuditName = "libcachalot_audit.so";

std::string text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

// Beside this program: where it is installed, or in the build tree.
fs::path find_proxy() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path places[] = {here / ".." / CACHALOT_PROXY_FOLDER, here / "proxy"};
  std::string tried;
  for (const fs::path& place : places) {
    const fs::path proxy = (place / kDriverName).lexically_normal();
    if (fs::exists(proxy)) return fs::canonical(proxy);
    tried += (tried.empty() ? "" : ", ") + proxy.string();
  }
  throw Failure("the library that records programs is not installed (tried " + tried + ")");
}

fs::path path_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return fs::canonical(map->l_name);
}

// By the loader's rules. Where this program itself runs under the proxy, the driver is behind it.
fs::path find_driver(const fs::path& proxy) {
  void* const library = dlopen(kDriverName, RTLD_LAZY);
  if (library == nullptr) throw Failure(std::string("no CUDA driver: ") + dlerror());
  fs::path driver = path_of(library);
  if (driver != proxy) return driver;
  void* const real = dlopen(kRealName, RTLD_LAZY | RTLD_NOLOAD);
  if (real == nullptr) throw Failure("no CUDA driver behind the proxy " + proxy.string());
  return path_of(real);
}

// Only this user's, or another one could lead the program anywhere.
void make_private_folder(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) return;
  struct stat info {};
  const bool is_ours = errno == EEXIST && lstat(folder.c_str(), &info) == 0 &&
                       S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
                       (info.st_mode & 022) == 0;
  if (!is_ours)
    throw Failure(folder.string() + (errno == EEXIST
                                         ? " is no folder that only this user can write to"
                                         : " cannot be made"));
}

// Others may make or use the same link at the same time.
void make_link(const fs::path& link, const fs::path& target) {
  std::error_code error;
  if (fs::read_symlink(link, error) == target) return;
  const fs::path fresh = link.string() + "." + std::to_string(getpid());
  fs::create_symlink(target, fresh);
  fs::rename(fresh, link);
}

// LD_PRELOAD and LD_LIBRARY_PATH have no way to write blanks and colons.
bool can_be_listed(const fs::path& path) {
  return path.string().find_first_of(" :;\t\n") == std::string::npos;
}

fs::path folder_name(const fs::path& proxy, const fs::path& driver) {
  const size_t number = std::hash<std::string>()(proxy.string() + ":" + driver.string());
  const fs::path base = fs::temp_directory_path();
  return (can_be_listed(base) ? base : fs::path("/tmp")) /
         ("cachalot-" + std::to_string(geteuid()) + "-" + std::to_string(number));
}

std::string in_front(const std::string& text, const std::string& list) {
  return list.empty() ? text : text + ":" + list;
}

}  // namespace

std::string proxy_folder(const std::string& path) {
  try {
    const fs::path proxy = find_proxy();
    const fs::path driver = find_driver(proxy);
    const fs::path folder = path.empty() ? folder_name(proxy, driver) : fs::absolute(path);
    if (!can_be_listed(folder))
      throw Failure(folder.string() + " has a blank, a colon or a semicolon in its name");
    make_private_folder(folder);
    make_link(folder / kRealName, driver);
    make_link(folder / kDriverName, proxy);
    make_link(folder / "libcuda.so", proxy);
    make_link(folder / kAuditName, proxy.parent_path() / kAuditName);
    return folder;
  } catch (const fs::filesystem_error& error) {
    throw Failure(error.what());
  }
}

std::map<std::string, std::string> proxy_environment(const std::string& folder, bool audit) {
  std::map<std::string, std::string> variables{
      {"LD_LIBRARY_PATH", in_front(folder, text_of("LD_LIBRARY_PATH"))},
      // A program that names a folder of the driver in itself (DT_RPATH) looks there first, but not for what is loaded.
      {"LD_PRELOAD", in_front(folder + "/" + kDriverName, text_of("LD_PRELOAD"))}};
  if (audit) variables["LD_AUDIT"] = in_front(folder + "/" + kAuditName, text_of("LD_AUDIT"));
  return variables;
}

}  // namespace cachalot::cli
