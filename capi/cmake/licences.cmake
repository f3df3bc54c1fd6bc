# SPDX-License-Identifier: MIT OR Apache-2.0
# The licences' texts of what others wrote and the program or its proxy has inside, one file for each: in the folder
# licences of the build tree, from where they are installed with the program.

set(CACHALOT_LICENCES ${PROJECT_BINARY_DIR}/licences)
file(REMOVE_RECURSE ${CACHALOT_LICENCES})

# cachalot_add_licence(NAME FILE...): an own file of NAME's licences; without a FILE the configuration ends.
function(cachalot_add_licence name)
  if(NOT ARGN)
    message(FATAL_ERROR "${name} is linked in, and its licence's text is nowhere")
  endif()
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  foreach(file IN LISTS ARGN)
    file(READ ${file} text)
    file(APPEND ${CACHALOT_LICENCES}/${name} "${text}\n")
  endforeach()
endfunction()

# What is compiled in from headers.
function(cachalot_add_program_licences)
  foreach(name CLI11 cpp-httplib nlohmann_json)
    cachalot_add_licence(${name} ${PROJECT_SOURCE_DIR}/capi/licences/${name})
  endforeach()
  file(GLOB libraries ${PROJECT_SOURCE_DIR}/capi/cli/page/vendor/*/)
  foreach(folder IN LISTS libraries)
    if(IS_DIRECTORY ${folder})
      get_filename_component(name ${folder} NAME)
      file(GLOB text ${folder}/LICENSE)
      cachalot_add_licence(${name} ${text})
    endif()
  endforeach()
endfunction()

# Cargo has unpacked each crate, with its licences, where `cargo metadata` says.
function(cachalot_add_crate_licences cargo manifest)
  execute_process(COMMAND ${cargo} metadata --format-version=1 --locked --offline --manifest-path ${manifest}
    OUTPUT_VARIABLE graph COMMAND_ERROR_IS_FATAL ANY)
  string(JSON count LENGTH "${graph}" packages)
  math(EXPR last "${count} - 1")
  foreach(index RANGE ${last})
    string(JSON source GET "${graph}" packages ${index} source)
    if(source)
      string(JSON name GET "${graph}" packages ${index} name)
      string(JSON place GET "${graph}" packages ${index} manifest_path)
      get_filename_component(folder ${place} DIRECTORY)
      file(GLOB texts ${folder}/LICENSE* ${folder}/COPYING*)
      cachalot_add_licence(${name} ${texts})
    endif()
  endforeach()
  cachalot_add_licence(rust ${PROJECT_SOURCE_DIR}/capi/licences/rust)
endfunction()
