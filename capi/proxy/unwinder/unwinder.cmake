# SPDX-License-Identifier: MIT OR Apache-2.0
# The unwinder is a crate that Cargo builds from crates.io. Without Cargo, or without a network at the first
# configuration, the proxy takes no stacks. CACHALOT_CARGO is empty then.

set(CACHALOT_STACKS AUTO CACHE STRING "Take stacks in recordings: ON, OFF, or AUTO (where Cargo 1.88 or newer is)")
set(unwinder ${CMAKE_CURRENT_LIST_DIR})

# Sets the variable to why it cannot be built, "" if it can.
function(cachalot_try_cargo reason)
  find_program(CACHALOT_CARGO_PROGRAM cargo HINTS ENV CARGO_HOME $ENV{HOME}/.cargo PATH_SUFFIXES bin)
  if(NOT CACHALOT_CARGO_PROGRAM)
    set(${reason} "Cargo is missing" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CACHALOT_CARGO_PROGRAM} --version OUTPUT_VARIABLE version)
  if(NOT version MATCHES "cargo ([0-9.]+)" OR CMAKE_MATCH_1 VERSION_LESS 1.88)
    set(${reason} "Cargo is older than 1.88" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${CACHALOT_CARGO_PROGRAM} fetch --quiet --locked --manifest-path ${unwinder}/Cargo.toml
    RESULT_VARIABLE code ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    set(${reason} "Cargo cannot fetch the unwinder" PARENT_SCOPE)
  endif()
endfunction()

set(CACHALOT_CARGO "")
if(CACHALOT_STACKS STREQUAL "OFF")
elseif(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  message(STATUS "The proxy takes no stacks: the unwinder is for x86-64")
else()
  set(why "")
  cachalot_try_cargo(why)
  if(why STREQUAL "")
    set(CACHALOT_CARGO ${CACHALOT_CARGO_PROGRAM})
  elseif(CACHALOT_STACKS STREQUAL "ON")
    message(FATAL_ERROR "${why}, and CACHALOT_STACKS is ON")
  else()
    cachalot_leave_out("${why}: `cachalot record` takes no stacks")
  endif()
endif()

set(CACHALOT_CARGO "${CACHALOT_CARGO}" CACHE INTERNAL "Cargo, where the unwinder is built")

function(cachalot_link_unwinder target)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/unwinder)
  set(library ${folder}/release/libcachalot_unwinder.a)
  add_custom_command(OUTPUT ${library}
    COMMAND ${CACHALOT_CARGO} build --quiet --release --locked --offline
      --manifest-path ${unwinder}/Cargo.toml --target-dir ${folder}
    DEPENDS ${unwinder}/src/lib.rs ${unwinder}/Cargo.toml ${unwinder}/Cargo.lock
    COMMENT "Building the unwinder" VERBATIM)
  add_custom_target(cachalot_unwinder DEPENDS ${library})
  cachalot_add_crate_licences(${CACHALOT_CARGO} ${unwinder}/Cargo.toml)
  add_dependencies(${target} cachalot_unwinder)
  target_compile_definitions(${target} PRIVATE CACHALOT_HAS_STACKS)
  target_link_libraries(${target} PRIVATE ${library})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${library})
endfunction()
