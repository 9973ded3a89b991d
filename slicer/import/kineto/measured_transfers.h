// What the profiles of several ranks say together about their transfers: a collective is one, and a
// send has its receive.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "slicer/import/kineto/step_program.h"

namespace prism::slicer {

// The ranks of an all_to_all may move different amounts, as those of a recommender do; a collective
// of the graph has one. Gives each the largest amount at its place on its axis; returns how many
// changed.
int64_t EvenOutExchanges(std::vector<StepProgram>* programs);

// Collectives of one kind and size on one axis take the shortest time that they took on any rank:
// those of the others began earlier, and waited.
void ShareShortestTimes(std::vector<StepProgram>* programs);

// Makes the n-th send of a rank to another and the n-th receive there from it one transfer, which
// takes the shorter of their times. `program_of`: by rank; messages of and to any other rank stay
// kernels, as those do whose ends differ in number or size. Returns how many stay kernels.
int64_t PairMessages(const std::map<uint32_t, size_t>& program_of,
                     std::vector<StepProgram>* programs);

// How far the clock of each profile is ahead of that of the first, where collectives connect them:
// all ranks of one end together.
std::vector<DurationNs> ClockOffsets(const std::map<uint32_t, size_t>& program_of,
                                     uint32_t world,
                                     const std::vector<StepProgram>& programs);

// How much less each profile waits in the collectives of its step than the median of the profiles
// that it meets there: it enters them later.
std::vector<DurationNs> Lateness(const std::map<uint32_t, size_t>& program_of,
                                 uint32_t world,
                                 const std::vector<StepProgram>& programs);

}  // namespace prism::slicer
