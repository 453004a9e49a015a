#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Plain tables of text, for a terminal and for Markdown.
namespace bov::experiments {

/// Terminal columns that UTF-8 `text` takes: combining marks none, East Asian wide characters and emoji two.
/// A byte that is no UTF-8 counts as one column.
size_t display_width(std::string_view text);

enum class Align { left, right };

struct TextColumn {
  std::string title;
  Align align = Align::left;
};

struct TextTable {
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows;  ///< one cell a column
};

/// `table` without the columns whose cells are all empty.
TextTable without_empty_columns(const TextTable& table);

/// Columns padded to their widest cell, two spaces between them, a rule under the titles. Ends with a
/// newline.
std::string render_terminal(const TextTable& table);

/// A Markdown pipe table; `|` in a cell is escaped. Ends with a newline.
std::string render_markdown(const TextTable& table);

}  // namespace bov::experiments
