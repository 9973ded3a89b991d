// The foundations: units, random numbers, hashes, files, compression, JSON, log, parallel loops.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "graph/base/compress.h"
#include "graph/base/file.h"
#include "graph/base/hash.h"
#include "graph/base/json_writer.h"
#include "graph/base/log.h"
#include "graph/base/parallel.h"
#include "graph/base/parse_number.h"
#include "graph/base/rng.h"
#include "graph/base/split.h"
#include "graph/base/units.h"
#include "tests/support/scratch_folder.h"

namespace prism {
namespace {

TEST(ParseNumber, reads_whole_texts_only) {
  int32_t whole = 7;
  EXPECT_TRUE(ParseNumber("-12", &whole));
  EXPECT_EQ(whole, -12);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "0x1", "2147483648"}) {
    EXPECT_FALSE(ParseNumber(text, &whole)) << text;
  }
  EXPECT_EQ(whole, -12);
  double real = 0;
  EXPECT_TRUE(ParseNumber("1.5e3", &real));
  EXPECT_EQ(real, 1500);
}

TEST(Units, prints_for_people) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(FormatBytes(80 * kGiB), "80 GiB");
  EXPECT_EQ(FormatBytes(85'520'809'984), "79.65 GiB");
  EXPECT_EQ(FormatBytes(kGiB - 1), "1 GiB");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatDuration(4'213'400'000), "4.213 s");
  EXPECT_EQ(FormatDuration(999'999'999), "1 s");
  EXPECT_EQ(FormatDuration(12'500'000), "12.5 ms");
  EXPECT_EQ(FormatDuration(850), "850 ns");
  EXPECT_EQ(FormatCount(8192), "8,192");
  EXPECT_EQ(FormatCount(-1'234'567), "-1,234,567");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCounted(1, "role"), "1 role");
  EXPECT_EQ(FormatCounted(0, "rank"), "0 ranks");
  EXPECT_EQ(FormatCounted(8192, "micro-batch"), "8,192 micro-batches");
  EXPECT_EQ(FormatApproximate(329.4e6), "329.4 M");
  EXPECT_EQ(FormatApproximate(128), "128");
}

// Pinned: a change here changes every seeded result of the product.
TEST(Rng, stream_is_pinned_and_split_by_purpose) {
  Rng one(1, "a");
  Rng same(1, "a");
  Rng purpose(1, "b");
  Rng seed(2, "a");
  const uint64_t first = one.Next();
  EXPECT_EQ(first, 11647947608258126824U);
  EXPECT_EQ(first, same.Next());
  EXPECT_NE(first, purpose.Next());
  EXPECT_NE(first, seed.Next());
}

TEST(Rng, uniform_integers_stay_in_range_and_cover_it) {
  Rng rng(7, "uniform");
  std::vector<int> count(6, 0);
  for (int draw = 0; draw < 6000; ++draw) {
    const int64_t value = rng.UniformInt(-2, 3);
    ASSERT_GE(value, -2);
    ASSERT_LE(value, 3);
    ++count[static_cast<size_t>(value + 2)];
  }
  EXPECT_THAT(count, testing::Each(testing::AllOf(testing::Gt(850), testing::Lt(1150))));
  EXPECT_EQ(rng.UniformInt(5, 5), 5);
  static_cast<void>(
      rng.UniformInt(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
}

TEST(Hash, is_the_published_xxh3_and_separates_sequences) {
  EXPECT_EQ(Hash64(""), 0x2D06800538D394C2U);  // XXH3_64bits of nothing, from its documentation
  Hasher one;
  one.AddString("ab");
  one.AddString("c");
  Hasher other;
  other.AddString("a");
  other.AddString("bc");
  EXPECT_NE(one.Digest(), other.Digest());
}

class Files : public testing::Test {
 protected:
  [[nodiscard]] size_t FileCount() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) {
      ++count;
    }
    return count;
  }

  const ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(Files, writes_and_reads_back) {
  const std::string path = folder_ + "/data";
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(*ReadFile(path), bytes);
  EXPECT_EQ(MappedFile::Open(path)->bytes(), bytes);
  EXPECT_EQ(FileCount(), 1U);
}

TEST_F(Files, leaves_nothing_without_commit) {
  {
    Result<AtomicFile> file = AtomicFile::Create(folder_ + "/data");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append("half").ok());
  }
  EXPECT_EQ(FileCount(), 0U);
}

TEST_F(Files, leaves_nothing_where_the_writer_is_killed) {
  const int unnamed = open(folder_.c_str(), O_TMPFILE | O_WRONLY, S_IRUSR);
  if (unnamed < 0) {
    GTEST_SKIP() << "the file system has no files without a name";
  }
  close(unnamed);
  const pid_t writer = fork();
  if (writer == 0) {
    Result<AtomicFile> file = AtomicFile::Create(folder_ + "/data");
    if (file.ok() && file->Append("half").ok()) {
      raise(SIGKILL);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(FileCount(), 0U);
}

TEST_F(Files, a_set_appears_as_a_whole_and_replaces_what_was_there) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/set.1", "old").ok());
  AtomicFileSet set(folder_ + "/set.");
  ASSERT_TRUE(set.Write("1", "one").ok());
  ASSERT_TRUE(set.Write("2", "two").ok());
  EXPECT_EQ(*ReadFile(folder_ + "/set.1"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/set.2"));
  ASSERT_TRUE(set.Commit().ok());
  EXPECT_EQ(*ReadFile(folder_ + "/set.1"), "one");
  EXPECT_EQ(*ReadFile(folder_ + "/set.2"), "two");
}

TEST_F(Files, a_set_leaves_nothing_without_commit) {
  {
    AtomicFileSet set(folder_ + "/set.");
    ASSERT_TRUE(set.Write("1", "one").ok());
  }
  EXPECT_EQ(FileCount(), 0U);
}

TEST_F(Files, a_set_names_the_file_that_it_cannot_write) {
  AtomicFileSet nowhere(folder_ + "/no/such.");
  const Status status = nowhere.Write("1", "one");
  EXPECT_EQ(status.code(), StatusCode::kEnvironment);
  EXPECT_EQ(status.message(), "cannot write " + folder_ + "/no/such.1: No such file or directory");
}

TEST_F(Files, maps_empty_files) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/empty", "").ok());
  EXPECT_TRUE(MappedFile::Open(folder_ + "/empty")->bytes().empty());
}

TEST_F(Files, failures_carry_their_code) {
  EXPECT_EQ(ReadFile(folder_ + "/absent").status().code(), StatusCode::kBadFile);
  EXPECT_EQ(ReadFile(folder_).status().code(), StatusCode::kBadFile);
  EXPECT_EQ(MappedFile::Open(folder_).status().code(), StatusCode::kBadFile);
  EXPECT_EQ(WriteFileAtomically(folder_ + "/no/such", "x").code(), StatusCode::kEnvironment);
}

// A file size limit stands in for a full disk: the kernel answers both at write().
class TinyFiles {
 public:
  TinyFiles() {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    EXPECT_NE(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    const rlimit tiny = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  }

  TinyFiles(const TinyFiles&) = delete;
  TinyFiles& operator=(const TinyFiles&) = delete;

  ~TinyFiles() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }

 private:
  rlimit before_ = {};
};

TEST_F(Files, full_disk_fails_the_run_and_leaves_nothing) {
  const TinyFiles limit;
  const Status status = WriteFileAtomically(folder_ + "/data", std::string(2000, 'x'));
  EXPECT_EQ(status.code(), StatusCode::kRunFailed);
  EXPECT_EQ(FileCount(), 0U);
}

TEST_F(Files, a_set_on_a_full_disk_leaves_nothing) {
  const TinyFiles limit;
  {
    AtomicFileSet set(folder_ + "/set.");
    ASSERT_TRUE(set.Write("1", "one").ok());
    const Status status = set.Write("2", std::string(2000, 'x'));
    EXPECT_EQ(status.code(), StatusCode::kRunFailed);
    EXPECT_EQ(status.message(), "cannot write " + folder_ + "/set.2: File too large");
  }
  EXPECT_EQ(FileCount(), 0U);
}

TEST(Compress, gives_back_the_input_and_bounds_the_output) {
  const std::string bytes(100'000, 'x');
  const std::string compressed = Compress(bytes);
  EXPECT_LT(compressed.size(), 100U);
  EXPECT_EQ(*Decompress(compressed, bytes.size()), bytes);
  EXPECT_EQ(Decompress(compressed, bytes.size() - 1).status().code(), StatusCode::kBadFile);
  EXPECT_FALSE(Decompress("not zstd", 100).ok());
  EXPECT_FALSE(Decompress(compressed.substr(0, compressed.size() - 1), bytes.size()).ok());
  EXPECT_EQ(*Decompress(Compress(""), 0), "");
}

// A thousand times "a", gzipped.
TEST(Compress, reads_what_gzip_packed) {
  using std::string_literals::operator""s;
  const std::string packed =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\x4c\x1c\x05\xa3\x60\x14\x0c\x77\x00"
      "\x00\x03\xda\x38\x9a\xe8\x03\x00\x00"
      ""s;
  const std::string expected(1000, 'a');
  EXPECT_TRUE(IsPacked(packed));
  EXPECT_FALSE(IsPacked(expected));
  EXPECT_EQ(*Unpack(packed, 1000), expected);
  EXPECT_EQ(*Unpack(packed + packed, 1 << 20U), expected + expected);
  EXPECT_THAT(Unpack(packed, 999).status().message(), ::testing::HasSubstr("more than 999 bytes"));
  EXPECT_THAT(Unpack(packed.substr(0, packed.size() - 9), 1000).status().message(),
              ::testing::HasSubstr("ends too early"));
  EXPECT_EQ(*Unpack(packed + std::string(512, '\0'), 1000), expected);  // as tar pads
  bool ends_early = false;
  EXPECT_TRUE(
      expected.starts_with(*Unpack(packed.substr(0, packed.size() - 9), 1000, &ends_early)));
  EXPECT_TRUE(ends_early);
  std::string damaged = packed;
  damaged[packed.size() - 6] ^= 1;
  EXPECT_THAT(Unpack(damaged, 1000).status().message(), ::testing::HasSubstr("damaged"));
}

TEST(Compress, reads_what_zstd_packed) {
  const std::string expected(100'000, 'a');
  const std::string packed = Compress(expected);
  ASSERT_TRUE(IsPacked(packed));
  EXPECT_EQ(*Unpack(packed, 100'000), expected);
  EXPECT_EQ(*Unpack(packed + packed, 1 << 20U), expected + expected);
  EXPECT_THAT(Unpack(packed, 99'999).status().message(), ::testing::HasSubstr("more than 99999"));
  const std::string cut = packed.substr(0, packed.size() - 1);
  EXPECT_THAT(Unpack(cut, 100'000).status().message(), ::testing::HasSubstr("ends too early"));
  bool ends_early = false;
  EXPECT_TRUE(Unpack(cut, 100'000, &ends_early).ok() && ends_early);
  EXPECT_THAT(Unpack(packed.substr(0, 4) + "????????", 100).status().message(),
              ::testing::HasSubstr("damaged"));
}

// 100 MiB of zeros.
TEST(Compress, stops_at_a_ratio_that_no_trace_has) {
  std::string packed(1 << 20U, '\0');
  z_stream stream = {};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string zeros(100 << 20U, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  EXPECT_THAT(Unpack(packed, size_t{1} << 34U).status().message(),
              ::testing::HasSubstr("200 times its size"));
}

TEST(JsonWriter, writes_pretty_json) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("ranks", 8192).Field("mfu", 0.1).Field("big", 1e22).Field("on", true);
  json.Field("nan", std::nan("")).NullField("none").Field("text", "a\"\\\n\x01\xC3\xA9\xFF");
  json.Key("list").BeginArray().Value(-1).Value(uint64_t{18446744073709551615U}).EndArray();
  json.Key("empty").BeginArray().EndArray();
  json.Key("inner").BeginObject().EndObject();
  json.EndObject();
  EXPECT_TRUE(json.complete());
  EXPECT_EQ(text, R"({
  "ranks": 8192,
  "mfu": 0.1,
  "big": 1e+22,
  "on": true,
  "nan": null,
  "none": null,
  "text": "a\"\\\n\u0001é\ufffd",
  "list": [
    -1,
    18446744073709551615
  ],
  "empty": [],
  "inner": {}
})");
}

TEST(JsonWriter, writes_what_is_not_known_as_null_and_lists_in_their_order) {
  std::string text;
  JsonWriter json(&text, JsonWriter::Style::kOneLine);
  json.BeginObject();
  json.OptionalField("known", std::optional(1.5)).OptionalField("not", std::optional<int64_t>());
  json.ArrayField("lines", std::vector<std::string>{"b", "a"}).EndObject();
  EXPECT_EQ(text, R"({"known": 1.5, "not": null, "lines": ["b", "a"]})");
}

TEST(SplitAt, keeps_empty_parts) {
  using ::testing::ElementsAre;
  EXPECT_THAT(SplitAt("straggler:3:1.5", ':'), ElementsAre("straggler", "3", "1.5"));
  EXPECT_THAT(SplitAt(",a,", ','), ElementsAre("", "a", ""));
  EXPECT_THAT(SplitAt("", ','), ElementsAre(""));
}

TEST(JsonWriter, writes_one_line) {
  std::string text;
  JsonWriter json(&text, JsonWriter::Style::kOneLine);
  json.BeginObject().Field("a", 1).Field("b", 2).EndObject();
  EXPECT_EQ(text, R"({"a": 1, "b": 2})");
}

TEST(JsonWriterDeathTest, a_value_without_a_key_aborts) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  EXPECT_DEATH(json.Value(1), "after_key_");
}

TEST(Log, one_line_a_record_at_or_above_the_level) {
  std::string seen;
  const Logger logger(LogLevel::kInfo, [&](std::string_view line) { seen.append(line); });
  logger.Info("{} ranks\nof {}", 2, 8);
  logger.Warning("gone");
  EXPECT_EQ(seen, "info: 2 ranks of 8\nwarning: gone\n");
  const Logger quiet(LogLevel::kError, [&](std::string_view line) { seen.append(line); });
  quiet.Warning("hidden");
  EXPECT_EQ(seen, "info: 2 ranks of 8\nwarning: gone\n");
}

TEST(Parallel, visits_every_index_once) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> visits(1001);
    ParallelFor(threads, 1001, [&](int64_t index) { ++visits[static_cast<size_t>(index)]; }, 10);
    for (const std::atomic<int>& visit : visits) {
      ASSERT_EQ(visit.load(), 1);
    }
  }
  ParallelFor(4, 0, [](int64_t) { FAIL(); });
}

}  // namespace
}  // namespace prism
