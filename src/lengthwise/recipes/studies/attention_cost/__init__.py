"""What a pass of RegularGPT costs, counted and measured, beside full attention and beside the mask of its paper."""
