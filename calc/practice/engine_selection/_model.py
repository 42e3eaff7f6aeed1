"""What the problems share: the chapter's steps."""

TOGETHER, ANSWERS, PROOF, GOOD, COST, DECISION = (f"engine_selection#step-{n}" for n in range(3, 9))
HOUR = 3600
