"""Model files in the GGUF format of llama.cpp: reading, writing, values of quantised tensors."""
