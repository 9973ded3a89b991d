// Brings libprism_observer.so into the process once libtorch is there. The observer is the only
// part of the shim that uses libtorch; programs without it never load it.
#pragma once

namespace prism::shim {

// To be called where a program first turns to the device, with no lock held. Does nothing when
// libtorch_cuda is not mapped yet (the next call looks again) or the observer is loaded. A missing
// or unfitting observer is counted ("observer_missing") and said once on stderr.
void LoadObserver();

}  // namespace prism::shim
