"""Encoders, which turn images into embeddings: torch networks, ONNX files, or none for feature vectors."""
