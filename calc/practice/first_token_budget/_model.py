"""What the problems share: the chapter's steps that they return to."""

HOPS, PERCENTILES, PREFILL, WAIT, POPULATIONS, SMALLEST = (f"first_token_budget#step-{n}" for n in range(1, 7))
