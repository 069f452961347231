"""What the evaluator must know of each backend; one module a target."""
