// The frame of a page of HTML and its tables, in one style.
#pragma once

#include <string>
#include <vector>

namespace prism::replayer {

// A self-contained page; `body` is HTML, below the title.
std::string HtmlPage(const std::string& title, const std::string& body);

// A table whose rows are as long as its head; of more than 40 rows only the first are shown.
std::string HtmlTable(const std::vector<std::string>& head,
                      const std::vector<std::vector<std::string>>& rows);

}  // namespace prism::replayer
