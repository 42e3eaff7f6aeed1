"""What the problems share: the chapter's steps that they return to."""

HANDOFF, OVERLAP, FIRST, RATIO, POOLING, FLEET = (f"disaggregation#step-{n}" for n in range(1, 7))
