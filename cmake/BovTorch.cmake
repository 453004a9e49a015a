# Finds LibTorch and CUDA, and defines:
#   bov_torch        interface target: the LibTorch libraries, headers and definitions
#   BOV_HAVE_CUDA    TRUE when the CUDA kernels are built
#   BOV_CUDA_BUILD   their compiler and architectures, in words
#   BOV_TORCH_DIR, BOV_TORCH_VERSION, BOV_TORCH_LIBRARIES
#                    the LibTorch folder, "major.minor", and which of its libraries bov's are linked to
#
# The project's .venv is one of the Pythons in which LibTorch is looked for.

set(BOV_TORCH "$ENV{BOV_TORCH}" CACHE PATH "LibTorch folder: holds share/cmake/Torch/TorchConfig.cmake")

include(BovLibTorch)

bov_find_libtorch(BOV_TORCH_DIR torch_problem "${PROJECT_SOURCE_DIR}/.venv/bin/python3")
if(NOT BOV_TORCH_DIR)
  message(FATAL_ERROR "${torch_problem}, or run scripts/setup, which installs one")
endif()
cmake_path(NORMAL_PATH BOV_TORCH_DIR)
bov_libtorch_version(BOV_TORCH_VERSION "${BOV_TORCH_DIR}")
if(BOV_TORCH_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "LibTorch in ${BOV_TORCH_DIR} is ${BOV_TORCH_VERSION}; bov needs 2.6 or later")
endif()

# bov_missing_for_cuda(OUT): what stands against building the CUDA kernels; empty if nothing does. They need nvcc and a
# LibTorch that was built with the same major version of CUDA. Sets BOV_NVCC.
function(bov_missing_for_cuda out)
  set(${out} "" PARENT_SCOPE)
  if(BOV_WITH_CUDA STREQUAL "OFF")
    set(${out} "BOV_WITH_CUDA is OFF" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS "${BOV_TORCH_DIR}/lib/libtorch_cuda.so")
    set(${out} "LibTorch is a CPU build" PARENT_SCOPE)
    return()
  endif()
  find_program(BOV_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin DOC "CUDA compiler")
  if(NOT BOV_NVCC)
    set(${out} "nvcc was not found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND "${BOV_NVCC}" --version OUTPUT_VARIABLE nvcc_version)
  string(REGEX MATCH "release ([0-9]+)" nvcc_major "${nvcc_version}")
  set(nvcc_major "${CMAKE_MATCH_1}")
  # The library names the CUDA runtime that it was built with.
  file(STRINGS "${BOV_TORCH_DIR}/lib/libc10_cuda.so" runtime REGEX "^libcudart\\.so\\.[0-9]+$" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+$" torch_major "${runtime}")
  if(NOT nvcc_major STREQUAL torch_major)
    set(${out} "${BOV_NVCC} is of CUDA ${nvcc_major}, LibTorch was built with CUDA ${torch_major}" PARENT_SCOPE)
  endif()
endfunction()

bov_missing_for_cuda(cuda_missing)
if(cuda_missing AND BOV_WITH_CUDA STREQUAL "ON")
  message(FATAL_ERROR "BOV_WITH_CUDA is ON, but ${cuda_missing}")
endif()
set(BOV_HAVE_CUDA FALSE)
set(BOV_CUDA_BUILD "")

add_library(bov_torch INTERFACE)
bov_libtorch_link_order(bov_torch)
if(NOT cuda_missing)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${BOV_NVCC}")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  set(cuda_architectures ${CMAKE_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  # A project that adds bov as a subdirectory links the packages' targets through it.
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  # Torch's package refuses another toolkit than nvcc's. nvcc may be a script or a link outside its toolkit, so CMake asks it.
  find_package(CUDAToolkit REQUIRED)
  set(CUDA_TOOLKIT_ROOT_DIR "${CUDAToolkit_TARGET_DIR}")
  # Torch reads its own list and adds global flags; ours are per target, so its additions are removed again.
  set(TORCH_CUDA_ARCH_LIST "9.0")
  set(kineto_LIBRARY "${BOV_TORCH_DIR}/lib/libtorch_cpu.so")
  set(cuda_flags "${CMAKE_CUDA_FLAGS}")
  find_package(Torch REQUIRED PATHS "${BOV_TORCH_DIR}" NO_DEFAULT_PATH)
  set(CMAKE_CUDA_FLAGS "${cuda_flags}")
  set(CMAKE_CUDA_ARCHITECTURES ${cuda_architectures})
  set(BOV_HAVE_CUDA TRUE)
  list(JOIN cuda_architectures "," BOV_CUDA_BUILD)
  string(PREPEND BOV_CUDA_BUILD "nvcc ${CMAKE_CUDA_COMPILER_VERSION} for ")
  target_link_libraries(bov_torch INTERFACE ${TORCH_LIBRARIES})
  set(BOV_TORCH_LIBRARIES c10 torch_cpu torch c10_cuda torch_cuda)
  message(STATUS "bov: CUDA kernels ON (${BOV_CUDA_BUILD})")
else()
  # libtorch.so is left out: it only ties the CUDA libraries to the CPU ones.
  set(BOV_TORCH_LIBRARIES c10 torch_cpu)
  bov_import_libtorch(bov_torch "${BOV_TORCH_DIR}" ${BOV_TORCH_LIBRARIES})
  message(STATUS "bov: CUDA kernels OFF (${cuda_missing}); everything else is built")
endif()
list(APPEND CMAKE_BUILD_RPATH "${BOV_TORCH_DIR}/lib")
message(STATUS "bov: LibTorch ${BOV_TORCH_VERSION} in ${BOV_TORCH_DIR}")
