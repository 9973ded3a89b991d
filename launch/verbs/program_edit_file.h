// The [[program]] tables of an edit file (launch/verbs/edit_file.h): edits that need another
// program (slicer/edit/program_edit.h), one a table, applied in the order of the file.
//
//   [[program]]
//   overlap = "off"          # the compute stream waits for collectives where they are issued
//                            # ("on": such waits go)
//   of = "dp"                # communicators of that name
//   kind = "reduce_scatter"  # of their collectives these; all if left out
//
//   [[program]]
//   buckets = "dp"           # communicators of that name, kind as above
//   merge = 4                # so many in a row become one; or split = 2, or bytes = 200000000
//
//   [[program]]
//   recompute = "none"       # what backward passes compute again is kept
//   layer = "layer 1*"       # of layers whose marker fits; of all if left out
//   bytes = 50000000         # that a layer and micro-batch keeps more; from the job if left out
//
//   [[program]]
//   optimizer = "sgd"        # adam, sgd, sgd_momentum, lion, lamb, adafactor or muon
//
//   [[program]]
//   offload = "optimizer"    # states in host memory; or "activations", between their passes
//   prefetch = 1             # pieces (layers) that are copied back ahead
//   bytes = 100000000        # activations of a layer and micro-batch; from the job's shape or the
//                            # rank's memory if left out
#pragma once

#include <vector>

#include "launch/options/toml_reader.h"
#include "slicer/edit/program_edit.h"

namespace prism::launch {

// A failure is that of the document. `job`: of the graph that is edited.
std::vector<slicer::ProgramEditStep> ReadProgramEdits(const graph::JobSpec& job, TomlReader* root);

}  // namespace prism::launch
