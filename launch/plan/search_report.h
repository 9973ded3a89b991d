// A search as text, JSON, CSV and SVG.
#pragma once

#include <string>
#include <vector>

#include "graph/base/json_writer.h"
#include "launch/plan/search.h"

namespace prism::launch {

// What is assumed about the host memory of the plans that a result lists, one line each.
std::vector<std::string> OffloadLines(const PlanEvaluator& evaluator, const SearchResult& result);

// If no plan is left: why most of those that got furthest were ruled out: "24 of 60: no memory" if
// no framework could start the other 36.
std::string WhyNoneIsLeft(const SearchResult& result);

std::string SearchText(const PlanEvaluator& evaluator,
                       const SearchOptions& options,
                       const SearchResult& result);

std::string SearchJson(const PlanEvaluator& evaluator,
                       const SearchOptions& options,
                       const SearchResult& result);

// The same as one value of a larger document.
void WriteSearch(const PlanEvaluator& evaluator,
                 const SearchOptions& options,
                 const SearchResult& result,
                 JsonWriter* json);

// One line per plan, given ones first.
std::string SearchCsv(const PlanEvaluator& evaluator, const SearchResult& result);

// Days against USD (GPU-hours if the cluster has no price), with the front marked.
std::string SearchSvg(const PlanEvaluator& evaluator, const SearchResult& result);

}  // namespace prism::launch
