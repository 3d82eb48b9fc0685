"""The command ``dgn``, also as ``python -m dgn``."""

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say which extra it needs."""
    if find_spec("typer") is None:  # before anything of the command line is imported
        print("dgn: the command line needs the extra 'train': pip install 'dgn[train]'", file=sys.stderr)
        raise SystemExit(1)
    from dgn.cli import main as run

    run()


if __name__ == "__main__":
    main()
