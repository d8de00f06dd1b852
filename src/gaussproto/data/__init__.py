"""Images from any source, as uint8 tensors in memory."""
