# LibTorch as imported targets of our own: LibTorch::cpu, and LibTorch::cuda where it and a CUDA toolkit are found.
# Looks in CMAKE_PREFIX_PATH first (an official libtorch), then in the prefix that scripts/setup.sh fills.
# find_package(Torch) is not used: it fails to configure with C++20 and CUDA 13 on CMake 3.25, and ignores CMAKE_CUDA_ARCHITECTURES.
file(GLOB TRAINCTL_TORCH_PREFIX ${CMAKE_SOURCE_DIR}/.deps/python/lib/python3*/site-packages/torch)
find_path(LIBTORCH_INCLUDE_DIR ATen/core/Tensor.h PATH_SUFFIXES include HINTS ${TRAINCTL_TORCH_PREFIX})
if(NOT LIBTORCH_INCLUDE_DIR)
  message(FATAL_ERROR "LibTorch not found: run scripts/setup.sh, or pass -DCMAKE_PREFIX_PATH=/path/to/libtorch")
endif()
get_filename_component(LIBTORCH_ROOT ${LIBTORCH_INCLUDE_DIR} DIRECTORY)
set(LIBTORCH_LIB_DIR ${LIBTORCH_ROOT}/lib)
file(READ ${LIBTORCH_INCLUDE_DIR}/torch/headeronly/version.h LIBTORCH_VERSION_H)
string(REGEX MATCH "TORCH_VERSION_MAJOR ([0-9]+)" _ ${LIBTORCH_VERSION_H})
set(LIBTORCH_MAJOR ${CMAKE_MATCH_1})
string(REGEX MATCH "TORCH_VERSION_MINOR ([0-9]+)" _ ${LIBTORCH_VERSION_H})
set(LIBTORCH_VERSION ${LIBTORCH_MAJOR}.${CMAKE_MATCH_1})
if(NOT LIBTORCH_VERSION VERSION_EQUAL 2.11)
  message(WARNING "LibTorch ${LIBTORCH_VERSION} found in ${LIBTORCH_ROOT}; this project is built and tested against 2.11")
endif()
message(STATUS "LibTorch ${LIBTORCH_VERSION} in ${LIBTORCH_ROOT}")

# Libraries that the wheel keeps beside itself (libcudart and libcupti are needed even on a CPU).
file(GLOB LIBTORCH_COMPANIONS ${LIBTORCH_ROOT}/../nvidia/*/lib)

function(trainctl_import_torch name)
  add_library(LibTorch::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(LibTorch::${name} PROPERTIES IMPORTED_LOCATION ${LIBTORCH_LIB_DIR}/lib${name}.so)
endfunction()
trainctl_import_torch(c10)
trainctl_import_torch(torch_cpu)

# at::parallel_for is a template, and a plain loop in a source that is compiled without OpenMP. The threads are those of
# LibTorch's own libgomp where it brings one: two runtimes would have two pools.
find_package(OpenMP REQUIRED COMPONENTS CXX)
file(GLOB LIBTORCH_OPENMP ${LIBTORCH_LIB_DIR}/libgomp*.so*)
if(NOT LIBTORCH_OPENMP)
  set(LIBTORCH_OPENMP OpenMP::OpenMP_CXX)
endif()

add_library(LibTorch_cpu INTERFACE)
target_include_directories(LibTorch_cpu SYSTEM INTERFACE
  ${LIBTORCH_INCLUDE_DIR} ${LIBTORCH_INCLUDE_DIR}/torch/csrc/api/include ${LIBTORCH_INCLUDE_DIR}/kineto)
target_link_libraries(LibTorch_cpu INTERFACE LibTorch::torch_cpu LibTorch::c10 Threads::Threads ${LIBTORCH_OPENMP})
# As LibTorch itself is compiled: its headers have members and assertions that exist on one side only otherwise.
target_compile_definitions(LibTorch_cpu INTERFACE NDEBUG)
target_compile_options(LibTorch_cpu INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
target_link_options(LibTorch_cpu INTERFACE -Wl,-rpath,${LIBTORCH_LIB_DIR})
foreach(dir IN LISTS LIBTORCH_COMPANIONS)
  target_link_options(LibTorch_cpu INTERFACE -Wl,-rpath-link,${dir})
endforeach()
add_library(LibTorch::cpu ALIAS LibTorch_cpu)

set(TRAINCTL_HAS_CUDA OFF)
if(NOT TRAINCTL_CUDA STREQUAL OFF AND EXISTS ${LIBTORCH_LIB_DIR}/libtorch_cuda.so)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_NVCC_EXECUTABLE)
    set(TRAINCTL_HAS_CUDA ON)
    trainctl_import_torch(c10_cuda)
    trainctl_import_torch(torch_cuda)
    add_library(LibTorch_cuda INTERFACE)
    # Nothing refers to torch_cuda by symbol: without this the linker drops it, and no CUDA kernel registers.
    target_link_libraries(LibTorch_cuda INTERFACE LibTorch_cpu LibTorch::c10_cuda -Wl,--no-as-needed LibTorch::torch_cuda -Wl,--as-needed CUDA::cudart)
    target_link_options(LibTorch_cuda INTERFACE -Wl,-rpath-link,${CUDAToolkit_LIBRARY_DIR})
    add_library(LibTorch::cuda ALIAS LibTorch_cuda)
  endif()
endif()
if(TRAINCTL_CUDA STREQUAL ON AND NOT TRAINCTL_HAS_CUDA)
  message(FATAL_ERROR "TRAINCTL_CUDA=ON, but nvcc or libtorch_cuda.so is missing")
endif()
message(STATUS "CUDA library: ${TRAINCTL_HAS_CUDA}")
set(LIBTORCH_LIB_DIR ${LIBTORCH_LIB_DIR} PARENT_SCOPE)
set(LIBTORCH_INCLUDE_DIR ${LIBTORCH_INCLUDE_DIR} PARENT_SCOPE)
set(LIBTORCH_VERSION ${LIBTORCH_VERSION} PARENT_SCOPE)
set(TRAINCTL_HAS_CUDA ${TRAINCTL_HAS_CUDA} PARENT_SCOPE)
