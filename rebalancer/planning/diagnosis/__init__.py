"""Why a component cannot be repaired, and the smallest change that would make the component feasible."""
