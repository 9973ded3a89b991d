// The ring and the answer of messages.h: one producer process, one consumer process. The producer
// side uses libc only and is what the shim links; the consumer side is the worker's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shim/channel/messages.h"

namespace prism::channel {

// Maps the object behind the descriptor; nullptr with errno set when that fails.
Header* MapChannel(int descriptor);

// Makes this process the producer. The first process to ask becomes it (a shell before the program
// does not ask), and remains it after an exec; false for every other, such as a data loader's
// process.
bool ClaimProducer(Header* header);

// Lets another process become it.
void ReleaseProducer(Header* header);

// Appends a record and its payload as a unit, blocking while there is no room. Not thread-safe (the
// session holds a lock). False when the consumer has gone (Answer::status 2).
bool Push(Header* header, const Record& record, const void* payload, uint32_t payload_bytes);

// By how much an issued record advances the program's own clock, nanoseconds.
int64_t HostCostNs(const Config& config, const Record& record);

// Waits for the answer to `request` and returns it; kAborted when the worker is gone. While
// Header::hung, `while_hung` is called about ten times a second.
struct AnswerValue {
  int32_t status;
  int64_t host_time_ns;
  int64_t value_ns;
};
AnswerValue WaitAnswer(Header* header, uint32_t request, void (*while_hung)() = nullptr);

// True once the worker has ended the run, or died.
bool WorkerGone(Header* header);

// When the hold in progress on the hold stream may end; false while that is not known.
bool TakeDeadline(const Header* header, uint32_t hold_stream, uint64_t sequence, uint64_t* time_ns);

// Consumer side: a created channel. Owns mapping and descriptor.
class Consumer {
 public:
  // A fresh memfd with the given configuration; descriptor() is to be inherited by the child.
  // Check valid(): false, with errno kept, when the system refuses.
  explicit Consumer(const Config& config);
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  [[nodiscard]] bool valid() const { return header_ != nullptr; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const Config& config() const { return header_->config; }

  // The next record, if one is there. `payload` is valid until the next call.
  bool TryPop(Record* record, std::span<const std::byte>* payload);

  // Sleeps until a record may be there or the time-out has passed. True: look again.
  bool WaitForRecord(int64_t timeout_ns);

  // Process id of the producer; 0 before the first record.
  [[nodiscard]] int producer_process() const;

  void Reply(uint32_t request, const AnswerValue& answer);
  void SetDeadline(uint32_t hold_stream, uint64_t sequence, uint64_t time_ns);
  void SetHung();  // the process waits for something that never comes (Header::hung)
  void Abort();    // every wait of the process returns kAborted

 private:
  int descriptor_ = -1;
  Header* header_ = nullptr;
  std::vector<std::byte> payload_;
};

}  // namespace prism::channel
