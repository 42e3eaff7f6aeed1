"""Workloads: public traces, arrival processes, and how other people's files are read.

`_files` takes records out of JSON, JSON lines and CSV and names the line of anything wrong. `_requests`
holds the readers of the Azure, Mooncake and BurstGPT traces and the open-loop arrival processes, `_recordings` what all
readers of the book's own recordings share, `_spread` what repeats of a run say together.
"""

from calc.workload._files import Fields, ReadError, csv_rows, json_file, json_lines
from calc.workload._recordings import Recording, read_recording
from calc.workload._requests import (
    MOONCAKE_BLOCK_TOKENS,
    Request,
    arrivals,
    at_rate,
    read_azure,
    read_burstgpt,
    read_mooncake,
)
from calc.workload._spread import Spread

__all__ = [
    "MOONCAKE_BLOCK_TOKENS",
    "Fields",
    "ReadError",
    "Recording",
    "Request",
    "Spread",
    "arrivals",
    "at_rate",
    "csv_rows",
    "json_file",
    "json_lines",
    "read_azure",
    "read_burstgpt",
    "read_mooncake",
    "read_recording",
]
