"""The command line: ``python -m calc size``, ``explain-log``, ``latency``, ``models``, ``accelerators``.

`_parser` says what can be asked, `_commands` answers with the functions of the library. Nothing is computed here.
"""

from calc.cli._main import main

__all__ = ["main"]
