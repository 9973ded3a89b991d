// Asks MPI who it is.
#include <cstdio>

#include <mpi.h>

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::printf("rank %d of %d\n", rank, size);
  MPI_Finalize();
  return 0;
}
