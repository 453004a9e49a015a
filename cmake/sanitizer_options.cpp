// Part of every program of the asan build: the settings under which only errors of bov's own code are reported.
// ASAN_OPTIONS in the environment still wins.

// LibTorch is not instrumented, so that containers that cross its border would be taken for overflows, and it keeps
// global objects until the end. Its CUDA part maps memory where AddressSanitizer has a protected gap.
// A mapped file that shrinks ends a program by SIGBUS, as a test expects.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_container_overflow=0:detect_leaks=0:protect_shadow_gap=0:handle_sigbus=0";
}

extern "C" __attribute__((visibility("default"))) const char* __ubsan_default_options() {
  return "print_stacktrace=1";
}
