"""``python -m dgn``: the command line."""

from dgn.cli import main

if __name__ == "__main__":
    main()
