"""A classifier for people with images or vectors of their own: what it takes, the estimator, its file."""
