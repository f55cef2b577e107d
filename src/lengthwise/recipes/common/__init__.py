"""What recipes share: grids of cells, rules for settings, comparison with published numbers, timing, curves."""
