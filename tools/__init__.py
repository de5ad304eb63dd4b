"""Programs that make or check parts of this repository; none of them is part of the package."""
