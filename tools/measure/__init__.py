"""Record what a real engine does on this machine. Optional: the book reads the recordings that are already in data/measured."""
