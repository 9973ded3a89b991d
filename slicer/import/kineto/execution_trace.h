// Execution traces of PyTorch (ExecutionTraceObserver) beside a profile of the same process: shapes
// that the profile lacks, since it was made without record_shapes, and the ranks of its process
// groups. A function that PyTorch recorded has one number in both files, "rf_id" here and "Record
// function id" there, by which Chakra's trace_link joins them too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/base/status.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// A matrix product as it is there: without times.
struct ExecutedProduct {
  std::string name;
  int64_t function = 0;  // its number
  ProductInputs inputs;
};

struct ExecutionTrace {
  std::unordered_map<int64_t, ExecutedProduct> products;  // by number of the function
  RankGroups groups;
};

// By the first key of its JSON.
bool IsExecutionTrace(std::string_view bytes);

// kBadFile: "<file>: ...".
Result<ExecutionTrace> ReadExecutionTrace(std::string_view bytes, const std::string& file);

// Of a file, packed or not. `bytes` grows by its length.
Result<ExecutionTrace> ReadExecutionFile(const std::string& file, int64_t* bytes = nullptr);

// Gives the profile the shapes and groups of the trace, takes steps out of it that were not traced
// if others were, and returns how many of its products have shapes from there. kBadFile if the two
// are not of one process and run.
Result<int64_t> JoinExecutionTrace(const ExecutionTrace& executed,
                                   const std::string& file,
                                   const std::string& profile_file,
                                   KinetoTrace* profile);

}  // namespace prism::slicer
