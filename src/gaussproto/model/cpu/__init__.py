"""A faster way to compute the encoder on a CPU."""
