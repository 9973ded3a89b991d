// Ranks as threads for the tests of the exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "shim/nccl/exchange.h"

namespace prism::shim {

inline constexpr size_t kTestArenaBytes = 256UL << 20U;

// Runs `body(rank)` for every present rank, each in its own thread.
inline void RunRanks(const std::vector<int32_t>& present,
                     const std::function<void(int32_t)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(present.size());
  for (const int32_t rank : present) {
    threads.emplace_back(body, rank);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

inline ExchangeCall Call(const std::vector<int32_t>& present, int32_t size, int32_t rank) {
  ExchangeCall call;
  call.group = {77, size, rank, present};
  return call;
}

inline ExchangeStatus Send(Exchange* exchange, const ExchangeCall& call, const void* send) {
  const ExchangeTransfer transfer = {call, send, nullptr};
  return exchange->Transfers({&transfer, 1});
}

inline ExchangeStatus Recv(Exchange* exchange, const ExchangeCall& call, void* recv) {
  const ExchangeTransfer transfer = {call, nullptr, recv};
  return exchange->Transfers({&transfer, 1});
}

}  // namespace prism::shim
