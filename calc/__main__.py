"""``python -m calc``: the worksheet on the command line."""

from calc.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
