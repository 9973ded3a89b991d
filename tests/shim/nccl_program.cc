// What one present rank of a job of four does (ranks 1 and 3 are present). "calls": communicators
// created in every way, values exchanged with the other one, products. "watchdog": a thread that
// watches transfers. Exits with the line of the first check that fails.
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>

#include "shim/clock/watchdogs.h"
#include "shim/nccl/nccl_api.h"
#include "shim/observer/observer_calls.h"
#include "shim/session.h"
#include "shim/virtual_device/memory.h"

#define REQUIRE(condition)                                         \
  do {                                                             \
    if (!(condition)) {                                            \
      std::fprintf(stderr, "line %d: " #condition "\n", __LINE__); \
      return __LINE__ % 256;                                       \
    }                                                              \
  } while (false)

namespace prism::shim {
namespace {

GroupInfo framework_group = {};

bool ProvideGroup(GroupInfo* info) {
  *info = framework_group;
  return info->size > 0;
}

void WorkFor(const char* name, int start, int stride, int size, int rank) {
  framework_group = {};
  std::strncpy(framework_group.name, name, sizeof(framework_group.name) - 1);
  framework_group.global_start = start;
  framework_group.global_stride = stride;
  framework_group.size = size;
  framework_group.rank = rank;
}

float* Device(std::vector<float> values) {
  auto* buffer = static_cast<float*>(DeviceAllocate(values.size() * sizeof(float)));
  WriteBytes(buffer, values.data(), values.size() * sizeof(float));
  return buffer;
}

float At(const float* buffer, size_t place) {
  float value = 0;
  ReadBytes(&value, buffer + place, sizeof(value));
  return value;
}

int Collectives(ncclComm_t world, int rank) {
  const int other = 4 - rank;
  float* buffer = Device({static_cast<float>(rank + 1)});
  REQUIRE(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, world, nullptr) == ncclSuccess);
  REQUIRE(At(buffer, 0) == 2 + 2 + 2 + 4);  // 0 and 2 are as 1 is

  float* value = Device({static_cast<float>(rank)});
  float* received = Device({0});
  ncclGroupStart();
  ncclSend(value, 1, ncclFloat, other, world, nullptr);
  ncclRecv(received, 1, ncclFloat, other, world, nullptr);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(At(received, 0) == static_cast<float>(other));

  float* all = Device({0, 0, 0, 0});
  ncclGroupStart();
  ncclAllGather(value, all, 1, ncclFloat, world, nullptr);
  ncclReduceScatter(all, received, 1, ncclFloat, ncclMax, world, nullptr);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(At(all, 0) == 1 && At(all, 1) == 1 && At(all, 2) == 1 && At(all, 3) == 3);
  REQUIRE(At(received, 0) == static_cast<float>(rank));
  REQUIRE(ncclBroadcast(value, value, 1, ncclFloat, 3, world, nullptr) == ncclSuccess);
  REQUIRE(At(value, 0) == 3);
  REQUIRE(ncclSend(value, 1, ncclFloat, 0, world, nullptr) == ncclSuccess);
  return 0;
}

// The pair is known from the framework; its children are then known from its members.
int Splits(ncclComm_t world, int rank) {
  WorkFor("pair", 1, 2, 2, rank / 2);
  ncclComm_t pair = nullptr;
  REQUIRE(ncclCommSplit(world, 1, rank, &pair, nullptr) == ncclSuccess);
  int size = 0;
  ncclCommCount(pair, &size);
  REQUIRE(size == 2);
  WorkFor("", 0, 0, 0, 0);
  ncclComm_t turned = nullptr;
  REQUIRE(ncclCommSplit(pair, 0, -rank, &turned, nullptr) == ncclSuccess);
  int turned_rank = -1;
  ncclCommUserRank(turned, &turned_rank);
  REQUIRE(turned_rank == (rank == 3 ? 0 : 1));
  WorkFor("turned", 3, -2, 2, turned_rank);  // a framework describes a split group afterwards
  float* value = Device({1});
  REQUIRE(ncclBroadcast(value, value, 1, ncclFloat, 0, turned, nullptr) == ncclSuccess);
  WorkFor("alone", rank, 1, 1, 0);
  ncclComm_t alone = nullptr;
  REQUIRE(ncclCommSplit(turned, rank, 0, &alone, nullptr) == ncclSuccess);
  // What one rank does by itself is not part of the group: NCCL launches nothing for it.
  ncclGroupStart();
  ncclBroadcast(value, value, 1, ncclFloat, 0, turned, nullptr);
  ncclBroadcast(value, value, 1, ncclFloat, 0, alone, nullptr);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(ncclCommDestroy(alone) == ncclSuccess);
  REQUIRE(ncclCommDestroy(turned) == ncclSuccess);
  REQUIRE(ncclCommDestroy(pair) == ncclSuccess);
  return 0;
}

int Products() {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  const float one = 1;
  REQUIRE(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 3, 4, &one, nullptr, CUDA_R_16BF, 4,
                       nullptr, CUDA_R_16BF, 4, &one, nullptr, CUDA_R_32F, 2, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasDgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_T, 5, 6, 7, nullptr, nullptr, 5,
                                    1, nullptr, 6, 1, nullptr, nullptr, 5, 1,
                                    8) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const cublasOperation_t transpose = CUBLAS_OP_T;
  cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                 sizeof(transpose));
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, 64, 32, 64);
  cublasLtMatrixLayoutCreate(&d, CUDA_R_16BF, 32, 16, 32);
  cublasLtMatmulHeuristicResult_t found[2];
  int count = 0;
  REQUIRE(cublasLtMatmulAlgoGetHeuristic(reinterpret_cast<cublasLtHandle_t>(handle), description, a,
                                         a, d, d, nullptr, 2, found,
                                         &count) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 1 && found[0].state == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(handle), description, &one, nullptr, a,
                         nullptr, a, &one, nullptr, d, nullptr, d, &found[0].algo, nullptr, 0,
                         nullptr) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatrixLayoutDestroy(a) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatrixLayoutDestroy(d) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatmulDescDestroy(description) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  return 0;
}

// A thread with the name and the loop of c10d's watchdog checks once each time that the host has
// waited for the device with transfers issued, never by itself, and ends on request.
int Watchdog(ncclComm_t world) {
  std::mutex mutex;
  std::condition_variable condition;
  bool ends = false;
  int looks = 0;
  ExpectWatchdogOf(&looks);
  std::thread watchdog([&] {
    pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
    std::unique_lock<std::mutex> lock(mutex);
    while (!condition.wait_for(lock, std::chrono::milliseconds(100), [&] { return ends; })) {
      ++looks;
    }
  });
  float* buffer = Device({1});
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, world, nullptr) == ncclSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(looks == i);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(looks == i);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // no real time: host time
  REQUIRE(looks == 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE(looks == 4);
  REQUIRE(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, world, nullptr) == ncclSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  REQUIRE(looks == 5);
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ends = true;
  }
  condition.notify_all();
  watchdog.join();
  REQUIRE(ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, world, nullptr) == ncclSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(looks == 5);
  return 0;
}

int Run(std::string_view part) {
  const int rank = SessionConfig().rank;
  prism_shim_set_group_provider(ProvideGroup);
  WorkFor("world", 0, 1, 4, rank);
  ncclUniqueId id = {};
  ncclGetUniqueId(&id);
  ncclComm_t world = nullptr;
  REQUIRE(ncclCommInitRank(&world, 4, id, rank) == ncclSuccess);
  int line = 0;
  if (part == "watchdog") {
    line = Watchdog(world);
  } else {
    line = Collectives(world, rank);
    line = line != 0 ? line : Splits(world, rank);
    line = line != 0 ? line : Products();
  }
  REQUIRE(ncclCommDestroy(world) == ncclSuccess);
  return line;
}

}  // namespace
}  // namespace prism::shim

int main(int count, char** arguments) {
  return count == 2 ? prism::shim::Run(arguments[1]) : 2;
}
