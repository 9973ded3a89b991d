// Data parallelism without a framework, with the CUDA runtime linked into the program, as nvcc
// does: raw_program ID_FILE (fp32|tf32).
#include <cstdio>
#include <string>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include "tests/programs/raw_ranks.h"

using prism::Check;
using prism::ShareId;
using prism::Variable;

int main(int, char** arguments) {
  constexpr int kSize = 4'096;
  constexpr size_t kElements = size_t{kSize} * kSize;
  const int rank = Variable("RANK");
  Check(cudaSetDevice(Variable("LOCAL_RANK")), "cudaSetDevice");
  ncclComm_t world = nullptr;
  Check(ncclCommInitRank(&world, Variable("WORLD_SIZE"), ShareId(rank, arguments[1]), rank),
        "ncclCommInitRank");
  float* weights = nullptr;
  float* gradients = nullptr;
  Check(cudaMalloc(reinterpret_cast<void**>(&weights), kElements * sizeof(float)), "cudaMalloc");
  Check(cudaMalloc(reinterpret_cast<void**>(&gradients), kElements * sizeof(float)), "cudaMalloc");
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cublasHandle_t blas = nullptr;
  Check(cublasCreate(&blas), "cublasCreate");
  Check(cublasSetStream(blas, stream), "cublasSetStream");
  if (std::string(arguments[2]) == "tf32") {
    Check(cublasSetMathMode(blas, CUBLAS_TF32_TENSOR_OP_MATH), "cublasSetMathMode");
  }
  const float one = 1;
  for (int step = 0; step < 8; ++step) {
    nvtxRangePushA("iteration");
    nvtxRangePushA("gradients");
    Check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kSize, kSize, kSize, &one, weights, kSize,
                      weights, kSize, &one, gradients, kSize),
          "cublasSgemm");
    nvtxRangePop();
    Check(ncclAllReduce(gradients, gradients, kElements, ncclFloat, ncclAvg, world, stream),
          "ncclAllReduce");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    nvtxRangePop();
    std::printf("step %d\n", step);
  }
  Check(ncclCommDestroy(world), "ncclCommDestroy");
  return 0;
}
