# SPDX-License-Identifier: MIT OR Apache-2.0
# The guard is guarded: cachalot_verify must accept a file of the reference, report one altered line, and
# refuse what is no expected file.
#
#   cmake -D VERIFY=<program> -D DATA=<folder> -D WORK=<folder> -P self_test.cmake

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(READ ${DATA}/tour.txt tour)

# Runs cachalot_verify and requires its exit status and a text in what it prints.
function(expect status text)
  execute_process(COMMAND ${VERIFY} ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result STREQUAL status)
    message(SEND_ERROR "cachalot_verify ${ARGN}: expected exit status ${status}, got ${result}:\n${output}")
  endif()
  string(FIND "${output}" "${text}" found)
  if(found EQUAL -1)
    message(SEND_ERROR "cachalot_verify ${ARGN}: expected '${text}' in:\n${output}")
  endif()
endfunction()

function(replace_in_tour name old new)
  string(FIND "${tour}" "${old}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "tour.txt lacks '${old}'")
  endif()
  string(REPLACE "${old}" "${new}" text "${tour}")
  file(WRITE ${WORK}/${name} "${text}")
endfunction()

expect(0 "0 differences" ${DATA}/tour.txt)
expect(0 "tour.txt: OK" -v ${DATA}/tour.txt)
expect(0 "pool_create " --table ${DATA}/tour.txt)
expect(0 "0 differences" --check ${DATA}/tour.txt)

file(ARCHIVE_CREATE OUTPUT ${WORK}/tour.txt.gz PATHS ${DATA}/tour.txt FORMAT raw COMPRESSION GZip)
file(ARCHIVE_CREATE OUTPUT ${WORK}/tour.txt.xz PATHS ${DATA}/tour.txt FORMAT raw COMPRESSION XZ)
expect(0 "0 differences" ${WORK}/tour.txt.gz ${WORK}/tour.txt.xz)

replace_in_tour(trace.txt " T alloc 7131eb600400 700 0" " T alloc 7131eb600400 701 0")
expect(1 "differs at 'raw 3 700 0x0'" ${WORK}/trace.txt)
replace_in_tour(device.txt " D event_record 2000\n" "")
expect(1 "differs at 'f 2'" ${WORK}/device.txt)
replace_in_tour(returned.txt " R 7131eb600800\n" " R 7131eb600800\n R 7131eb600800\n")
expect(1 "differs at 'a 1 3000 0x0'" ${WORK}/returned.txt)
replace_in_tour(kind.txt "E value garbage" "E error garbage")
expect(0 "0 differences" ${WORK}/kind.txt)
replace_in_tour(kind.txt "E error invalid fraction" "E oom invalid fraction")
expect(1 "differs at 'fraction 1.5'" ${WORK}/kind.txt)
replace_in_tour(text.txt "invalid fraction:1.5." "invalid fraction:1.6.")
expect(1 "differs at 'fraction 1.5'" ${WORK}/text.txt)
replace_in_tour(context.txt "# blk 30000128 30000000 allocated line 25" "# blk 30000128 30000000 allocated line 26")
expect(1 "differs at 'snapshot'" ${WORK}/context.txt)

replace_in_tour(unknown.txt "pool_count 1\n" "pool_counts 1\n")
expect(2 "unknown.txt:94: unknown operation 'pool_counts'" ${WORK}/unknown.txt)
replace_in_tour(number.txt "raw 3 700 0x0\n" "raw 3 7k 0x0\n")
expect(2 "expected a number, got '7k'" ${WORK}/number.txt)
replace_in_tour(missing.txt "raw 3 700 0x0\n" "raw 3 700\n")
expect(2 "an argument is missing" ${WORK}/missing.txt)
replace_in_tour(backend.txt "config max_split_size_mb:64" "config backend:cudaMallocAsync")
expect(1 "cudaMallocAsync does not yet support recordHistory" ${WORK}/backend.txt)
expect(2 "is not known to this release" --torch 2.11 ${DATA}/tour.txt)

string(SUBSTRING "${tour}" 0 3000 start)
file(WRITE ${WORK}/cut.txt "${start}")
expect(2 "the last line has no end" ${WORK}/cut.txt)
string(REGEX REPLACE "\nend\n.*" "\n" start "${tour}")
file(WRITE ${WORK}/short.txt "${start}")
expect(2 "the file ends without its final statistics" ${WORK}/short.txt)
file(WRITE ${WORK}/empty.txt "")
expect(2 "is empty" ${WORK}/empty.txt)
file(WRITE ${WORK}/indented.txt " T alloc 0 0 0\n")
expect(2 "indented.txt:1: an indented line before any operation" ${WORK}/indented.txt)

# A gzip and an xz header with nothing sensible behind them.
execute_process(COMMAND printf "\\037\\213\\010\\000garbage" OUTPUT_FILE ${WORK}/garbage.gz)
expect(2 "is a damaged gzip file" ${WORK}/garbage.gz)
execute_process(COMMAND printf "\\3757zXZ\\000garbage" OUTPUT_FILE ${WORK}/garbage.xz)
expect(2 "is a damaged xz file" ${WORK}/garbage.xz)
execute_process(COMMAND head -c 700 ${WORK}/tour.txt.gz OUTPUT_FILE ${WORK}/cut.gz)
expect(2 "is a damaged gzip file" ${WORK}/cut.gz)

expect(2 "cannot be opened" ${WORK}/absent.txt)
expect(2 "FILE is required")
expect(2 "not in" --torch 2.12 ${DATA}/tour.txt)
