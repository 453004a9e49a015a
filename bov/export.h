#pragma once

/// Symbols of libbov that other programs may link; everything else stays hidden.
#define BOV_API __attribute__((visibility("default")))
