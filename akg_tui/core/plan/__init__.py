"""Plan items as text: PLAN.md, a person's edit of it, what makes a plan acceptable, and knobs."""
