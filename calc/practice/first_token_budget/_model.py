"""What the problems share: the chapter's steps that they return to."""

HOPS, PERCENTILES, PREFILL, WAIT, SMALLEST, GROWTH = (f"first_token_budget#step-{n}" for n in (1, 2, 3, 4, 6, 7))
