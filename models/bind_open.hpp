// Binds a SystemC port to a default channel unless a surrounding (host) design has bound it
// already.
#pragma once

namespace nkisim::models {

/// A host may have bound the port to something of its own.
template <typename Port, typename Channel>
void bind_open(Port& port, Channel& channel) {
  if (port.bind_count() == 0) port.bind(channel);
}

}  // namespace nkisim::models
