#include "launch/emulate/sandbox/fork_server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "launch/process/install_paths.h"
#include "shim/channel/fork_request.h"

namespace prism::launch {
namespace {

constexpr int kForkTimeoutMs = 60'000;  // of a process of many gigabytes, on a busy machine

// Only in a rank, if at all; its path to the channel also in the server, for programs that it
// starts.
constexpr const char* kChannelPath = "PRISM_CHANNEL_PATH";

// In front of the user's own PYTHONPATH, which sitecustomize.py restores.
void AddPythonFolder(SandboxSpec* spec) {
  const char* inherited = std::getenv("PYTHONPATH");
  for (const auto& [name, value] : spec->environment) {
    inherited = name == "PYTHONPATH" ? value.c_str() : inherited;
  }
  std::string path = LibraryFolder() + "/prism/python";
  if (inherited != nullptr) {
    spec->environment.emplace_back("PRISM_PYTHONPATH", inherited);
    path += inherited[0] == '\0' ? "" : fmt::format(":{}", inherited);
  }
  spec->environment.emplace_back("PYTHONPATH", path);
}

std::map<std::string, std::string> Without(const std::vector<std::string>& names,
                                           const SandboxSpec& spec) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : spec.environment) {
    if (!std::ranges::binary_search(names, name)) {
      variables[name] = value;
    }
  }
  return variables;
}

}  // namespace

Result<std::unique_ptr<ForkServer>> ForkServer::Start(SandboxSpec spec,
                                                      std::vector<std::string> variables) {
  std::ranges::sort(variables);
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return EnvironmentLacks(fmt::format("cannot open a socket: {}", strerror(errno)));
  }
  spec.on_line = nullptr;
  SandboxSpec started = spec;
  std::erase_if(started.environment, [&](const auto& variable) {
    return std::ranges::binary_search(variables, variable.first);
  });
  AddPythonFolder(&started);
  started.environment.emplace_back(channel::kForkServerVariable,
                                   fmt::format("{}:{}", ends[1], fmt::join(variables, ":")));
  started.inherited = ends[1];
  started.removed = variables;
  std::unique_ptr<ForkServer> server(
      new ForkServer(std::move(spec), std::move(variables), ends[0]));
  Result<std::unique_ptr<SandboxProcess>> process = SandboxProcess::Start(started);
  close(ends[1]);
  PRISM_RETURN_IF_ERROR(process.status());
  server->process_ = *std::move(process);
  return server;
}

ForkServer::~ForkServer() {
  close(socket_);
}

void ForkServer::SetGone(std::string why) {
  state_ = State::kGone;
  why_gone_ = std::move(why);
  process_->Kill();
}

ForkServer::State ForkServer::Look() {
  if (state_ == State::kGone) {
    return state_;
  }
  process_->PumpOutput();
  std::array<char, 256> text = {};
  const ssize_t bytes = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
  const std::string_view message(text.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
    return state_;
  }
  if (message == channel::kForkServerReady && state_ == State::kStarting) {
    state_ = State::kReady;
  } else if (bytes > 0) {
    SetGone(std::string(message));
  } else {
    SetGone("it ended before it needed its rank");
  }
  return state_;
}

bool ForkServer::Serves(const SandboxSpec& spec) const {
  const channel::Config& ours = spec_.config;
  const channel::Config& theirs = spec.config;
  return state_ == State::kReady && !spec.terminal && spec.command == spec_.command &&
         ours.world_size == theirs.world_size && ours.seed == theirs.seed &&
         memcmp(&ours.device, &theirs.device, sizeof(ours.device)) == 0 &&
         memcmp(&ours.nccl, &theirs.nccl, sizeof(ours.nccl)) == 0 &&
         Without(variables_, spec_) == Without(variables_, spec);
}

std::string ForkServer::RequestText(const ChildVariables& variables) const {
  std::string text;
  const auto add = [&](const std::string& name) {
    const auto found = variables.find(name);
    text += found == variables.end() ? name : fmt::format("{}={}", name, found->second);
    text += '\0';
  };
  std::ranges::for_each(variables_, add);
  add(kChannelPath);
  return text;
}

Result<pid_t> ForkServer::Fork(const ChildVariables& variables, const Descriptors& descriptors) {
  std::string text = RequestText(variables);
  const std::array<int, channel::kForkDescriptors> sent = {descriptors.output, descriptors.channel,
                                                           descriptors.stacks};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(sent))> control = {};
  iovec part = {.iov_base = text.data(), .iov_len = text.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(sent));
  memcpy(CMSG_DATA(head), sent.data(), sizeof(sent));
  pid_t process = 0;
  pollfd waits = {.fd = socket_, .events = POLLIN, .revents = 0};
  const bool asked =
      text.size() <= channel::kMaxForkRequest && sendmsg(socket_, &message, MSG_NOSIGNAL) > 0;
  if (asked && poll(&waits, 1, kForkTimeoutMs) == 1 &&
      recv(socket_, &process, sizeof(process), 0) == sizeof(process)) {
    return process;
  }
  SetGone("it did not answer");
  return EnvironmentLacks("the fork server did not answer");
}

}  // namespace prism::launch
