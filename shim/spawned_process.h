// Programs that start a process for each GPU of their node (torch.multiprocessing.spawn). Each rank
// of the job starts such a program, so all but one of its processes are other ranks.
#pragma once

namespace prism::shim {

// Ends this process, as a success, if torch.multiprocessing.spawn started it for a GPU that is not
// this rank's. Called before anything that only the rank's own process may do.
void EndIfSpawnedForOtherRank();

// Has torch.multiprocessing.spawn start only the rank's own process; one that does nothing stands
// for each of the others, which would import the program's file before they are ended. Called where
// a program asks how many devices there are; does something once.
void SpawnOnlyOwnProcess();

}  // namespace prism::shim
