// A pipeline without a framework whose stages tell each other the size of every message, there and
// back: raw_pipeline ID_FILE STAGES (plain|ask|crash|hang). At the second iteration
// the first rank of the last stage asks rank 2 for its number if all sizes were right so far, or it
// goes wrong: it crashes, or crashes the first two times that it gets there and then hangs.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#include "tests/programs/raw_ranks.h"

using prism::Check;
using prism::ShareId;
using prism::Variable;

namespace {

constexpr int64_t kLargest = 1 << 16;
constexpr int kAsked = 2;

struct Stage {
  int number;
  int stages;
  int replicas;
  int rank;
  int world;
  std::string id_file;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int64_t* count = nullptr;  // on the device, as is data
  float* data = nullptr;
  bool all_right = true;  // sizes so far

  void Send(int to, int64_t elements) const {
    Check(cudaMemcpy(count, &elements, sizeof(elements), cudaMemcpyHostToDevice), "cudaMemcpy");
    const int peer = to * replicas + rank % replicas;
    Check(ncclSend(count, 1, ncclInt64, peer, comm, stream), "ncclSend");
    Check(ncclSend(data, static_cast<size_t>(elements), ncclFloat, peer, comm, stream), "ncclSend");
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  [[nodiscard]] int64_t Receive(int from) const {
    const int peer = from * replicas + rank % replicas;
    Check(ncclRecv(count, 1, ncclInt64, peer, comm, stream), "ncclRecv");
    const int64_t elements = ToldCount();
    Check(ncclRecv(data, static_cast<size_t>(elements), ncclFloat, peer, comm, stream), "ncclRecv");
    return elements;
  }

  [[nodiscard]] int64_t ToldCount() const {
    int64_t told = 0;
    Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    Check(cudaMemcpy(&told, count, sizeof(told), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return told;
  }

  static void Expect(const char* what, int64_t told, int64_t right) {
    if (told != right) {
      std::fprintf(stderr, "%s is %lld, not %lld\n", what, static_cast<long long>(told),
                   static_cast<long long>(right));
      std::exit(1);
    }
  }

  void RunBatch(int batch) {
    const int64_t right = 64 * (batch + 1 + number);
    const int64_t in = number == 0 ? right : Receive(number - 1);
    all_right = all_right && in == right;
    if (number + 1 < stages) {
      Send(number + 1, in + 64);
      Expect("the gradient", Receive(number + 1), in + 64);
    }
    if (number > 0) {
      Send(number - 1, in);
    }
  }

  void Ask() const {
    const int asker = (stages - 1) * replicas;
    const int64_t own = rank;
    Check(cudaMemcpy(count, &own, sizeof(own), cudaMemcpyHostToDevice), "cudaMemcpy");
    if (rank == kAsked) {
      Check(ncclSend(count, 1, ncclInt64, asker, comm, stream), "ncclSend");
    } else if (rank == asker && all_right) {
      Check(ncclRecv(count, 1, ncclInt64, kAsked, comm, stream), "ncclRecv");
      Expect("the number of the asked rank", ToldCount(), kAsked);
    }
  }

  void Misbehave(const std::string& how) const {
    if (how == "ask") {
      Ask();
    }
    if (number + 1 < stages || (how != "crash" && how != "hang")) {
      return;
    }
    std::ofstream(id_file + ".visits", std::ios::app) << '.';
    if (how == "hang" && std::filesystem::file_size(id_file + ".visits") > 2) {
      pause();
    }
    Expect("a planted fault", 1, 0);
  }
};

}  // namespace

int main(int, char** arguments) {
  Stage stage = {};
  stage.id_file = arguments[1];
  stage.stages = std::stoi(arguments[2]);
  stage.rank = Variable("RANK");
  stage.world = Variable("WORLD_SIZE");
  stage.replicas = stage.world / stage.stages;
  stage.number = stage.rank / stage.replicas;
  Check(cudaSetDevice(Variable("LOCAL_RANK")), "cudaSetDevice");
  Check(ncclCommInitRank(&stage.comm, stage.world, ShareId(stage.rank, stage.id_file), stage.rank),
        "ncclCommInitRank");
  Check(cudaMalloc(reinterpret_cast<void**>(&stage.count), sizeof(int64_t)), "cudaMalloc");
  Check(cudaMalloc(reinterpret_cast<void**>(&stage.data), kLargest * sizeof(float)), "cudaMalloc");
  Check(cudaStreamCreateWithFlags(&stage.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  for (int step = 0; step < 8; ++step) {
    nvtxRangePushA("iteration");
    if (step == 1) {
      stage.Misbehave(arguments[3]);
    }
    for (int batch = 0; batch < 3; ++batch) {
      stage.RunBatch(batch);
    }
    nvtxRangePop();
    std::printf("step %d\n", step);
  }
  Check(ncclCommDestroy(stage.comm), "ncclCommDestroy");
  return 0;
}
