"""What turns images into embeddings: networks of torch, ONNX files, or vectors as they are."""
