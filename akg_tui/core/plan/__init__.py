"""Plan items as text: PLAN.md, a person's edit of PLAN.md, the checks of a new plan, and knobs."""
