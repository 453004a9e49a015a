#pragma once

#include <array>
#include <string_view>

/// Files in a grid's folder, beside one folder for each row.
namespace bov::experiments {

inline constexpr std::string_view kGridConfigFile = "grid.yaml";
inline constexpr std::string_view kGridTableMarkdown = "table.md";
inline constexpr std::string_view kGridTableCsv = "table.csv";
inline constexpr std::string_view kGridTableJson = "table.json";
/// Locked while a process reads and rewrites one of the others.
inline constexpr std::string_view kGridLockFile = "lock";
/// Names that no row may have.
inline constexpr std::array kGridFiles{kGridConfigFile, kGridTableMarkdown, kGridTableCsv, kGridTableJson,
                                       kGridLockFile};

}  // namespace bov::experiments
