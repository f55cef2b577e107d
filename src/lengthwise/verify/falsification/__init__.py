"""Falsify: a search for words that a model gets wrong."""
