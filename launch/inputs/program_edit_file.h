// The [[program]] tables of an edit file (grammar: kEditFileHelp in launch/inputs/edit_file.h):
// edits that need a different program (slicer/edit/program_edit.h), one per table, applied in the
// order of the file.
#pragma once

#include <vector>

#include "launch/inputs/toml_reader.h"
#include "slicer/edit/program_edit.h"

namespace prism::launch {

// Failures are kept in the document. `job`: that of the graph being edited.
std::vector<slicer::ProgramEditStep> ReadProgramEdits(const graph::JobSpec& job, TomlReader* root);

}  // namespace prism::launch
