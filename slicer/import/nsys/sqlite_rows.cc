#include "slicer/import/nsys/sqlite_rows.h"

#include <dlfcn.h>

#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

namespace prism::slicer {
namespace {

struct SqliteCalls {
  decltype(&sqlite3_open_v2) open = nullptr;
  decltype(&sqlite3_close) close = nullptr;
  decltype(&sqlite3_prepare_v2) prepare = nullptr;
  decltype(&sqlite3_step) step = nullptr;
  decltype(&sqlite3_finalize) finalize = nullptr;
  decltype(&sqlite3_column_type) type = nullptr;
  decltype(&sqlite3_column_int64) integer = nullptr;
  decltype(&sqlite3_column_text) text = nullptr;
  decltype(&sqlite3_column_bytes) bytes = nullptr;
  decltype(&sqlite3_errmsg) message = nullptr;
  bool complete = true;
};

SqliteCalls LoadSqlite() {
  SqliteCalls calls;
  void* const library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](const char* name, auto* call) {
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    *call = reinterpret_cast<std::remove_pointer_t<decltype(call)>>(found);
    calls.complete = calls.complete && found != nullptr;
  };
  find("sqlite3_open_v2", &calls.open);
  find("sqlite3_close", &calls.close);
  find("sqlite3_prepare_v2", &calls.prepare);
  find("sqlite3_step", &calls.step);
  find("sqlite3_finalize", &calls.finalize);
  find("sqlite3_column_type", &calls.type);
  find("sqlite3_column_int64", &calls.integer);
  find("sqlite3_column_text", &calls.text);
  find("sqlite3_column_bytes", &calls.bytes);
  find("sqlite3_errmsg", &calls.message);
  return calls;
}

const SqliteCalls& Calls() {
  static const SqliteCalls calls = LoadSqlite();
  return calls;
}

// Immutable: nothing beside the file is read or written, such as its log.
std::string UriOf(const std::string& file) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
  std::string uri = file.starts_with('/') ? "file://" : "file:";
  for (const char c : file) {
    uri += kPlain.find(c) != std::string_view::npos
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

}  // namespace

int64_t SqliteRow::Int(int column, int64_t otherwise) const {
  return Calls().type(statement_, column) == SQLITE_INTEGER ? Calls().integer(statement_, column)
                                                            : otherwise;
}

bool SqliteRow::IsText(int column) const {
  return Calls().type(statement_, column) == SQLITE_TEXT;
}

std::string_view SqliteRow::Text(int column) const {
  const unsigned char* const text = Calls().text(statement_, column);
  const int bytes = Calls().bytes(statement_, column);
  return text == nullptr
             ? std::string_view()
             : std::string_view(reinterpret_cast<const char*>(text), static_cast<size_t>(bytes));
}

SqliteFile::SqliteFile(sqlite3* database, std::string file)
    : database_(database), file_(std::move(file)) {
}

SqliteFile::SqliteFile(SqliteFile&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)),
      file_(std::move(other.file_)),
      columns_(std::move(other.columns_)) {
}

SqliteFile::~SqliteFile() {
  if (database_ != nullptr) {
    Calls().close(database_);
  }
}

Result<SqliteFile> SqliteFile::Open(const std::string& file) {
  if (!Calls().complete) {
    return EnvironmentLacks(fmt::format(
        "{}: libsqlite3.so.0 is needed to read it; install SQLite (Debian: libsqlite3-0)", file));
  }
  sqlite3* database = nullptr;
  const int opened =
      Calls().open(UriOf(file).c_str(), &database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  SqliteFile result(database, file);
  if (opened != SQLITE_OK) {
    return BadFile(fmt::format("{}: cannot be opened as a SQLite file", file));
  }
  PRISM_RETURN_IF_ERROR(result.ReadTables());
  return result;
}

Status SqliteFile::ReadTables() {
  std::vector<std::string> tables;
  PRISM_RETURN_IF_ERROR(Query(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0", [&](const auto& row) {
        tables.emplace_back(row.Text(0));
        return OkStatus();
      }));
  for (const std::string& table : tables) {
    if (table.find_first_not_of(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") !=
        std::string::npos) {
      continue;
    }
    std::set<std::string>& columns = columns_[table];
    PRISM_RETURN_IF_ERROR(
        Query(fmt::format("PRAGMA table_info(\"{}\")", table), [&](const auto& row) {
          columns.emplace(row.Text(1));
          return OkStatus();
        }));
  }
  return OkStatus();
}

bool SqliteFile::Has(const std::string& table, const std::string& column) const {
  const auto found = columns_.find(table);
  return found != columns_.end() && found->second.contains(column);
}

Status SqliteFile::ForRows(const std::string& table,
                           const std::vector<std::string>& columns,
                           const std::function<Status(const SqliteRow& row)>& visit) const {
  if (!Has(table)) {
    return OkStatus();
  }
  std::string text = "SELECT ";
  for (const std::string& column : columns) {
    text += Has(table, column) ? fmt::format("\"{}\",", column) : "NULL,";
  }
  text.back() = ' ';
  return Query(text + fmt::format("FROM \"{}\"", table), visit);
}

Status SqliteFile::Query(const std::string& text,
                         const std::function<Status(const SqliteRow& row)>& visit) const {
  sqlite3_stmt* statement = nullptr;
  int state = Calls().prepare(database_, text.c_str(), -1, &statement, nullptr);
  Status status = OkStatus();
  while (state == SQLITE_OK || state == SQLITE_ROW) {
    state = Calls().step(statement);
    status = state == SQLITE_ROW ? visit(SqliteRow(statement)) : OkStatus();
    if (!status.ok()) {
      break;
    }
  }
  if (status.ok() && state != SQLITE_DONE) {
    status = BadFile(fmt::format("{}: SQLite: {}", file_, Calls().message(database_)));
  }
  Calls().finalize(statement);
  return status;
}

bool IsSqlite(std::string_view beginning) {
  return beginning.starts_with("SQLite format 3");
}

}  // namespace prism::slicer
