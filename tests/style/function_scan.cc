#include "tests/style/function_scan.h"

#include <algorithm>
#include <array>

namespace prism::style {

namespace {

constexpr std::array kNotFunctions = {
    "namespace", "class", "struct", "enum", "union", "extern",  "if", "for", "while", "switch",
    "do",        "else",  "case",   "try",  "catch", "default", "}",  "#",   "//",    "return"};
constexpr std::array kControl = {"if ", "for ", "while ", "switch ", "do "};

size_t Indent(const std::string& line) {
  const size_t first = line.find_first_not_of(' ');
  return first == std::string::npos ? line.size() : first;
}

bool StartsWithAny(const std::string& text, const auto& words) {
  return std::ranges::any_of(words, [&](const char* word) { return text.starts_with(word); });
}

// The line that ends a constructor's parameter list if `line` closes its initialisers, else `line`
// itself.
size_t SkipInitialisers(const SourceFile& file, size_t line) {
  for (size_t i = line + 1; i-- > 0 && line - i < 30 && Indent(file.lines[i]) >= 4;) {
    if (i > 0 && file.lines[i].substr(Indent(file.lines[i])).starts_with(": ")) {
      return i - 1;
    }
  }
  return line;
}

// Joins the lines of a definition's head, from the brace back to the line where it begins.
std::string JoinHead(const SourceFile& file, size_t brace, size_t* first) {
  const std::string& last = file.lines[brace];
  size_t begin = brace;
  int depth = 0;
  for (size_t i = SkipInitialisers(file, brace) + 1; i-- > 0;) {
    depth += static_cast<int>(std::ranges::count(file.lines[i], ')'));
    depth -= static_cast<int>(std::ranges::count(file.lines[i], '('));
    begin = i;
    if (depth <= 0 || brace - i > 30) {
      break;
    }
  }
  *first = begin;
  std::string head;
  for (size_t i = begin; i < brace; ++i) {
    head += file.lines[i].substr(Indent(file.lines[i])) + " ";
  }
  return head + last.substr(Indent(last));
}

size_t CountParameters(const std::string& head) {
  const size_t open = head.find('(');
  if (open == std::string::npos) {
    return 0;
  }
  int depth = 0;
  size_t count = 0;
  bool any = false;
  for (size_t i = open; i < head.size(); ++i) {
    const char c = head[i];
    depth += (c == '(' || c == '<' || c == '{') ? 1 : 0;
    depth -= (c == ')' || c == '}' || (c == '>' && head[i - 1] != '-')) ? 1 : 0;
    if (depth == 0) {
      break;
    }
    any |= i > open && c != ' ';
    count += (c == ',' && depth == 1) ? 1 : 0;
  }
  return any ? count + 1 : 0;
}

// Nested control statements, whatever the indentation of continued lines and lambdas between them.
size_t DeepestControl(const SourceFile& file, size_t brace, size_t end) {
  std::vector<size_t> open;  // indents of the control statements around the line
  size_t deepest = 0;
  for (size_t i = brace + 1; i < end; ++i) {
    const size_t indent = Indent(file.lines[i]);
    const std::string text = file.lines[i].substr(indent);
    while (!text.empty() && !open.empty() && open.back() >= indent && !text.starts_with("}")) {
      open.pop_back();
    }
    if (StartsWithAny(text, kControl) && text.find('(') < 8) {
      open.push_back(indent);
      deepest = std::max(deepest, open.size());
    }
  }
  return deepest;
}

}  // namespace

std::vector<FunctionShape> ScanFunctions(const SourceFile& file) {
  std::vector<FunctionShape> functions;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    if (!file.lines[i].ends_with("{") || file.lines[i].find(')') == std::string::npos) {
      continue;
    }
    size_t first = i;
    const std::string head = JoinHead(file, i, &first);
    const size_t indent = Indent(file.lines[first]);
    if (indent > 4 || StartsWithAny(head, kNotFunctions) || head.find(" = [") < head.size()) {
      continue;
    }
    const std::string closing = std::string(indent, ' ') + "}";
    const auto end =
        std::find(file.lines.begin() + static_cast<ptrdiff_t>(i) + 1, file.lines.end(), closing);
    if (end == file.lines.end()) {
      continue;  // a lambda or an initialiser: closed by "};" or "});"
    }
    const auto last = static_cast<size_t>(end - file.lines.begin());
    functions.push_back(
        {head, i + 1, last - i, DeepestControl(file, i, last), CountParameters(head)});
    if (indent == 0) {
      i = last;
    }
  }
  return functions;
}

}  // namespace prism::style
