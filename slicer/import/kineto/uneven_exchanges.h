// All-to-alls in which ranks send different amounts, which a graph's collectives cannot express.
#pragma once

#include <cstdint>
#include <vector>

#include "slicer/import/kineto/step_program.h"

namespace prism::slicer {

// Gives the n-th collective of a process group the largest size of any program, where it is an
// all-to-all in all of them. Returns how many collectives of programs it changed.
int64_t EvenOutExchanges(std::vector<StepProgram>* programs);

}  // namespace prism::slicer
