#pragma once

#include <iostream>

/// Ends a test case that cannot run here. ctest recognises the line and reports the case as skipped.
#define BOV_SKIP(reason)                             \
  do {                                               \
    std::cout << "SKIPPED: " << reason << std::endl; \
    return;                                          \
  } while (false)
