"""The paper's formulas, each written once for arrays of torch and of NumPy. Importing them does not import torch."""
