"""Plan items as text: PLAN.md, the checks of a new plan, and knobs."""
