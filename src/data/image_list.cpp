#include "image_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view blanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

Error at_line(const fs::path& file, size_t line, const std::string& why, const std::string& hint = {}) {
  return {Fault::data, fmt::format("{}:{}", file.string(), line), why, hint};
}

/// The next line of `text`, which it leaves behind.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// The fields of a line. Quotes protect separators and, doubled, themselves; spaces around a field do not count.
std::vector<std::string> split_fields(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false, was_quoted = false;
  const auto finish = [&] {
    if (!was_quoted) fields.back() = std::string(trimmed(fields.back()));
    was_quoted = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"' && (quoted || trimmed(fields.back()).empty())) {
      if (!quoted) fields.back().clear();
      quoted = !quoted;
      was_quoted = true;
    } else if (c == separator && !quoted) {
      finish();
      fields.emplace_back();
    } else if (!was_quoted || quoted) {
      fields.back() += c;
    }
  }
  finish();
  return fields;
}

/// Where the first byte lies that is no part of UTF-8; npos where all are.
size_t find_no_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t more = lead < 0x80 ? 0 : lead >= 0xC2 && lead < 0xE0 ? 1 : lead >= 0xE0 && lead < 0xF0 ? 2 : 3;
    if (more == 3 && (lead < 0xF0 || lead > 0xF4)) return i;
    for (size_t k = 1; k <= more; ++k)
      if (i + k >= text.size() || (static_cast<unsigned char>(text[i + k]) & 0xC0U) != 0x80U) return i;
    i += more + 1;
  }
  return std::string_view::npos;
}

struct Columns {
  char separator;
  size_t count;
  size_t path, label;
  std::optional<size_t> client, group;
};

/// Empty when the line does not name the columns of a table.
std::optional<Columns> read_columns(std::string_view line) {
  for (const char separator : {',', ';', '\t'}) {
    auto names = split_fields(line, separator);
    for (auto& name : names)
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto find = [&](std::initializer_list<std::string_view> known) -> std::optional<size_t> {
      for (const auto name : known)
        if (const auto found = std::find(names.begin(), names.end(), name); found != names.end())
          return static_cast<size_t>(found - names.begin());
      return std::nullopt;
    };
    const auto path = find({"path", "image", "image_id", "file"}), label = find({"label", "class"});
    if (path && label)
      return Columns{separator,
                     names.size(),
                     *path,
                     *label,
                     find({"client", "user", "user_id"}),
                     find({"group", "group_id", "patient", "patient_id", "subject", "subject_id"})};
  }
  return std::nullopt;
}

ListedImage read_row(std::string_view line, const Columns& columns, const fs::path& file, size_t number) {
  auto fields = split_fields(line, columns.separator);
  while (fields.size() > columns.count && fields.back().empty()) fields.pop_back();
  if (fields.size() > columns.count)
    throw at_line(file, number, fmt::format("has {} fields, the first line {}", fields.size(), columns.count),
                  fmt::format("put a field that holds a {} into double quotes", columns.separator));
  const auto field = [&](size_t column, const char* what) {
    if (column >= fields.size() || fields[column].empty())
      throw at_line(file, number, fmt::format("has no {}", what), "each row needs every named column");
    return fields[column];
  };
  return {field(columns.path, "path"), field(columns.label, "label"),
          columns.client ? field(*columns.client, "client") : "", columns.group ? field(*columns.group, "group") : ""};
}

/// The label is the last word: a path may hold spaces.
ListedImage read_pair(std::string_view line, const fs::path& file, size_t number) {
  line = trimmed(line);
  const size_t gap = line.find_last_of(blanks);
  if (gap == std::string_view::npos)
    throw at_line(file, number, "is not `path label`",
                  "or let the first line name the columns of a table: path,label or path,label,client,group");
  return {std::string(trimmed(line.substr(0, gap))), std::string(line.substr(gap + 1)), "", ""};
}

}  // namespace

std::vector<ListedImage> read_image_list(const fs::path& file) {
  const std::string whole = read_text(file);
  std::string_view text = whole;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // what spreadsheets begin UTF-8 with
  if (const size_t at = find_no_utf8(text); at != std::string_view::npos)
    throw at_line(file,
                  static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n')) + 1,
                  "is not UTF-8", "save the table as CSV UTF-8");
  std::string_view rest = text;
  const auto columns = read_columns(take_line(rest));
  size_t number = columns ? 1 : 0;
  if (!columns) rest = text;
  std::vector<ListedImage> list;
  while (!rest.empty()) {
    const auto line = take_line(rest);
    ++number;
    if (trimmed(line).empty()) continue;
    list.push_back(columns ? read_row(line, *columns, file, number) : read_pair(line, file, number));
  }
  if (list.empty()) throw Error(Fault::data, file.string(), "lists no images");
  return list;
}

}  // namespace fedgrab
