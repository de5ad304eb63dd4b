"""`python -m rebalancer` is the command `rebalancer`."""

from rebalancer.cli.start import main

if __name__ == "__main__":
    main()
