#pragma once

// LibTorch's logging headers define CHECK and friends; Catch2's win here. Include this after every torch header.
#undef CHECK
#undef CHECK_THROWS
#undef REQUIRE
#include <catch2/catch.hpp>
