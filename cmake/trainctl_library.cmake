# trainctl_library(NAME [TORCH] [DEPENDS lib…] [LINKS target…])
# One static library a folder; every .cpp in it belongs to it, so adding a file is all there is to do. Its .js and .css
# are embedded (embed_text.cmake).
# DEPENDS is the layering, checked against the #includes by scripts/check_layers.py.
# TORCH marks the libraries whose sources may include LibTorch's headers.
function(trainctl_library name)
  cmake_parse_arguments(LIB "TORCH" "" "DEPENDS;LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(cuda|mpi|parquet)/|/plugin/abi.cpp$")  # libraries of their own, loaded when they are needed
  set(scope PUBLIC)
  if(sources)
    add_library(trainctl_${name} STATIC ${sources})
    target_link_libraries(trainctl_${name} PRIVATE trainctl_warnings)
    trainctl_embed_folder(trainctl_${name} ${name})
  else()
    add_library(trainctl_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(trainctl_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM LIB_DEPENDS PREPEND trainctl_)
  target_link_libraries(trainctl_${name} ${scope} ${LIB_DEPENDS} ${LIB_LINKS})
  if(LIB_TORCH)
    target_link_libraries(trainctl_${name} ${scope} LibTorch::cpu)
    if(sources)
      trainctl_precompile(trainctl_${name})
    endif()
  endif()
endfunction()

# One lean precompiled header for everything that sees tensors (a torch.h costs 20-30 s a file, this 3-4).
function(trainctl_precompile target)
  if(NOT TARGET trainctl_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp "")
    add_library(trainctl_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
    target_link_libraries(trainctl_pch PRIVATE LibTorch::cpu trainctl_warnings)
    target_precompile_headers(trainctl_pch PRIVATE
      <algorithm> <array> <cstdint> <functional> <memory> <optional> <span> <string> <string_view> <unordered_map>
      <utility> <variant> <vector> <ATen/core/Tensor.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM trainctl_pch)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    # The header is compiled with -fPIC; an executable's -fPIE would not match it.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
