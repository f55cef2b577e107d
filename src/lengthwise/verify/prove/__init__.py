"""Methods of proof."""
