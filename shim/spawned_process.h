// Programs that start a process for each GPU of their node (torch.multiprocessing.spawn). Each rank
// of the job starts such a program, so all but one of its processes are other ranks.
#pragma once

namespace prism::shim {

// Ends this process, as a success, if torch.multiprocessing.spawn started it for a GPU that is not
// this rank's. Called before anything that only the rank's own process may do.
void EndIfSpawnedForOtherRank();

}  // namespace prism::shim
