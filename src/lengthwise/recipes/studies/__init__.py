"""Our own questions, which no paper has answered: a file for each, or a folder where one file would not do."""
