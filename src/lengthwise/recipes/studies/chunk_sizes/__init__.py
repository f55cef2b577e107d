"""Which chunk size of RegularGPT learns which task, and why larger ones fail."""
