// Strings, kernel signatures, communicators and the rank table ↔ chunks.
#include <algorithm>

#include "graph/base/check.h"
#include "graph/proto/codec.h"
#include "graph/proto/convert.h"

namespace prism::graph {
namespace {

// Where a run ends early, so that its payload stays far below kMaxChunkBytes.
constexpr size_t kMaxRunEntries = size_t{1} << 16U;
constexpr size_t kMaxRunBytes = size_t{4} << 20U;  // of text
constexpr size_t kMaxRunSlots = size_t{1} << 20U;  // members, communicators or peers in all

void AddSignature(const KernelSignature& signature, proto::Signatures* columns) {
  columns->add_name(signature.name.value());
  columns->add_framework_op(signature.framework_op.value());
  for (size_t axis = 0; axis < 3; ++axis) {
    columns->add_grid(signature.grid[axis]);
    columns->add_block(signature.block[axis]);
  }
  const MatmulShape& matmul = signature.matmul;
  for (const int64_t extent : {matmul.m, matmul.n, matmul.k, matmul.batch}) {
    columns->add_matmul(extent);
  }
  columns->add_matmul_types(static_cast<uint32_t>(matmul.input));
  columns->add_matmul_types(static_cast<uint32_t>(matmul.output));
  columns->add_transposes((matmul.transpose_a ? 1U : 0U) | (matmul.transpose_b ? 2U : 0U));
  columns->add_input_count(static_cast<uint32_t>(signature.inputs.size()));
  for (const TensorShape& input : signature.inputs) {
    columns->add_input_dtype(static_cast<uint32_t>(input.dtype));
    columns->add_rank_of_input(static_cast<uint32_t>(input.dims.size()));
    for (const int64_t dim : input.dims) {
      columns->add_dims(dim);
    }
  }
}

bool ColumnsAgree(const proto::Signatures& columns) {
  const int count = columns.name_size();
  const auto is = [count](int size, int each) { return int64_t{size} == int64_t{count} * each; };
  return is(columns.framework_op_size(), 1) && is(columns.grid_size(), 3) &&
         is(columns.block_size(), 3) && is(columns.matmul_size(), 4) &&
         is(columns.matmul_types_size(), 2) && is(columns.transposes_size(), 1) &&
         is(columns.input_count_size(), 1) &&
         columns.input_dtype_size() == columns.rank_of_input_size();
}

// Reads the flat lists of tensor shapes front to back.
struct ShapeCursor {
  const proto::Signatures& columns;
  int next_input = 0;
  int next_dim = 0;

  Status ReadInputs(uint32_t count, std::vector<TensorShape>* inputs) {
    if (count > static_cast<uint32_t>(columns.input_dtype_size() - next_input)) {
      return BadFile("more inputs than shapes");
    }
    for (uint32_t input = 0; input < count; ++input, ++next_input) {
      TensorShape shape;
      PRISM_RETURN_IF_ERROR(
          ReadEnum(columns.input_dtype(next_input), DataType::kFloat64, &shape.dtype));
      const uint32_t rank = columns.rank_of_input(next_input);
      if (rank > static_cast<uint32_t>(columns.dims_size() - next_dim)) {
        return BadFile("more dimensions than there are");
      }
      for (uint32_t dim = 0; dim < rank; ++dim, ++next_dim) {
        shape.dims.push_back(columns.dims(next_dim));
      }
      inputs->push_back(std::move(shape));
    }
    return OkStatus();
  }

  [[nodiscard]] bool at_end() const {
    return next_input == columns.input_dtype_size() && next_dim == columns.dims_size();
  }
};

Status ReadSignature(const proto::Signatures& columns,
                     int at,
                     uint32_t string_count,
                     KernelSignature* signature) {
  PRISM_RETURN_IF_ERROR(CheckIndex(columns.name(at), string_count, "string"));
  PRISM_RETURN_IF_ERROR(CheckIndex(columns.framework_op(at), string_count, "string"));
  signature->name = StringId(columns.name(at));
  signature->framework_op = StringId(columns.framework_op(at));
  for (int axis = 0; axis < 3; ++axis) {
    signature->grid[static_cast<size_t>(axis)] = columns.grid(3 * at + axis);
    signature->block[static_cast<size_t>(axis)] = columns.block(3 * at + axis);
  }
  MatmulShape& matmul = signature->matmul;
  matmul.m = columns.matmul(4 * at);
  matmul.n = columns.matmul(4 * at + 1);
  matmul.k = columns.matmul(4 * at + 2);
  matmul.batch = columns.matmul(4 * at + 3);
  matmul.transpose_a = (columns.transposes(at) & 1U) != 0;
  matmul.transpose_b = (columns.transposes(at) & 2U) != 0;
  PRISM_RETURN_IF_ERROR(ReadEnum(columns.matmul_types(2 * at), DataType::kFloat64, &matmul.input));
  return ReadEnum(columns.matmul_types(2 * at + 1), DataType::kFloat64, &matmul.output);
}

// One of the two slot columns of the rank table: lengths and ids as distances.
struct SlotColumn {
  std::vector<uint32_t>* begin;
  std::vector<uint32_t>* ids;
  uint64_t limit;  // ids are below it
  std::string_view what;
};

// Appends the slots of one rank. `deltas` starts at the rank's first.
Status AppendSlots(const int64_t* deltas, uint32_t count, bool has_before, const SlotColumn& to) {
  if (to.begin->empty()) {
    to.begin->push_back(0);
  }
  const size_t rank = to.begin->size() - 1;
  const uint32_t before_begin = has_before ? (*to.begin)[rank - 1] : 0;
  const uint32_t before_count = has_before ? (*to.begin)[rank] - before_begin : 0;
  for (uint32_t slot = 0; slot < count; ++slot) {
    const int64_t before = slot < before_count ? (*to.ids)[before_begin + slot] : 0;
    const int64_t id = deltas[slot] < -before ? -1 : before + deltas[slot];
    if (id < 0 || static_cast<uint64_t>(id) >= to.limit) {
      return BadFile(fmt::format("{} out of range", to.what));
    }
    to.ids->push_back(static_cast<uint32_t>(id));
  }
  to.begin->push_back(static_cast<uint32_t>(to.ids->size()));
  return OkStatus();
}

bool CountsAgree(const google::protobuf::RepeatedField<uint32_t>& counts, int ranks, int slots) {
  uint64_t sum = 0;
  for (const uint32_t count : counts) {
    sum += count;
  }
  return counts.size() == ranks && sum == static_cast<uint64_t>(slots);
}

void AddSlotDeltas(std::span<const uint32_t> ids,
                   std::span<const uint32_t> before,
                   google::protobuf::RepeatedField<int64_t>* deltas) {
  for (size_t slot = 0; slot < ids.size(); ++slot) {
    deltas->Add(int64_t{ids[slot]} - (slot < before.size() ? int64_t{before[slot]} : 0));
  }
}

Status AppendMembers(const int64_t* deltas,
                     uint32_t count,
                     const TableSizes& sizes,
                     int64_t first_before,
                     CommunicatorTable* table) {
  int64_t member = first_before;
  for (uint32_t index = 0; index < count; ++index) {
    const bool rises = index == 0 || deltas[index] > 0;
    if (!rises || deltas[index] < -member || deltas[index] >= sizes.ranks - member) {
      return BadFile(fmt::format("members of communicator {} are not ascending ranks below {}",
                                 table->size(), sizes.ranks));
    }
    member += deltas[index];
    table->members.push_back(static_cast<uint32_t>(member));
  }
  table->begin.push_back(static_cast<uint32_t>(table->members.size()));
  return OkStatus();
}

}  // namespace

Run EncodeStrings(const std::vector<std::string>& strings, size_t begin) {
  proto::Strings run;
  size_t end = begin;
  size_t bytes = 0;
  while (end < strings.size() && end - begin < kMaxRunEntries && bytes < kMaxRunBytes) {
    bytes += strings[end].size();
    run.add_text(strings[end]);
    ++end;
  }
  return {.payload = run.SerializeAsString(), .end = end};
}

Status DecodeStrings(std::string_view payload, std::vector<std::string>* strings) {
  proto::Strings run;
  PRISM_RETURN_IF_ERROR(Parse(payload, &run));
  if (run.text_size() == 0) {
    return BadFile("empty");
  }
  if (strings->empty() && !run.text(0).empty()) {
    return BadFile("string 0 is not empty");
  }
  for (std::string& text : *run.mutable_text()) {
    strings->push_back(std::move(text));
  }
  return OkStatus();
}

Run EncodeSignatures(const std::vector<KernelSignature>& signatures, size_t begin) {
  proto::Signatures columns;
  size_t end = begin;
  while (end < signatures.size() && end - begin < kMaxRunEntries &&
         static_cast<size_t>(columns.dims_size()) < kMaxRunSlots) {
    AddSignature(signatures[end], &columns);
    ++end;
  }
  return {.payload = columns.SerializeAsString(), .end = end};
}

Status DecodeSignatures(std::string_view payload,
                        const TableSizes& sizes,
                        std::vector<KernelSignature>* signatures) {
  proto::Signatures columns;
  PRISM_RETURN_IF_ERROR(Parse(payload, &columns));
  if (columns.name_size() == 0 || !ColumnsAgree(columns)) {
    return BadFile("columns are empty or differ in length");
  }
  ShapeCursor cursor{.columns = columns};
  for (int at = 0; at < columns.name_size(); ++at) {
    KernelSignature signature;
    PRISM_RETURN_IF_ERROR(ReadSignature(columns, at, sizes.strings, &signature));
    PRISM_RETURN_IF_ERROR(cursor.ReadInputs(columns.input_count(at), &signature.inputs));
    signatures->push_back(std::move(signature));
  }
  return cursor.at_end() ? OkStatus() : BadFile("shapes of no signature");
}

Run EncodeCommunicators(const CommunicatorTable& table, size_t begin) {
  proto::Communicators run;
  int64_t first_before = 0;
  size_t end = begin;
  while (end < table.size() && end - begin < kMaxRunEntries &&
         static_cast<size_t>(run.member_delta_size()) < kMaxRunSlots) {
    const std::span<const uint32_t> members = table.members_of(CommId(static_cast<uint32_t>(end)));
    run.add_size(static_cast<uint32_t>(members.size()));
    run.add_name(table.name[end]);
    int64_t before = first_before;
    for (const uint32_t member : members) {
      run.add_member_delta(int64_t{member} - before);
      before = member;
    }
    first_before = members.empty() ? first_before : members.front();
    ++end;
  }
  return {.payload = run.SerializeAsString(), .end = end};
}

Status DecodeCommunicators(std::string_view payload,
                           const TableSizes& sizes,
                           CommunicatorTable* table) {
  proto::Communicators run;
  PRISM_RETURN_IF_ERROR(Parse(payload, &run));
  if (run.size_size() == 0 || run.name_size() != run.size_size() ||
      !CountsAgree(run.size(), run.size_size(), run.member_delta_size())) {
    return BadFile("columns are empty or differ in length");
  }
  const int64_t* deltas = run.member_delta().data();
  int64_t first_before = 0;
  for (int at = 0; at < run.size_size(); ++at) {
    PRISM_RETURN_IF_ERROR(CheckIndex(run.name(at), sizes.strings, "string"));
    const size_t first = table->members.size();
    PRISM_RETURN_IF_ERROR(AppendMembers(deltas, run.size(at), sizes, first_before, table));
    table->name.push_back(run.name(at));
    deltas += run.size(at);
    first_before = run.size(at) == 0 ? first_before : table->members[first];
  }
  return OkStatus();
}

Run EncodeRanks(const RankTable& table, size_t begin) {
  PRISM_CHECK(table.source.size() == table.size() &&
              table.comm_begin.size() == size_t{table.size()} + 1 &&
              table.peer_begin.size() == size_t{table.size()} + 1);
  proto::Ranks run;
  std::span<const uint32_t> comms_before;
  std::span<const uint32_t> peers_before;
  size_t end = begin;
  while (end < table.size() && end - begin < kMaxRunEntries &&
         static_cast<size_t>(run.comm_delta_size() + run.peer_delta_size()) < kMaxRunSlots) {
    const Rank rank(static_cast<uint32_t>(end));
    run.add_role(table.role[end]);
    run.mutable_source()->push_back(static_cast<char>(table.source[end]));
    run.add_comm_count(static_cast<uint32_t>(table.comms(rank).size()));
    run.add_peer_count(static_cast<uint32_t>(table.peers(rank).size()));
    AddSlotDeltas(table.comms(rank), comms_before, run.mutable_comm_delta());
    AddSlotDeltas(table.peers(rank), peers_before, run.mutable_peer_delta());
    comms_before = table.comms(rank);
    peers_before = table.peers(rank);
    ++end;
  }
  return {.payload = run.SerializeAsString(), .end = end};
}

Status DecodeRanks(std::string_view payload, const TableSizes& sizes, Graph* graph) {
  proto::Ranks run;
  PRISM_RETURN_IF_ERROR(Parse(payload, &run));
  const int count = run.role_size();
  if (count == 0 || run.source().size() != static_cast<size_t>(count) ||
      !CountsAgree(run.comm_count(), count, run.comm_delta_size()) ||
      !CountsAgree(run.peer_count(), count, run.peer_delta_size())) {
    return BadFile("columns are empty or differ in length");
  }
  RankTable& table = graph->ranks;
  const SlotColumn comms{.begin = &table.comm_begin,
                         .ids = &table.comm_ids,
                         .limit = sizes.communicators,
                         .what = "communicator"};
  const SlotColumn peers{
      .begin = &table.peer_begin, .ids = &table.peer_ids, .limit = sizes.ranks, .what = "peer"};
  const int64_t* comm_deltas = run.comm_delta().data();
  const int64_t* peer_deltas = run.peer_delta().data();
  for (int at = 0; at < count; ++at) {
    PRISM_RETURN_IF_ERROR(CheckIndex(run.role(at), graph->roles.size(), "role"));
    const Program& program = graph->roles[run.role(at)].program;
    if (run.comm_count(at) != program.comm_slot_count ||
        run.peer_count(at) != program.peer_slot_count) {
      return BadFile(fmt::format("rank {} does not fill the slots of its role", table.size()));
    }
    const auto source = static_cast<unsigned char>(run.source()[static_cast<size_t>(at)]);
    PRISM_RETURN_IF_ERROR(
        ReadEnum(source, RankSource::kApproximated, &table.source.emplace_back()));
    PRISM_RETURN_IF_ERROR(AppendSlots(comm_deltas, run.comm_count(at), at > 0, comms));
    PRISM_RETURN_IF_ERROR(AppendSlots(peer_deltas, run.peer_count(at), at > 0, peers));
    table.role.push_back(run.role(at));
    comm_deltas += run.comm_count(at);
    peer_deltas += run.peer_count(at);
  }
  return OkStatus();
}

}  // namespace prism::graph
