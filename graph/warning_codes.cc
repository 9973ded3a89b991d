#include "graph/warning_codes.h"

#include <algorithm>

namespace prism::graph {
namespace {

constexpr WarningCode kCodes[] = {
    {"absent_root_broadcast",
     "the program got a broadcast, or a part of a scatter, of a rank that does not run and of "
     "which "
     "nothing was recorded: its buffer stays as it was, zeros where nothing was ever written"},
    {"absent_root_large",
     "the program got a broadcast, or a part of a scatter, of more than 256 KiB of a rank that "
     "does "
     "not run, as weights are: its buffer stays as it was; an assumption"},
    {"addresses_random",
     "the machine does not let a program have the same addresses in every run, so that two runs "
     "may differ"},
    {"allocated_bytes_differ",
     "the framework's own count of allocated bytes differs from the blocks that were seen"},
    {"allocator_not_seen",
     "the program has another allocator than the caching one: how much it allocates is unknown, "
     "how much it reserves is not"},
    {"blas_scalar_results_zero",
     "a routine of cuBLAS that returns a number to the host (a norm, a dot product) returned 0"},
    {"buffered_sends_needed",
     "ranks wait for each other in a circle unless small sends end before their receiver arrives, "
     "as NCCL's buffers usually let them, without a promise",
     true},
    {"calls_on_unknown_handles",
     "on a real GPU: a call named a handle whose making was not seen, and is not recorded"},
    {"captured_values_left",
     "on a real GPU: a captured collective that was recorded without holds moved no values"},
    {"checkpoint_of_absent_ranks",
     "the program saved or loaded a sharded checkpoint with ranks that do not run: what they would "
     "have written is left out"},
    {"compiled_kernels_not_described",
     "kernels of torch.compile are timed by their launch, since what they are given is not seen"},
    {"cpu_collectives",
     "calls of CPU groups (gloo), which take host time by a formula; ranks do not wait there for "
     "each other in the replay"},
    {"cpu_group_without_members",
     "a CPU process group was made without saying who its members are: other sandbox ranks of it "
     "are not found"},
    {"default_stream_order_left_out",
     "the program used the default stream beside streams that wait for it (cudaStreamCreate); here "
     "they do not"},
    {"device_fallback",
     "--device or --record-device auto found no GPU: the virtual device and the model's times take "
     "its place"},
    {"distinct_by_rule",
     "unique values of what kernels did not compute were looked for: all count as distinct, where "
     "the type allows; an assumption"},
    {"early_mismatch",
     "one rank calls a collective, or sends, more often than another before the steady iteration: "
     "on the cluster the others wait, for ever unless an iteration begins between the two sides of "
     "the call",
     true},
    {"event_query_taken_as_over",
     "the program asked whether an event is over: while recorded it always is, so that a loop "
     "until "
     "it is takes no time in the replay; in the emulation of a sandbox rank it takes what it "
     "takes"},
    {"file_bytes_written",
     "bytes that the program wrote to files after its first op: they took no time, since the "
     "cluster "
     "states no storage ([storage])"},
    {"first_time_work_left_out",
     "the program ended before two iterations in a row did the same: the last stands for all, "
     "since "
     "the one before does that and, besides, what is done only once (states of the optimizer, "
     "buffers, communicators); let the program run more steps to be sure"},
    {"gathered_objects_repeated",
     "the program gathered objects of ranks that do not run: its own stand for theirs"},
    {"gpu_load_assumed",
     "the program asked NVML how busy the GPU is: 100 %, whatever it does; an assumption"},
    {"gpu_shared", "more sandbox ranks than GPUs: values are right, times come from the replay"},
    {"holds_released_late",
     "on a real GPU: kernels that stand for collectives ended after their deadline, so that times "
     "measured there are too long"},
    {"host_functions_run_at_issue",
     "host functions of streams ran when they were issued, not when their stream came to them"},
    {"host_time_beyond_graph",
     "a sandbox rank's host spent time that its graph does not have; the iteration time holds it"},
    {"host_waits_beyond_graph",
     "a sandbox rank's host waited for events where its graph has no wait"},
    {"iterations_vary",
     "no two iterations in a row did the same, though they communicated alike, as with batches of "
     "different lengths: one stands for all, and ranks that were not recorded take those of "
     "recorded ones, so that the time may miss the longest of many; peak memory is the most of all "
     "iterations; a program that draws lengths must draw the same ones each time it starts",
     true},
    {"kernels_not_timed",
     "--record-device: CUPTI refuses a call, so that kernels of that rank get no measured time"},
    {"kernels_without_name",
     "on a real GPU: the driver does not name a kernel, which is recorded as unknown"},
    {"large_copies_only_marked",
     "the program copied more bytes than are kept on the virtual device; they count as unwritten"},
    {"large_fills_repeated",
     "random initial values of a large tensor on the CPU repeat those of its first part, which "
     "saves time and memory; none of them reaches the virtual device"},
    {"late_ranks",
     "profiles: these ranks enter collectives last, since they wait there less than the median "
     "rank; an iteration of the graph begins on all ranks together"},
    {"layout_not_as_given",
     "--tp or --pp differs from what the program's groups make; the groups decide"},
    {"library_workspace_assumed",
     "the size of cuDNN's workspace for a recurrent network was derived from its shape"},
    {"library_workspace_unknown",
     "the program asked a library for the size of its workspace: 0, so that memory may be less "
     "than "
     "real"},
    {"loader_time_unknown",
     "workers of a data loader that are not forked, or that were there before the program used the "
     "device, do not tell how long they sleep: batches exist as soon as they are asked for"},
    {"measured_kernel_unused",
     "rows of a table of measured kernels (--kernels) match no kernel whose time the cost model "
     "gives: kind, type or a size is another, or the graph has that kernel's own time"},
    {"measured_transfers_differ",
     "the measured time of a collective and that of the cluster's model differ by more than twice: "
     "the measured one is used unless a cluster was asked for"},
    {"memory_of_several_devices",
     "the program allocated on more than one device; all counts as memory of one"},
    {"model_keys_unknown",
     "a config.json of --model has keys that may matter and are not known: they change nothing"},
    {"nccl_allocations_not_rounded",
     "the program had NCCL allocate memory, counted in steps of 2 MiB: on GPUs with multicast NCCL "
     "rounds it to what the driver recommends, which may be more"},
    {"nccl_memory_without_members",
     "a communicator's members were not known when it took memory: they are taken to fill nodes "
     "one after the other"},
    {"nccl_settings_left_out",
     "the environment steers NCCL (NCCL_ALGO and the like): collectives cost what NCCL chooses "
     "without that; [algorithms] of prism replay --edit forces an algorithm"},
    {"no_communication",
     "the program does not communicate: its ranks are that many jobs of one GPU"},
    {"observer_missing",
     "the library that names framework ops could not be loaded: kernels have no shapes"},
    {"odd_group",
     "one role alone forms a group whose collectives other roles call in groups of their own"},
    {"odd_iteration",
     "some of the iterations that were looked at do something else, which the time leaves out; a "
     "range 'iteration' around both (torch.profiler.record_function) has it counted",
     true},
    {"odd_iteration_untimed",
     "an iteration that does something else could not be timed: its ranks do not agree, or one of "
     "them ended before it; prism check says where",
     true},
    {"only_cpu_groups",
     "the program communicates in CPU groups (gloo) alone: a call takes its messages' time, but no "
     "rank waits there for a late one"},
    {"op_not_described",
     "a framework op could not be read: its kernels are recorded without shapes"},
    {"optimizer_on_cpu",
     "the program stepped an optimizer on the CPU, which takes no time here; --host-time "
     "measured:FACTOR counts it"},
    {"options_without_effect",
     "sizes of the built-in program were given beside a program of the user's, which does what its "
     "own options say"},
    {"order_of_weights_fixed",
     "a zero-bubble schedule of torch.distributed.pipelining computed gradients of weights in the "
     "order of the stage's parameters, where torch takes any, another in each iteration; an "
     "assumption"},
    {"peak_before_training",
     "most memory was held before the first iteration (a model that is made whole and then cut); "
     "the warning has the peak of training"},
    {"perturbation_without_effect",
     "a --perturb does not touch the iteration that the numbers are of: 'late' is over by then, "
     "unless --iterations 1"},
    {"reductions_on_host",
     "on a real GPU: large reductions were computed on the CPU, because the GPU refused them"},
    {"refused_",
     "the program called a function that the virtual device does not support; the call failed"},
    {"rendezvous_python_failed",
     "the replacements of Python's object collectives could not be installed: objects of absent "
     "ranks are not answered"},
    {"results_assumed_true",
     "the program asked 'all' or 'isfinite' of values that kernels did not compute: true, so that "
     "a "
     "loop until it is true ends at once, and one until it is false never"},
    {"role_not_timed",
     "--record-device: a role's rank did not run to the end on this machine's GPU, which lacks the "
     "memory for it or does something else: its kernels have modelled times, or those of their "
     "signature in other roles"},
    {"role_split",
     "a recorded rank does otherwise than its role; it has a role of its own, or the role does as "
     "most of its recorded ranks"},
    {"routing_by_rule",
     "selections (topk, argmax, max) of unknown values were made as --routing says"},
    {"segments_not_steady",
     "a rank still takes device memory from the driver after its warm-up: the peak may grow"},
    {"several_issuing_threads",
     "more threads gave the device work than the one that steps and autograd's: where it does not "
     "wait for their end, their ops come in an order by chance, and a rank may depart from its "
     "graph by it"},
    {"sm_limits_assumed",
     "the limits of a multiprocessor of this GPU are not known: those of the nearest are taken"},
    {"stand_in",
     "--stand-in: a file of the program's that is not there, or larger than this machine's memory, "
     "counts as one of the shapes that are known of it; an assumption"},
    {"stand_in_failed",
     "--stand-in: what stands for absent files could not be installed in the program's Python"},
    {"stream_query_taken_as_wait",
     "the program asked whether a stream is done, most often in a loop until it is: each time "
     "counts as a wait for it"},
    {"test_device", "all of CUDA goes to a library of the tests: no number is of a real GPU"},
    {"unknown_blocks_freed", "the framework freed blocks whose allocation was not seen"},
    {"unwritten_device_bytes_read",
     "the program read on the host what a kernel would have written: it got zeros"},
    {"value_rules_not_applied",
     "a result that a rule would have written has a type or size that no rule writes"},
    {"values_beyond_limit",
     "values that a rank gave to absent ones are too many to keep; those that run later get "
     "others"},
    {"values_not_summed",
     "on a real GPU: a sum over absent ranks could not be computed, the buffer has one rank's"},
    {"values_of_peer_role",
     "the program got values of a recorded rank at the same place of another group, as its own "
     "sender was not recorded"},
    {"values_replayed", "values of absent ranks were those that the ranks gave when recorded"},
    {"virtual_recv",
     "receives from absent ranks gave seeded normals, zeros where long or of integers"},
    {"virtual_recv_mirrored",
     "receives from absent ranks gave what the rank itself had sent in as many bytes"},
    {"waits_across_iterations",
     "the program waits for communication of the iteration before, which the time takes as over: "
     "let a range 'iteration' end after the wait"},
    {"watchdog_did_not_look",
     "a watchdog of c10d did not answer in time: tensors may be held longer than on the cluster"},
};

}  // namespace

std::span<const WarningCode> WarningCodes() {
  return kCodes;
}

const WarningCode* FindWarningCode(std::string_view code) {
  const auto* const found = std::ranges::find_if(kCodes, [&](const WarningCode& known) {
    return known.code.ends_with('_') ? code.starts_with(known.code) : code == known.code;
  });
  return found == std::end(kCodes) ? nullptr : found;
}

bool IsShownFirst(std::string_view code) {
  const WarningCode* const known = FindWarningCode(code);
  return known != nullptr && known->is_shown_first;
}

}  // namespace prism::graph
