"""The studio: a web page and an HTTP service around the classifier."""
