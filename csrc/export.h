#pragma once

/// Symbols of libbov_ops that other programs may link; everything else stays hidden.
#define BOV_OPS_API __attribute__((visibility("default")))
