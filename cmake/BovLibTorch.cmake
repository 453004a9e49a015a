# Finds LibTorch and links it without its own CMake package, which demands a CUDA toolkit wherever LibTorch was built
# with CUDA. bov's build uses this file; installed beside bovConfig.cmake, programs that use bov do.

# bov_find_libtorch(OUT PROBLEM [PYTHON...]): the LibTorch folder (holds include/ and lib/), or nothing and why. It is
# looked for in BOV_TORCH (a libtorch folder or the torch folder of a Python package), where an earlier
# find_package(Torch) found it, in CMAKE_PREFIX_PATH, in the active Python, in the Pythons that are given, and in python3.
function(bov_find_libtorch out problem)
  if(BOV_TORCH)
    if(EXISTS "${BOV_TORCH}/share/cmake/Torch/TorchConfig.cmake")
      set(${out} "${BOV_TORCH}" PARENT_SCOPE)
    else()
      set(${out} "" PARENT_SCOPE)
      string(CONCAT text "BOV_TORCH is '${BOV_TORCH}', which holds no share/cmake/Torch/TorchConfig.cmake; "
                         "point it to a LibTorch folder")
      set(${problem} "${text}" PARENT_SCOPE)
    endif()
    return()
  endif()
  if(TARGET torch AND Torch_DIR)
    set(bov_torch_cmake "${Torch_DIR}")
  else()
    find_path(bov_torch_cmake TorchConfig.cmake PATH_SUFFIXES share/cmake/Torch Torch NO_CACHE)
  endif()
  if(bov_torch_cmake)
    cmake_path(SET dir NORMALIZE "${bov_torch_cmake}/../../..")
    string(REGEX REPLACE "/$" "" dir "${dir}")
    set(${out} "${dir}" PARENT_SCOPE)
    return()
  endif()
  foreach(python "$ENV{VIRTUAL_ENV}/bin/python3" ${ARGN} python3)
    execute_process(
      COMMAND ${python} -c "import importlib.util as u; print(list(u.find_spec('torch').submodule_search_locations)[0])"
      OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND EXISTS "${dir}/share/cmake/Torch/TorchConfig.cmake")
      set(${out} "${dir}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
  set(${problem} "LibTorch was not found; set BOV_TORCH or CMAKE_PREFIX_PATH to a LibTorch folder" PARENT_SCOPE)
endfunction()

# bov_libtorch_version(OUT DIR): "major.minor".
function(bov_libtorch_version out dir)
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)  # since 2.9, and before
    if(EXISTS "${dir}/include/${header}")
      file(STRINGS "${dir}/include/${header}" lines REGEX "define TORCH_VERSION_M[AI]")
      break()
    endif()
  endforeach()
  string(REGEX REPLACE ".*TORCH_VERSION_MAJOR ([0-9]+).*TORCH_VERSION_MINOR ([0-9]+).*" "\\1.\\2" version "${lines}")
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# bov_libtorch_link_order(TARGET): what every program needs that links LibTorch through the interface target.
function(bov_libtorch_link_order target)
  # Operators and the CUDA part of LibTorch register themselves when loaded and are reached by name only: a linker
  # that drops libraries without a referenced symbol (some compilers' default) would remove them.
  target_link_options(${target} INTERFACE LINKER:--no-as-needed)
  # libtorch exports parts of std::filesystem of a newer libstdc++. Its remove_all calls a function that an older one
  # lacks (a null pointer), so the system's libstdc++ must come first in every program.
  target_link_libraries(${target} INTERFACE stdc++)
endfunction()

# bov_import_libtorch(TARGET DIR LIBRARY...): links the interface target to libraries of LibTorch.
function(bov_import_libtorch target dir)
  foreach(library ${ARGN})
    if(NOT TARGET bov_imported_${library})
      add_library(bov_imported_${library} SHARED IMPORTED GLOBAL)
      set_target_properties(bov_imported_${library} PROPERTIES IMPORTED_LOCATION "${dir}/lib/lib${library}.so")
    endif()
    target_link_libraries(${target} INTERFACE bov_imported_${library})
  endforeach()
  # LibTorch's own libraries find theirs when they are loaded.
  target_link_options(${target} INTERFACE LINKER:--allow-shlib-undefined)
  target_include_directories(${target} SYSTEM INTERFACE "${dir}/include" "${dir}/include/torch/csrc/api/include")
endfunction()
