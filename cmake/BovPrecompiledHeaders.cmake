# LibTorch's headers take most of the time of a compilation, so they are compiled once. All targets of bov have the same
# flags where a precompiled header depends on them, and opt in with bov_use_torch_pch(TARGET).
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/bov_pch.cpp" CONTENT "")
add_library(bov_pch OBJECT "${PROJECT_BINARY_DIR}/bov_pch.cpp")
target_link_libraries(bov_pch PRIVATE bov_torch)
bov_target_defaults(bov_pch)
target_precompile_headers(bov_pch PRIVATE
  <ATen/ATen.h>
  <torch/autograd.h>
  <torch/nn/cloneable.h>
  <torch/nn/pimpl.h>
  <torch/types.h>
  <algorithm>
  <map>
  <optional>
  <string>
  <vector>)
function(bov_use_torch_pch target)
  target_precompile_headers(${target} REUSE_FROM bov_pch)
endfunction()
