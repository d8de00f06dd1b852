"""The paper's formulas, each written once for torch tensors and NumPy arrays. Importing them does not import torch."""
