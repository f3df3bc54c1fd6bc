# SPDX-License-Identifier: MIT OR Apache-2.0

# Says what is left out for want of something, or ends the configuration where CI wants everything. (A sanitizer's stage
# may run without that of the release, which fetches things.)
function(cachalot_leave_out message)
  if(DEFINED ENV{CI} AND NOT CACHALOT_SANITIZE)
    message(FATAL_ERROR "${message}, and CI is set")
  endif()
  message(STATUS "${message}")
endfunction()
