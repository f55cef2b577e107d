"""The block-diagonal linear RNN on Sum(5): what each of its parts does, and what holds it far beyond training."""
