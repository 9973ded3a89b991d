// Finds function definitions in clang-formatted code by indentation: a definition opens with a line
// that ends in "{" at namespace or class level and closes with a "}" on its own line at the same
// level.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace prism::style {

struct FunctionShape {
  std::string head;    // first line of the definition
  size_t line = 0;     // of the opening brace, from 1
  size_t length = 0;   // lines from the brace to the closing brace
  size_t nesting = 0;  // deepest control statement, 1 = directly in the body
  size_t parameters = 0;
};

std::vector<FunctionShape> ScanFunctions(const SourceFile& file);

}  // namespace prism::style
