"""Pictures of pixels, for terminals that can show them between the cells of text. Pure."""
