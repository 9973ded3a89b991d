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
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "launch/emulate/sandbox/record_turn.h"
#include "launch/process/install_paths.h"
#include "shim/channel/fork_request.h"

namespace prism::launch {
namespace {

constexpr int kForkTimeoutMs = 60'000;  // of a process of many gigabytes, on a busy machine

// Only in a rank, if at all; its path to the channel also in the server, for programs that it
// starts.
constexpr const char* kChannelPath = "PRISM_CHANNEL_PATH";

// "env NAME=value ... program" becomes the program, with these variables: env is not Python.
void LeaveOutEnv(const std::vector<std::string>& by_rank, SandboxSpec* spec) {
  std::vector<std::string>& command = spec->command;
  const auto program = std::find_if(command.begin() + 1, command.end(),
                                    [](const auto& text) { return text.find('=') == text.npos; });
  const bool is_env = command.front() == "env" || command.front().ends_with("/env");
  if (!is_env || program == command.end() || program->find('/') == program->npos) {
    return;
  }
  ChildVariables variables;
  for (auto text = command.begin() + 1; text != program; ++text) {
    const size_t equals = text->find('=');
    const std::string name = text->substr(0, equals);
    if (std::ranges::binary_search(by_rank, name)) {
      return;
    }
    variables[name] = text->substr(equals + 1);
  }
  spec->environment.insert(spec->environment.end(), variables.begin(), variables.end());
  command.erase(command.begin(), program);
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

void AddPythonFolder(SandboxSpec* spec) {
  const char* const own = std::getenv("PYTHONPATH");
  std::optional<std::string> inherited =
      own == nullptr ? std::nullopt : std::optional<std::string>(own);
  for (const auto& [name, value] : spec->environment) {
    inherited = name == "PYTHONPATH" ? value : inherited;
  }
  std::string path = LibraryFolder() + "/prism/python";
  if (inherited.has_value() && (*inherited + ":").starts_with(path + ":")) {
    return;  // it is there
  }
  if (inherited.has_value()) {
    spec->environment.emplace_back("PRISM_PYTHONPATH", *inherited);
    path += inherited->empty() ? "" : fmt::format(":{}", *inherited);
  }
  spec->environment.emplace_back("PYTHONPATH", path);
}

void NoteImports(const std::string& path, SandboxSpec* spec) {
  AddPythonFolder(spec);
  spec->environment.emplace_back(channel::kImportsVariable, path);
}

Result<std::unique_ptr<ForkServer>> ForkServer::Start(SandboxSpec spec,
                                                      std::vector<std::string> variables,
                                                      const std::string& imports) {
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
  LeaveOutEnv(variables, &started);
  NoteImports(imports, &started);
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
  // What other processes that it starts write to its channel is nobody's, but they wait for room.
  const auto drop = [](const channel::Record&, std::span<const std::byte>) -> Result<bool> {
    return true;
  };
  const Result<RecordTurn> turn = TakeRecords(*process_, drop);
  std::array<char, 256> text = {};
  const ssize_t bytes = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
  const std::string_view message(text.data(), static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR) && !turn->exited) {
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

void ForkServer::Ask(std::string_view request) {
  if (send(socket_, request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    SetGone("it does not read what it is asked");
  }
}

void ForkServer::ImportAhead() {
  state_ = State::kStarting;
  Ask(channel::kImportAhead);
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
