#include "experiments/report/text_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace bov::experiments {
namespace {

using CodeRange = std::pair<char32_t, char32_t>;

// Marks that combine with the character before them (Ṽ is often V + U+0303) and characters without width.
constexpr std::array<CodeRange, 5> kZeroWidth{
    {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
// The blocks of Unicode's East Asian Width "W" and "F" that appear in text.
constexpr std::array<CodeRange, 8> kDoubleWidth{{{0x1100, 0x115F},
                                                 {0x2E80, 0xA4CF},
                                                 {0xAC00, 0xD7A3},
                                                 {0xF900, 0xFAFF},
                                                 {0xFE30, 0xFE6F},
                                                 {0xFF00, 0xFF60},
                                                 {0x1F300, 0x1FAFF},
                                                 {0x20000, 0x3FFFD}}};

template <size_t N>
bool contains(const std::array<CodeRange, N>& ranges, char32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const CodeRange& range) { return range.first <= code && code <= range.second; });
}

// Takes one code point off the front of `text`; a broken sequence is taken as one byte and read as U+FFFD.
char32_t take_code_point(std::string_view& text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80         ? 1
                        : first >> 5 == 0x6  ? 2
                        : first >> 4 == 0xE  ? 3
                        : first >> 3 == 0x1E ? 4
                                             : 0;
  char32_t code = length == 1 ? first : first & (0x7F >> length);
  bool valid = length > 0 && length <= text.size();
  for (size_t i = 1; valid && i < length; ++i) {
    valid = byte(i) >> 6 == 0x2;
    code = code << 6 | (byte(i) & 0x3F);
  }
  text.remove_prefix(valid ? length : 1);
  return valid ? code : 0xFFFD;
}

std::vector<size_t> column_widths(const TextTable& table) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    size_t width = display_width(table.columns[c].title);
    for (const auto& row : table.rows) width = std::max(width, display_width(row.at(c)));
    widths.push_back(width);
  }
  return widths;
}

std::string padded(const std::string& cell, size_t width, Align align) {
  const std::string space(width - display_width(cell), ' ');
  return align == Align::left ? cell + space : space + cell;
}

std::string join(const std::vector<std::string>& cells, std::string_view separator) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += separator;
    line += cells[i];
  }
  return line;
}

void append_trimmed(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

std::string escaped(const std::string& cell) {
  std::string text;
  for (const char c : cell) text += c == '|' ? "\\|" : std::string(1, c);
  return text;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const char32_t code = take_code_point(text);
    width += contains(kZeroWidth, code) ? 0 : contains(kDoubleWidth, code) ? 2 : 1;
  }
  return width;
}

TextTable without_empty_columns(const TextTable& table) {
  TextTable kept;
  kept.rows.resize(table.rows.size());
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (std::all_of(table.rows.begin(), table.rows.end(), [c](const auto& row) { return row[c].empty(); }))
      continue;
    kept.columns.push_back(table.columns[c]);
    for (size_t r = 0; r < table.rows.size(); ++r) kept.rows[r].push_back(table.rows[r][c]);
  }
  return kept;
}

std::string render_terminal(const TextTable& table) {
  const std::vector<size_t> widths = column_widths(table);
  std::string out;
  std::vector<std::string> line;
  for (size_t c = 0; c < widths.size(); ++c) {
    line.push_back(padded(table.columns[c].title, widths[c], table.columns[c].align));
  }
  append_trimmed(out, join(line, "  "));
  for (size_t c = 0; c < widths.size(); ++c) line[c] = std::string(widths[c], '-');
  append_trimmed(out, join(line, "  "));
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < widths.size(); ++c) line[c] = padded(row[c], widths[c], table.columns[c].align);
    append_trimmed(out, join(line, "  "));
  }
  return out;
}

std::string render_markdown(const TextTable& table) {
  std::vector<std::string> line;
  std::vector<std::string> rule;
  for (const TextColumn& column : table.columns) {
    line.push_back(escaped(column.title));
    rule.emplace_back(column.align == Align::left ? "---" : "---:");
  }
  std::string out = "| " + join(line, " | ") + " |\n| " + join(rule, " | ") + " |\n";
  for (const auto& row : table.rows) {
    for (size_t c = 0; c < row.size(); ++c) line[c] = escaped(row[c]);
    out += "| " + join(line, " | ") + " |\n";
  }
  return out;
}

}  // namespace bov::experiments
