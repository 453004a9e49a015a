#pragma once

namespace bov::kernels {

/// What stored numbers are, for launchers, which take raw pointers.
enum class Element { float64, float32, bfloat16, float16 };

}  // namespace bov::kernels
