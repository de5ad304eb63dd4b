"""What the controller relies on at its ports: the same tests on the simulated cluster and on a real control plane."""
