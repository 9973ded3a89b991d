// Stands in for gloo's header of this name, which the torch wheel does not ship.
#pragma once
