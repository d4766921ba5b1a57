# trainctl_embed(TARGET HEADER CONSTANT FILE…): the files' text, one after the other, as `constexpr std::string_view
# trainctl::FOLDER::CONSTANT` in a header that the target includes as HEADER, which begins with FOLDER/. It is made while building, so an edited file is embedded anew.
# Run as a script (cmake -P) this file writes the header.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "")
  foreach(file IN LISTS FILES)
    file(READ ${file} part)
    string(APPEND text "${part}")
  endforeach()
  string(FIND "${text}" ")embedded\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "a text to embed has )embedded\" in it: ${FILES}")
  endif()
  file(WRITE ${HEADER} "#pragma once\n#include <string_view>\nnamespace trainctl::${FOLDER} {\n"
    "inline constexpr std::string_view ${CONSTANT} =\n    R\"embedded(" "${text}" ")embedded\";\n}  // namespace trainctl::${FOLDER}\n")
  return()
endif()

set(TRAINCTL_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(trainctl_embed target header constant)
  set(output ${CMAKE_BINARY_DIR}/embedded/${header})
  string(REGEX MATCH "^[^/]+" folder ${header})
  add_custom_command(OUTPUT ${output} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DFILES=${ARGN}" -DHEADER=${output} -DCONSTANT=${constant} -DFOLDER=${folder} -P ${TRAINCTL_EMBED_SCRIPT}
    DEPENDS ${ARGN} ${TRAINCTL_EMBED_SCRIPT} COMMENT "Generating ${header}")
  target_sources(${target} PRIVATE ${output})
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/embedded)
endfunction()

# Every .js and .css in a library's folder: src/profiler/page.js is kProfilerPageJs in "profiler/page.js.h".
function(trainctl_embed_folder target folder)
  file(GLOB texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.js ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.css)
  foreach(text IN LISTS texts)
    get_filename_component(name ${text} NAME)
    string(REGEX MATCHALL "[a-z0-9]+" words "${folder}_${name}")
    set(constant k)
    foreach(word IN LISTS words)
      string(SUBSTRING ${word} 0 1 first)
      string(TOUPPER ${first} first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(APPEND constant ${first}${rest})
    endforeach()
    trainctl_embed(${target} ${folder}/${name}.h ${constant} ${text})
  endforeach()
endfunction()
