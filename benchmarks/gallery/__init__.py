"""The pictures of the documentation, made from recorded runs."""
