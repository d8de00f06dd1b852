"""What a run has learned, for the eye: the paper's figures and one HTML page."""
