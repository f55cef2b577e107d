"""ChaCAL on Boxes beyond its paper: longer stories than in training, and the words that its heads link."""
