#include "replayer/report/html_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "replayer/report/xml_text.h"

namespace prism::replayer {
namespace {

constexpr size_t kMaxRows = 40;

constexpr const char* kStyle =
    "body{font-family:sans-serif;max-width:1240px;margin:24px auto;color:#222}"
    "pre{background:#f6f6f6;padding:12px;overflow-x:auto}"
    "table{border-collapse:collapse;font-size:13px}"
    "td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}"
    ".key{display:inline-block;width:12px;height:12px;margin:0 4px 0 16px}"
    "svg{max-width:100%;height:auto}li{font-size:13px}";

}  // namespace

std::string HtmlTable(const std::vector<std::string>& head,
                      const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<table><tr>";
  for (const std::string& cell : head) {
    text += fmt::format("<th>{}</th>", XmlText(cell));
  }
  text += "</tr>\n";
  for (size_t i = 0; i < std::min(rows.size(), kMaxRows); ++i) {
    text += "<tr>";
    for (const std::string& cell : rows[i]) {
      text += fmt::format("<td>{}</td>", XmlText(cell));
    }
    text += "</tr>\n";
  }
  text += "</table>\n";
  if (rows.size() > kMaxRows) {
    text += fmt::format("<p>{} more rows are left out.</p>\n",
                        FormatCount(static_cast<int64_t>(rows.size() - kMaxRows)));
  }
  return text;
}

std::string HtmlPage(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>{0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n{2}</body></html>\n",
      XmlText(title), kStyle, body);
}

}  // namespace prism::replayer
