"""Evaluation: the paper's protocol, damaged supports, confidence and confusions."""
