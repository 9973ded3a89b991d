// Rows of a SQLite file. The library is loaded when a file is opened, so that programs and the
// wheel need it only where such a file is read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace prism::slicer {

// One row of what was asked for; valid during the call.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}

  // `column` of the list that was asked for. `otherwise` for NULL and columns that the table lacks.
  [[nodiscard]] int64_t Int(int column, int64_t otherwise = -1) const;
  [[nodiscard]] bool IsText(int column) const;
  [[nodiscard]] std::string_view Text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class SqliteFile {
 public:
  // kBadFile where it is no database; kEnvironmentLacks without libsqlite3.
  static Result<SqliteFile> Open(const std::string& file);

  SqliteFile(SqliteFile&& other) noexcept;
  SqliteFile& operator=(SqliteFile&&) = delete;
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;
  ~SqliteFile();

  // Tables alone: a view of a stranger's could be without end.
  [[nodiscard]] bool Has(const std::string& table) const { return columns_.contains(table); }
  [[nodiscard]] bool Has(const std::string& table, const std::string& column) const;

  // Visits all rows of a table; none if the file lacks it. Stops at the first error of `visit`.
  Status ForRows(const std::string& table,
                 const std::vector<std::string>& columns,
                 const std::function<Status(const SqliteRow& row)>& visit) const;

 private:
  SqliteFile(sqlite3* database, std::string file);

  Status Query(const std::string& text,
               const std::function<Status(const SqliteRow& row)>& visit) const;
  Status ReadTables();

  sqlite3* database_;
  std::string file_;
  std::map<std::string, std::set<std::string>> columns_;  // by table
};

[[nodiscard]] bool IsSqlite(std::string_view beginning);

}  // namespace prism::slicer
