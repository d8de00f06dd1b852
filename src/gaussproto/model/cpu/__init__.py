"""The encoder as a CPU computes it fastest."""
