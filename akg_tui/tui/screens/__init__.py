"""The screens and dialogs: the deck, the list of runs, the review, comparisons, questions."""
