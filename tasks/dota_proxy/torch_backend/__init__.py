"""The battle as tensors, for GPUs: every function does all games at once. Equal in the state, bit for bit."""
