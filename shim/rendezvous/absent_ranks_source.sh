#!/bin/sh
# Prints absent_ranks_source.h: the texts of the Python files of this folder, run as one.
# Read by CMake and by launch/process/build_for_torch.sh.
cd "$(dirname "$0")" || exit 1
printf '#pragma once\n\nnamespace prism::shim {\n\ninline constexpr const char* kAbsentRanksSource ='
for text in rank_conditions.py threads.py absent_ranks.py; do
  printf '\n    R"PYTHON('
  cat "$text"
  printf ')PYTHON"'
done
printf ';\n\n}  // namespace prism::shim\n'
