// What Nsight Systems exports with `nsys export --type sqlite`: the tables of CUPTI's activities
// and of NVTX's ranges, as profiles like those of torch.profiler, one per process that ran kernels.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "slicer/import/importer.h"
#include "slicer/import/kineto/kineto_import.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// Processes by device, then by number. Steps are NVTX ranges: of the name `range`, else those that
// are called like steps ("iteration 3", "ProfilerStep#3", "step:3"). With KinetoParts::kAll, NVTX
// ranges are the ops. kBadFile where there are no kernels, or too many for the file's size.
Result<std::vector<KinetoTrace>> ReadNsysTraces(const std::string& file,
                                                const std::string& range = "",
                                                KinetoParts parts = KinetoParts::kCalls);

// Each process of each file is a rank, in that order. As ImportKineto from there.
Result<ImportResult> ImportNsys(const std::vector<std::string>& files,
                                const ImportOptions& options,
                                const KinetoChoice& choice = {});

}  // namespace prism::slicer
