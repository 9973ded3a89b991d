#include "launch/analyse/profile/profile_report.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "launch/analyse/profile/profile_file.h"

namespace prism::launch {
namespace {

// The rank; of a profile that states none, its file.
ReportCell NameOf(const RankProfile& profile) {
  return profile.rank < 0 ? ReportCell(profile.file) : ReportCell(profile.rank);
}

double Real(int64_t number) {
  return static_cast<double>(number);
}

int64_t Mean(int64_t total, int64_t count) {
  return count == 0 ? 0 : total / count;
}

ReportCell Known(int64_t number) {
  return number < 0 ? ReportCell() : ReportCell(number);
}

ReportTable TimesTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"breakdown",
                       "Where the GPU's time goes, from the first task to the last",
                       {{"rank", "rank", ColumnKind::kText},
                        {"file", nullptr, ColumnKind::kText},
                        {"steps", "steps", ColumnKind::kCount},
                        {"span_ns", "span", ColumnKind::kDuration},
                        {"compute_ns", "compute", ColumnKind::kDuration},
                        {"compute_pct", "", ColumnKind::kPercent},
                        {"non_compute_ns", "not compute", ColumnKind::kDuration},
                        {"non_compute_pct", "", ColumnKind::kPercent},
                        {"idle_ns", "idle", ColumnKind::kDuration},
                        {"idle_pct", "", ColumnKind::kPercent},
                        {"communication_ns", "communication", ColumnKind::kDuration},
                        {"overlapped_ns", "of it overlapped", ColumnKind::kDuration},
                        {"overlap_pct", "", ColumnKind::kPercent}},
                       {}};
  for (const RankProfile& one : profiles) {
    const DurationNs idle = one.span_ns - one.busy_ns;
    const DurationNs other = one.busy_ns - one.compute_ns;
    const double span = Real(one.span_ns);
    table.rows.push_back({NameOf(one), one.file, one.steps, one.span_ns, one.compute_ns,
                          PercentOf(Real(one.compute_ns), span), other,
                          PercentOf(Real(other), span), idle, PercentOf(Real(idle), span),
                          one.communication_ns, one.overlapped_ns,
                          PercentOf(Real(one.overlapped_ns), Real(one.communication_ns))});
  }
  return table;
}

ReportTable StreamsTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"streams",
                       "Why streams are idle between their tasks, and how many launches wait",
                       {{"rank", "rank", ColumnKind::kText},
                        {"device", "GPU", ColumnKind::kCount},
                        {"stream", "stream", ColumnKind::kCount},
                        {"tasks", "tasks", ColumnKind::kCount},
                        {"busy_ns", "busy", ColumnKind::kDuration},
                        {"host_wait_ns", "waits for host", ColumnKind::kDuration},
                        {"kernel_wait_ns", "kernel after kernel", ColumnKind::kDuration},
                        {"other_wait_ns", "other", ColumnKind::kDuration},
                        {"mean_queue_length", "mean queue", ColumnKind::kNumber},
                        {"longest_queue", "longest", ColumnKind::kCount},
                        {"full_queue_ns", "full", ColumnKind::kDuration}},
                       {}};
  for (const RankProfile& one : profiles) {
    for (const StreamProfile& stream : one.streams) {
      table.rows.push_back({NameOf(one), stream.device, stream.stream, stream.tasks, stream.busy_ns,
                            stream.host_wait_ns, stream.kernel_wait_ns, stream.other_wait_ns,
                            stream.mean_queue, stream.longest_queue, stream.full_ns});
    }
  }
  return table;
}

ReportTable LaunchesTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"launches",
                       "Launches: the GPU takes less time than the launch; launches of more than "
                       "50 us; tasks that begin more than 100 us later",
                       {{"rank", "rank", ColumnKind::kText},
                        {"launches", "launches", ColumnKind::kCount},
                        {"short_tasks", "short tasks", ColumnKind::kCount},
                        {"slow_launches", "slow", ColumnKind::kCount},
                        {"delayed_tasks", "delayed", ColumnKind::kCount},
                        {"blocked_launches", "queue full", ColumnKind::kCount},
                        {"mean_launch_ns", "mean launch", ColumnKind::kDuration},
                        {"mean_delay_ns", "mean delay", ColumnKind::kDuration}},
                       {}};
  for (const RankProfile& one : profiles) {
    const LaunchProfile& all = one.launches;
    table.rows.push_back({NameOf(one), all.launches, all.short_tasks, all.slow, all.delayed,
                          all.blocked, Mean(all.host_ns, all.launches),
                          Mean(all.delay_ns, all.launches)});
  }
  return table;
}

// Totals of several ranks by name, and on how many each is.
template <typename Key, typename Totals>
struct OverRanks {
  std::map<Key, std::pair<Totals, int64_t>> by_name;

  void Add(const std::map<Key, Totals>& one) {
    for (const auto& [name, totals] : one) {
      auto& [sum, ranks] = by_name[name];
      sum.Add(totals);
      ++ranks;
    }
  }
};

// Sorts rows by a column of numbers, the largest first.
void SortBy(const char* key, ReportTable* table) {
  const auto column = std::ranges::find_if(
      table->columns, [&](const ReportColumn& one) { return std::string_view(one.key) == key; });
  const auto at = static_cast<size_t>(column - table->columns.begin());
  std::ranges::stable_sort(table->rows, [&](const auto& a, const auto& b) {
    return std::get<int64_t>(a[at]) > std::get<int64_t>(b[at]);
  });
}

ReportTable KernelsTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"kernels",
                       "Tasks of the GPU by name, over all ranks; roofline: of matrix products, "
                       "how much of their time the GPU's rates would take",
                       {{"name", "name", ColumnKind::kText},
                        {"type", "type", ColumnKind::kText},
                        {"ranks", "ranks", ColumnKind::kCount},
                        {"count", "count", ColumnKind::kCount},
                        {"total_ns", "total", ColumnKind::kDuration},
                        {"share_pct", "share", ColumnKind::kPercent},
                        {"mean_ns", "mean", ColumnKind::kDuration},
                        {"shortest_ns", "shortest", ColumnKind::kDuration},
                        {"longest_ns", "longest", ColumnKind::kDuration},
                        {"roofline_pct", "roofline", ColumnKind::kPercent}},
                       {}};
  OverRanks<std::pair<TaskType, std::string>, TaskTotals> all;
  int64_t whole = 0;
  for (const RankProfile& one : profiles) {
    all.Add(one.kernels);
    for (const auto& [name, totals] : one.kernels) {
      whole += totals.total_ns;
    }
  }
  for (const auto& [name, entry] : all.by_name) {
    const auto& [totals, ranks] = entry;
    table.rows.push_back({name.second, std::string(NameOf(kTaskTypeNames, name.first)), ranks,
                          totals.count, totals.total_ns,
                          PercentOf(Real(totals.total_ns), Real(whole)),
                          Mean(totals.total_ns, totals.count), totals.shortest_ns,
                          totals.longest_ns, PercentOf(totals.ideal_ns, Real(totals.product_ns))});
  }
  SortBy("total_ns", &table);
  return table;
}

ReportTable OpsTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"ops",
                       "Ops by name, over all ranks; tasks and GPU time are those that the op "
                       "launched itself",
                       {{"name", "name", ColumnKind::kText},
                        {"ranks", "ranks", ColumnKind::kCount},
                        {"count", "count", ColumnKind::kCount},
                        {"tasks", "tasks", ColumnKind::kCount},
                        {"gpu_ns", "GPU", ColumnKind::kDuration},
                        {"gpu_share_pct", "share", ColumnKind::kPercent},
                        {"mean_gpu_ns", "mean", ColumnKind::kDuration},
                        {"host_ns", "host", ColumnKind::kDuration},
                        {"host_self_ns", "host itself", ColumnKind::kDuration}},
                       {}};
  OverRanks<std::string, OpTotals> all;
  for (const RankProfile& one : profiles) {
    all.Add(one.ops);
  }
  int64_t whole = 0;
  for (const auto& [name, entry] : all.by_name) {
    whole += entry.first.gpu_ns;
  }
  for (const auto& [name, entry] : all.by_name) {
    const auto& [totals, ranks] = entry;
    table.rows.push_back({name, ranks, totals.count, totals.tasks, totals.gpu_ns,
                          PercentOf(Real(totals.gpu_ns), Real(whole)),
                          Mean(totals.gpu_ns, totals.count), totals.host_ns, totals.host_self_ns});
  }
  SortBy("gpu_ns", &table);
  return table;
}

ReportTable CopiesTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"copies",
                       "Copies and memsets, over all ranks",
                       {{"kind", "kind", ColumnKind::kText},
                        {"ranks", "ranks", ColumnKind::kCount},
                        {"count", "count", ColumnKind::kCount},
                        {"bytes", "bytes", ColumnKind::kBytes},
                        {"total_ns", "total", ColumnKind::kDuration},
                        {"gb_per_s", "GB/s", ColumnKind::kNumber},
                        {"fastest_gb_per_s", "fastest", ColumnKind::kNumber}},
                       {}};
  OverRanks<std::string, CopyTotals> all;
  for (const RankProfile& one : profiles) {
    all.Add(one.copies);
  }
  for (const auto& [kind, entry] : all.by_name) {
    const auto& [totals, ranks] = entry;
    table.rows.push_back({kind, ranks, totals.count, totals.bytes, totals.total_ns,
                          Real(totals.bytes) / Real(totals.total_ns), totals.fastest_gb_per_s});
  }
  SortBy("total_ns", &table);
  return table;
}

ReportTable MemoryTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"memory",
                       "Memory of the framework's allocators",
                       {{"rank", "rank", ColumnKind::kText},
                        {"device", "device", ColumnKind::kText},
                        {"events", "events", ColumnKind::kCount},
                        {"peak_allocated_bytes", "peak allocated", ColumnKind::kBytes},
                        {"peak_after_ns", "after", ColumnKind::kDuration},
                        {"last_allocated_bytes", "at the end", ColumnKind::kBytes},
                        {"peak_reserved_bytes", "peak reserved", ColumnKind::kBytes}},
                       {}};
  for (const RankProfile& one : profiles) {
    for (const auto& [device, memory] : one.memory) {
      table.rows.push_back({NameOf(one), device, memory.events, Known(memory.peak_allocated_bytes),
                            memory.peak_ns - one.begin_ns, Known(memory.last_allocated_bytes),
                            Known(memory.peak_reserved_bytes)});
    }
  }
  return table;
}

ReportTable MemoryOpsTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"memory_ops",
                       "What allocated during the profile, and how much of it was there at the "
                       "peak",
                       {{"rank", "rank", ColumnKind::kText},
                        {"device", "device", ColumnKind::kText},
                        {"op", "op", ColumnKind::kText},
                        {"count", "count", ColumnKind::kCount},
                        {"bytes", "bytes", ColumnKind::kBytes},
                        {"at_peak_bytes", "at the peak", ColumnKind::kBytes}},
                       {}};
  for (const RankProfile& one : profiles) {
    for (const auto& [where, memory] : one.op_memory) {
      if (memory.count > 0) {
        table.rows.push_back({NameOf(one), where.first, where.second, memory.count, memory.bytes,
                              memory.at_peak_bytes});
      }
    }
  }
  SortBy("at_peak_bytes", &table);
  return table;
}

ReportTable MemoryTimesTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"memory_over_time",
                       "Memory over time: the most that was allocated from each time to the next",
                       {{"rank", "rank", ColumnKind::kText},
                        {"device", "device", ColumnKind::kText},
                        {"after_ns", "after", ColumnKind::kDuration},
                        {"allocated_bytes", "allocated", ColumnKind::kBytes}},
                       {},
                       false};
  for (const RankProfile& one : profiles) {
    for (const auto& [device, memory] : one.memory) {
      for (const auto& [time, bytes] : memory.allocated) {
        table.rows.push_back({NameOf(one), device, time - one.begin_ns, Known(bytes)});
      }
    }
  }
  return table;
}

ReportTable StacksTable(const std::vector<RankProfile>& profiles) {
  ReportTable table = {"stacks",
                       "Tasks of the GPU by the functions of Python that launched them, the "
                       "innermost first",
                       {{"stack", "stack", ColumnKind::kText},
                        {"ranks", "ranks", ColumnKind::kCount},
                        {"count", "tasks", ColumnKind::kCount},
                        {"total_ns", "GPU", ColumnKind::kDuration}},
                       {}};
  OverRanks<std::string, TaskTotals> all;
  for (const RankProfile& one : profiles) {
    all.Add(one.stacks);
  }
  for (const auto& [stack, entry] : all.by_name) {
    table.rows.push_back({stack, entry.second, entry.first.count, entry.first.total_ns});
  }
  SortBy("total_ns", &table);
  return table;
}

std::string StepsText(const ProfileChoice& choice) {
  return choice.step >= 0   ? fmt::format("only step {} counts", choice.step)
         : choice.last_step ? std::string("all steps count")
                            : "the last of several steps is left out, as it is often not whole: "
                              "--last-step counts it";
}

std::vector<std::string> NotesOf(const std::vector<RankProfile>& profiles,
                                 const ProfileChoice& choice) {
  std::vector<std::string> notes;
  int64_t left_out = 0;
  int64_t without_ops = 0;
  int64_t without_calls = 0;
  int64_t untimed = 0;
  int64_t joined = 0;
  for (const RankProfile& one : profiles) {
    left_out += one.tasks_left_out;
    without_ops += one.has_ops ? 0 : 1;
    without_calls += one.has_calls ? 0 : 1;
    untimed += one.untimed;
    joined += one.joined;
    if (one.is_cut_off) {
      notes.push_back(fmt::format("{} is cut off and ends early", one.file));
    }
  }
  if (left_out > 0) {
    notes.push_back(
        fmt::format("{}; {} not counted", StepsText(choice), FormatCounted(left_out, "task")));
  }
  if (untimed > 0) {
    notes.push_back(fmt::format("the times of {} are no numbers, or negative; not counted",
                                FormatCounted(untimed, "event")));
  }
  if (joined > 0) {
    notes.push_back(fmt::format("shapes of {} are from execution traces",
                                FormatCounted(joined, "matrix product")));
  }
  if (without_calls > 0) {
    notes.push_back(
        fmt::format("{} no calls of CUDA: tasks count by when they begin, and what "
                    "streams wait for is not known",
                    without_calls == 1 ? "a profile has" : "profiles have"));
  }
  if (without_ops > 0) {
    notes.push_back(fmt::format("{} no ops: profile with ProfilerActivity.CPU",
                                without_ops == 1 ? "a profile has" : "profiles have"));
  }
  return notes;
}

// Counts and times of one thing on either side.
struct Sides {
  int64_t left_count = 0;
  int64_t left_ns = 0;
  int64_t right_count = 0;
  int64_t right_ns = 0;
};

std::map<std::string, Sides> KernelSides(const RankProfile& left, const RankProfile& right) {
  std::map<std::string, Sides> sides;
  for (const auto& [name, totals] : left.kernels) {
    sides[name.second].left_count += totals.count;
    sides[name.second].left_ns += totals.total_ns;
  }
  for (const auto& [name, totals] : right.kernels) {
    sides[name.second].right_count += totals.count;
    sides[name.second].right_ns += totals.total_ns;
  }
  return sides;
}

std::map<std::string, Sides> OpSides(const RankProfile& left,
                                     const RankProfile& right,
                                     DurationNs OpTotals::* time) {
  std::map<std::string, Sides> sides;
  for (const auto& [name, totals] : left.ops) {
    sides[name].left_count = totals.count;
    sides[name].left_ns = totals.*time;
  }
  for (const auto& [name, totals] : right.ops) {
    sides[name].right_count = totals.count;
    sides[name].right_ns = totals.*time;
  }
  return sides;
}

std::map<std::string, Sides> TimeSides(const RankProfile& left, const RankProfile& right) {
  const auto both = [&](auto value) {
    return Sides{left.steps, value(left), right.steps, value(right)};
  };
  const auto gaps = [&](DurationNs StreamProfile::* cause) {
    return both([cause](const RankProfile& one) {
      DurationNs sum = 0;
      for (const StreamProfile& stream : one.streams) {
        sum += stream.*cause;
      }
      return sum;
    });
  };
  return {
      {"streams wait for the host", gaps(&StreamProfile::host_wait_ns)},
      {"streams between kernels", gaps(&StreamProfile::kernel_wait_ns)},
      {"streams wait for other causes", gaps(&StreamProfile::other_wait_ns)},
      {"span", both([](const RankProfile& one) { return one.span_ns; })},
      {"idle", both([](const RankProfile& one) { return one.span_ns - one.busy_ns; })},
      {"compute", both([](const RankProfile& one) { return one.compute_ns; })},
      {"not compute", both([](const RankProfile& one) { return one.busy_ns - one.compute_ns; })},
      {"communication", both([](const RankProfile& one) { return one.communication_ns; })},
      {"overlapped", both([](const RankProfile& one) { return one.overlapped_ns; })}};
}

ReportTable SidesTable(const char* key,
                       const std::string& title,
                       const std::map<std::string, Sides>& sides) {
  ReportTable table = {key,
                       title,
                       {{"name", "name", ColumnKind::kText},
                        {"left_count", "left", ColumnKind::kCount},
                        {"left_ns", "", ColumnKind::kDuration},
                        {"right_count", "right", ColumnKind::kCount},
                        {"right_ns", "", ColumnKind::kDuration},
                        {"change_ns", "change", ColumnKind::kDuration},
                        {"change_pct", "", ColumnKind::kPercent}},
                       {}};
  for (const auto& [name, one] : sides) {
    const DurationNs change = one.right_ns - one.left_ns;
    table.rows.push_back({name, one.left_count, one.left_ns, one.right_count, one.right_ns, change,
                          PercentOf(Real(change), Real(one.left_ns))});
  }
  constexpr size_t kChange = 5;
  std::ranges::stable_sort(table.rows, [](const auto& a, const auto& b) {
    return std::abs(std::get<int64_t>(a[kChange])) > std::abs(std::get<int64_t>(b[kChange]));
  });
  return table;
}

}  // namespace

Result<TableReport> ReportOfProfiles(const std::vector<std::string>& files,
                                     const ProfileChoice& choice) {
  PRISM_ASSIGN_OR_RETURN(std::vector<RankProfile> profiles, ReadProfiles(files, choice));
  std::ranges::stable_sort(profiles, {}, &RankProfile::rank);
  TableReport report;
  report.title = profiles.size() == 1
                     ? fmt::format("profile {}", profiles.front().file)
                     : FormatCounted(static_cast<int64_t>(profiles.size()), "profile");
  report.notes = NotesOf(profiles, choice);
  for (ReportTable (*const table)(const std::vector<RankProfile>&) :
       {TimesTable, StreamsTable, LaunchesTable, KernelsTable, OpsTable, CopiesTable, StacksTable,
        MemoryTable, MemoryOpsTable, MemoryTimesTable}) {
    report.tables.push_back(table(profiles));
  }
  return report;
}

Result<TableReport> CompareProfiles(const std::string& left,
                                    const std::string& right,
                                    const ProfileChoice& choice) {
  PRISM_ASSIGN_OR_RETURN(const RankProfile a, ReadOneProfile(left, choice));
  PRISM_ASSIGN_OR_RETURN(const RankProfile b, ReadOneProfile(right, choice));
  TableReport report;
  report.title = fmt::format("{} (left) and {} (right)", left, right);
  report.notes = NotesOf({a, b}, choice);
  if (a.steps != b.steps) {
    report.notes.push_back(
        fmt::format("the left counts {}, the right {}: compare one of each with --step N",
                    FormatCounted(a.steps, "step"), b.steps));
  }
  report.tables = {
      SidesTable("breakdown", "Where the GPU's time goes in all steps that count", TimeSides(a, b)),
      SidesTable("kernels", "Tasks of the GPU by name", KernelSides(a, b)),
      SidesTable("ops_on_gpu", "Ops by the GPU's time", OpSides(a, b, &OpTotals::gpu_ns)),
      SidesTable("ops_on_host", "Ops by the host's time", OpSides(a, b, &OpTotals::host_self_ns))};
  return report;
}

}  // namespace prism::launch
