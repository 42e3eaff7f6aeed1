"""What a reader of own_deployment might size instead, what is impossible, and what must stay true."""

from __future__ import annotations

from typing import Any

from chapters import Run
from hypothesis import strategies as st

from calc import hardware, models, worksheet

from . import Altered


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    """Any model of the catalogue on any chip, mostly cut into ranks that its heads divide by."""
    return {
        "config": draw(st.sampled_from(models.catalogue(every=True))),
        "accelerator": draw(st.sampled_from(list(hardware.accelerators()))),
        "tensor_parallel_ranks": draw(st.sampled_from([1, 1, 2, 4, 8])),
        "context_tokens": draw(st.integers(1, 131_072)),
        "output_tokens": draw(st.integers(1, 32_768)),
        "sequences_at_once": draw(st.integers(1, 512)),
        "other_cache": draw(st.sampled_from(["auto", "bf16", "fp8", "int8"])),
    }


def the_other_choice_is_the_other(run: Run) -> None:
    """The two columns are the two reports, and the printed line is the report's own."""
    report, other = run.namespace["report"], run.namespace["other"]
    for key in run.namespace["keys"]:
        assert report.line(key).text in run.prose and other.line(key).text in run.prose
    assert f"{report.line('kv.bytes_per_token').text} (derived)" in run.prose
    if other.assumptions["cache"] == report.assumptions["cache"]:
        assert other["capacity.max_sequences"] == report["capacity.max_sequences"]


def the_report_is_shown_whole(run: Run) -> None:
    """Every section's title stands in the page."""
    report = run.namespace["report"]
    assert isinstance(report, worksheet.Report)
    assert all(section.title in run.prose for section in report.sections)


ALTERED = Altered(
    sensible=deployments(),
    impossible=(
        {"config": "llama-9"},
        {"config": "no/such/config.json"},
        {"accelerator": "h900"},
        {"tensor_parallel_ranks": 0},
        {"tensor_parallel_ranks": 3},
        {"context_tokens": 0},
        {"output_tokens": 1.5},
        {"sequences_at_once": -1},
        {"other_cache": "fp7"},
    ),
    claims=(the_other_choice_is_the_other, the_report_is_shown_whole),
)
