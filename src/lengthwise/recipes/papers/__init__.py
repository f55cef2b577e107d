"""Published tables and figures, a folder for each paper: its numbers, its settings at every scale, and its recipes."""
