// SPDX-License-Identifier: MIT OR Apache-2.0
// The folder that leads a program's libcuda.so.1 to the proxy: links by the names libcuda.so.1 and libcuda.so to the
// proxy, and by libcachalot_real_cuda.so to the driver's own file, on which the proxy depends.
#pragma once

#include <map>
#include <string>

namespace cachalot::cli {

// Makes the folder, or takes that of an earlier call: it depends on the two files alone, and stays, since programs
// that are started in it may live longer than the launcher. path: where it is to be; "": among temporary files. Throws
// Failure.
std::string proxy_folder(const std::string& path = "");

// The variables that lead a program to it, with what they are set to now behind. audit: also for programs that open
// the driver by its path.
std::map<std::string, std::string> proxy_environment(const std::string& folder, bool audit);

}  // namespace cachalot::cli
