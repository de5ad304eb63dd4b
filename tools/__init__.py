"""Programs that make or check something of this repository; none of them is part of the package."""
