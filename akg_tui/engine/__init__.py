"""The only impure loop: takes effects from core, runs them, appends the events that follow."""
