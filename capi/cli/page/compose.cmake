# SPDX-License-Identifier: MIT OR Apache-2.0
# Puts the page of `cachalot report` and `cachalot tune` together, as an array of its bytes for the program.
#
#   cmake -D OUTPUT=FILE.cpp [-D PAGE=FILE.html] -P compose.cmake
#
# PAGE, if it is given, gets the page itself.

set(here ${CMAKE_CURRENT_LIST_DIR})
set(libraries vendor/uplot/uPlot.iife.min.js vendor/d3/d3.min.js vendor/d3-flame-graph/d3-flamegraph.umd.min.js)
set(modules format.js columns.js run.js series.js memory.js blocks.js flame.js tables.js scatter.js tune.js main.js)
set(styles vendor/uplot/uPlot.min.css page.css)

function(read_all result)
  set(all "")
  foreach(file IN LISTS ARGN)
    file(READ ${here}/${file} text)
    string(APPEND all "${text}\n")
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

# base64_of(RESULT HEX): of a number of bytes in hexadecimal, three digits of which are two of base64.
function(base64_of result hex)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(LENGTH "${hex}" length)
  set(text "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${hex}00" ${at} 3 group)
    math(EXPR high "0x${group} >> 6")
    math(EXPR low "0x${group} & 63")
    string(SUBSTRING "${digits}" ${high} 1 first)
    string(SUBSTRING "${digits}" ${low} 1 second)
    string(APPEND text "${first}${second}")
    math(EXPR at "${at} + 3")
  endwhile()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

read_all(page page.html)
read_all(style ${styles})
read_all(library_code ${libraries})
read_all(own_code ${modules})
set(licences "")
foreach(library uplot d3 d3-flame-graph)
  read_all(licence vendor/${library}/LICENSE)
  string(APPEND licences "${library}\n\n${licence}\n")
endforeach()
string(REPLACE "&" "&amp;" licences "${licences}")
string(REPLACE "<" "&lt;" licences "${licences}")
set(script "${library_code}(() => {\n\"use strict\";\n${own_code}})();\n")

# 64 digits of a hash are 43 of base64, with one "=" behind them.
string(SHA256 hash "${script}")
base64_of(digest "${hash}")
string(SUBSTRING "${digest}" 0 43 digest)
string(REPLACE "@SCRIPT_HASH@" "sha256-${digest}=" page "${page}")
string(REPLACE "@LICENCES@" "${licences}" page "${page}")
string(REPLACE "/* styles */" "${style}" page "${page}")
string(REPLACE "/* script */" "${script}" page "${page}")

if(PAGE)
  file(WRITE ${PAGE} "${page}")
endif()
string(HEX "${page}" bytes)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "// Written by compose.cmake.
#include \"page_bytes.h\"

namespace cachalot::cli {

const unsigned char kPageBytes[] = {
${bytes}};
const size_t kPageSize = sizeof kPageBytes;

}  // namespace cachalot::cli
")
