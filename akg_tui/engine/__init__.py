"""The only impure loop: takes effects from core, performs them, appends the events that follow."""
