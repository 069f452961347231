"""Files and folders of the user: where they are, how they are read, and what is wrong with them."""
