"""The classifier for users' own images and vectors: its inputs, the estimator and its gallery file."""
