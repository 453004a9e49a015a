#pragma once

/// Loops that are compiled for several instruction sets and chosen at run time. A loop is a struct with a static `run`.
/// `run` and what it calls in its inner loops must be BOV_ALWAYS_INLINE: a call is compiled for the oldest processor.
#define BOV_ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__)
#define BOV_TARGET_AVX2 __attribute__((target("avx2,f16c")))
#define BOV_TARGET_FMA __attribute__((target("avx2,fma,f16c")))
#define BOV_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#endif

namespace bov::ops::cpu {

/// `avx2` stands for AVX2, FMA and F16C; `avx512` for these and AVX-512 F, BW, DQ and VL.
enum class InstructionSet { oldest, avx2, avx512 };

/// The widest that this processor has.
inline InstructionSet instruction_set() {
#if defined(__x86_64__)
  static const InstructionSet widest = [] {
    const bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return !avx2 ? InstructionSet::oldest : avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
  }();
  return widest;
#else
  return InstructionSet::oldest;
#endif
}

#if defined(__x86_64__)
template <typename Loop, typename... Args>
BOV_TARGET_AVX2 void run_avx2(const Args&... args) {
  Loop::run(args...);
}
template <typename Loop, typename... Args>
BOV_TARGET_FMA void run_fma(const Args&... args) {
  Loop::template run<true>(args...);
}
template <typename Loop, typename... Args>
BOV_TARGET_FMA void run_lanes_avx2(const Args&... args) {
  Loop::template run<32>(args...);
}
template <typename Loop, typename... Args>
BOV_TARGET_AVX512 void run_lanes_avx512(const Args&... args) {
  Loop::template run<64>(args...);
}
#endif

/// Calls Loop::run(args...), compiled for AVX2 where the processor has it. Both versions give the same bits, since
/// neither contracts products and sums.
template <typename Loop, typename... Args>
void run_widest(const Args&... args) {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx2) {
    return run_avx2<Loop>(args...);
  }
#endif
  Loop::run(args...);
}

/// Calls Loop::run<fma>(args...), compiled for AVX2 with fused multiply-add where the processor has it; the two versions
/// differ by rounding errors.
template <typename Loop, typename... Args>
void run_fused(const Args&... args) {
#if defined(__x86_64__)
  if (instruction_set() >= InstructionSet::avx2) {
    return run_fma<Loop>(args...);
  }
#endif
  Loop::template run<false>(args...);
}

/// Calls Loop::run<Bytes>(args...) with the bytes of the widest register, compiled for it. Results differ between
/// processors by rounding.
template <typename Loop, typename... Args>
void run_lanes(const Args&... args) {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::avx512) {
    return run_lanes_avx512<Loop>(args...);
  }
  if (instruction_set() == InstructionSet::avx2) {
    return run_lanes_avx2<Loop>(args...);
  }
#endif
  Loop::template run<16>(args...);
}

}  // namespace bov::ops::cpu
