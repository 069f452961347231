"""The screens: the deck, the review of a candidate, and what explains itself."""
