"""A run on disk: its folder, its checkpoints, its weights and its results."""
