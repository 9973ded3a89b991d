// What a program sees when it is started without a worker.
#pragma once

#include "shim/channel/messages.h"

namespace prism::shim {

// One H100 SXM5 80 GB (source of the numbers beside them).
channel::Config StandaloneConfig();

}  // namespace prism::shim
