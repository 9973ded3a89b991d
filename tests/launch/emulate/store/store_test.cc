// The store at which sandbox ranks meet: like torch's own for what present ranks write, with
// answers for what absent ones would have written, and with a message when nobody can write
// anything.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/emulate/store/store_relay.h"
#include "launch/emulate/store/store_server.h"
#include "launch/process/wire.h"

namespace prism::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Op(StoreOp op) {
  return WireWriter().Put(op).Take();
}

std::string Text(std::string_view text) {
  return WireWriter().PutText(text).Take();
}

std::string WaitFor(std::string_view key) {
  return Op(StoreOp::kWait) + WireWriter().Put(uint64_t{1}).PutText(key).Take();
}

// A client that speaks the protocol by hand, as process `process`.
class Client {
 public:
  Client(uint16_t port, int32_t rank, uint32_t process, const char* address = "127.1.0.1")
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    inet_pton(AF_INET, address, &to.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    Send(Op(StoreOp::kValidate) + WireWriter().Put(uint32_t{kStoreValidationNumber}).Take());
    Send(Op(StoreOp::kPing) + WireWriter().Put(process).Take());
    EXPECT_EQ(Receive(sizeof(process)).size(), sizeof(process));
    Send(Op(StoreOp::kSet) + Text(kProcessKey) + Text(fmt::format("{} {}", rank, process)));
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Send(const std::string& bytes) const {
    EXPECT_EQ(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  // Each byte in a separate packet.
  void SendByteByByte(const std::string& bytes) const {
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    for (const char byte : bytes) {
      Send(std::string(1, byte));
    }
  }

  [[nodiscard]] std::string Receive(size_t bytes) const {
    std::string got(bytes, '\0');
    const ssize_t count = recv(socket_, got.data(), bytes, MSG_WAITALL);
    got.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return got;
  }

  [[nodiscard]] std::string ReceiveText() const {
    const std::string size = Receive(sizeof(uint64_t));
    return Receive(WireReader(size).Get<uint64_t>());
  }

  [[nodiscard]] std::string Get(const std::string& key) const {
    Send(WaitFor(key) + Op(StoreOp::kGet) + Text(key));
    EXPECT_EQ(Receive(1), std::string(1, '\0'));
    return ReceiveText();
  }

  void Set(const std::string& key, const std::string& value) const {
    Send(Op(StoreOp::kSet) + Text(key) + Text(value));
  }

 private:
  int socket_;
};

std::unique_ptr<StoreServer> Start(int32_t present, int64_t blocked_after_ms = 10'000) {
  StoreServerOptions options;
  options.ranks = {.world_size = 8192, .ranks_per_node = 8, .present = present};
  options.blocked_after_ms = blocked_after_ms;
  auto server = StoreServer::Start(options);
  EXPECT_TRUE(server.ok()) << server.status().message();
  return *std::move(server);
}

Status WaitForFailure(const StoreServer& server) {
  for (int i = 0; i < 6000 && server.status().ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return server.status();
}

// Clients of another host have numbers of processes that this one has, too.
TEST(Store, clients_of_another_host_are_carried_to_it) {
  const auto server = Start(2, 100);
  std::deque<std::string> to_store;
  std::deque<std::string> to_client;
  auto far = StoreRelay::Open(0, [&](int, std::string bytes) { to_store.push_back(bytes); });
  ASSERT_TRUE(far.ok());
  StoreRelay near(server->port(), [&](int, std::string bytes) { to_client.push_back(bytes); });
  std::atomic<bool> done = false;
  std::thread carrier([&] {
    while (!done) {
      (*far)->Step();
      near.Step();
      for (; !to_store.empty(); to_store.pop_front()) {
        near.Take(1, to_store.front());
      }
      for (; !to_client.empty(); to_client.pop_front()) {
        (*far)->Take(0, to_client.front());
      }
    }
  });
  {
    const Client here(server->port(), 0, 7);
    const Client there((*far)->port(), 1, 7);
    here.Set("/key", "value");
    EXPECT_EQ(there.Get("/key"), "value");
    there.Set("/long", std::string(300'000, 'x'));
    EXPECT_EQ(there.Get("/long"), std::string(300'000, 'x'));
    EXPECT_EQ(here.Get("/long"), std::string(300'000, 'x'));
    there.Send(WaitFor("/never"));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_TRUE(server->status().ok()) << "rank 0 does not wait";
    here.Send(WaitFor("/never"));
    EXPECT_THAT(WaitForFailure(*server).message(),
                testing::AllOf(HasSubstr("rank 0, process 7"), HasSubstr("rank 1, process 7")));
  }
  done = true;
  carrier.join();
}

// Patterns come first; a sum goes on from the others', and is not what this rank has added.
TEST(Store, what_others_wrote_is_there) {
  StoreServerOptions options;
  options.ranks = {.world_size = 4, .ranks_per_node = 4, .present = 1};
  options.ranks.written = std::make_shared<const StoreValues>(
      StoreValues{{"/go", "now"}, {"/arrived", "3"}, {"/default_pg/0//cuda//0", "other"}});
  const auto server = StoreServer::Start(options);
  ASSERT_TRUE(server.ok());
  const Client rank((*server)->port(), 2, 1);
  EXPECT_EQ(rank.Get("/go"), "now");
  EXPECT_EQ(rank.Get("/default_pg/0//cuda//0").size(), 128U);
  rank.Set("/mine", "here");
  rank.Send(Op(StoreOp::kAdd) + Text("/arrived") + WireWriter().Put(int64_t{1}).Take());
  EXPECT_EQ(rank.Receive(sizeof(int64_t)), WireWriter().Put(int64_t{4}).Take());
  EXPECT_EQ(rank.Get("/mine"), "here");
  const WrittenKeys written = (*server)->End();
  EXPECT_EQ(written.values.at("/mine"), "here");
  EXPECT_EQ(written.values.at("/arrived"), "4");
  EXPECT_EQ(written.added.at("/arrived"), 1);
}

TEST(Store, absent_ranks_answer_by_pattern) {
  const auto server = Start(1);
  const Client rank(server->port(), 40, 1);
  const std::string id = rank.Get("/default_pg/0//cuda//0");
  EXPECT_EQ(id.size(), 128U);
  EXPECT_EQ(rank.Get("/default_pg/0//cuda//UniqueNCCLID:8064").size(), 128U);
  EXPECT_EQ(rank.Get("/default_pg/0//5//cuda//3:17").size(), 128U);
  // From torch 2.15 on.
  EXPECT_EQ(rank.Get("/default_pg/0//cuda//0/nccl_storekey_0").size(), 128U);
  EXPECT_NE(rank.Get("/default_pg/0//cuda//0/nccl_storekey_1"),
            rank.Get("/default_pg/0//cuda//0/nccl_storekey_0"));
  EXPECT_EQ(rank.Get("/default_pg/0//5//cuda//mesh_dp/nccl_storekey_0_63").size(), 128U);
  EXPECT_NE(rank.Get("/default_pg/0//7//cuda//0"), id);
  EXPECT_EQ(Client(server->port(), 41, 2).Get("/default_pg/0//cuda//0"), id);
  EXPECT_EQ(rank.Get("/default_pg/0//store_based_barrier_key:3:last_worker"), "1");
  rank.Set("/none/torchelastic/role_info/5", "{\"role\": \"default\"}");
  EXPECT_EQ(rank.Get("/none/torchelastic/role_info/0"), "{\"role\": \"default\"}");
  EXPECT_EQ(rank.Get("/none/torchelastic/assigned_ranks/5"), "[40, 8192, 40, 8192]");
  EXPECT_EQ(rank.Get("/none/exit/last_member"), "1");
  EXPECT_EQ(rank.Get("/rendezvous/MASTER_ADDR"), "127.0.0.1");
  rank.Set("/CUDASymmetricMemory-0/2/1", std::string("\1\0\0\0rest", 8));
  EXPECT_EQ(rank.Get("/CUDASymmetricMemory-0/2/6"), std::string("\6\0\0\0rest", 8));
}

TEST(Store, a_check_makes_nothing_up) {
  const auto server = Start(1);
  const Client rank(server->port(), 17, 1);
  rank.Send(Op(StoreOp::kCheck) +
            WireWriter().Put(uint64_t{1}).PutText("/default_pg/0//cuda//0").Take());
  EXPECT_EQ(rank.Receive(1), std::string(1, '\1'));
}

TEST(Store, a_request_may_come_byte_by_byte) {
  const auto server = Start(1);
  const Client rank(server->port(), 17, 1);
  const std::string ping = Op(StoreOp::kPing) + WireWriter().Put(uint32_t{77}).Take();
  rank.SendByteByByte(ping + ping);
  EXPECT_EQ(WireReader(rank.Receive(8)).Get<uint32_t>(), 77U);
  const std::string add = Op(StoreOp::kAdd) + Text("counter") + WireWriter().Put(int64_t{5}).Take();
  rank.SendByteByByte(add + add);
  EXPECT_EQ(rank.Receive(16), WireWriter().Put(int64_t{5}).Put(int64_t{10}).Take());
  rank.SendByteByByte(Op(StoreOp::kCheck) +
                      WireWriter().Put(uint64_t{2}).PutText("counter").PutText("none").Take());
  EXPECT_EQ(rank.Receive(1), std::string(1, '\1'));
}

TEST(Store, names_have_stores_of_their_own) {
  const auto server = Start(1);
  const Client control(server->port(), 17, 1, "127.0.0.1");
  const std::string first = control.Get(std::string(kAddressKey) + "master:29500");
  const std::string second = control.Get(std::string(kAddressKey) + "master:29501");
  EXPECT_NE(first, second);
  EXPECT_EQ(control.Get(std::string(kAddressKey) + "master:29500"), first);
  const Client one(server->port(), 17, 1, first.c_str());
  const Client other(server->port(), 17, 1, second.c_str());
  one.Set("/a", "one");
  other.Set("/a", "other");
  EXPECT_EQ(one.Get("/a"), "one");
  EXPECT_EQ(other.Get("/a"), "other");
  EXPECT_EQ(one.Get("/default_pg/0//cpu/" + std::string(kNameKey)), "/default_pg/0//cpu/");
}

TEST(Store, present_ranks_wait_for_each_other) {
  const auto server = Start(2);
  const Client rank0(server->port(), 0, 1);
  const Client rank1(server->port(), 1, 2);
  rank0.Send(WaitFor("/mine"));
  rank1.Set("/mine", "yours");
  EXPECT_EQ(rank0.Receive(1), std::string(1, '\0'));
  EXPECT_EQ(rank0.Get("/mine"), "yours");
  EXPECT_TRUE(server->status().ok());
}

TEST(Store, a_key_that_blocks_everybody_ends_the_run_by_name) {
  const auto server = Start(2, 100);
  const Client rank0(server->port(), 40, 4711);
  const Client rank1(server->port(), 48, 4712);
  rank0.Send(WaitFor("/shards/17/ready"));
  rank1.Send(WaitFor("/go"));
  const Status status = WaitForFailure(*server);
  EXPECT_EQ(status.code(), StatusCode::kRunFailed);
  EXPECT_THAT(status.message(), HasSubstr("/shards/17/ready, pattern /shards/<n>/ready (rank 40, "
                                          "process 4711, store 127.1.0.1)"));
  EXPECT_THAT(status.message(), HasSubstr("/go, pattern /go (rank 48, process 4712"));
  EXPECT_EQ(server->TakeReports().size(), 2U);
}

// At once, not after the time that says that everybody is blocked.
TEST(Store, workers_that_call_each_other_are_refused_by_name) {
  const auto server = Start(2);
  const Client rank0(server->port(), 0, 4711);
  rank0.Send(WaitFor("/rpc_prefix_0/names/1"));
  EXPECT_THAT(WaitForFailure(*server).message(), HasSubstr("torch.distributed.rpc: its workers"));
}

TEST(Store, one_rank_that_works_keeps_the_others_waiting) {
  const auto server = Start(2, 50);
  const Client rank0(server->port(), 40, 4711);
  const Client rank1(server->port(), 48, 4712);
  rank0.Send(WaitFor("/later"));
  std::vector<std::string> reports;
  for (int i = 0; i < 6000 && reports.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    reports = server->TakeReports();
  }
  EXPECT_THAT(reports, ElementsAre(HasSubstr("waits for /later")));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // for a look after that
  EXPECT_TRUE(server->status().ok());
  EXPECT_THAT(server->TakeReports(), IsEmpty());
  rank1.Set("/later", "now");
  EXPECT_EQ(rank0.Receive(1), std::string(1, '\0'));
}

std::string RunSession(const std::string& server) {
  const std::string command = fmt::format(
      "{0}/.venv/bin/python {0}/tests/programs/store_session.py "
      "{1} 2>/dev/null",
      PRISM_SOURCE_DIR, server);
  FILE* const pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (size_t count = 0; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    output.append(buffer, count);
  }
  pclose(pipe);
  return output;
}

TEST(Store, answers_a_session_as_torch_own_server_does) {
  if (!std::filesystem::exists(std::string(PRISM_SOURCE_DIR) + "/.venv/bin/python")) {
    GTEST_SKIP() << "no Python with torch in .venv";
  }
  const auto server = Start(1);
  const std::string torch = RunSession("own");
  ASSERT_THAT(torch, HasSubstr("done\n"));
  EXPECT_EQ(RunSession(fmt::format("{}", server->port())), torch);
}

}  // namespace
}  // namespace prism::launch
