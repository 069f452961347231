"""What the pages that this project began with say, statement by statement, with their own texts."""
